//! Balancing the load of two run queues: a vCPU is pushed, pulled, or swapped for another.

use super::heaps::Rank;
use super::load::{Average, ONE};
use super::runqueue::MOST_SLOTS;
use super::{Credit2, LOOK};
use crate::ids::{Slot, VcpuId};
use crate::time::Time;

/// Difference that is left alone while there are fewer vCPUs than slots. Xen: credit2_balance_under.
const UNDERLOAD_TOLERANCE: Average = ONE;
/// Difference that is left alone otherwise. Xen: credit2_balance_over.
const OVERLOAD_TOLERANCE: Average = ONE / 8;

/// A queued vCPU that may be moved, and its load; or none.
type Mover = Option<(VcpuId, Average)>;

impl Credit2 {
    /// Balances a run queue with the one of the next eight that differs most in load. Names a slot that must be made to
    /// ask for a vCPU that was moved.
    pub(super) fn balance(&mut self, queue: usize, now: Time) -> Option<Slot> {
        let count = self.queues.len();
        self.queues[queue].load.update(now);
        let own = self.queues[queue].load.average();
        let mut furthest: Option<(Average, usize)> = None;
        for other in (queue + 1..queue + count).take(LOOK).map(|other| other % count) {
            self.queues[other].load.update(now);
            let apart = own.abs_diff(self.queues[other].load.average());
            if furthest.is_none_or(|(most, _)| apart > most) {
                furthest = Some((apart, other));
            }
        }
        let (apart, other) = furthest?;
        let theirs = self.queues[other].load.average();
        let slots = self.queues[queue].slots.len().max(self.queues[other].slots.len());
        let underload = own.max(theirs) < slots as u64 * ONE;
        if apart < if underload { UNDERLOAD_TOLERANCE } else { OVERLOAD_TOLERANCE } {
            return None;
        }
        let (push, pull) = best_exchange([own, theirs], &self.movers(queue, now), &self.movers(other, now));
        let pushed = push.and_then(|(vcpu, _)| self.hand_over(vcpu, other, now));
        let pulled = pull.and_then(|(vcpu, _)| self.hand_over(vcpu, queue, now));
        pushed.or(pulled)
    }

    /// The vCPUs that may be moved from a run queue: none, or the first that is queued on a slot.
    fn movers(&mut self, queue: usize, now: Time) -> [Mover; MOST_SLOTS + 1] {
        let mut movers = [None; MOST_SLOTS + 1];
        // The last place stays empty: whatever else is moved may be moved alone.
        for (mover, &slot) in movers.iter_mut().zip(&self.queues[queue].slots) {
            let first = self.heaps.first(slot).filter(|(place, _)| place.rank == Rank::Credit);
            if let Some((vcpu, v)) = first.and_then(|(_, vcpu)| Some((vcpu, self.vcpus[vcpu.index()].as_mut()?))) {
                v.load.update(now);
                *mover = Some((vcpu, v.load.average()));
            }
        }
        movers
    }

    /// Moves a queued vCPU to another run queue; the slot it preempts there.
    fn hand_over(&mut self, vcpu: VcpuId, to: usize, now: Time) -> Option<Slot> {
        self.dequeue(vcpu);
        self.migrate(vcpu, to, now);
        self.vcpu_mut(vcpu).home = self.queues[to].home();
        self.enqueue(vcpu);
        self.victim(vcpu, now)
    }
}

/// Which vCPU to push and which to pull, so that these loads, the own one and the other, differ least.
fn best_exchange([own, theirs]: [Average; 2], push: &[Mover], pull: &[Mover]) -> (Mover, Mover) {
    let load = |mover: Mover| mover.map_or(0, |(_, load)| load);
    let (mut best, mut least) = ((None, None), own.abs_diff(theirs));
    for &out in push {
        for &back in pull {
            let apart = (own + 2 * load(back)).abs_diff(theirs + 2 * load(out));
            if apart < least {
                (best, least) = ((out, back), apart);
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mover(vcpu: u32, load: Average) -> Mover {
        Some((VcpuId(vcpu), load))
    }

    #[test]
    fn the_exchange_that_leaves_the_least_difference_is_taken() {
        let (light, heavy) = (mover(0, ONE / 4), mover(1, ONE));
        let of = |own, theirs, push: &[Mover], pull: &[Mover]| best_exchange([own, theirs], push, pull);
        assert_eq!(of(4 * ONE, 2 * ONE, &[light, heavy, None], &[None]), (heavy, None), "a push");
        assert_eq!(of(2 * ONE, 4 * ONE, &[None], &[light, heavy, None]), (None, heavy), "a pull");
        let other = mover(2, ONE / 2);
        assert_eq!(of(3 * ONE, 2 * ONE, &[light, heavy, None], &[other, None]), (heavy, other), "a swap");
        assert_eq!(of(3 * ONE, 2 * ONE, &[heavy, None], &[None]), (None, None), "it would turn the difference round");
    }
}
