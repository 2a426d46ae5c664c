//! A stall of a real executor, and of a real leased thread, does not become a long wait: what the host takes from a
//! pCPU costs the vCPU there nothing of its share.
#![allow(clippy::unwrap_used, reason = "a test")]

mod one_cpu;

use one_cpu::{a_cpu, policy};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use stile_sched::domain::Domain;
use stile_sched::domain::executors::{Executors, Switches};
use stile_sched::domain::leases;
use stile_sched::ledger::Account;
use stile_sched::lock::LockRules;
use stile_sched::{Attributes, Stop, Vcpu, VcpuId, kick};

const VCPUS: usize = 8;
const STALLS: usize = 15;
const STALL: Duration = Duration::from_millis(30);
const EVERY: Duration = Duration::from_millis(200);

/// Computes for ever. It notes the CPU time that its threads had in its runs (unit: ns).
struct Hog(Arc<AtomicU64>);

fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

impl Vcpu for Hog {
    fn run(&mut self) -> Stop {
        let began = cpu_time();
        while !kick::is_pending() {
            black_box((0..1000).fold(0_u64, |sum, n| black_box(sum + n)));
        }
        self.0.fetch_add((cpu_time() - began).as_nanos() as u64, Ordering::Relaxed);
        Stop::Kicked
    }

    fn retired(self: Box<Self>, _: &Account) {}
}

/// A process of class SCHED_FIFO takes a CPU for the length of a stall.
fn stall(cpu: usize) -> bool {
    let until = format!("end=$((${{EPOCHREALTIME//[.,]/}} + {}))", STALL.as_micros());
    let computes = format!("{until}; while ((${{EPOCHREALTIME//[.,]/}} < end)); do :; done");
    let cpu = cpu.to_string();
    let command = ["--fifo", "50", "taskset", "--cpu-list", &cpu, "bash", "-c", &computes];
    Command::new("chrt").args(command).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Some vCPUs compute on one CPU that is taken again and again. Each is charged what it had, and all have as much.
fn shares_beside_stalls(domain: &dyn Domain, cpu: usize) {
    if !stall(cpu) {
        eprintln!("SKIPPED: no right to SCHED_FIFO, or no chrt, taskset and bash");
        return;
    }
    let had: Vec<Arc<AtomicU64>> = (0..VCPUS).map(|_| Arc::default()).collect();
    let add = |had: &Arc<AtomicU64>| domain.add(Box::new(Hog(Arc::clone(had))), Attributes::default()).unwrap();
    let vcpus: Vec<VcpuId> = had.iter().map(add).collect();
    vcpus.iter().for_each(|&vcpu| domain.wake(vcpu));
    for _ in 0..STALLS {
        thread::sleep(EVERY - STALL);
        assert!(stall(cpu));
    }
    let accounts: Vec<Account> = vcpus.iter().map(|&vcpu| domain.account(vcpu).unwrap()).collect();
    let had: Vec<u64> = had.iter().map(|had| had.load(Ordering::Relaxed)).collect();
    vcpus.into_iter().for_each(|vcpu| domain.retire(vcpu));
    let runs: Vec<u64> = accounts.iter().map(|account| account.run.0).collect();
    let (charged, all) = (runs.iter().sum::<u64>(), had.iter().sum::<u64>());
    // The host may take a little at a time, which is not noticed.
    assert!(charged * 4 < all * 5, "charged {runs:?} ns for {had:?}");
    let (least, most) = (had.iter().min().unwrap(), had.iter().max().unwrap());
    assert!(most * 4 < least * 5, "{had:?} ns of CPU time");
}

#[test]
fn an_executor_s_stall_costs_no_vcpu_its_share() {
    kick::block();
    let cpu = a_cpu();
    let domain = Executors::new(&[cpu], policy(), LockRules::default(), Switches::default()).unwrap();
    shares_beside_stalls(&domain, cpu);
}

#[test]
fn a_leased_thread_s_stall_costs_no_vcpu_its_share() {
    kick::block();
    let cpu = a_cpu();
    let domain = leases::start(&[cpu], policy(), LockRules::default(), leases::Switches::default());
    shares_beside_stalls(&*domain, cpu);
}
