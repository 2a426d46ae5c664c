//! What vCPUs are told of their presence: that they come to a pCPU, and whether they leave it to wait for one or for an
//! event.
#![allow(clippy::unwrap_used, reason = "a test")]

use rustix::thread::{CpuSet, sched_getaffinity};
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stile_sched::domain::Domain;
use stile_sched::domain::executors::{Executors, Switches};
use stile_sched::domain::leases;
use stile_sched::ledger::Account;
use stile_sched::lock::LockRules;
use stile_sched::policy::Rsdl;
use stile_sched::policy::rsdl::RsdlConfig;
use stile_sched::{Attributes, Presence, Stop, Time, Vcpu, Wait, Yield, kick};

type Told = Arc<Mutex<Vec<Presence>>>;

/// Computes for ever.
struct Hog;

impl Vcpu for Hog {
    fn run(&mut self) -> Stop {
        while !kick::is_pending() {
            black_box((0..1000).fold(0_u64, |sum, n| black_box(sum + n)));
        }
        Stop::Kicked
    }

    fn retired(self: Box<Self>, _: &Account) {}
}

/// Yields until it has been told that it went away (if it is to), then idles once.
struct Listener {
    yields: bool,
    idled: bool,
    told: Told,
}

impl Vcpu for Listener {
    fn run(&mut self) -> Stop {
        if self.yields && !self.told.lock().unwrap().contains(&Presence::Away) {
            return Stop::Yield(Yield { wait: Wait::Unknown, again: false });
        }
        if std::mem::replace(&mut self.idled, true) { Stop::Done } else { Stop::Idle(Time::NEVER) }
    }

    fn presence(&mut self, presence: Presence) {
        let mut told = self.told.lock().unwrap();
        // A vCPU that goes on may be told so again.
        if told.last() != Some(&presence) {
            told.push(presence);
        }
    }

    fn retired(self: Box<Self>, _: &Account) {}
}

/// A domain of each mechanism, on the last CPU that this process may use.
fn domains() -> [Arc<dyn Domain>; 2] {
    let allowed = sched_getaffinity(None).unwrap();
    let cpus = [(0..CpuSet::MAX_CPU).rfind(|&cpu| allowed.is_set(cpu)).unwrap()];
    let policy = || Box::new(Rsdl::new(RsdlConfig::default(), 1));
    let executors = Executors::new(&cpus, policy(), LockRules::default(), Switches::default()).unwrap();
    [Arc::new(executors), leases::start(&cpus, policy(), LockRules::default(), leases::Switches::default())]
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a vCPU is told up to its return from idling, with a vCPU that computes beside it or without.
fn told(domain: &Arc<dyn Domain>, beside_hog: bool) -> Vec<Presence> {
    let hog = beside_hog.then(|| domain.add(Box::new(Hog), Attributes::default()).unwrap());
    hog.into_iter().for_each(|hog| domain.wake(hog));
    let told = Told::default();
    let vcpu = Listener { yields: beside_hog, idled: false, told: Arc::clone(&told) };
    let id = domain.add(Box::new(vcpu), Attributes::default()).unwrap();
    domain.wake(id);
    until("it idles", || told.lock().unwrap().last() == Some(&Presence::Idle));
    domain.wake(id);
    until("it is done", || Arc::strong_count(&told) == 1);
    hog.into_iter().for_each(|hog| domain.retire(hog));
    let mut told = told.lock().unwrap().clone();
    let idled = told.iter().position(|told| *told == Presence::Idle).unwrap();
    told.truncate(idled + 2);
    told
}

#[test]
fn a_vcpu_alone_is_told_to_come_and_that_it_went_to_idle() {
    kick::block();
    for domain in domains() {
        assert_eq!(told(&domain, false), [Presence::Here, Presence::Idle, Presence::Here]);
    }
}

#[test]
fn a_vcpu_whose_turn_ends_is_told_that_it_waits_for_the_next() {
    kick::block();
    for domain in domains() {
        let told = told(&domain, true);
        assert!(told.contains(&Presence::Away), "{told:?}");
        let (here, gone): (Vec<_>, Vec<_>) = told.iter().enumerate().partition(|(n, _)| n % 2 == 0);
        assert!(here.iter().all(|(_, told)| **told == Presence::Here), "{told:?}");
        let (idle, away) = gone.split_last().unwrap();
        assert!(*idle.1 == Presence::Idle && away.iter().all(|(_, told)| **told == Presence::Away), "{told:?}");
    }
}
