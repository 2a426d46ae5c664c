//! The run queue: the place of each queued vCPU, and the one that is next.

use super::limits::{DEEPEST, LAG};
use super::matrix::Stair;
use super::state::Rsdl;
use crate::attributes::Class;
use crate::ids::{Slot, VcpuId};
use crate::policy::prefetch::prefetch;
use crate::policy::queue::{Kind, WINDOW};
use crate::time::Nanos;

/// Where a vCPU joins the run queue.
#[derive(Debug, Clone, Copy)]
pub(super) enum Join {
    /// Behind all others of its stair, or of this one if that is further down.
    Tail(Stair),
    /// As [`Tail`](Self::Tail), but it keeps its place in the order of time, and runs after those that did not look in
    /// vain.
    InVain(Stair),
    /// Where it stood before it ran, if it is still on that stair.
    OldPlace,
}

impl Rsdl {
    /// Puts a vCPU that is neither queued nor running into the run queue.
    pub(super) fn enqueue(&mut self, vcpu: VcpuId, join: Join) {
        let lowest = self.served - LAG;
        self.catch_up(vcpu, lowest.min(self.clock.stair().saturating_sub(LAG)));
        let v = self.vcpu(vcpu);
        v.on = None;
        let kind = if v.waits { Kind::Waiting } else { Kind::Computing };
        let stair = match join {
            Join::Tail(at_least) | Join::InVain(at_least) => v.stair.max(at_least).clamp(lowest, lowest + WINDOW - 1),
            Join::OldPlace => v.stair.clamp(lowest, lowest + WINDOW - 1),
        };
        v.queued_on = stair;
        match v.class {
            Class::Rt => self.rt.push(vcpu, 0, kind),
            Class::Idle => self.idlers.push(vcpu, 0, kind),
            Class::Normal | Class::Batch => match join {
                Join::OldPlace => self.queue.push_at(vcpu, stair, kind, self.queue.place(vcpu)),
                Join::InVain(_) => self.queue.push_in_vain(vcpu, stair),
                Join::Tail(_) => self.queue.push(vcpu, stair, kind),
            },
        }
    }

    /// Takes a vCPU out of the run queue. False: it is not in it.
    pub(super) fn dequeue(&mut self, vcpu: VcpuId) -> bool {
        let queue = [&mut self.queue, &mut self.rt, &mut self.idlers].into_iter().find(|queue| queue.contains(vcpu));
        queue.map(|queue| queue.remove(vcpu)).is_some()
    }

    /// Takes the next vCPU out of the run queue to run on this slot. The served stair moves on to where it stands, but
    /// not past `at_most`, where a vCPU stands that lets it through.
    pub(super) fn pick(&mut self, slot: Slot, at_most: Stair) -> Option<VcpuId> {
        if let Some((vcpu, _)) = self.rt.head()
            && (self.rt_may_run(slot) || self.queue.len() == 0)
        {
            self.rt.remove(vcpu);
            return Some(vcpu);
        }
        let Some((vcpu, stair)) = self.head_after_minor_rotations() else {
            let (vcpu, _) = self.idlers.head()?;
            self.idlers.remove(vcpu);
            return Some(vcpu);
        };
        self.serve(stair.min(at_most));
        self.take(vcpu);
        let v = self.vcpu(vcpu);
        if stair > v.queued_on {
            // Pushed down by a minor rotation, to stay there.
            v.stair = v.stair.max(stair);
        }
        Some(vcpu)
    }

    /// Takes a vCPU out of the staircase, and asks for the state of the vCPU that comes two decisions later: among many
    /// vCPUs it is in no near cache, and one decision is too short to fetch it.
    pub(super) fn take(&mut self, vcpu: VcpuId) {
        if let Some(later) = self.queue.second_behind(vcpu) {
            prefetch(&self.vcpus[later.index()]);
        }
        self.queue.remove(vcpu);
    }

    fn head_after_minor_rotations(&mut self) -> Option<(VcpuId, Stair)> {
        loop {
            let (vcpu, stair) = self.queue.head()?;
            let exhausted = self.budgets.as_ref().is_some_and(|budgets| budgets.is_exhausted(stair));
            if !exhausted || stair >= self.served + DEEPEST {
                return Some((vcpu, stair));
            }
            self.queue.push_down(stair);
            // A vCPU with a quota left there brings it along.
            let left = self.quota_left(vcpu);
            self.grant(stair + 1, left);
        }
    }

    /// The served stair moves on. vCPUs that are queued below it move up to it.
    pub(super) fn serve(&mut self, stair: Stair) {
        while self.served < stair {
            if let Some(budgets) = &mut self.budgets {
                budgets.forget(self.served - LAG);
            }
            self.served += 1;
            self.sleepers.pass();
        }
        self.queue.raise_floor(self.served - LAG);
    }

    /// Whether class rt may still use this slot.
    pub(super) fn rt_may_run(&mut self, slot: Slot) -> bool {
        let now = self.clock.now();
        self.slots[slot.index()].rt_budget.left(now) > Nanos::ZERO
    }
}
