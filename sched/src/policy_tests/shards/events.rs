//! Random events in shards against a slow model, which knows only where every vCPU is.
//!
//! vCPUs go from one shard to another at any moment, with or without reason, and each shard may be asked anything.

use crate::attributes::{Attributes, Class};
use crate::ids::{Nice, Shard, Slot, VcpuId};
use crate::policy::rsdl::RsdlConfig;
use crate::policy::{Decision, Placement, Policy, Rsdl, Traveller, Why};
use crate::policy_tests::harness::{any_span, cases};
use crate::policy_tests::shards::plan;
use crate::shards::{Board, Known};
use crate::time::{Nanos, Time};
use crate::wait::{Wait, Yield};
use proptest::prelude::*;

const VCPUS: u32 = 12;

#[derive(Debug, Clone)]
enum Event {
    /// Added to a shard if it is nowhere, else woken if it is blocked.
    Wake(u32, i8, Class, usize),
    /// Removed if it is there and not on a slot.
    Remove(u32),
    /// A slot asks; an idle one always for [`Why::Free`].
    Ask(usize, Why),
    /// A vCPU goes to the shard of a slot, if its own lets it go.
    Move(u32, usize),
    /// The next vCPU of a shard goes to the shard of a slot.
    Take(usize, usize),
    /// All slots that have been told ask.
    Settle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Nowhere,
    Blocked(usize),
    Queued(usize),
    /// On an idle slot that has not asked yet.
    Placed(usize),
    On(usize),
}

struct Model {
    shards: Vec<Rsdl>,
    known: Vec<Known>,
    board: Board,
    /// Slots of each shard.
    each: usize,
    now: Time,
    at: Vec<At>,
    attributes: Vec<Attributes>,
    told: Vec<bool>,
}

impl Model {
    fn new(shards: usize, each: usize, per_pcpu_queues: bool) -> Self {
        let config = RsdlConfig { shares: true, per_pcpu_queues, ..RsdlConfig::default() };
        Self {
            shards: (0..shards).map(|_| Rsdl::new(config, each)).collect(),
            known: (0..shards).map(|_| Known::default()).collect(),
            board: Board::new(&plan(shards * each, each)),
            each,
            now: Time(1),
            at: vec![At::Nowhere; VCPUS as usize],
            attributes: vec![Attributes::default(); VCPUS as usize],
            told: vec![false; shards * each],
        }
    }

    fn shard_of(&self, v: u32) -> Option<usize> {
        match self.at[v as usize] {
            At::Nowhere => None,
            At::Blocked(shard) | At::Queued(shard) => Some(shard),
            At::Placed(slot) | At::On(slot) => Some(slot / self.each),
        }
    }

    fn on(&self, slot: usize) -> Option<u32> {
        (0..VCPUS).find(|&v| self.at[v as usize] == At::On(slot))
    }

    /// The domain's number of a slot of a shard.
    fn slot(&self, shard: usize, slot: Slot) -> usize {
        assert!(slot.index() < self.each, "{slot} is none of shard {shard}");
        shard * self.each + slot.index()
    }

    fn step(&mut self, event: &Event, span: u64) {
        self.now = self.now + Nanos(span + 1);
        let (slots, shards) = (self.told.len(), self.shards.len());
        match *event {
            Event::Wake(v, nice, class, shard) => self.wakes(v, nice, class, shard % shards),
            Event::Remove(v) => {
                if let Some(shard) = self.shard_of(v).filter(|_| !matches!(self.at[v as usize], At::On(_))) {
                    self.shards[shard].remove(VcpuId(v));
                    self.at[v as usize] = At::Nowhere;
                }
            }
            Event::Ask(slot, why) => self.ask(slot % slots, why),
            Event::Move(v, slot) => _ = self.moves(v, slot % slots),
            Event::Take(from, slot) => {
                if let Some(spare) = self.shards[from % shards].spare() {
                    assert_eq!(self.at[spare.vcpu.index()], At::Queued(from % shards), "{spare:?}");
                    assert!(self.moves(spare.vcpu.0, slot % slots) || from % shards == slot % slots / self.each);
                }
            }
            Event::Settle => {
                for slot in (0..slots).cycle().take(4 * slots) {
                    if self.told[slot] {
                        self.ask(slot, Why::Check);
                    }
                }
                assert!(!self.told.contains(&true), "slots tell each other for ever");
            }
        }
        self.publish();
        self.check();
    }

