//! What is to be done first on each thread of a domain is done there, and on no other thread.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, mpsc};
use stile_sched::domain::executors::{self, Executors};
use stile_sched::domain::host::{HostThreads, HostYield};
use stile_sched::domain::switchable::Switchable;
use stile_sched::domain::watchdog::{Rules, Watchdog};
use stile_sched::domain::{leases, on_thread_start};
use stile_sched::ledger::Account;
use stile_sched::lock::LockRules;
use stile_sched::policy::{Policy, Rsdl, rsdl::RsdlConfig};
use stile_sched::{Attributes, Domain, Stop, Vcpu};

/// Names of the threads that have begun.
static BEGUN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn begins() {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    BEGUN.lock().expect("no thread panics with the lock").insert(name);
}

fn begun(name: &str) -> bool {
    BEGUN.lock().expect("no thread panics with the lock").contains(name)
}

/// Tells, when it runs, whether its thread has begun as it should.
struct Witness(mpsc::Sender<bool>);

impl Vcpu for Witness {
    fn run(&mut self) -> Stop {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        self.0.send(begun(&name)).expect("the test listens");
        Stop::Done
    }

    fn retired(self: Box<Self>, _: &Account) {}
}

fn runs_after_its_thread_has_begun(domain: &dyn Domain) {
    let (sender, seen) = mpsc::channel();
    let id = domain.add(Box::new(Witness(sender)), Attributes::default()).expect("the host has threads");
    domain.wake(id);
    assert_eq!(seen.recv(), Ok(true));
}

#[test]
fn every_thread_of_every_mechanism_calls_the_hook_before_its_first_vcpu_runs() {
    on_thread_start(begins);
    let policy = || -> Box<dyn Policy> { Box::new(Rsdl::new(RsdlConfig::default(), 1)) };
    let rules = LockRules::default();
    let executors = Executors::new(&[0], policy(), rules, executors::Switches::default()).unwrap();
    let executors = Arc::new(Switchable::new(Arc::new(executors), &[0]));
    assert!(begun("pcpu 0"));
    runs_after_its_thread_has_begun(&*executors);
    runs_after_its_thread_has_begun(&Switchable::new(
        leases::start(&[0], policy(), rules, leases::Switches::default()),
        &[0],
    ));
    runs_after_its_thread_has_begun(&HostThreads::new(&[0], HostYield::Sched));
    let domain: Arc<dyn Domain> = executors.clone();
    let bound: stile_sched::domain::watchdog::BoundOf = Box::new(|_, _| None);
    let tell = Box::new(|_| ControlFlow::Continue(()));
    drop(Watchdog::start(domain, Rules { bound, tell }).unwrap());
    assert!(begun("watchdog"));
    assert_eq!(executors.fall_back().unwrap(), 0);
    runs_after_its_thread_has_begun(&*executors);
    assert!(!begun(std::thread::current().name().unwrap()));
}
