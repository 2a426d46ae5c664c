//! What passes between a driver and its policy, in 32 bytes: what was asked, and what was answered.
//!
//! Enough to ask another policy object the same questions and compare the answers, and to tell who waited for whom.

use crate::policy::{Decision, Placement, Why};
use crate::{Class, Lease, Nanos, Nice, Slot, Time, VcpuId, Wait, Yield};

/// Words of an event.
pub const WORDS: usize = 4;

/// A moment at which the policy was told or asked something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When. No two events of a domain are of the same time, and later ones have later times.
    pub time: Time,
    /// What.
    pub what: What,
}

/// What the policy was told or asked, and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A vCPU was taken in, blocked.
    Add {
        /// Who.
        vcpu: VcpuId,
        /// Its static priority.
        nice: Nice,
        /// Its class.
        class: Class,
    },
    /// A vCPU that did not run left.
    Remove {
        /// Who.
        vcpu: VcpuId,
    },
    /// A blocked vCPU became runnable.
    Wake {
        /// Who.
        vcpu: VcpuId,
        /// Where it went.
        placement: Placement,
    },
    /// A slot asked what to do.
    Ask {
        /// Which slot.
        slot: Slot,
        /// Who was on it.
        vcpu: Option<VcpuId>,
        /// Why it asked.
        why: Why,
        /// What it was told to do.
        decision: Decision,
    },
    /// A vCPU tried to take a slot that had been handed to another one.
    Steal {
        /// Which slot.
        slot: Slot,
        /// Who tried.
        thief: VcpuId,
        /// Whether it was let.
        taken: bool,
    },
}

const NOBODY: u32 = u32::MAX;
const NO_SLOT: u16 = u16::MAX;
/// A lease without end. Others are shorter than 4 s.
const ENDLESS: u32 = u32::MAX;

/// The parts of an event as they lie in memory. Which of them mean what depends on `kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packed {
    time: u64,
    vcpu: u32,
    next: u32,
    /// Whom a yield waits for.
    target: u32,
    /// From the event's time to the end of the lease (unit: ns).
    lease: u32,
    slot: u16,
    kick: u16,
    kind: u8,
    detail: u8,
}

/// Kinds of packed events. An ask's is `ASK` plus that of its reason.
mod kind {
    pub(super) const ADD: u8 = 1;
    pub(super) const REMOVE: u8 = 2;
    pub(super) const WAKE: u8 = 3;
    pub(super) const STEAL: u8 = 4;
    pub(super) const ASK: u8 = 16;
}

impl Event {
    /// As it lies in memory and in files, where words are little-endian.
    pub fn pack(&self) -> [u64; WORDS] {
        let none = Packed {
            time: self.time.0,
            vcpu: NOBODY,
            next: NOBODY,
            target: NOBODY,
            lease: ENDLESS,
            slot: NO_SLOT,
            kick: NO_SLOT,
            kind: 0,
            detail: 0,
        };
        let packed = match self.what {
            What::Add { vcpu, nice, class } => {
                Packed { kind: kind::ADD, vcpu: vcpu.0, detail: nice.get() as u8, slot: class_code(class), ..none }
            }
            What::Remove { vcpu } => Packed { kind: kind::REMOVE, vcpu: vcpu.0, ..none },
            What::Wake { vcpu, placement } => {
                let (detail, slot) = match placement {
                    Placement::Run(slot) => (0, slot.0),
                    Placement::Preempt(slot) => (1, slot.0),
                    Placement::Queue(slot) => (2, slot.map_or(NO_SLOT, |slot| slot.0)),
                };
                Packed { kind: kind::WAKE, vcpu: vcpu.0, detail, slot, ..none }
            }
            What::Steal { slot, thief, taken } => {
                Packed { kind: kind::STEAL, vcpu: thief.0, slot: slot.0, detail: taken.into(), ..none }
            }
            What::Ask { slot, vcpu, why, decision } => self.pack_ask(none, (slot, vcpu), why, decision),
        };
        packed.words()
    }

    fn pack_ask(&self, none: Packed, (slot, vcpu): (Slot, Option<VcpuId>), why: Why, decision: Decision) -> Packed {
        let (reason, detail, target) = match why {
            Why::Free => (0, 0, None),
            Why::Exit => (1, 0, None),
            Why::Check => (2, 0, None),
            Why::Block => (3, 0, None),
            Why::Retire => (4, 0, None),
            Why::Yield(Yield { wait, again }) => match wait {
                Wait::Unknown => (5, again.into(), None),
                Wait::Lock(holder) => (6, again.into(), Some(holder)),
                Wait::Message(peer) => (7, again.into(), Some(peer)),
                Wait::Spin => (8, again.into(), None),
            },
        };
        let lease = |until: Time| match until {
            Time::NEVER => ENDLESS,
            until => u32::try_from(until.since(self.time).0).unwrap_or(ENDLESS - 1),
        };
        Packed {
            kind: kind::ASK + reason,
            detail,
            slot: slot.0,
            vcpu: vcpu.map_or(NOBODY, |vcpu| vcpu.0),
            target: target.map_or(NOBODY, |target| target.0),
            next: decision.run.map_or(NOBODY, |lease| lease.vcpu.0),
            lease: decision.run.map_or(ENDLESS, |run| lease(run.until)),
            kick: decision.kick.map_or(NO_SLOT, |slot| slot.0),
            ..none
        }
    }