    fn wakes(&mut self, v: u32, nice: i8, class: Class, shard: usize) {
        match self.at[v as usize] {
            At::Nowhere => {
                let attributes = Attributes { nice: Nice::new(nice).unwrap(), class, group: None };
                self.shards[shard].add(VcpuId(v), attributes, self.now);
                (self.at[v as usize], self.attributes[v as usize]) = (At::Blocked(shard), attributes);
            }
            At::Blocked(shard) => {
                let placement = self.shards[shard].wake(VcpuId(v), self.now);
                self.place(v, shard, placement);
            }
            _ => {}
        }
    }

    fn place(&mut self, v: u32, shard: usize, placement: Placement) {
        self.at[v as usize] = match placement {
            Placement::Run(slot) => {
                let slot = self.slot(shard, slot);
                assert!(self.on(slot).is_none() && !self.at.contains(&At::Placed(slot)), "{slot} was taken");
                self.told[slot] = true;
                At::Placed(slot)
            }
            Placement::Preempt(slot) | Placement::Queue(Some(slot)) => {
                let slot = self.slot(shard, slot);
                self.told[slot] = true;
                At::Queued(shard)
            }
            Placement::Queue(None) => At::Queued(shard),
            Placement::Held => panic!("v{v} is held back, and nothing has a cap"),
        };
    }

    /// True: the vCPU is in the slot's shard from now on.
    fn moves(&mut self, v: u32, slot: usize) -> bool {
        let (Some(from), to) = (self.shard_of(v), slot / self.each) else { return false };
        if from == to {
            return false;
        }
        let may = self.attributes[v as usize].class != Class::Rt;
        let (was, stands) = (self.at[v as usize], self.shards[from].stands(VcpuId(v)));
        let Some(traveller) = self.shards[from].departs(VcpuId(v), self.now) else {
            // One for which a slot is reserved stands in no queue.
            let may = may && (stands.is_some() || was == At::Blocked(from));
            assert!(!may, "v{v} has to stay, {was:?}");
            return false;
        };
        assert!(may && matches!(was, At::Queued(_) | At::Blocked(_)), "v{v} went, {was:?}");
        let Traveller { queued, stair, .. } = traveller;
        assert_eq!((queued, stands.is_none_or(|stands| stands == stair)), (was == At::Queued(from), true));
        assert_eq!(self.shards[from].stands(VcpuId(v)), None, "it stands there still");
        self.now = self.now + Nanos(1);
        let local = Slot((slot % self.each) as u16);
        let attributes = self.attributes[v as usize];
        let placement = self.shards[to].arrives(VcpuId(v), attributes, traveller, local, self.now);
        assert_eq!(placement.is_some(), queued);
        match placement {
            Some(placement) => self.place(v, to, placement),
            None => self.at[v as usize] = At::Blocked(to),
        }
        true
    }

    fn ask(&mut self, slot: usize, why: Why) {
        let (before, shard) = (self.on(slot), slot / self.each);
        let why = if before.is_none() { Why::Free } else { why };
        self.told[slot] = false;
        let local = Slot((slot % self.each) as u16);
        let Decision { run, kick, .. } = self.shards[shard].next(local, why, self.now);
        if let Some(kick) = kick {
            let kick = self.slot(shard, kick);
            self.told[kick] = true;
        }
        if let Some(v) = before {
            self.at[v as usize] = match why {
                Why::Block => At::Blocked(shard),
                Why::Retire => At::Nowhere,
                _ => At::Queued(shard),
            };
        }
        let Some(lease) = run else { return };
        let at = &mut self.at[lease.vcpu.index()];
        assert!([At::Queued(shard), At::Placed(slot)].contains(at), "{slot} got {}, {at:?}", lease.vcpu);
        *at = At::On(slot);
        assert!(lease.until > self.now, "{why:?}: a lease that has ended");
    }

    fn publish(&mut self) {
        for (shard, policy) in self.shards.iter_mut().enumerate() {
            let id = Shard(shard as u16);
            if let Some(front) = self.board.news(id, &mut self.known[shard], policy.progress()) {
                policy.keeps_up(front, self.now);
            }
            self.board.publish(id, policy.spare(), policy.progress());
        }
    }

