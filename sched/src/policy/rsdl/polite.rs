//! The polite yield: let the next one through without going to the back of the run queue.
//!
//! A yield never gains its vCPU CPU time: the vCPU that runs is charged. It never costs CPU time either: the vCPU stays
//! on its stair. The hint decides which vCPU goes next, as long as that is fair: no vCPU is let past the head of the
//! queue from more than two stairs further down, so directing yields past the head gains at most that much.
//!
//! 1. *Lock, holder queued*: the holder goes next and the lease's end stays, so that a chain of yields ends when the
//!    first lease ends. A holder of class idle runs at the yielder's cost.
//! 2. *Lock, holder running* (or out of reach): the first queued vCPU that does not itself wait for another goes next,
//!    else the head, with a new lease. Letting in another waiter would only make it yield as well.
//! 3. *Message, peer running*: the vCPU goes on, at most `STAYS` times in a row: an answer is nearer than a switch. One
//!    of the two pauses first, lest they look at each other in turns. *Peer queued*: it takes another slot, whose vCPU
//!    is evicted to its place in the queue, and both leases end together: two vCPUs that talk to each other make
//!    progress only side by side. No vCPU is evicted that was evicted before and has not had its turn since, is half of
//!    such a pair itself, or has less than `WORTH` of its lease left; then as 1.
//! 4. *Nothing known*: as in 3, if there is a vCPU beside which it used to make progress (`peers.rs`). Else forgiven,
//!    as often in a row as it has paid lately: twice as often after each time that the vCPU made progress by it, half
//!    as often after it did not. Else the vCPU goes behind all others of its stair and the head's. Then the head runs
//!    or, if the head only waits as well, the vCPU that is most likely to make progress (`silent.rs`). A vCPU that was
//!    seen spinning is not forgiven: it has spun for long, and whether it made progress is known. Going just behind the
//!    head instead makes the two front vCPUs swap, while a third, which holds what they both want, starves.
//!
//! A vCPU that yields *again* in the same wait goes back to its old place in the run queue, the first time to the tail
//! of its stair.

use super::limits::{REACH, STAYS, WORTH};
use super::polite_switches::PoliteSwitches;
use super::run_queue::Join;
use super::state::Rsdl;
use crate::attributes::Class;
use crate::ids::{Slot, VcpuId};
use crate::policy::decision::Decision;
use crate::policy::queue::Kind;
use crate::time::{Nanos, Time};
use crate::wait::{Wait, Yield};

/// A yield while others wait.
#[derive(Clone, Copy)]
struct Yielding {
    switches: PoliteSwitches,
    slot: Slot,
    /// The vCPU that yields.
    vcpu: VcpuId,
    /// Not its first yield of this wait.
    again: bool,
    now: Time,
}

impl Rsdl {
    /// A yield while others wait, within the lease.
    pub(super) fn polite(
        &mut self,
        switches: PoliteSwitches,
        slot: Slot,
        current: VcpuId,
        y: Yield,
        now: Time,
    ) -> Decision {
        self.votes(slot, current, now);
        let yielding = Yielding { switches, slot, vcpu: current, again: y.again, now };
        match y.wait {
            Wait::Lock(holder) => self.waits_for_lock(yielding, holder),
            Wait::Message(peer) => self.waits_for_message(yielding, peer),
            Wait::Unknown => self.waits_for_unknown(yielding),
            Wait::Spin => self.spun(yielding),
        }
    }

    /// Rules 1 and 2: the yield names the holder of a lock.
    fn waits_for_lock(&mut self, yielding: Yielding, holder: VcpuId) -> Decision {
        let Yielding { switches, slot, vcpu, now, .. } = yielding;
        if switches.pair_lockers
            && !switches.strict
            && self.waits_for(holder) == Some(vcpu)
            && let Some(decision) = self.side_by_side(switches, slot, vcpu, holder, now)
        {
            return decision;
        }
        self.make_way(yielding, holder)
    }

    /// Rule 3: the yield names the peer whose message it waits for.
    fn waits_for_message(&mut self, yielding: Yielding, peer: VcpuId) -> Decision {
        let Yielding { switches, slot, vcpu, now, .. } = yielding;
        let runs = self.runs(peer);
        if runs && switches.stay_with_running_peer && !switches.strict && self.vcpu(vcpu).stays < STAYS {
            return self.meets(switches, slot, vcpu, peer);
        }
        if !runs
            && switches.evict_for_peer
            && !switches.strict
            && let Some(other) = self.evictable(slot, peer, now)
        {
            return self.evict(slot, vcpu, other, peer, now);
        }
        self.make_way(yielding, peer)
    }

