//! Random events against a slow model that knows only where every vCPU is.

use super::{any_bugs, any_policy, any_rule, any_wait, cases, row};
use crate::attributes::{Attributes, Cap, Class, Group, GroupId};
use crate::ids::{Nice, Slot, VcpuId};
use crate::policy::rsdl::{RsdlConfig, rt};
use crate::policy::{
    BUILT_IN, Capped, Credit2, Decision, Goodness, Placement, Policy, Resumed, Rsdl, Why, credit2, goodness,
};
use crate::policy_tests::harness::any_span;
use crate::time::{Nanos, Time};
use crate::topology::Topology;
use crate::wait::Yield;
use proptest::prelude::*;

const VCPUS: u32 = 12;

#[derive(Debug, Clone)]
enum Event {
    /// Added if it is not there, else woken if it is blocked.
    Wake(u32, i8, Class),
    /// Removed if it is there and not on a slot.
    Remove(u32),
    /// A slot asks; an idle one always for [`Why::Free`].
    Ask(u16, Why),
    /// A queued vCPU asks for a slot whose vCPU has not begun to run.
    Steal(u16, u32),
    /// All slots that have been told ask.
    Settle,
}

fn any_class() -> impl Strategy<Value = Class> {
    prop_oneof![4 => Just(Class::Normal), 1 => Just(Class::Batch), 1 => Just(Class::Idle), 1 => Just(Class::Rt)]
}

/// The rest of a quota, less than half, and another; for class rt a slot's part of its budget.
fn rsdl_lease(of: Attributes) -> Nanos {
    let quotas = Nanos(row(of.nice.get()).quota.0 / 2 * 3);
    if of.class == Class::Rt { quotas.max(Nanos(rt::PERIOD.0 * rt::SHARE / 100)) } else { quotas }
}

/// The longest lease where leases may be handed on, and so may be any vCPU's.
fn any_rsdl_lease(_: Attributes) -> Nanos {
    rsdl_lease(Attributes { nice: Nice::new(-20).unwrap(), class: Class::Rt, group: None })
}

