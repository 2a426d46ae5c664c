//! A slot's timer does not interrupt a vCPU whose lease has not ended and for which nothing is due.
#![allow(clippy::unwrap_used, reason = "a test")]

mod one_cpu;

use one_cpu::{a_cpu, policy};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use stile_sched::domain::Domain;
use stile_sched::domain::executors::{Executors, Switches};
use stile_sched::domain::leases;
use stile_sched::ledger::Account;
use stile_sched::lock::LockRules;
use stile_sched::{Attributes, Stop, Time, Vcpu, kick};

/// Wake-ups of the vCPU that blocks at once, and the time between two: longer than any lease.
const WAKES: u64 = 150;
const APART: Duration = Duration::from_millis(9);

/// Computes for ever, and counts what interrupts it.
struct Hog(Arc<AtomicU64>);

impl Vcpu for Hog {
    fn run(&mut self) -> Stop {
        while !kick::is_pending() {
            black_box((0..100).fold(0_u64, |sum, n| black_box(sum + n)));
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        Stop::Kicked
    }

    fn retired(self: Box<Self>, _: &Account) {}
}

/// Waits for the next event as soon as it runs.
struct Waiter(Arc<AtomicU64>);

impl Vcpu for Waiter {
    fn run(&mut self) -> Stop {
        self.0.fetch_add(1, Ordering::Relaxed);
        Stop::Idle(Time::NEVER)
    }

    fn retired(self: Box<Self>, _: &Account) {}
}

/// While the waiter runs, the hog waits, so the waiter's lease has an end. It blocks long before that. The hog then has
/// nothing to share with, and is interrupted by the next wake-up alone.
fn interrupts_only_for_wakes(domain: &dyn Domain) {
    let [interrupts, runs] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let hog = domain.add(Box::new(Hog(Arc::clone(&interrupts))), Attributes::default()).unwrap();
    let waiter = domain.add(Box::new(Waiter(Arc::clone(&runs))), Attributes::default()).unwrap();
    domain.wake(hog);
    for _ in 0..WAKES {
        domain.wake(waiter);
        thread::sleep(APART);
    }
    let (interrupts, runs) = (interrupts.load(Ordering::Relaxed), runs.load(Ordering::Relaxed));
    [hog, waiter].into_iter().for_each(|vcpu| domain.retire(vcpu));
    assert!(runs * 2 > WAKES, "the waiter ran {runs} times");
    // A timer that is left set at the end of the waiter's lease makes two interrupts of each wake-up.
    assert!(interrupts * 10 <= runs * 13, "{interrupts} interrupts, the waiter ran {runs} times");
}

#[test]
fn an_executor_s_timer_does_not_interrupt_for_nothing() {
    kick::block();
    let switches = Switches { spin_detection: false };
    let domain = Executors::new(&[a_cpu()], policy(), LockRules::default(), switches).unwrap();
    interrupts_only_for_wakes(&domain);
}

#[test]
fn a_leased_thread_s_timer_does_not_interrupt_for_nothing() {
    kick::block();
    let domain = leases::start(&[a_cpu()], policy(), LockRules::default(), leases::Switches::default());
    interrupts_only_for_wakes(&*domain);
}
