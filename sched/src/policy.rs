//! Policies: pure state machines that decide who runs.
//!
//! A driver tells a policy what happened and when, and does what it decides. The same objects serve the threads of a
//! [`domain`](crate::domain), simulations and property tests, so a policy has no clock, no thread, no I/O, no log and no
//! randomness, and allocates only in [`Policy::add`].
//!
//! # Contract with the driver
//! * Times never go back.
//! * [`Policy::next`] is called for a slot by whoever runs it, once per stop of the vCPU there; its answer is what the
//!   slot does next. [`Policy::wake`] is called for blocked vCPUs only, and [`Policy::remove`] for vCPUs that do not run.
//! * Time itself is an event for a policy that holds vCPUs back: by [`Policy::alarm`], looked at after every other call, the
//!   driver calls [`Policy::tick`] until it says `None`.
//! * After [`Placement::Preempt`] or a [`Decision::kick`] the driver sees to it that the named slot asks soon; one more
//!   question than needed does no harm.

pub mod boxed;
mod capped;
mod freelist;
pub mod goodness;
pub mod o1;
mod prefetch;
#[cfg(test)]
mod properties;
mod queue;
#[cfg(test)]
mod regressions;
pub mod rsdl;
pub(crate) mod slotset;
#[cfg(test)]
mod testing;

pub use capped::Capped;
pub use freelist::Freelist;
pub use goodness::Goodness;
pub use o1::O1;
pub use rsdl::Rsdl;

use crate::domain::Attributes;
use crate::{Nanos, Slot, Time, VcpuId, Yield};
use goodness::YieldCounts;

/// Decides who runs.
pub trait Policy: Send {
    /// A new vCPU, blocked at first. The id is not in use.
    fn add(&mut self, vcpu: VcpuId, attributes: Attributes, now: Time);

    /// A vCPU leaves that does not run: blocked, queued, or placed on a slot that has not asked yet.
    fn remove(&mut self, vcpu: VcpuId);

    /// A blocked vCPU can run again.
    fn wake(&mut self, vcpu: VcpuId, now: Time) -> Placement;

    /// What the slot does, now that the vCPU on it stopped for this reason.
    fn next(&mut self, slot: Slot, why: Why, now: Time) -> Decision;

    /// The vCPU on this slot began to run so much later than it was given the slot. A driver need not tell, but if it does,
    /// before the vCPU's first question; then what is counted as run is what ran.
    fn late(&mut self, _slot: Slot, _by: Nanos) {}

    /// A queued vCPU, whose thread runs on the slot's pCPU, asks for the slot in place of the vCPU there, which was given it
    /// and whose thread has not begun to run. True: they are exchanged. The thief is placed on the slot, which asks next
    /// ([`Why::Free`]), and the other goes back to its place in the line. Only among equals, and never where class rt is
    /// concerned.
    fn steals(&mut self, _slot: Slot, _thief: VcpuId, _now: Time) -> bool {
        false
    }

    /// Number of vCPUs that could run and have no slot; who is held back is not among them.
    fn waiting(&self) -> usize;

    /// When the policy has something to do by itself.
    fn alarm(&self) -> Time {
        Time::NEVER
    }

    /// The time of the [alarm](Self::alarm) has come, or may have: a vCPU that was held back goes on, as if it were woken.
    fn tick(&mut self, _now: Time) -> Option<Resumed> {
        None
    }

    /// How a vCPU was held back.
    fn throttled(&self, _vcpu: VcpuId, _now: Time) -> Throttled {
        Throttled::default()
    }

    /// What it counts of yields besides what its driver sees; nothing, under most.
    fn yield_counts(&self) -> YieldCounts {
        YieldCounts::default()
    }

    /// Whether a vCPU may go on after an exit without [`Policy::next`] being asked, while nobody wants its slot.
    fn keeps_slot_over_exits(&self) -> bool {
        true
    }

    /// Whether [`Policy::next`] is asked about a yield while nobody waits, which changes nothing under a sound policy.
    fn is_told_of_lone_yields(&self) -> bool {
        false
    }

    /// Whether guests are told which of their vCPUs have a pCPU: then who waits for one that has spins for longer, and who
    /// waits for one that has not yields at once.
    fn tells_presence(&self) -> bool {
        false
    }
}

/// Why [`Policy::next`] is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The slot was idle; somebody may have been placed on it meanwhile.
    Free,
    /// The vCPU made an exit and would go on; asked only if [`Policy::keeps_slot_over_exits`] is false.
    Exit,
    /// A lease may have ended, or somebody kicked the slot.
    Check,
    /// The vCPU yields.
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
    /// Who.
    pub vcpu: VcpuId,
    /// Where.
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
    /// The vCPU that goes on keeps its slot and stays outside its guest for so long (unit: ns; at most
    /// [`PAUSE_MAX`](Self::PAUSE_MAX)), or until its slot is wanted. For one that would come back too early to meet whom it
    /// waits for.
    pub pause: Nanos,
    /// The vCPU that was on the slot, and could go on, is held back: it waits until it is [`Resumed`].
    pub held: bool,
}

/// The right to run on a slot for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Who.
    pub vcpu: VcpuId,
    /// When the slot must ask again, [`Time::NEVER`] while nobody waits.
    pub until: Time,
}

impl Decision {
    /// The longest pause.
    pub const PAUSE_MAX: Nanos = Nanos(u16::MAX as u64);
    /// Nothing to run.
    pub const IDLE: Self = Self { run: None, kick: None, pause: Nanos::ZERO, held: false };

    /// The same, but asked again at this time at the latest.
    fn not_beyond(self, latest: Time) -> Self {
        let run = self.run.map(|lease| Lease { until: lease.until.min(latest), ..lease });
        Self { run, ..self }
    }

    /// This vCPU, up to this time.
    pub(crate) fn run(vcpu: VcpuId, until: Time) -> Self {
        Self { run: Some(Lease { vcpu, until }), ..Self::IDLE }
    }
}
