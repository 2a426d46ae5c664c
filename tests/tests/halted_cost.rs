//! The cost of halted vCPUs, in switches of threads. The whole process's are counted, so this is the only test of its
//! binary.
//!
//! CPU time depends on the host's speed. It is printed, and limited only so far that no vCPU computes.

use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stile_sched::domain::host::{HostThreads, HostYield};
use stile_sched::domain::leases::{self, Switches};
use stile_sched::kick::Departure;
use stile_sched::lock::LockRules;
use stile_sched::policy::Rsdl;
use stile_sched::policy::rsdl::RsdlConfig;
use stile_sched::{Domain, Nanos};
use stile_tests::halting::{HaltingGuest, HaltingRecipe};
use stile_tests::{carrier, require_kvm, wait_for};

const WINDOW: Duration = Duration::from_secs(1);
/// Limit for a vCPU that stays halted (unit: switches of a thread in a window).
const HALTED_LIMIT: f64 = 0.25;
/// What a vCPU that computes while it should halt exceeds (unit: CPUs).
const SPINS: f64 = 0.5;

/// How halts are carried, and the limit for a halt and a wake (unit: switches of a thread). The vCPU's thread makes
/// one, and under leases another, because it leaves KVM_RUN and dozes. A lookout makes one besides, and the watcher
/// two.
fn domains() -> Vec<(&'static str, f64, Arc<dyn Domain>)> {
    let cpus = carrier::pcpus();
    let leases = |departures| -> Arc<dyn Domain> {
        let policy = Rsdl::new(RsdlConfig::default(), cpus.len());
        leases::start(&cpus, Box::new(policy), LockRules::default(), Switches { departures, ..Switches::default() })
    };
    let host = Arc::new(HostThreads::new(&cpus, HostYield::Sched));
    let mut domains: Vec<(_, _, Arc<dyn Domain>)> = vec![("lookouts", 8.0, leases(false)), ("the host", 2.0, host)];
    match Departure::for_this_thread() {
        Ok(_) => domains.push(("departures", 3.5, leases(true))),
        Err(error) => stile_tests::skip(&format!("part of it: no counter of context switches for departures: {error}")),
    }
    domains
}

/// What this process used in a window.
struct Used {
    /// CPU time, in CPUs.
    cpus: f64,
    /// Voluntary switches of threads.
    switches: u64,
    /// Interrupts that the guest's vCPUs took.
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
        // In the first second KVM wakes each vCPU once, under the host's scheduler as well.
        used(&guest, 64);
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