    /// The event that was packed so; `None` if these words are none.
    pub fn unpack(words: [u64; WORDS]) -> Option<Self> {
        let packed = Packed::of(words);
        let (time, vcpu) = (Time(packed.time), VcpuId(packed.vcpu));
        let slot = |slot: u16| (slot != NO_SLOT).then_some(Slot(slot));
        let what = match packed.kind {
            kind::ADD => What::Add { vcpu, nice: Nice::new(packed.detail as i8)?, class: class_of(packed.slot)? },
            kind::REMOVE => What::Remove { vcpu },
            kind::WAKE => {
                let placement = match packed.detail {
                    0 => Placement::Run(slot(packed.slot)?),
                    1 => Placement::Preempt(slot(packed.slot)?),
                    2 => Placement::Queue(slot(packed.slot)),
                    _ => return None,
                };
                What::Wake { vcpu, placement }
            }
            kind::STEAL => What::Steal { slot: slot(packed.slot)?, thief: vcpu, taken: packed.detail != 0 },
            asked => {
                let who = |id: u32| (id != NOBODY).then_some(VcpuId(id));
                let yields = |wait| Why::Yield(Yield { wait, again: packed.detail != 0 });
                let why = match asked.checked_sub(kind::ASK)? {
                    0 => Why::Free,
                    1 => Why::Exit,
                    2 => Why::Check,
                    3 => Why::Block,
                    4 => Why::Retire,
                    5 => yields(Wait::Unknown),
                    6 => yields(Wait::Lock(who(packed.target)?)),
                    7 => yields(Wait::Message(who(packed.target)?)),
                    8 => yields(Wait::Spin),
                    _ => return None,
                };
                let until = if packed.lease == ENDLESS { Time::NEVER } else { time + Nanos(packed.lease.into()) };
                let run = who(packed.next).map(|vcpu| Lease { vcpu, until });
                let decision = Decision { run, kick: slot(packed.kick) };
                What::Ask { slot: slot(packed.slot)?, vcpu: who(packed.vcpu), why, decision }
            }
        };
        Some(Self { time, what })
    }
}

impl Packed {
    fn words(self) -> [u64; WORDS] {
        [
            self.time,
            u64::from(self.vcpu) | u64::from(self.next) << 32,
            u64::from(self.target) | u64::from(self.lease) << 32,
            u64::from(self.slot)
                | u64::from(self.kick) << 16
                | u64::from(self.kind) << 32
                | u64::from(self.detail) << 40,
        ]
    }

    fn of([time, who, target, place]: [u64; WORDS]) -> Self {
        Self {
            time,
            vcpu: who as u32,
            next: (who >> 32) as u32,
            target: target as u32,
            lease: (target >> 32) as u32,
            slot: place as u16,
            kick: (place >> 16) as u16,
            kind: (place >> 32) as u8,
            detail: (place >> 40) as u8,
        }
    }
}

fn class_code(class: Class) -> u16 {
    match class {
        Class::Normal => 0,
        Class::Batch => 1,
        Class::Idle => 2,
        Class::Rt => 3,
    }
}

fn class_of(code: u16) -> Option<Class> {
    [Class::Normal, Class::Batch, Class::Idle, Class::Rt].get(usize::from(code)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vcpus() -> impl Strategy<Value = VcpuId> {
        (0..1u32 << 17).prop_map(VcpuId)
    }

    fn slots() -> impl Strategy<Value = Slot> {
        (0..4096u16).prop_map(Slot)
    }

    fn reasons() -> impl Strategy<Value = Why> {
        let waits = prop_oneof![
            Just(Wait::Unknown),
            Just(Wait::Spin),
            vcpus().prop_map(Wait::Lock),
            vcpus().prop_map(Wait::Message)
        ];
        let yields = (waits, any::<bool>()).prop_map(|(wait, again)| Why::Yield(Yield { wait, again }));
        let others = prop::sample::select(vec![Why::Free, Why::Exit, Why::Check, Why::Block, Why::Retire]);
        prop_oneof![yields, others]
    }

    fn events() -> impl Strategy<Value = Event> {
        let adds = (vcpus(), -20..=19i8, 0..4u16).prop_map(|(vcpu, nice, class)| What::Add {
            vcpu,
            nice: Nice::new(nice).unwrap(),
            class: class_of(class).unwrap(),
        });
        let placements = prop_oneof![
            slots().prop_map(Placement::Run),
            slots().prop_map(Placement::Preempt),
            prop::option::of(slots()).prop_map(Placement::Queue),
        ];
        let wakes = (vcpus(), placements).prop_map(|(vcpu, placement)| What::Wake { vcpu, placement });
        let steals =
            (slots(), vcpus(), any::<bool>()).prop_map(|(slot, thief, taken)| What::Steal { slot, thief, taken });
        let removes = vcpus().prop_map(|vcpu| What::Remove { vcpu });
        let time = 1u64 << 40;
        let leases =
            (vcpus(), prop_oneof![(1..4_000_000_000u64).prop_map(move |ns| Time(time + ns)), Just(Time::NEVER)]);
        let runs = prop::option::of(leases.prop_map(|(vcpu, until)| Lease { vcpu, until }));
        let asks = (slots(), prop::option::of(vcpus()), reasons(), runs, prop::option::of(slots()))
            .prop_map(|(slot, vcpu, why, run, kick)| What::Ask { slot, vcpu, why, decision: Decision { run, kick } });
        prop_oneof![adds, wakes, steals, removes, asks].prop_map(move |what| Event { time: Time(time), what })
    }

    proptest! {
        #[test]
        fn every_event_is_the_same_after_packing(event in events()) {
            prop_assert_eq!(Event::unpack(event.pack()), Some(event));
        }

        #[test]
        fn words_that_are_no_event_are_refused_without_panic(words in any::<[u64; WORDS]>()) {
            let _ = Event::unpack(words);
        }
    }

    #[test]
    fn an_event_takes_32_bytes() {
        assert_eq!(size_of::<[u64; WORDS]>(), 32);
    }
}
