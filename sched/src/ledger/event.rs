//! What passes between a driver and its policy, in 32 bytes: what was asked, and what was answered.
//!
//! Enough to put the same questions to another policy object and compare the answers, and to tell which vCPU waited for
//! which.

use crate::attributes::{Cap, Class, Group, GroupId};
use crate::ids::{Nice, Slot, VcpuId};
use crate::policy::{Decision, Front, Lease, Placement, Why};
use crate::time::{Nanos, Time};
use crate::wait::{Wait, Yield};

/// Words of an event.
pub const WORDS: usize = 4;

/// A moment at which the policy was told or asked something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When. No two events of a shard are of the same time, and later ones have later times. A vCPU arrives at a shard
    /// later than it departed from another.
    pub time: Time,
    /// What happened.
    pub what: What,
}

/// What the policy was told or asked, and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A vCPU was taken in, blocked.
    Add {
        /// The vCPU.
        vcpu: VcpuId,
        /// Its static priority.
        nice: Nice,
        /// Its class.
        class: Class,
        /// The group whose cap it shares.
        group: Option<Group>,
        /// The first slot of its shard.
        slot: Slot,
    },
    /// A vCPU that did not run left.
    Remove {
        /// The vCPU.
        vcpu: VcpuId,
    },
    /// A blocked vCPU became runnable.
    Wake {
        /// The vCPU.
        vcpu: VcpuId,
        /// The vCPU that woke it, if that is known.
        by: Option<VcpuId>,
        /// Where it went.
        placement: Placement,
    },
    /// A vCPU that the policy held back, and the driver took for one in the queue, goes on.
    Resume {
        /// The vCPU.
        vcpu: VcpuId,
        /// Where it went.
        placement: Placement,
    },
    /// A slot asked what to do.
    Ask {
        /// Which slot.
        slot: Slot,
        /// The vCPU that was on it.
        vcpu: Option<VcpuId>,
        /// Why it asked.
        why: Why,
        /// What it was told to do.
        decision: Decision,
    },
    /// The host took time from the vCPU on a slot since the slot last asked.
    Taken {
        /// Which slot.
        slot: Slot,
        /// How much; at most 4 s.
        time: Nanos,
    },
    /// A vCPU tried to take a slot that had been handed to another one.
    Steal {
        /// Which slot.
        slot: Slot,
        /// The vCPU that tried.
        thief: VcpuId,
        /// Whether it was let.
        taken: bool,
    },
    /// A vCPU that did not run leaves a shard.
    Depart {
        /// The vCPU.
        vcpu: VcpuId,
    },
    /// A vCPU comes from another shard.
    Arrive {
        /// The vCPU.
        vcpu: VcpuId,
        /// The slot that it prefers, of its new shard.
        slot: Slot,
        /// Where it went; `None`: it is blocked.
        placement: Option<Placement>,
    },
    /// A shard takes over how far others have got.
    KeepUp {
        /// The shard's first slot.
        slot: Slot,
        /// How far that is. The quota is shorter than 4 s.
        front: Front,
    },
    /// The vCPU on a slot ran on beyond its lease by its own doing.
    Overran {
        /// The slot.
        slot: Slot,
    },
    /// A vCPU pays for CPU time that it caused on other threads.
    Charge {
        /// The vCPU.
        vcpu: VcpuId,
        /// How much; shorter than 4 s.
        time: Nanos,
    },
    /// A vCPU that has just been reported as blocked had done nothing on its slot for a while.
    Idled {
        /// The vCPU.
        vcpu: VcpuId,
        /// Since when.
        since: Time,
    },
    /// In a copy of the trace: so many events are missing here, which were overwritten before they were read.
    Gap {
        /// How many.
        lost: u64,
    },
}

const NOBODY: u32 = u32::MAX;
const NO_SLOT: u16 = u16::MAX;
/// Flags in the detail of an ask: its yield is one of several in the same wait; the vCPU that was on the slot is held
/// back.
const AGAIN: u8 = 1;
const HELD: u8 = 2;
/// The detail of an arrival: the vCPU is blocked. Lower ones are those of placements.
const BLOCKED: u8 = 4;
/// A lease without end. Others are shorter than 4 s.
const ENDLESS: u32 = u32::MAX;

fn somebody(id: u32) -> Option<VcpuId> {
    (id != NOBODY).then_some(VcpuId(id))
}

/// The parts of an event as they lie in memory. Which of them mean what depends on `kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packed {
    time: u64,
    vcpu: u32,
    next: u32,
    /// The vCPU that a yield waits for.
    target: u32,
    /// From the event's time to the end of the lease (unit: ns).
    lease: u32,
    slot: u16,
    kick: u16,
    kind: u8,
    detail: u8,
    /// Of a decision (unit: ns).
    pause: u16,
}

