//! Staged situations under real policies, each with its culprit known.

use crate::attributes::{Attributes, Cap, Group, GroupId};
use crate::ids::{Nice, Slot, VcpuId};
use crate::ledger::Ledger;
use crate::ledger::spans::Began;
use crate::ledger::why::{Cause, Explanation, Scene, Summary, Waits};
use crate::policy::rsdl::{RsdlConfig, YieldRule};
use crate::policy::{Capped, Freelist, O1, Placement, Policy, Rsdl, Why};
use crate::time::{Nanos, Time};
use crate::wait::{Wait, Yield};

const P0: Slot = Slot(0);

/// One slot, and a driver that asks when leases end.
struct Stage {
    ledger: Ledger,
    now: Time,
}

impl Stage {
    fn new(policy: Box<dyn Policy>) -> Self {
        Self { ledger: Ledger::new(policy, 1, 4096), now: Time(1_000_000) }
    }

    fn freelist() -> Self {
        Self::new(Box::new(Freelist::new(Nanos::from_millis(6), 1)))
    }

    fn rsdl(yield_rule: YieldRule) -> Self {
        Self::new(Box::new(Rsdl::new(RsdlConfig { yield_rule, ..RsdlConfig::default() }, 1)))
    }

    fn add(&mut self, vcpu: u32, nice: i8) -> VcpuId {
        let vcpu = VcpuId(vcpu);
        self.ledger.add(
            vcpu,
            Attributes { nice: Nice::new(nice).expect("a nice value"), ..Attributes::default() },
            self.now,
        );
        vcpu
    }

    /// Runs a policy's answer for so long, asking when leases end. Returns the vCPU on the slot then.
    fn pass(&mut self, span: Nanos) -> Option<VcpuId> {
        let end = self.now + span;
        loop {
            let asked = self.ask(Why::Check);
            if asked.until > end {
                self.now = end;
                return Some(self.ask(Why::Check).vcpu);
            }
            self.now = asked.until;
        }
    }

    fn ask(&mut self, why: Why) -> crate::policy::Lease {
        self.now = self.now + Nanos(10);
        self.ledger.next(P0, why, self.now).run.expect("somebody can run")
    }

    fn wake(&mut self, vcpu: VcpuId) -> Placement {
        self.now = self.now + Nanos(10);
        self.ledger.wake(vcpu, None, self.now)
    }

    /// Lets time pass until this vCPU is on the slot.
    fn until_on(&mut self, vcpu: VcpuId) {
        for _ in 0..10_000 {
            if self.pass(Nanos::from_micros(500)) == Some(vcpu) {
                return;
            }
        }
        panic!("{vcpu} never runs");
    }

    fn explain(&self, vcpu: VcpuId) -> (Summary, Explanation) {
        let events = self.ledger.trace().latest();
        let mut waits = Waits::new(1, |id, _| id == vcpu);
        events.iter().for_each(|event| waits.tell(event));
        let summary = waits.finish();
        let mut scene = Scene::new(summary.longest.expect("it waited"), 1);
        let _ = events.iter().all(|event| scene.tell(event));
        (summary, scene.explain())
    }
}

fn lock(holder: VcpuId) -> Why {
    Why::Yield(Yield { wait: Wait::Lock(holder), again: false })
}

#[test]
fn a_hog_that_uses_its_turn_is_named_by_who_was_woken_behind_it() {
    let mut stage = Stage::freelist();
    let (hog, client) = (stage.add(0, 0), stage.add(1, 0));
    let _ = stage.wake(hog);
    stage.ask(Why::Free);
    stage.pass(Nanos::from_millis(1));
    let _ = stage.wake(client);
    stage.until_on(client);
    let (summary, why) = stage.explain(client);
    assert_eq!((why.cause, why.culprit), (Cause::Turns, Some(hog)));
    assert_eq!((why.ran.len(), why.ran[0].vcpu, why.ran[0].slot, why.ran[0].turns), (1, hog, P0, 1));
    assert_eq!((why.ran[0].time, why.free), (why.wait.time(), Nanos::ZERO));
    assert_eq!((summary.by_beginning[0].0, summary.waits.count()), (1, 1));
}