    fn check(&self) {
        for (shard, policy) in self.shards.iter().enumerate() {
            let queued = self.at.iter().filter(|&&at| at == At::Queued(shard)).count();
            assert_eq!(policy.waiting(), queued, "shard {shard}");
            let slots = shard * self.each..(shard + 1) * self.each;
            let idles = |slot: &usize| !self.at.contains(&At::On(*slot)) && !self.told[*slot];
            assert!(queued == 0 || !slots.clone().any(|slot| idles(&slot)), "shard {shard} idles while {queued} wait");
            // A shard with a vCPU to spare offers one that waits there, the others none.
            match policy.spare() {
                Some(spare) => assert_eq!(self.at[spare.vcpu.index()], At::Queued(shard)),
                None => assert!(!self.may_leave(shard), "shard {shard} offers none of {queued}"),
            }
            let head = self.board.head(Shard(shard as u16));
            assert_eq!(head.is_some(), policy.spare().is_some(), "shard {shard} does not say so");
        }
    }

    /// Whether a vCPU waits in a shard that stands in its queue: class rt stays, and so does one for which a slot is
    /// reserved.
    fn may_leave(&self, shard: usize) -> bool {
        (0..VCPUS).any(|v| self.at[v as usize] == At::Queued(shard) && self.shards[shard].stands(VcpuId(v)).is_some())
    }
}

fn any_wait() -> impl Strategy<Value = Wait> {
    let somebody = || (0..VCPUS + 2).prop_map(VcpuId);
    prop_oneof![
        Just(Wait::Unknown),
        Just(Wait::Spin),
        somebody().prop_map(Wait::Lock),
        somebody().prop_map(Wait::Message)
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let class =
        prop_oneof![4 => Just(Class::Normal), 1 => Just(Class::Batch), 1 => Just(Class::Idle), 1 => Just(Class::Rt)];
    let yields = (any_wait(), any::<bool>()).prop_map(|(wait, again)| Why::Yield(Yield { wait, again }));
    let why = prop_oneof![3 => Just(Why::Check), 1 => Just(Why::Exit), 4 => yields, 2 => Just(Why::Block), 1 => Just(Why::Retire)];
    prop_oneof![
        6 => (0..VCPUS, -20i8..20, class, 0usize..6).prop_map(|(v, nice, class, shard)| Event::Wake(v, nice, class, shard)),
        1 => (0..VCPUS).prop_map(Event::Remove),
        6 => (0usize..6, why).prop_map(|(slot, why)| Event::Ask(slot, why)),
        3 => (0..VCPUS, 0usize..6).prop_map(|(v, slot)| Event::Move(v, slot)),
        3 => (0usize..6, 0usize..6).prop_map(|(from, slot)| Event::Take(from, slot)),
        2 => Just(Event::Settle),
    ]
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn shards_know_where_everybody_is(
        shards in 2usize..=3,
        each in 1usize..=2,
        per_pcpu_queues: bool,
        events in prop::collection::vec((any_event(), any_span()), 1..250),
    ) {
        let mut model = Model::new(shards, each, per_pcpu_queues);
        events.iter().for_each(|(event, span)| model.step(event, *span));
    }
}

/// A shard where little has run served a higher stair than the lowest of its queue's window. A vCPU from far down fell
/// out of the window.
#[test]
fn a_vcpu_from_far_down_comes_to_a_shard_where_little_has_run() {
    use Event::{Ask, Move, Settle, Take, Wake};
    let wake = |v: u32, nice: i8, shard: usize| Wake(v, nice, Class::Normal, shard);
    let yields = Why::Yield(Yield { wait: Wait::Message(VcpuId(3)), again: false });
    let events = [
        (wake(11, 18, 0), 0),
        (wake(5, 0, 0), 0),
        (wake(6, 0, 2), 0),
        (Move(5, 2), 0),
        (wake(6, 0, 0), 0),
        (wake(11, 0, 0), 0),
        (wake(5, 0, 0), 0),
        (Settle, 0),
        (wake(3, 0, 0), 19_128_471),
        (Ask(3, Why::Check), 371_527),
        (wake(0, 0, 0), 0),
        (wake(0, 0, 0), 0),
        (wake(8, -8, 1), 967_365),
        (wake(3, 17, 5), 4_765_511),
        (Ask(3, yields), 589_555),
        (Take(3, 3), 9_569_121),
        (Take(3, 2), 122),
    ];
    let mut model = Model::new(3, 1, false);
    events.iter().for_each(|(event, span)| model.step(event, *span));
}