    /// Rule 4: the yield names nothing.
    fn waits_for_unknown(&mut self, yielding: Yielding) -> Decision {
        let Yielding { switches, slot, vcpu, now, .. } = yielding;
        if switches.guess_peer
            && let Some(peer) = self.guess_peer(vcpu)
        {
            return self.waits_for_message(yielding, peer);
        }
        let v = self.vcpu(vcpu);
        if switches.forgive && !switches.strict && v.stays < v.patience {
            return self.stay(slot, vcpu);
        }
        if v.stays > 0 {
            v.patience = (v.patience / 2).max(1);
        }
        let got_on = self.got_on(slot, vcpu) || !switches.order_by_progress;
        self.says_nothing(slot, vcpu, got_on, now)
    }

    /// Rule 4, for a vCPU that was seen spinning.
    fn spun(&mut self, yielding: Yielding) -> Decision {
        let Yielding { switches, slot, vcpu, again, now } = yielding;
        self.says_nothing(slot, vcpu, !again || !switches.order_by_progress, now)
    }

    /// Another vCPU gets the slot: the target if it is in reach, else one that computes, else the head.
    fn make_way(&mut self, yielding: Yielding, target: VcpuId) -> Decision {
        let Yielding { switches, slot, vcpu, again, now } = yielding;
        self.mark_waiting(vcpu, Some(target));
        if switches.directed && self.in_reach(slot, target) {
            let lease_end = self.lends_until(slot, vcpu, target, now);
            let lends = self.vcpu(target).class == Class::Idle;
            self.dequeue(target);
            self.put_back(switches, vcpu, again);
            let decision = self.install(slot, target, lease_end, now);
            self.slots[slot.index()].lender = lends.then_some(vcpu);
            return decision;
        }
        self.pulls_for_yield(slot, vcpu);
        let next = if switches.prefer_computing { self.first_computing(slot) } else { None };
        let at_most = self.vcpu(vcpu).stair;
        let Some(next) = next.or_else(|| self.pick(slot, at_most)) else { return self.go_on(slot, vcpu) };
        self.put_back(switches, vcpu, again);
        self.install_fresh(slot, next, now)
    }

    /// A slot that a queued peer may take.
    fn evictable(&mut self, slot: Slot, peer: VcpuId, now: Time) -> Option<Slot> {
        if !self.in_reach(slot, peer) || self.vcpu(peer).class == Class::Idle {
            return None;
        }
        let home = self.home(peer);
        let next = Slot(((slot.index() + 1) % self.slots.len()) as u16);
        let other = if home == slot { next } else { home };
        let s = &self.slots[other.index()];
        let holder = s.current?;
        let saves = s.endless || now + WORTH <= s.lease_end;
        let free = other != slot && !s.paired && s.reserved.is_none() && saves;
        (free && !self.vcpu(holder).protected).then_some(other)
    }

    /// The peer is to take the other slot, and the vCPU goes on meanwhile.
    fn evict(&mut self, slot: Slot, current: VcpuId, other: Slot, peer: VcpuId, now: Time) -> Decision {
        let lease_end = self.lends_until(slot, current, peer, now);
        self.dequeue(peer);
        self.moves(peer, other);
        self.vcpu(peer).on = Some(other);
        self.slots[slot.index()].paired = true;
        self.slots[other.index()].reserved = Some((peer, lease_end));
        self.reserving.insert(other);
        self.reserved += 1;
        // The peer has yet to arrive: what was in vain before it came says nothing.
        self.vcpu(current).stays = 0;
        Decision { kick: Some(other), ..self.stay(slot, current) }
    }

    /// Ends a slot's reservation. Returns the vCPU that had it, and until when.
    pub(super) fn take_reservation(&mut self, slot: Slot) -> Option<(VcpuId, Time)> {
        let reservation = self.slots[slot.index()].reserved.take()?;
        self.reserving.remove(slot);
        self.reserved -= 1;
        Some(reservation)
    }

    /// A slot that would idle takes a vCPU that waits for another slot; then no vCPU need be evicted there.
    pub(super) fn take_over(&mut self, slot: Slot, now: Time) -> Decision {
        let reserved = self.reserving.first().and_then(|other| self.take_reservation(other));
        let (peer, lease_end) = reserved.expect("the set of reserved slots is as large as its count");
        self.install_pair(slot, peer, lease_end, now)
    }

    /// The peer arrives on its slot.
    pub(super) fn install_pair(&mut self, slot: Slot, peer: VcpuId, lease_end: Time, now: Time) -> Decision {
        // The slot may ask late.
        let left = self.time_left(peer);
        let lease_end = if lease_end > now { lease_end } else { now + left };
        let decision = self.install(slot, peer, lease_end, now);
        self.slots[slot.index()].paired = true;
        self.vcpu(peer).stays = 0;
        decision
    }

