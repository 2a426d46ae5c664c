//! The contract of a policy: the questions that a driver asks.

use super::decision::{Decision, Placement, Resumed, Throttled, Why};
use super::yield_counts::YieldCounts;
use crate::attributes::Attributes;
use crate::ids::{Slot, VcpuId};
use crate::time::{Nanos, Time};

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
    /// ([`Why::Free`]), and the other goes back to its place in the run queue. Only among equals, and never where class rt is
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