#[test]
fn a_chain_of_locks_leads_to_who_has_the_slot_of_its_end() {
    let mut stage = Stage::freelist();
    let [last, middle, first, hog] = [0, 1, 2, 3].map(|n| stage.add(n, 0));
    let _ = stage.wake(last);
    stage.ask(Why::Free);
    stage.pass(Nanos::from_micros(5_500));
    for vcpu in [middle, first, hog] {
        let _ = stage.wake(vcpu);
    }
    // The first one's turn ends while it holds its lock.
    stage.until_on(middle);
    assert_eq!(stage.ask(lock(last)).vcpu, first);
    assert_eq!(stage.ask(lock(middle)).vcpu, hog);
    stage.pass(Nanos::from_millis(5));
    let (_, why) = stage.explain(first);
    let links: Vec<_> = why.chain.iter().map(|link| (link.waiter, link.target)).collect();
    assert_eq!((why.cause, why.culprit), (Cause::Lock, Some(hog)), "{why:?}");
    assert_eq!(links, [(first, middle), (middle, last)]);
    assert_eq!(why.chain[1].began, Some(Began::UsedUp));
    assert!(why.chain.iter().all(|link| link.waited == why.wait.time()));
}

#[test]
fn two_that_wait_for_each_other_end_the_chain() {
    let mut stage = Stage::rsdl(YieldRule::Expire);
    let [a, b, hog] = [0, 1, 2].map(|n| stage.add(n, 0));
    [a, b, hog].into_iter().for_each(|vcpu| {
        let _ = stage.wake(vcpu);
    });
    stage.ask(Why::Free);
    stage.until_on(a);
    stage.ask(lock(b));
    stage.until_on(b);
    stage.ask(lock(a));
    stage.pass(Nanos::from_millis(4));
    let (_, why) = stage.explain(b);
    assert_eq!((why.cause, why.culprit, why.chain.len()), (Cause::Lock, Some(hog), 1), "{why:?}");
}

#[test]
fn a_holder_that_gets_on_in_the_waiters_place_is_blamed_for_its_turn_not_for_its_lock() {
    let mut stage = Stage::freelist();
    let [holder, waiter] = [0, 1].map(|n| stage.add(n, 0));
    let _ = stage.wake(holder);
    stage.ask(Why::Free);
    stage.pass(Nanos::from_millis(4));
    let _ = stage.wake(waiter);
    stage.until_on(waiter);
    stage.ask(lock(holder));
    stage.until_on(waiter);
    let (_, why) = stage.explain(waiter);
    assert_eq!((why.cause, why.culprit, why.chain.len()), (Cause::Turns, Some(holder), 0));
}

#[test]
fn a_holder_that_sleeps_with_the_lock_is_the_culprit_whoever_runs() {
    let mut stage = Stage::freelist();
    let [holder, waiter, hog] = [0, 1, 2].map(|n| stage.add(n, 0));
    let _ = stage.wake(holder);
    stage.ask(Why::Free);
    let _ = stage.wake(waiter);
    stage.ask(Why::Block);
    let _ = stage.wake(hog);
    stage.ask(lock(holder));
    stage.until_on(waiter);
    let (_, why) = stage.explain(waiter);
    assert_eq!((why.cause, why.culprit), (Cause::Lock, Some(holder)));
    assert_eq!((why.chain[0].idled, why.ran[0].vcpu), (why.wait.time(), hog));
}

#[test]
fn who_used_up_its_quota_has_itself_to_thank() {
    let policies: [Box<dyn Policy>; 2] = [Box::new(Rsdl::new(RsdlConfig::default(), 1)), Box::new(O1::new(1))];
    for policy in policies {
        let mut stage = Stage::new(policy);
        let (eager, others) = (stage.add(0, 0), [1, 2, 3].map(|n| stage.add(n, 0)));
        let _ = stage.wake(eager);
        stage.ask(Why::Free);
        others.into_iter().for_each(|vcpu| {
            let _ = stage.wake(vcpu);
        });
        stage.pass(Nanos::from_millis(1_000));
        let (summary, why) = stage.explain(eager);
        assert_eq!((why.cause, why.culprit), (Cause::Quota, Some(eager)));
        assert_eq!(why.ran.len(), 3, "all others had turns");
        assert!(summary.by_beginning[3].1 > Nanos::ZERO && summary.run > Nanos::ZERO);
    }
}

/// A vCPU under a cap of 10 ms in 100 ms, and one without, under this policy.
fn capped_and_free() -> (Stage, VcpuId, VcpuId) {
    let inner = Box::new(Freelist::new(Nanos::from_millis(6), 1));
    let mut stage = Stage::new(Box::new(Capped::new(inner, 1)));
    let cap = Cap::new(Nanos::from_millis(10), Nanos::from_millis(100)).expect("a cap");
    let (capped, free) = (VcpuId(0), stage.add(1, 0));
    let group = Some(Group { id: GroupId(1), cap });
    stage.ledger.add(capped, Attributes { group, ..Attributes::default() }, stage.now);
    (stage, capped, free)
}

