//! What the scheduler adds to an exit: a guest rings a doorbell over and over, as the sole VM under `rsdl`, and driven
//! by a thread that only calls KVM_RUN, with equal handling of exits and no scheduler. The two take turns.

use kvm_ioctls::Kvm;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stile_benches::{Limit, Promise, tell};
use stile_sched::attributes::Attributes;
use stile_sched::domain::DomainError;
use stile_sched::domain::executors::{Executors, Switches};
use stile_sched::kick;
use stile_sched::ledger::Account;
use stile_sched::ledger::Totals;
use stile_sched::lock::LockRules;
use stile_sched::policy::Rsdl;
use stile_sched::policy::rsdl::RsdlConfig;
use stile_sched::{Domain, Stop, Vcpu, VcpuId};
use stile_tests::{Recipe, carrier};

/// Exits per second under `rsdl` over those of the bare loop.
const LIMIT: f64 = 0.97;
const ROUNDS: usize = 21;
const QUICK_ROUNDS: usize = 7;
const WARM_UP: Duration = Duration::from_millis(20);
const WINDOW: Duration = Duration::from_millis(150);

/// A domain of one vCPU without a scheduler: from its first wake a thread runs it, exit after exit, to its end.
struct Bare {
    cpu: usize,
    vcpu: Mutex<Option<Box<dyn Vcpu>>>,
}

impl Bare {
    fn take(&self) -> Option<Box<dyn Vcpu>> {
        self.vcpu.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Domain for Bare {
    fn add(&self, vcpu: Box<dyn Vcpu>, _: Attributes) -> Result<VcpuId, DomainError> {
        *self.vcpu.lock().unwrap_or_else(PoisonError::into_inner) = Some(vcpu);
        Ok(VcpuId(0))
    }

    fn wake(&self, _: VcpuId) {
        let Some(mut vcpu) = self.take() else { return };
        let mut cpus = rustix::thread::CpuSet::new();
        cpus.set(self.cpu);
        std::thread::spawn(move || {
            kick::block();
            rustix::thread::sched_setaffinity(None, &cpus).expect("the CPU is one of this process");
            while vcpu.run() != Stop::Done {}
            vcpu.retired(&Account::default());
        });
    }

    /// A running vCPU sees the end of its VM at its next exit.
    fn retire(&self, _: VcpuId) {
        self.take().into_iter().for_each(|vcpu| vcpu.retired(&Account::default()));
    }

    fn interrupt(&self, _: VcpuId) {}

    fn account(&self, _: VcpuId) -> Option<Account> {
        None
    }

    fn totals(&self) -> Totals {
        Totals::default()
    }
}

fn main() -> ExitCode {
    let Some(kvm) = stile_tests::kvm() else { return ExitCode::SUCCESS };
    // The first CPU is the one that most of the host's interrupts go to.
    let cpu = *carrier::pcpus().last().expect("a process may run somewhere");
    let rsdl = || rate(&kvm, Arc::new(executors(cpu)));
    let bare = || rate(&kvm, Arc::new(Bare { cpu, vcpu: Mutex::new(None) }));
    let quick = std::env::args().any(|argument| argument == "--quick");
    let mut rates = Vec::new();
    for round in 0..if quick { QUICK_ROUNDS } else { ROUNDS } {
        // The second of the two finds the caches warm.
        let (a, b) = if round % 2 == 0 { (rsdl(), bare()) } else { (bare(), rsdl()) };
        rates.push(if round % 2 == 0 { (a, b) } else { (b, a) });
    }
    let samples = rates.iter().map(|(rsdl, bare)| rsdl / bare).collect();
    let what = "doorbells a second, rsdl to a bare KVM_RUN loop".to_owned();
    let ratio = Promise { what, unit: "times", samples, limit: Limit::AtLeast(LIMIT) };
    let best = |of: fn(&(f64, f64)) -> f64| rates.iter().map(of).fold(0.0, f64::max);
    println!("doorbells a second at best: rsdl {:.0}, bare {:.0}", best(|r| r.0), best(|r| r.1));
    tell(&[ratio])
}

fn executors(cpu: usize) -> Executors {
    let policy = Rsdl::new(RsdlConfig::default(), 1);
    Executors::new(&[cpu], Box::new(policy), LockRules::default(), Switches::default())
        .expect("this process may start threads and timers")
}

/// Doorbells in a second of a new guest in this domain.
fn rate(kvm: &Kvm, domain: Arc<dyn Domain>) -> f64 {
    let guest = Recipe::builtin("doorbell").memory(8 << 20).start(kvm, &domain);
    guest.all_progress(1);
    std::thread::sleep(WARM_UP);
    let (before, begun) = (guest.ops(0), Instant::now());
    std::thread::sleep(WINDOW);
    (guest.ops(0) - before) as f64 / begun.elapsed().as_secs_f64()
}
