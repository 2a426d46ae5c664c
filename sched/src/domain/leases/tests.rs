//! Scripted vCPUs under leases, on one pCPU and on all, under policies that keep slots over exits and one that does
//! not.

use super::*;
use crate::domain::testing::Script;
use crate::policy::rsdl::RsdlConfig;
use crate::policy::{Freelist, Rsdl};
use crate::testing::{cpus, wait_for};
use crate::time::{Nanos, Time};
use crate::topology::Topology;
use crate::vcpu::Stop;
use crate::wait::{Wait, Yield};
use std::num::NonZeroUsize;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

mod halting;

const IDLE: Stop = Stop::Idle(Time::NEVER);
const YIELD: Stop = Stop::Yield(Yield { wait: Wait::Unknown, again: false });

/// Every combination of policy and number of slots, each twice on one pCPU: with slot words for it and for any number.
fn domains() -> Vec<Arc<dyn Domain>> {
    let policies: [fn(usize) -> Box<dyn Policy>; 2] = [
        |slots| Box::new(Rsdl::new(RsdlConfig { shares: slots == 1, ..RsdlConfig::default() }, slots)),
        |slots| Box::new(Freelist::new(Nanos::from_millis(6), slots)),
    ];
    let (all, one) = (cpus(), vec![cpus()[0]]);
    let mut domains: Vec<Arc<dyn Domain>> = Vec::new();
    for policy in policies {
        domains.push(start(&one, policy(1), LockRules::default(), Switches::default()));
        domains.push(Arc::new(Leases::<Smp>::new(
            &one,
            vec![policy(1)],
            ShardPlan::one(1),
            LockRules::default(),
            Switches { rt_boost: false, steal: false, spin_detection: false, departures: false },
        )));
        domains.push(start(&all, policy(all.len()), LockRules::default(), Switches::default()));
        // A shard for each pCPU.
        let plan = ShardPlan::new(all.len(), NonZeroUsize::MIN, &Topology::default());
        let policies = all.iter().map(|_| policy(1)).collect();
        domains.push(start_in_shards(&all, policies, plan, LockRules::default(), Switches::default()));
    }
    domains
}

/// Adds and wakes.
fn launch(domain: &dyn Domain, vcpu: Box<dyn Vcpu>) -> VcpuId {
    let id = domain.add(vcpu, Attributes::default()).unwrap();
    domain.wake(id);
    id
}

#[test]
fn a_vcpu_runs_only_after_its_first_wake_and_retires_by_itself() {
    for domain in domains() {
        let script = Script::new([Stop::Exit, Stop::Done]);
        let id = domain.add(script.vcpu(), Attributes::default()).unwrap();
        assert_eq!(script.runs(), 0);
        domain.wake(id);
        wait_for(|| script.retired());
        assert_eq!(script.runs(), 2);
        assert_eq!(domain.totals().exits, 2);
        assert_eq!(domain.usage(id), None);
    }
}

#[test]
fn an_idle_vcpu_goes_on_after_each_wake_and_ends_when_retired() {
    for domain in domains() {
        let script = Script::new([]);
        let id = launch(&*domain, script.vcpu());
        for runs in 1..20 {
            wait_for(|| script.runs() == runs);
            domain.wake(id);
        }
        domain.retire(id);
        wait_for(|| script.retired());
        domain.wake(id);
        domain.retire(id);
    }
}

#[test]
fn an_event_while_a_vcpu_runs_makes_its_next_idle_return() {
    for domain in domains() {
        let (script, other) = (Script::new([]), Script::new([]));
        let id = domain.add(script.vcpu(), Attributes::default()).unwrap();
        // Woken twice before it runs: the second event is there still when it idles.
        let waker = Waker { domain: Arc::clone(&domain), target: id, rounds: 1, script: other.clone() };
        domain.wake(id);
        launch(&*domain, Box::new(waker));
        wait_for(|| other.runs() >= 1 && script.runs() >= 1);
        domain.retire(id);
        wait_for(|| script.retired());
    }
}

#[test]
fn a_deadline_wakes_and_one_that_has_passed_does_not_wait() {
    for domain in domains() {
        let soon = monotonic() + Nanos::from_micros(300);
        let script = Script::new([Stop::Idle(Time(1)), Stop::Idle(soon), Stop::Done]);
        launch(&*domain, script.vcpu());
        wait_for(|| script.retired());
        assert!(monotonic() >= soon);
    }
}

