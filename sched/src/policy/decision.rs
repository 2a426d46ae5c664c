//! What a policy is asked, and what it answers.

use crate::ids::{Slot, VcpuId};
use crate::time::{Nanos, Time};
use crate::wait::Yield;

/// Why [`Policy::next`](super::Policy::next) is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The slot was idle. A vCPU may have been placed on it meanwhile.
    Free,
    /// The vCPU made an exit and would go on; asked only if
    /// [`Policy::keeps_slot_over_exits`](super::Policy::keeps_slot_over_exits) is false.
    Exit,
    /// A lease may have ended, or the slot was kicked.
    Check,
    /// The vCPU yields. A policy may take the hint and `again` into account, or not. It may pick the same vCPU again;
    /// then a guest that waits for another one gets on more slowly.
    Yield(Yield),
    /// The vCPU waits for an event.
    Block,
    /// The vCPU is done for good; the policy forgets it.
    Retire,
}

/// Where a woken vCPU went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a slot may have to be told"]
pub enum Placement {
    /// Onto this idle slot, which must be told to ask ([`Why::Free`]).
    Run(Slot),
    /// Into the queue, ahead of the vCPU on this slot, which must be made to ask ([`Why::Check`]).
    Preempt(Slot),
    /// Into the queue. If a slot is named, the vCPU on it ran without limit so far and must be made to ask
    /// ([`Why::Check`]), which gives it one.
    Queue(Option<Slot>),
    /// Nowhere: it is held back, and waits until it is [`Resumed`].
    Held,
}

/// A vCPU that is no longer held back, and where it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a slot may have to be told"]
pub struct Resumed {
    /// The vCPU.
    pub vcpu: VcpuId,
    /// Where it went.
    pub placement: Placement,
}

/// How a policy holds a vCPU back that could run. To the driver it waits like others in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Throttled {
    /// It is held back now.
    pub is_held: bool,
    /// For how long it was, so far.
    pub time: Nanos,
}

impl Placement {
    /// The same, where the first slot has this number.
    pub(crate) fn plus(self, first: u16) -> Self {
        let plus = |slot: Slot| Slot(slot.0 + first);
        match self {
            Self::Run(slot) => Self::Run(plus(slot)),
            Self::Preempt(slot) => Self::Preempt(plus(slot)),
            Self::Queue(slot) => Self::Queue(slot.map(plus)),
            Self::Held => Self::Held,
        }
    }

    /// The slot that is named.
    pub fn slot(self) -> Option<Slot> {
        match self {
            Self::Run(slot) | Self::Preempt(slot) => Some(slot),
            Self::Queue(slot) => slot,
            Self::Held => None,
        }
    }
}

/// What a slot does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the slot must do it"]
pub struct Decision {
    /// The vCPU to run, `None`: the slot is idle.
    pub run: Option<Lease>,
    /// A slot that must be made to ask, mostly another one.
    pub kick: Option<Slot>,
    /// The vCPU that goes on keeps its slot and stays outside its guest for this long (unit: ns; at most
    /// [`PAUSE_MAX`](Self::PAUSE_MAX)), or until its slot is wanted. For a vCPU that would otherwise return too early
    /// to meet the one it waits for.
    pub pause: Nanos,
    /// The vCPU that was on the slot, and could go on, is held back: it waits until it is [`Resumed`].
    pub held: bool,
}

/// The right to run on a slot for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The vCPU that may run.
    pub vcpu: VcpuId,
    /// When the slot must ask again. While no vCPU waits it may be [`Time::NEVER`]: then a wake has to name a slot
    /// that asks. A lease that ends costs a question.
    pub until: Time,
}

impl Lease {
    /// How late a question can come after the end of a lease if nothing held it up. Kicks take microseconds.
    pub const LATE: Nanos = Nanos::from_micros(250);
}

impl Decision {
    /// The longest pause.
    pub const PAUSE_MAX: Nanos = Nanos(u16::MAX as u64);
    /// Nothing to run.
    pub const IDLE: Self = Self { run: None, kick: None, pause: Nanos::ZERO, held: false };

    /// This decision, but the slot asks again at this time at the latest.
    pub(super) fn not_beyond(self, latest: Time) -> Self {
        let run = self.run.map(|lease| Lease { until: lease.until.min(latest), ..lease });
        Self { run, ..self }
    }

    /// This vCPU, up to this time.
    pub(crate) fn run(vcpu: VcpuId, until: Time) -> Self {
        Self { run: Some(Lease { vcpu, until }), ..Self::IDLE }
    }
}