fn any_event() -> impl Strategy<Value = Event> {
    let yields = (any_wait(), any::<bool>()).prop_map(|(wait, again)| Why::Yield(Yield { wait, again }));
    let why = prop_oneof![3 => Just(Why::Check), 1 => Just(Why::Exit), 4 => yields, 2 => Just(Why::Block), 1 => Just(Why::Retire)];
    prop_oneof![
        6 => (0..VCPUS, -20i8..20, any_class()).prop_map(|(v, nice, class)| Event::Wake(v, nice, class)),
        1 => (0..VCPUS).prop_map(Event::Remove),
        6 => (0u16..5, why).prop_map(|(slot, why)| Event::Ask(slot, why)),
        2 => (0u16..5, 0..VCPUS).prop_map(|(slot, v)| Event::Steal(slot, v)),
        2 => Just(Event::Settle),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Nowhere,
    Blocked,
    Queued,
    /// On an idle slot that has not asked yet.
    Placed(usize),
    On(usize),
}

struct Model<P> {
    policy: P,
    now: Time,
    at: Vec<At>,
    attributes: Vec<Attributes>,
    /// Of each vCPU that may be added.
    groups: Vec<Option<Group>>,
    told: Vec<bool>,
    until: Vec<Time>,
    /// The slot has a vCPU that may not have begun to run.
    handed: Vec<bool>,
    /// What no lease of such a vCPU may exceed.
    longest_lease: Box<dyn Fn(Attributes) -> Nanos>,
}

impl<P: Policy> Model<P> {
    fn new(policy: P, slots: usize, longest_lease: impl Fn(Attributes) -> Nanos + 'static) -> Self {
        let (at, attributes) = (vec![At::Nowhere; VCPUS as usize], vec![Attributes::default(); VCPUS as usize]);
        Self {
            policy,
            now: Time(0),
            at,
            attributes,
            groups: vec![None; VCPUS as usize],
            told: vec![false; slots],
            until: vec![Time::NEVER; slots],
            handed: vec![false; slots],
            longest_lease: Box::new(longest_lease),
        }
    }

    fn on(&self, slot: usize) -> Option<usize> {
        self.at.iter().position(|&at| at == At::On(slot))
    }

    fn step(&mut self, event: &Event, span: u64) {
        self.now = self.now + Nanos(span);
        while let Some(Resumed { vcpu, placement }) = self.policy.tick(self.now) {
            assert_eq!(self.at[vcpu.index()], At::Queued, "{vcpu} was held back");
            self.place(vcpu.0, placement);
        }
        assert!(self.policy.alarm() > self.now, "the alarm stays");
        match *event {
            Event::Wake(v, nice, class) => match self.at[v as usize] {
                At::Nowhere => {
                    let attributes =
                        Attributes { nice: Nice::new(nice).unwrap(), class, group: self.groups[v as usize] };
                    self.policy.add(VcpuId(v), attributes, self.now);
                    (self.at[v as usize], self.attributes[v as usize]) = (At::Blocked, attributes);
                }
                At::Blocked => self.wake(v),
                _ => {}
            },
            Event::Remove(v) => {
                if !matches!(self.at[v as usize], At::Nowhere | At::On(_)) {
                    self.policy.remove(VcpuId(v));
                    self.at[v as usize] = At::Nowhere;
                }
            }
            Event::Ask(slot, why) => self.ask(usize::from(slot) % self.told.len(), why),
            Event::Steal(slot, v) => self.steal(usize::from(slot) % self.told.len(), v),
            Event::Settle => {
                // A question may tell another slot, but nobody asks for ever.
                for slot in (0..self.told.len()).cycle().take(4 * self.told.len()) {
                    if self.told[slot] {
                        self.ask(slot, Why::Check);
                    }
                }
                assert!(!self.told.contains(&true), "slots tell each other for ever");
            }
        }
        self.check();
    }

    fn wake(&mut self, v: u32) {
        let placement = self.policy.wake(VcpuId(v), self.now);
        assert_eq!(placement == Placement::Held, self.is_held(v), "v{v} was woken");
        self.place(v, placement);
    }

    fn place(&mut self, v: u32, placement: Placement) {
        self.at[v as usize] = match placement {
            Placement::Run(slot) => {
                let slot = slot.index();
                let taken = self.on(slot).is_some() || self.at.contains(&At::Placed(slot));
                assert!(!taken, "{slot} was taken");
                self.told[slot] = true;
                At::Placed(slot)
            }
            Placement::Preempt(slot) | Placement::Queue(Some(slot)) => {
                self.told[slot.index()] = true;
                At::Queued
            }
            Placement::Queue(None) | Placement::Held => At::Queued,
        };
    }

    fn steal(&mut self, slot: usize, v: u32) {
        let Some(robbed) = self.on(slot).filter(|_| self.handed[slot] && self.at[v as usize] == At::Queued) else {
            return;
        };
        if self.policy.steals(Slot(slot as u16), VcpuId(v), self.now) {
            (self.at[robbed], self.at[v as usize]) = (At::Queued, At::Placed(slot));
            (self.told[slot], self.handed[slot]) = (true, false);
        }
    }

    fn ask(&mut self, slot: usize, why: Why) {
        let before = self.on(slot);
        let why = if before.is_none() { Why::Free } else { why };
        self.told[slot] = false;
        let Decision { run, kick, pause, held } = self.policy.next(Slot(slot as u16), why, self.now);
        assert_eq!(held, before.is_some_and(|v| self.is_held(v as u32)), "{slot}: {before:?} asked, {why:?}");
        if let Some(kick) = kick {
            self.told[kick.index()] = true;
        }
        if let Some(v) = before {
            self.at[v] = match why {
                Why::Block => At::Blocked,
                Why::Retire => At::Nowhere,
                _ => At::Queued,
            };
        }
        (self.until[slot], self.handed[slot]) = (Time::NEVER, false);
        let Some(lease) = run else { return };
        let v = lease.vcpu.index();
        assert!(!self.is_held(lease.vcpu.0), "{slot} got v{v}, which is held back");
        assert!(self.at[v] == At::Queued || self.at[v] == At::Placed(slot), "{slot} got v{v}, {:?}", self.at[v]);
        self.at[v] = At::On(slot);
        (self.until[slot], self.handed[slot]) = (lease.until, before != Some(v));
        let goes_on = before == Some(v) && matches!(why, Why::Yield(_));
        assert!(pause == Nanos::ZERO || goes_on && pause <= Decision::PAUSE_MAX, "{why:?}: a pause of {pause:?}");
        assert!(lease.until > self.now, "{why:?}: a lease that has ended");
        if lease.until != Time::NEVER {
            let longest = (self.longest_lease)(self.attributes[v]);
            assert!(lease.until.since(self.now) <= longest, "{why:?}: a lease beyond the quota");
        }
    }

    fn is_held(&self, v: u32) -> bool {
        self.policy.throttled(VcpuId(v), self.now).is_held
    }

    fn check(&self) {
        let waits = (0..VCPUS).filter(|&v| self.at[v as usize] == At::Queued);
        let (held, queued) = waits.partition::<Vec<_>, _>(|&v| self.is_held(v));
        assert!(held.is_empty() || self.policy.alarm() != Time::NEVER, "nobody will let {held:?} go on");
        let queued = queued.len();
        assert_eq!(self.policy.waiting(), queued);
        for slot in 0..self.told.len() {
            let busy = self.at.contains(&At::On(slot)) || self.told[slot];
            assert!(busy || queued == 0, "{slot} idles while {queued} wait");
        }
        let asks = |slot: usize| self.told[slot] || self.until[slot] != Time::NEVER;
        assert!(queued == 0 || (0..self.told.len()).any(asks), "nobody will ever ask for the {queued} that wait");
    }
}

proptest! {
    #![proptest_config(cases(256 * BUILT_IN.len() as u32))]

    #[test]
    fn any_policy_knows_where_everybody_is(
        policy in any_policy(),
        slots in 1usize..=5,
        events in prop::collection::vec((any_event(), any_span()), 1..250),
    ) {
        let mut model = Model::new((policy.new)(slots), slots, move |_| policy.longest_lease);
        events.iter().for_each(|(event, span)| model.step(event, *span));
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn rsdl_knows_where_everybody_is(
        slots in 1usize..=5,
        rule in any_rule(),
        affinity in any::<bool>(),
        per_pcpu_queues in any::<bool>(),
        events in prop::collection::vec((any_event(), any_span()), 1..250),
    ) {
        let config = RsdlConfig { yield_rule: rule, affinity, per_pcpu_queues, ..RsdlConfig::default() };
        let hands_on = matches!(rule, crate::policy::rsdl::YieldRule::Polite(_));
        let longest_lease = if hands_on { any_rsdl_lease } else { rsdl_lease };
        let mut model = Model::new(Rsdl::new(config, slots), slots, longest_lease);
        events.iter().for_each(|(event, span)| model.step(event, *span));
    }

    #[test]
    fn caps_know_where_everybody_is_around_any_policy(
        slots in 1usize..=5,
        policy in any_policy(),
        groups in prop::collection::vec(prop::option::of(0u32..3), VCPUS as usize),
        per_mille in prop::collection::vec(10u64..3000, 3),
        events in prop::collection::vec((any_event(), any_span()), 1..250),
    ) {
        // Alone, a vCPU has a whole slice; the policies' own leases have tests of their own.
        let mut model = Model::new(Capped::new((policy.new)(slots), slots), slots, |_| Nanos::from_millis(1000));
        let period = Nanos::from_millis(20);
        let cap = |group: u32| Cap::new(Nanos(period.0 * per_mille[group as usize] / 1000), period).unwrap();
        model.groups = groups.iter().map(|of| of.map(|id| Group { id: GroupId(id), cap: cap(id) })).collect();
        events.iter().for_each(|(event, span)| model.step(event, *span));
    }

    #[test]
    fn goodness_knows_where_everybody_is(
        slots in 1usize..=5,
        bugs in any_bugs(),
        events in prop::collection::vec((any_event(), any_span()), 1..250),
    ) {
        let mut model = Model::new(Goodness::new(bugs, slots), slots, |_| goodness::LONGEST_LEASE);
        events.iter().for_each(|(event, span)| model.step(event, *span));
    }

    #[test]
    fn credit2_knows_where_everybody_is(
        slots in 1usize..=5,
        // Slots up to this one share a cache, and the others do.
        border in 0usize..5,
        events in prop::collection::vec((any_event(), any_span()), 1..250),
    ) {
        let cpus: Vec<usize> = (0..slots).collect();
        let topology = Topology::new(&cpus, [], [&cpus[..slots.min(border)], &cpus]);
        let policy = Credit2::new(slots).with_topology(&topology);
        let mut model = Model::new(policy, slots, |_| credit2::LONGEST_LEASE);
        events.iter().for_each(|(event, span)| model.step(event, *span));
    }
}