    /// Goes on beside its peer. Where an exit takes longer than a look, two can miss each other for as long as their
    /// leases last, each outside while the other looks. So one of the two stays outside longer, by a quarter of a turn,
    /// which is a look and an exit: it moves through the other's turn in four steps, none of which passes over a look
    /// that takes an eighth of a turn or more.
    fn meets(&mut self, switches: PoliteSwitches, slot: Slot, current: VcpuId, peer: VcpuId) -> Decision {
        let s = &self.slots[slot.index()];
        let turn = s.charged.since(s.since);
        let quarter = Nanos(turn.0 / 4);
        let pauses = switches.break_lockstep && current < peer && quarter <= Decision::PAUSE_MAX;
        let pause = if pauses { quarter } else { Nanos::ZERO };
        let decision = self.stay(slot, current);
        // The next turn begins after it, or turns and pauses would grow by each other.
        let s = &mut self.slots[slot.index()];
        s.since = s.since + pause;
        Decision { pause, ..decision }
    }

    fn stay(&mut self, slot: Slot, current: VcpuId) -> Decision {
        self.vcpu(current).stays += 1;
        // Asking is not working.
        let s = &mut self.slots[slot.index()];
        s.since = s.charged;
        self.go_on(slot, current)
    }

    /// Two that wait for each other's lock make progress only together.
    fn side_by_side(
        &mut self,
        switches: PoliteSwitches,
        slot: Slot,
        current: VcpuId,
        holder: VcpuId,
        now: Time,
    ) -> Option<Decision> {
        if self.runs(holder) {
            return (self.vcpu(current).stays < STAYS).then(|| self.meets(switches, slot, current, holder));
        }
        let other = self.evictable(slot, holder, now)?;
        // A third one that waits, perhaps for one of the two, would only be let in again.
        let third = self.slots[other.index()].current?;
        if self.vcpu(third).waits {
            return None;
        }
        self.mark_waiting(current, Some(holder));
        Some(self.evict(slot, current, other, holder, now))
    }

    /// Until when a named vCPU may run: as long as the one that yields might. A lease of class rt is as long as the
    /// slot's budget, and what runs on the staircase has none of that: it has no more than a lease of its own.
    fn lends_until(&mut self, slot: Slot, vcpu: VcpuId, target: VcpuId, now: Time) -> Time {
        let lease_end = self.slots[slot.index()].lease_end;
        match (self.vcpu(vcpu).class, self.vcpu(target).class) {
            (Class::Rt, Class::Normal | Class::Batch) => lease_end.min(now + self.lease_of(slot, target, now)),
            _ => lease_end,
        }
    }

    /// The vCPU that a named vCPU last waited for.
    fn waits_for(&self, vcpu: VcpuId) -> Option<VcpuId> {
        self.vcpus.get(vcpu.index())?.as_ref()?.waited_for
    }

    pub(super) fn mark_waiting(&mut self, vcpu: VcpuId, target: Option<VcpuId>) {
        let v = self.vcpu(vcpu);
        (v.waits, v.waited_for, v.protected) = (true, target, false);
    }

    fn put_back(&mut self, switches: PoliteSwitches, vcpu: VcpuId, again: bool) {
        self.enqueue(vcpu, if again && switches.keep_place { Join::OldPlace } else { Join::Tail(0) });
    }

    /// Whether a vCPU the guest named is on a slot. The guest may name one that has ended.
    fn runs(&self, vcpu: VcpuId) -> bool {
        self.vcpus.get(vcpu.index()).and_then(Option::as_ref).is_some_and(|v| v.on.is_some())
    }

    /// Whether a vCPU the guest named is queued and may be let past the head.
    fn in_reach(&self, slot: Slot, vcpu: VcpuId) -> bool {
        let Some(Some(v)) = self.vcpus.get(vcpu.index()) else { return false };
        let q = &self.queues[slot];
        let head = q.staircase.lowest().unwrap_or(0).max(q.served);
        self.nodes.contains(vcpu)
            && match v.class {
                Class::Rt => false,
                Class::Idle => true,
                Class::Normal | Class::Batch => v.queued_on <= head + REACH,
            }
    }

    /// Takes the first vCPU that computes out of the queue, if it may be let past the head.
    fn first_computing(&mut self, slot: Slot) -> Option<VcpuId> {
        let q = &self.queues[slot];
        let (vcpu, stair) = q.staircase.head_of(Kind::Computing)?;
        if stair > q.staircase.lowest()?.max(q.served) + REACH {
            return None;
        }
        self.take(vcpu);
        Some(vcpu)
    }
}
