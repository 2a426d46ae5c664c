//! The cost of halted vCPUs. CPU time is that of the whole process, so this is the only test of its binary.

use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stile_sched::domain::leases::{self, Switches};
use stile_sched::lock::LockRules;
use stile_sched::policy::Rsdl;
use stile_sched::policy::rsdl::RsdlConfig;
use stile_sched::{Domain, Nanos};
use stile_tests::halting::{HaltingGuest, HaltingRecipe};
use stile_tests::{carrier, require_kvm, wait_for};

const WINDOW: Duration = Duration::from_secs(1);
/// Limit for a guest with all vCPUs halted (unit: CPUs).
const GUEST_LIMIT: f64 = 0.02;
/// Limit for finding which of 64 vCPUs have halted or are awake (unit: CPUs).
const WATCH_LIMIT: f64 = 0.01;

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time that this process uses, in CPUs.
fn load() -> f64 {
    let (before, begun) = (cpu_time(), Instant::now());
    std::thread::sleep(WINDOW);
    (cpu_time() - before).as_secs_f64() / begun.elapsed().as_secs_f64()
}

fn settle(guest: &HaltingGuest, vcpus: u16) {
    wait_for("all vCPUs idle", || {
        let idle = |vcpu| guest.account(vcpu).idle;
        let before: Vec<_> = (0..vcpus).map(idle).collect();
        std::thread::sleep(Duration::from_millis(2));
        (0..vcpus).all(|vcpu| idle(vcpu) > before[usize::from(vcpu)])
    });
}

#[test]
fn halted_vcpus_cost_next_to_nothing() {
    let kvm = require_kvm!();
    if stile_tests::is_emulated() {
        return stile_tests::skip("what time costs here is the emulator's");
    }
    for departures in [true, false] {
        let cpus = carrier::pcpus();
        let policy = Rsdl::new(RsdlConfig::default(), cpus.len());
        let switches = Switches { departures, ..Switches::default() };
        let domain: Arc<dyn Domain> = leases::start(&cpus, Box::new(policy), LockRules::default(), switches);
        let told = if departures { "departures" } else { "lookouts" };

        let guest = HaltingRecipe::vcpus(64).start(&kvm, &domain);
        settle(&guest, 64);
        let idle = load();
        println!("64 halted vCPUs, with {told}: {:.2} % of a CPU", 100.0 * idle);
        assert!(idle < WATCH_LIMIT, "64 halted vCPUs cost {idle} of a CPU");
        guest.stop();

        // As often as the timers of an idle Linux wake it.
        let guest = HaltingRecipe::vcpus(4).timer(Nanos::from_millis(100)).start(&kvm, &domain);
        settle(&guest, 4);
        let idle = load();
        println!("a guest of 4 that are woken 10 times a second, with {told}: {:.2} % of a CPU", 100.0 * idle);
        assert!(idle < GUEST_LIMIT, "a guest that halts costs {idle} of a CPU");
        guest.stop();
    }
}