#[test]
fn more_vcpus_than_slots_all_get_their_turns() {
    for domain in domains() {
        let scripts: Vec<_> = (0..9).map(|_| Script::new([YIELD, Stop::Exit, YIELD, YIELD, Stop::Done])).collect();
        for script in &scripts {
            launch(&*domain, script.vcpu());
        }
        wait_for(|| scripts.iter().all(Script::retired));
        assert_eq!(domain.totals().yields.unknown, 27);
        assert_eq!(domain.totals().exits, 45);
    }
}

#[test]
fn a_vcpu_retired_before_its_first_wake_never_runs() {
    for domain in domains() {
        let script = Script::new([]);
        let id = domain.add(script.vcpu(), Attributes::default()).unwrap();
        domain.retire(id);
        wait_for(|| script.retired());
        assert_eq!(script.runs(), 0);
    }
}

#[test]
fn a_domain_that_ends_drops_its_vcpus() {
    for domain in domains() {
        let alive = Arc::new(());
        for script in [Script::new([]), Script::new([Stop::Exit, YIELD])] {
            launch(&*domain, Box::new(Watched { _alive: Arc::clone(&alive), script }));
        }
        assert_eq!(Arc::strong_count(&domain), 1);
        drop(domain);
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}

struct Watched {
    _alive: Arc<()>,
    script: Script,
}

impl Vcpu for Watched {
    fn run(&mut self) -> Stop {
        self.script.vcpu().run()
    }

    fn retired(self: Box<Self>, _: &crate::ledger::Account) {}
}

/// Wakes another vCPU, then idles.
struct Waker {
    domain: Arc<dyn Domain>,
    target: VcpuId,
    rounds: usize,
    script: Script,
}

impl Vcpu for Waker {
    fn run(&mut self) -> Stop {
        if self.rounds == 0 {
            return Stop::Done;
        }
        self.rounds -= 1;
        self.domain.wake(self.target);
        self.domain.wake(self.target);
        self.script.vcpu().run();
        Stop::Exit
    }

    fn retired(self: Box<Self>, _: &crate::ledger::Account) {}
}

/// Takes the baton if it is there, passes it on and wakes the next; then idles.
struct Runner {
    ring: Arc<Ring>,
    me: usize,
}

struct Ring {
    domain: std::sync::OnceLock<std::sync::Weak<dyn Domain>>,
    ids: StdMutex<Vec<VcpuId>>,
    baton: AtomicUsize,
    left: AtomicUsize,
    size: usize,
}

impl Vcpu for Runner {
    fn run(&mut self) -> Stop {
        let ring = &self.ring;
        if ring.left.load(SeqCst) == 0 {
            return Stop::Done;
        }
        if ring.baton.load(SeqCst) != self.me {
            return IDLE;
        }
        let domain = ring.domain.get().unwrap().upgrade().unwrap();
        let ends = ring.left.fetch_sub(1, SeqCst) == 1;
        let next = (self.me + 1) % ring.size;
        ring.baton.store(next, SeqCst);
        let ids = ring.ids.lock().unwrap().clone();
        if ends {
            ids.iter().for_each(|&id| domain.wake(id));
            return Stop::Done;
        }
        domain.wake(ids[next]);
        IDLE
    }

    fn retired(self: Box<Self>, _: &crate::ledger::Account) {}
}

#[test]
fn a_baton_goes_round_without_a_lost_wake() {
    for domain in domains() {
        for size in [2, 3, 7] {
            let ring = Arc::new(Ring {
                domain: std::sync::OnceLock::new(),
                ids: StdMutex::default(),
                baton: AtomicUsize::new(0),
                left: AtomicUsize::new(3_000),
                size,
            });
            ring.domain.set(Arc::downgrade(&domain)).unwrap();
            for me in 0..size {
                let id = domain.add(Box::new(Runner { ring: Arc::clone(&ring), me }), Attributes::default()).unwrap();
                ring.ids.lock().unwrap().push(id);
            }
            let ids = ring.ids.lock().unwrap().clone();
            ids.iter().for_each(|&id| domain.wake(id));
            wait_for(|| ids.iter().all(|&id| domain.usage(id).is_none()));
        }
    }
}
