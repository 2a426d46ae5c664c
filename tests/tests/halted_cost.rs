//! The cost of halted vCPUs, in switches of threads. They are those of the whole process, so this is the only test of
//! its binary.
//!
//! CPU time says how fast a host is. It is printed, and `benches/halt.rs` compares it with that of a plain KVM_RUN.

use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stile_sched::domain::host::{HostThreads, HostYield};
use stile_sched::domain::leases::{self, Switches};
use stile_sched::lock::LockRules;
use stile_sched::policy::Rsdl;
use stile_sched::policy::rsdl::RsdlConfig;
use stile_sched::{Domain, Nanos};
use stile_tests::halting::{HaltingGuest, HaltingRecipe};
use stile_tests::{carrier, require_kvm, wait_for};

const WINDOW: Duration = Duration::from_secs(1);
/// Limit for finding which of 64 vCPUs have halted or are awake (unit: switches of a thread per vCPU and window). Under
/// the host's scheduler there is one.
const HALTED_LIMIT: f64 = 2.0;
/// What a vCPU that computes while it should halt exceeds (unit: CPUs).
const SPINS: f64 = 0.5;

/// How halts are carried, and the limit for a halt and a wake (unit: switches of a thread). The vCPU's thread needs
/// one, and a second to learn that the vCPU has halted. A lookout goes to sleep and is woken besides.
fn domains() -> [(&'static str, f64, Arc<dyn Domain>); 3] {
    let cpus = carrier::pcpus();
    let leases = |departures| -> Arc<dyn Domain> {
        let policy = Rsdl::new(RsdlConfig::default(), cpus.len());
        leases::start(&cpus, Box::new(policy), LockRules::default(), Switches { departures, ..Switches::default() })
    };
    let host = Arc::new(HostThreads::new(&cpus, HostYield::Sched));
    [("departures", 3.5, leases(true)), ("lookouts", 8.0, leases(false)), ("the host", 2.0, host)]
}

/// What this process used in a time.
struct Used {
    /// CPU time, in CPUs.
    cpus: f64,
    /// Switches of threads that had nothing to do.
    switches: u64,
    /// Interrupts of the guest.
    wakes: u32,
}

fn used(guest: &HaltingGuest, vcpus: u16) -> Used {
    let wakes = || (0..vcpus).map(|vcpu| guest.interrupts(vcpu)).sum::<u32>();
    let (switched, woken, cpu, begun) = (switches(), wakes(), cpu_time(), Instant::now());
    std::thread::sleep(WINDOW);
    let (cpu, elapsed) = (cpu_time() - cpu, begun.elapsed());
    Used { cpus: cpu.as_secs_f64() / elapsed.as_secs_f64(), switches: switches() - switched, wakes: wakes() - woken }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Voluntary switches of all threads of this process so far.
fn switches() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the threads of this process");
    let of = |task: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse::<u64>().ok()
    };
    tasks.filter_map(of).sum()
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
    for (told, limit, domain) in domains() {
        let guest = HaltingRecipe::vcpus(64).start(&kvm, &domain);
        settle(&guest, 64);
        let Used { cpus, switches, .. } = used(&guest, 64);
        let each = switches as f64 / 64.0;
        println!("64 halted vCPUs, with {told}: {:.2} % of a CPU, {each:.2} switches each", 100.0 * cpus);
        assert!(cpus < SPINS && each < HALTED_LIMIT, "64 halted vCPUs use {cpus} CPUs, and {each} switches each");
        guest.stop();

        // As often as the timers of an idle Linux wake it.
        let guest = HaltingRecipe::vcpus(4).timer(Nanos::from_millis(100)).start(&kvm, &domain);
        settle(&guest, 4);
        let Used { cpus, switches, wakes } = used(&guest, 4);
        let each = switches as f64 / f64::from(wakes);
        println!("4 vCPUs woken 10 times a second, with {told}: {:.2} % of a CPU, {each:.2} a wake", 100.0 * cpus);
        assert!(cpus < SPINS && each < limit, "4 vCPUs that halt use {cpus} CPUs, and {each} switches for each wake");
        guest.stop();
    }
}