/// Kinds of packed events. An ask's is `ASK` plus that of its reason.
mod kind {
    pub(super) const ADD: u8 = 1;
    pub(super) const REMOVE: u8 = 2;
    pub(super) const WAKE: u8 = 3;
    pub(super) const STEAL: u8 = 4;
    pub(super) const RESUME: u8 = 5;
    pub(super) const TAKEN: u8 = 6;
    pub(super) const IDLED: u8 = 7;
    pub(super) const GAP: u8 = 8;
    pub(super) const DEPART: u8 = 9;
    pub(super) const ARRIVE: u8 = 10;
    pub(super) const KEEP_UP: u8 = 11;
    pub(super) const OVERRAN: u8 = 12;
    pub(super) const CHARGE: u8 = 13;
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
            pause: 0,
        };
        let packed = match self.what {
            What::Add { vcpu, nice, class, group, slot } => {
                let (detail, class) = (nice.get() as u8, class_code(class));
                let packed = Packed { kind: kind::ADD, vcpu: vcpu.0, detail, slot: class, kick: slot.0, ..none };
                pack_group(packed, group)
            }
            What::Remove { vcpu } => Packed { kind: kind::REMOVE, vcpu: vcpu.0, ..none },
            What::Wake { vcpu, by, placement } => {
                let target = by.map_or(NOBODY, |by| by.0);
                pack_placement(Packed { kind: kind::WAKE, vcpu: vcpu.0, target, ..none }, placement)
            }
            What::Resume { vcpu, placement } => {
                pack_placement(Packed { kind: kind::RESUME, vcpu: vcpu.0, ..none }, placement)
            }
            What::Steal { slot, thief, taken } => {
                Packed { kind: kind::STEAL, vcpu: thief.0, slot: slot.0, detail: taken.into(), ..none }
            }
            What::Taken { slot, time } => {
                let lease = u32::try_from(time.0).unwrap_or(u32::MAX);
                Packed { kind: kind::TAKEN, slot: slot.0, lease, ..none }
            }
            What::Overran { slot } => Packed { kind: kind::OVERRAN, slot: slot.0, ..none },
            What::Charge { vcpu, time } => {
                let lease = u32::try_from(time.0).unwrap_or(u32::MAX);
                Packed { kind: kind::CHARGE, vcpu: vcpu.0, lease, ..none }
            }
            What::Idled { vcpu, since } => {
                Packed { kind: kind::IDLED, vcpu: vcpu.0, ..none }.with_number(self.time.since(since).0)
            }
            What::Depart { vcpu } => Packed { kind: kind::DEPART, vcpu: vcpu.0, ..none },
            What::Arrive { vcpu, slot, placement } => {
                let packed = Packed { kind: kind::ARRIVE, vcpu: vcpu.0, kick: slot.0, detail: BLOCKED, ..none };
                placement.map_or(packed, |placement| pack_placement(packed, placement))
            }
            What::KeepUp { slot, front } => {
                let quota = u32::try_from(front.quota.0).unwrap_or(u32::MAX);
                let detail = u8::from(front.contended);
                Packed { kind: kind::KEEP_UP, slot: slot.0, next: quota, detail, ..none }.with_number(front.stair)
            }
            What::Gap { lost } => Packed { kind: kind::GAP, ..none }.with_number(lost),
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
            detail: detail | if decision.held { HELD } else { 0 },
            slot: slot.0,
            vcpu: vcpu.map_or(NOBODY, |vcpu| vcpu.0),
            target: target.map_or(NOBODY, |target| target.0),
            next: decision.run.map_or(NOBODY, |lease| lease.vcpu.0),
            lease: decision.run.map_or(ENDLESS, |run| lease(run.until)),
            kick: decision.kick.map_or(NO_SLOT, |slot| slot.0),
            pause: decision.pause.min(Decision::PAUSE_MAX).0 as u16,
            ..none
        }
    }

    /// The event that was packed so; `None` if these words are none.
    pub fn unpack(words: [u64; WORDS]) -> Option<Self> {
        let packed = Packed::of(words);
        let (time, vcpu) = (Time(packed.time), VcpuId(packed.vcpu));
        let slot = |slot: u16| (slot != NO_SLOT).then_some(Slot(slot));
        let what = match packed.kind {
            kind::ADD => {
                let (nice, class) = (Nice::new(packed.detail as i8)?, class_of(packed.slot)?);
                What::Add { vcpu, nice, class, group: group_of(packed)?, slot: slot(packed.kick)? }
            }
            kind::REMOVE => What::Remove { vcpu },
            kind::WAKE => What::Wake { vcpu, by: somebody(packed.target), placement: placement_of(packed)? },
            kind::RESUME => What::Resume { vcpu, placement: placement_of(packed)? },
            kind::STEAL => What::Steal { slot: slot(packed.slot)?, thief: vcpu, taken: packed.detail != 0 },
            kind::OVERRAN => What::Overran { slot: slot(packed.slot)? },
            kind::CHARGE => What::Charge { vcpu, time: Nanos(packed.lease.into()) },
            kind::TAKEN => What::Taken { slot: slot(packed.slot)?, time: Nanos(packed.lease.into()) },
            kind::IDLED => What::Idled { vcpu, since: time - Nanos(packed.number()) },
            kind::DEPART => What::Depart { vcpu },
            kind::ARRIVE => {
                let blocked = packed.detail == BLOCKED;
                let placement = if blocked { None } else { Some(placement_of(packed)?) };
                What::Arrive { vcpu, slot: slot(packed.kick)?, placement }
            }
            kind::KEEP_UP => {
                let (quota, contended) = (Nanos(packed.next.into()), packed.detail != 0);
                let front = Front { stair: packed.number(), quota, contended };
                What::KeepUp { slot: slot(packed.slot)?, front }
            }
            kind::GAP => What::Gap { lost: packed.number() },
            asked => {
                let yields = |wait| Why::Yield(Yield { wait, again: packed.detail & AGAIN != 0 });
                let why = match asked.checked_sub(kind::ASK)? {
                    0 => Why::Free,
                    1 => Why::Exit,
                    2 => Why::Check,
                    3 => Why::Block,
                    4 => Why::Retire,
                    5 => yields(Wait::Unknown),
                    6 => yields(Wait::Lock(somebody(packed.target)?)),
                    7 => yields(Wait::Message(somebody(packed.target)?)),
                    8 => yields(Wait::Spin),
                    _ => return None,
                };
                let until = if packed.lease == ENDLESS { Time::NEVER } else { time + Nanos(packed.lease.into()) };
                let run = somebody(packed.next).map(|vcpu| Lease { vcpu, until });
                let (kick, pause, held) = (slot(packed.kick), Nanos(packed.pause.into()), packed.detail & HELD != 0);
                let decision = Decision { run, kick, pause, held };
                What::Ask { slot: slot(packed.slot)?, vcpu: somebody(packed.vcpu), why, decision }
            }
        };
        Some(Self { time, what })
    }
}

