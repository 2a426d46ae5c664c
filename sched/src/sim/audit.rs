//! What must hold of any policy, checked after every step. It looks at every vCPU each time: for tests.
//!
//! * no vCPU is on two slots, and no slot has two (the machine refuses both by itself); a vCPU that is picked was
//!   runnable;
//! * [`Policy::waiting`] is the number of runnable vCPUs without a slot;
//! * work conservation: no slot idles while a vCPU is queued in its shard, or for long in another one that it may
//!   leave, unless the slot has been told and is about to ask;
//! * a lease ends after now, and at most `longest_lease` later unless no vCPU waits;
//! * a vCPU that is held back is not picked, and an alarm is set for it;
//! * CPU time is conserved: what vCPUs ran is what slots were busy.

use super::machine::SimMachine;
use super::slot::SlotSim;
use super::vcpu::{Place, VcpuSim};
use crate::attributes::Class;
use crate::ids::VcpuId;
use crate::policy::{Decision, Policy, Why};
use crate::time::{Nanos, Time};
use std::collections::BTreeMap;

/// How long a vCPU may wait in one shard while a slot of another idles: what it takes to wake that slot.
const RELIEF: Nanos = Nanos::from_micros(100);

/// What a policy's answers are held against.
#[derive(Debug, Clone)]
pub(super) struct Audit {
    longest_lease: Nanos,
    /// Since when each idle slot leaves each vCPU waiting that another shard may let go.
    neglected: BTreeMap<(usize, usize), Time>,
}

impl Audit {
    /// Checks one answer; `waiting` as it is after it.
    pub(super) fn decision(&self, why: Why, decision: Decision, waiting: usize, now: Time) {
        match decision.run {
            Some(lease) => {
                let span = lease.until.since(now);
                assert!(lease.until > now, "{why:?}: a lease that has ended");
                let endless = waiting == 0;
                assert!(endless || span <= self.longest_lease, "{why:?}: a lease of {span:?}");
            }
            None => assert_eq!(waiting, 0, "{why:?}: idle while somebody waits"),
        }
    }
}

impl<P: Policy> SimMachine<P> {
    /// This machine, which panics as soon as the policy breaks a rule. No lease may be longer than `longest_lease`,
    /// except one without an end.
    pub fn audited(mut self, longest_lease: Nanos) -> Self {
        self.audit = Some(Audit { longest_lease, neglected: BTreeMap::new() });
        self
    }

    /// Whether an idle slot of another shard may take a queued vCPU. Class rt and vCPUs with a cap stay in their shard,
    /// and those that wait behind one with a cap wait until it runs.
    fn may_leave(&self, vcpu: &VcpuSim) -> bool {
        let of = |v: usize| self.ledger_of(v).attributes_of(VcpuId(v as u32)).unwrap_or_default();
        let waits_here = |(v, other): (usize, &VcpuSim)| {
            let is_it = std::ptr::eq(other, vcpu);
            let waits = other.place == Place::Queued && other.shard == vcpu.shard;
            (is_it && of(v).class == Class::Rt) || (waits && of(v).group.is_some())
        };
        !self.vcpus.iter().enumerate().any(waits_here)
    }

    /// What must hold between any two steps.
    pub(super) fn check(&mut self) {
        let waits = (0..self.vcpus.len()).filter(|&v| self.is_queued(v));
        let (held, queued) =
            waits.partition::<Vec<_>, _>(|&v| self.ledger_of(v).policy().throttled(VcpuId(v as u32), self.now).is_held);
        assert_eq!(self.shards.iter().map(|shard| shard.ledger.waiting()).sum::<usize>(), queued.len(), "waiting");
        let rings = |&v: &usize| self.ledger_of(v).alarm() != Time::NEVER;
        assert!(held.iter().all(rings), "nobody will let {held:?} go on");
        self.check_slots(&queued);
        let busy = |s: &SlotSim| {
            let so_far = if s.current.is_some() { self.now.since(s.busy_since) } else { Nanos::ZERO };
            (s.busy + so_far - s.told_taken).0
        };
        let ran: u64 = (0..self.vcpus.len()).map(|v| self.record(v).run.0).sum();
        assert_eq!(ran, self.slots.iter().map(busy).sum::<u64>(), "CPU time is conserved");
    }

    /// Of these queued vCPUs none waits beside an idle slot of its shard, nor for long beside another idle slot.
    fn check_slots(&mut self, queued: &[usize]) {
        let mut neglected = BTreeMap::new();
        for (i, s) in self.slots.iter().enumerate() {
            let told = s.told != Time::NEVER || s.asks.is_some();
            if let Some(v) = s.current {
                assert_eq!(self.vcpus[v].place, Place::On(i));
                continue;
            }
            let placed = self.vcpus.iter().any(|v| v.place == Place::Placed(i));
            assert!(!placed || told, "slot {i} was not told of the vCPU placed on it");
            if placed || told {
                continue;
            }
            for &v in queued {
                let vcpu = &self.vcpus[v];
                let here = vcpu.shard == self.shard_of(i);
                if here || self.may_leave(vcpu) {
                    let since = self.audit.as_ref().and_then(|audit| audit.neglected.get(&(i, v)).copied());
                    let for_long = self.now.since(*neglected.entry((i, v)).or_insert(since.unwrap_or(self.now)));
                    let at = self.now.0;
                    assert!(!here && for_long <= RELIEF, "slot {i} idles at {at} ns, v{v} waits for {for_long:?}");
                }
            }
        }
        self.audit.iter_mut().for_each(|audit| audit.neglected = std::mem::take(&mut neglected));
    }
}
