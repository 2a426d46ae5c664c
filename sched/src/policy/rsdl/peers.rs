//! Guesses which vCPU a yield without a hint waits for.
//!
//! Two vCPUs that talk to each other make progress only side by side, and then run for long without a yield. Each vCPU
//! beside which one did so gets a vote: its peer is among them every time, all others by chance. One candidate and a
//! count find a majority (Boyer and Moore, MJRTY, 1981; "A fast majority vote algorithm"). Lockers, which need all
//! others in turn, find none. Nor does a vCPU that makes progress alone for as long as it computes beside others in
//! turn.

use super::limits::{STAYS, WORKS};
use super::peer::Peer;
use super::state::Rsdl;
use crate::ids::{Slot, VcpuId};
use crate::time::Time;

impl Rsdl {
    /// The vCPU on a slot is about to leave it, or to wait: if it ran for long, it votes.
    pub(super) fn votes(&mut self, slot: Slot, current: VcpuId, now: Time) {
        if now.since(self.slots[slot.index()].since) < WORKS {
            return;
        }
        let Peer { candidate, .. } = self.vcpu(current).peer;
        let beside = candidate.is_some_and(|peer| self.runs_for_long(peer, now));
        let next = &self.slots[(slot.index() + 1) % self.slots.len()];
        let other = next.current.filter(|&other| other != current && self.runs_for_long(other, now));
        self.vcpu(current).peer.vote(beside, other);
    }

    /// The vCPU that a yield without a hint waits for, as far as is known. It is asked for as often as a vCPU that
    /// names its peer may go on in vain; then no peer is known.
    pub(super) fn guess_peer(&mut self, current: VcpuId) -> Option<VcpuId> {
        let v = self.vcpu(current);
        if v.stays == STAYS {
            // Once for each time.
            v.stays += 1;
            v.peer.in_vain();
        }
        v.peer.known()
    }

    fn runs_for_long(&self, vcpu: VcpuId, now: Time) -> bool {
        let on = self.vcpus.get(vcpu.index()).and_then(Option::as_ref).and_then(|v| v.on);
        on.is_some_and(|slot| {
            let s = &self.slots[slot.index()];
            s.current == Some(vcpu) && now.since(s.since) >= WORKS
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::Attributes;
    use crate::policy::contract::Policy;
    use crate::policy::decision::{Decision, Why};
    use crate::policy::rsdl::config::{RsdlConfig, YieldRule};
    use crate::policy::rsdl::polite_switches::PoliteSwitches;
    use crate::time::Nanos;
    use crate::wait::{Wait, Yield};

    const SLOTS: [Slot; 2] = [Slot(0), Slot(1)];
    const A: VcpuId = VcpuId(0);
    const C: VcpuId = VcpuId(2);

    /// What A is told when it yields and says nothing while B queues, having run beside B, the other one, for so many
    /// leases.
    fn told_after(leases: usize, guess_peer: bool) -> Decision {
        let yield_rule = YieldRule::Polite(PoliteSwitches { guess_peer, forgive: false, ..PoliteSwitches::default() });
        let mut policy = Rsdl::new(RsdlConfig { yield_rule, ..RsdlConfig::default() }, 2);
        for vcpu in (0..4).map(VcpuId) {
            policy.add(vcpu, Attributes::default(), Time(0));
            let _ = policy.wake(vcpu, Time(0));
        }
        let mut now = Time(1);
        let mut on = SLOTS.map(|slot| policy.next(slot, Why::Free, now).run.unwrap());
        // Two and two in turn; then C makes room for A while its neighbour runs on.
        for _ in 0..2 * leases - 1 {
            now = on[0].until.max(on[1].until);
            on = SLOTS.map(|slot| policy.next(slot, Why::Check, now).run.unwrap());
        }
        assert_eq!(on[0].vcpu, C);
        now = now + Nanos::from_millis(1);
        assert_eq!(policy.next(SLOTS[0], Why::Block, now).run.unwrap().vcpu, A);
        now = now + Nanos::from_micros(10);
        policy.next(SLOTS[0], Why::Yield(Yield { wait: Wait::Unknown, again: false }), now)
    }

    #[test]
    fn who_was_always_there_is_fetched_by_a_yield_that_names_nobody() {
        let fetches = |decision: Decision| decision.kick == Some(SLOTS[1]) && decision.run.unwrap().vcpu == A;
        assert!(fetches(told_after(6, true)));
        assert!(!fetches(told_after(1, true)), "once may be chance");
        assert!(!fetches(told_after(6, false)));
    }

    #[test]
    fn who_is_there_most_of_the_time_is_found_and_nobody_else() {
        let others = |n: u32| (0..n).map(VcpuId);
        let mut peer = Peer::default();
        let meet = |peer: &mut Peer, other: VcpuId| peer.vote(peer.candidate == Some(other), Some(other));
        for other in others(3).chain(others(3)).cycle().take(300) {
            meet(&mut peer, other);
            assert_eq!(peer.known(), None);
        }
        for _ in 0..Peer::SURE + 1 {
            meet(&mut peer, VcpuId(7));
        }
        assert_eq!(peer.known(), Some(VcpuId(7)));
        meet(&mut peer, VcpuId(1));
        peer.in_vain();
        assert_eq!(peer.known(), None);
    }
}