impl Packed {
    /// With a number in the place of target and lease.
    fn with_number(self, number: u64) -> Self {
        Self { target: number as u32, lease: (number >> 32) as u32, ..self }
    }

    fn number(self) -> u64 {
        u64::from(self.target) | u64::from(self.lease) << 32
    }

    fn words(self) -> [u64; WORDS] {
        [
            self.time,
            u64::from(self.vcpu) | u64::from(self.next) << 32,
            u64::from(self.target) | u64::from(self.lease) << 32,
            u64::from(self.slot)
                | u64::from(self.kick) << 16
                | u64::from(self.kind) << 32
                | u64::from(self.detail) << 40
                | u64::from(self.pause) << 48,
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
            pause: (place >> 48) as u16,
        }
    }
}

fn pack_placement(packed: Packed, placement: Placement) -> Packed {
    let (detail, slot) = match placement {
        Placement::Run(slot) => (0, slot.0),
        Placement::Preempt(slot) => (1, slot.0),
        Placement::Queue(slot) => (2, slot.map_or(NO_SLOT, |slot| slot.0)),
        Placement::Held => (3, NO_SLOT),
    };
    Packed { detail, slot, ..packed }
}

fn placement_of(packed: Packed) -> Option<Placement> {
    let slot = (packed.slot != NO_SLOT).then_some(Slot(packed.slot));
    match packed.detail {
        0 => slot.map(Placement::Run),
        1 => slot.map(Placement::Preempt),
        2 => Some(Placement::Queue(slot)),
        3 => Some(Placement::Held),
        _ => None,
    }
}

/// A group's cap is kept in whole microseconds.
fn pack_group(packed: Packed, group: Option<Group>) -> Packed {
    let Some(Group { id, cap }) = group else { return packed };
    let micros = |span: Nanos| u32::try_from(span.0 / 1000).unwrap_or(u32::MAX);
    Packed { next: id.0, target: micros(cap.budget()), lease: micros(cap.period()), ..packed }
}