/// The capped one has been held back for a while, and the other one runs.
fn held_back_beside_a_hog() -> (Stage, VcpuId, VcpuId) {
    let (mut stage, capped, hog) = capped_and_free();
    let _ = stage.wake(capped);
    stage.ask(Why::Free);
    let _ = stage.wake(hog);
    stage.until_on(hog);
    stage.pass(Nanos::from_millis(20));
    (stage, capped, hog)
}

#[test]
fn who_is_held_back_by_a_cap_has_its_own_vm_to_thank() {
    let (mut stage, capped, hog) = held_back_beside_a_hog();
    stage.now = stage.now.max(stage.ledger.alarm());
    assert!(stage.ledger.tick(stage.now).is_some(), "its cap lets it go on");
    stage.until_on(capped);
    let (summary, why) = stage.explain(capped);
    assert_eq!((why.cause, why.culprit), (Cause::Cap, Some(capped)));
    assert_eq!(why.ran[0].vcpu, hog);
    let (held, resumed) = (summary.by_beginning[6], summary.by_beginning[7]);
    assert_eq!((held, resumed.0), ((1, why.wait.time()), 1));
}

#[test]
fn a_cap_is_the_cause_of_a_wait_that_has_not_ended_as_well() {
    let (stage, capped, _) = held_back_beside_a_hog();
    let (summary, why) = stage.explain(capped);
    assert_eq!((why.cause, why.culprit), (Cause::Cap, Some(capped)), "{why:?}");
    assert_eq!(summary.by_beginning[6], (1, why.wait.time()));
}

#[test]
fn a_lock_whose_holder_is_held_back_by_a_cap_is_that_ones_doing() {
    let (mut stage, holder, waiter) = capped_and_free();
    let hog = stage.add(2, 0);
    let _ = stage.wake(holder);
    stage.ask(Why::Free);
    [waiter, hog].into_iter().for_each(|vcpu| {
        let _ = stage.wake(vcpu);
    });
    stage.until_on(waiter);
    assert_eq!(stage.ask(lock(holder)).vcpu, hog);
    stage.pass(Nanos::from_millis(5));
    stage.until_on(waiter);
    stage.now = stage.now.max(stage.ledger.alarm());
    assert!(stage.ledger.tick(stage.now).is_some(), "the holder goes on");
    let (_, why) = stage.explain(waiter);
    assert_eq!((why.cause, why.culprit), (Cause::Lock, Some(holder)), "{why:?}");
    assert_eq!(why.chain[0].began, Some(Began::HeldBack));
}

#[test]
fn a_slot_that_asks_late_is_nobodys_doing() {
    let mut stage = Stage::freelist();
    let vcpu = stage.add(0, 0);
    assert_eq!(stage.wake(vcpu), Placement::Run(P0));
    stage.now = stage.now + Nanos::from_micros(40);
    stage.ask(Why::Free);
    let (_, why) = stage.explain(vcpu);
    let latency = why.wait.time();
    assert_eq!((why.cause, why.culprit, why.free), (Cause::Kick { slot: P0, latency }, None, latency));
}

#[test]
fn a_yield_for_somebody_who_never_was_is_a_turn_given_away() {
    let mut stage = Stage::freelist();
    let (hog, vcpu) = (stage.add(0, 0), stage.add(1, 0));
    let _ = stage.wake(vcpu);
    stage.ask(Why::Free);
    let _ = stage.wake(hog);
    stage.pass(Nanos::from_millis(1));
    stage.ask(lock(VcpuId(77)));
    stage.until_on(vcpu);
    let (_, why) = stage.explain(vcpu);
    assert_eq!((why.cause, why.culprit, why.chain.len()), (Cause::Turns, Some(hog), 0));
}

#[test]
fn what_the_host_takes_divides_no_turn_and_is_told_beside_what_ran() {
    let mut stage = Stage::freelist();
    let (a, b) = (stage.add(0, 0), stage.add(1, 0));
    let _ = stage.ledger.wake(a, None, stage.now);
    stage.ask(Why::Free);
    let _ = stage.ledger.wake(b, None, stage.now);
    // The host takes 1 ms three times while A has its turn.
    for _ in 0..3 {
        stage.now = stage.now + Nanos::from_micros(1_500);
        stage.ledger.taken(P0, Nanos::from_millis(1), stage.now);
        assert_eq!(stage.ask(Why::Check).vcpu, a);
    }
    while stage.ask(Why::Check).vcpu == a {
        stage.now = stage.now + Nanos::from_millis(6);
    }
    let (_, why) = stage.explain(b);
    let turns: Vec<_> = why.ran.iter().map(|ran| (ran.vcpu, ran.turns)).collect();
    assert_eq!((turns, why.taken), (vec![(a, 1)], Nanos::from_millis(3)));
}
