//! What other programs take from a pCPU is told apart from what vCPUs run there: two vCPUs compute on one CPU beside a
//! thread that wants it as well.
#![allow(clippy::unwrap_used, reason = "a test")]

mod one_cpu;

use one_cpu::{a_cpu, policy};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use stile_sched::domain::Domain;
use stile_sched::domain::executors::{Executors, Switches};
use stile_sched::domain::leases;
use stile_sched::ledger::Account;
use stile_sched::lock::LockRules;
use stile_sched::{Attributes, Nanos, Stop, Vcpu, VcpuId, kick};

/// What a vCPU was told last of its wait and of what was taken, and its last account.
type Told = Arc<Mutex<(Nanos, Nanos, Account)>>;

/// Computes for ever.
struct Hog(Told);

impl Vcpu for Hog {
    fn run(&mut self) -> Stop {
        while !kick::is_pending() {
            black_box((0..1000).fold(0_u64, |sum, n| black_box(sum + n)));
        }
        Stop::Kicked
    }

    fn waited(&mut self, total: Nanos, taken: Nanos) {
        let mut told = self.0.lock().unwrap();
        assert!(total >= told.0 && taken >= told.1, "nothing goes back");
        (told.0, told.1) = (total, taken);
    }

    fn retired(self: Box<Self>, last: &Account) {
        self.0.lock().unwrap().2 = last.clone();
    }
}

/// Lets two hogs run on one CPU beside a thread that computes there too, and returns their accounts.
fn beside_another_program(domain: &dyn Domain, cpu: usize) -> Vec<Account> {
    let over = Arc::new(AtomicBool::new(false));
    let other = {
        let over = Arc::clone(&over);
        thread::spawn(move || {
            let mut only = CpuSet::new();
            only.set(cpu);
            sched_setaffinity(None, &only).unwrap();
            while !over.load(Ordering::Relaxed) {
                black_box(0);
            }
        })
    };
    let all = [Told::default(), Told::default()];
    let add = |told: &Told| domain.add(Box::new(Hog(Arc::clone(told))), Attributes::default()).unwrap();
    let vcpus: Vec<VcpuId> = all.iter().map(add).collect();
    vcpus.iter().for_each(|&vcpu| domain.wake(vcpu));
    thread::sleep(Duration::from_millis(1500));
    over.store(true, Ordering::Relaxed);
    other.join().unwrap();
    let accounts = vcpus.iter().map(|&vcpu| domain.account(vcpu).unwrap()).collect();
    vcpus.into_iter().for_each(|vcpu| domain.retire(vcpu));
    all.iter().for_each(was_told);
    accounts
}

/// A vCPU was told what it missed by the time of its last turn, of some hundred, and nothing that it did not miss.
fn was_told(told: &Told) {
    while Arc::strong_count(told) > 1 {
        thread::sleep(Duration::from_millis(1));
    }
    let (waited, taken, last) = told.lock().unwrap().clone();
    assert!(waited <= last.wait && waited.0 * 2 > last.wait.0, "{waited:?} told, {last:?}");
    assert!(taken <= last.taken && taken.0 * 2 > last.taken.0, "{taken:?} told, {last:?}");
}

/// What one CPU's worth of accounts must show.
fn told_apart(accounts: &[Account], wall: Nanos) {
    let (run, taken) = accounts.iter().fold((0, 0), |(run, taken), of| (run + of.run.0, taken + of.taken.0));
    // The host gives the other thread as much as it gives the one that runs vCPUs, or half as much beside two.
    assert!(taken * 4 > run, "run {run} ns, taken {taken} ns");
    for account in accounts {
        assert!(account.total() <= wall && account.total().0 > wall.0 / 2, "{account:?} in {wall:?}");
    }
}

#[test]
fn what_another_program_takes_from_executors_is_told_apart() {
    kick::block();
    let (cpu, began) = (a_cpu(), Instant::now());
    let domain = Executors::new(&[cpu], policy(), LockRules::default(), Switches::default()).unwrap();
    let accounts = beside_another_program(&domain, cpu);
    told_apart(&accounts, began.elapsed().into());
}

#[test]
fn what_another_program_takes_from_a_leased_cpu_is_told_apart() {
    kick::block();
    let (cpu, began) = (a_cpu(), Instant::now());
    let domain = leases::start(&[cpu], policy(), LockRules::default(), leases::Switches::default());
    let accounts = beside_another_program(&*domain, cpu);
    told_apart(&accounts, began.elapsed().into());
}