/// The group; `None` in it: none. `None`: no cap is like that.
fn group_of(packed: Packed) -> Option<Option<Group>> {
    if packed.next == NOBODY {
        return Some(None);
    }
    let micros = |us: u32| Nanos::from_micros(us.into());
    let cap = Cap::new(micros(packed.target), micros(packed.lease))?;
    Some(Some(Group { id: GroupId(packed.next), cap }))
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
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reasons(vcpus: impl Strategy<Value = VcpuId> + Clone) -> impl Strategy<Value = Why> {
        let waits = prop_oneof![
            Just(Wait::Unknown),
            Just(Wait::Spin),
            vcpus.clone().prop_map(Wait::Lock),
            vcpus.prop_map(Wait::Message)
        ];
        let yields = (waits, any::<bool>()).prop_map(|(wait, again)| Why::Yield(Yield { wait, again }));
        let others = prop::sample::select(vec![Why::Free, Why::Exit, Why::Check, Why::Block, Why::Retire]);
        prop_oneof![yields, others]
    }

    /// Any event of so many vCPUs and slots.
    pub(in crate::ledger) fn events(vcpus: u32, slots: u16) -> impl Strategy<Value = Event> {
        let vcpus = || (0..vcpus).prop_map(VcpuId);
        let slots = || (0..slots).prop_map(Slot);
        let micros = |us: std::ops::Range<u64>| us.prop_map(Nanos::from_micros);
        let groups = (0..u32::MAX, micros(100..4_000_000_000), micros(1..4_000_000_000));
        let groups =
            groups.prop_map(|(id, budget, period)| Group { id: GroupId(id), cap: Cap::new(budget, period).unwrap() });
        let adds = (vcpus(), -20..=19i8, 0..4u16, prop::option::of(groups), slots());
        let adds = adds.prop_map(|(vcpu, nice, class, group, slot)| {
            let (nice, class) = (Nice::new(nice).unwrap(), class_of(class).unwrap());
            What::Add { vcpu, nice, class, group, slot }
        });
        let placements = prop_oneof![
            slots().prop_map(Placement::Run),
            slots().prop_map(Placement::Preempt),
            prop::option::of(slots()).prop_map(Placement::Queue),
            Just(Placement::Held),
        ];
        let wakes = (vcpus(), prop::option::of(vcpus()), placements.clone())
            .prop_map(|(vcpu, by, placement)| What::Wake { vcpu, by, placement });
        let resumes = (vcpus(), placements.clone()).prop_map(|(vcpu, placement)| What::Resume { vcpu, placement });
        let steals =
            (slots(), vcpus(), any::<bool>()).prop_map(|(slot, thief, taken)| What::Steal { slot, thief, taken });
        let takes = (slots(), 0..1u64 << 32).prop_map(|(slot, ns)| What::Taken { slot, time: Nanos(ns) });
        let overruns = slots().prop_map(|slot| What::Overran { slot });
        let charges = (vcpus(), 0..1u64 << 32).prop_map(|(vcpu, ns)| What::Charge { vcpu, time: Nanos(ns) });
        let told = prop_oneof![takes, overruns, charges];
        let removes = vcpus().prop_map(|vcpu| What::Remove { vcpu });
        let time = 1u64 << 40;
        let naps = (vcpus(), 0..=time).prop_map(|(vcpu, since)| What::Idled { vcpu, since: Time(since) });
        let departs = vcpus().prop_map(|vcpu| What::Depart { vcpu });
        let arrives = (vcpus(), slots(), prop::option::of(placements.clone()))
            .prop_map(|(vcpu, slot, placement)| What::Arrive { vcpu, slot, placement });
        let fronts = (any::<u64>(), any::<u32>(), any::<bool>()).prop_map(|(stair, quota, contended)| Front {
            stair,
            quota: Nanos(quota.into()),
            contended,
        });
        let keeps = (slots(), fronts).prop_map(|(slot, front)| What::KeepUp { slot, front });
        let gaps = any::<u64>().prop_map(|lost| What::Gap { lost });
        let leases =
            (vcpus(), prop_oneof![(1..4_000_000_000u64).prop_map(move |ns| Time(time + ns)), Just(Time::NEVER)]);
        let runs = prop::option::of(leases.prop_map(|(vcpu, until)| Lease { vcpu, until }));
        let pauses = any::<u16>().prop_map(|ns| Nanos(ns.into()));
        let decisions = (runs, prop::option::of(slots()), pauses, any::<bool>())
            .prop_map(|(run, kick, pause, held)| Decision { run, kick, pause, held });
        let asks = (slots(), prop::option::of(vcpus()), reasons(vcpus()), decisions)
            .prop_map(|(slot, vcpu, why, decision)| What::Ask { slot, vcpu, why, decision });
        prop_oneof![adds, wakes, resumes, steals, told, removes, departs, arrives, keeps, naps, gaps, asks]
            .prop_map(move |what| Event { time: Time(time), what })
    }

    proptest! {
        #[test]
        fn every_event_is_the_same_after_packing(event in events(1 << 17, 4096)) {
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
