//! The time from an interrupt for a vCPU that has halted inside KVM to its lease: on an idle pCPU, and on a pCPU on
//! which another vCPU computes.

use kvm_ioctls::Kvm;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use stile_benches::{Limit, Promise, tell};
use stile_sched::Domain;
use stile_sched::domain::leases::{self, Switches};
use stile_sched::lock::LockRules;
use stile_sched::policy::Rsdl;
use stile_sched::policy::rsdl::RsdlConfig;
use stile_sched::time::monotonic;
use stile_tests::halting::HaltingRecipe;
use stile_tests::{carrier, wait_for};

/// Microseconds from the interrupt until the vCPU runs: twice the time on a host with two CPUs and KVM's emulation of
/// ring 0, which is slower than hardware virtualisation. An idle pCPU has to wake up first, which on a virtual machine
/// depends on the host above (medians of 69 to 121 us in five runs). On a pCPU in use a kick and a switch of threads
/// come on top (78 to 159 us).
const LIMIT: f64 = 250.0;
const WAKES: usize = 1000;
const QUICK_WAKES: usize = 200;
/// From one interrupt to the next: the other vCPU gets its share, so that the woken one is owed its turn.
const PAUSE: Duration = Duration::from_millis(3);

fn main() -> ExitCode {
    let Some(kvm) = stile_tests::kvm() else { return ExitCode::SUCCESS };
    let wakes = if std::env::args().any(|argument| argument == "--quick") { QUICK_WAKES } else { WAKES };
    tell(&[
        promise(&kvm, "an interrupt to its vCPU's lease on an idle pCPU", wakes, false),
        promise(&kvm, "an interrupt to its vCPU's lease on a pCPU in use", wakes, true),
    ])
}

fn promise(kvm: &Kvm, what: &str, wakes: usize, busy: bool) -> Promise {
    // The first CPU is the one that most of the host's interrupts go to.
    let cpu = *carrier::pcpus().last().expect("a process may run somewhere");
    let policy = Rsdl::new(RsdlConfig::default(), 1);
    let domain: Arc<dyn Domain> = leases::start(&[cpu], Box::new(policy), LockRules::default(), Switches::default());
    let guest = HaltingRecipe::vcpus(2).start(kvm, &domain);
    if busy {
        guest.halts(1, false);
        guest.interrupt(1);
        let begun = guest.progress(1);
        wait_for("the other computes", || guest.progress(1) > begun + 10);
    }
    let samples = (0..wakes).map(|_| {
        std::thread::sleep(PAUSE);
        let (sent, before) = (monotonic(), guest.interrupts(0));
        guest.interrupt(0);
        wait_for("it is interrupted", || guest.interrupts(0) > before);
        guest.woken(0).1.since(sent).0 as f64 / 1e3
    });
    let samples = samples.collect();
    guest.stop();
    Promise { what: what.to_owned(), unit: "us", samples, limit: Limit::Below(LIMIT) }
}
