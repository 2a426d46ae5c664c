//! Rules that schedulers have had, each as small a policy as shows what was wrong with it.

use crate::attributes::Attributes;
use crate::ids::{Slot, VcpuId};
use crate::policy::{Decision, Placement, Policy, Why};
use crate::time::{Nanos, Time};
use crate::wait::Wait;
use std::collections::VecDeque;

const QUOTA: Nanos = Nanos::from_millis(6);

/// How a yield goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    /// The yielder stands right behind the next one, with what it has not used.
    BehindNext,
    /// The vCPU that the yielder names runs next, with a whole quota, as often as it is named.
    UnboundedDirection,
}

/// One run queue, a quota each, and a flawed yield.
#[derive(Debug)]
pub(super) struct FlawedQueue {
    flaw: Flaw,
    queue: VecDeque<VcpuId>,
    left: Vec<Nanos>,
    current: Vec<Option<VcpuId>>,
    charged: Vec<Time>,
}

impl FlawedQueue {
    pub(super) fn new(flaw: Flaw, slots: usize) -> Self {
        let (queue, left) = (VecDeque::new(), Vec::new());
        Self { flaw, queue, left, current: vec![None; slots], charged: vec![Time(0); slots] }
    }

    fn install(&mut self, slot: usize, vcpu: Option<VcpuId>, now: Time) -> Decision {
        (self.current[slot], self.charged[slot]) = (vcpu, now);
        vcpu.map_or(Decision::IDLE, |v| Decision::run(v, now + self.left[v.index()]))
    }

    fn yields(&mut self, slot: usize, current: VcpuId, wait: Wait, now: Time) -> Decision {
        let named = match wait {
            Wait::Lock(v) | Wait::Message(v) => self.queue.iter().position(|&queued| queued == v),
            Wait::Unknown | Wait::Spin => None,
        };
        let next = match (self.flaw, named) {
            (Flaw::UnboundedDirection, Some(at)) => self.queue.remove(at),
            _ => self.queue.pop_front(),
        };
        let Some(next) = next else { return self.install(slot, Some(current), now) };
        match self.flaw {
            Flaw::BehindNext => self.queue.push_front(current),
            Flaw::UnboundedDirection => {
                self.queue.push_back(current);
                self.left[next.index()] = QUOTA;
            }
        }
        self.install(slot, Some(next), now)
    }
}

impl Policy for FlawedQueue {
    fn add(&mut self, vcpu: VcpuId, _: Attributes, _: Time) {
        self.left.resize(self.left.len().max(vcpu.index() + 1), QUOTA);
    }

    fn remove(&mut self, vcpu: VcpuId) {
        self.queue.retain(|&v| v != vcpu);
    }

    fn wake(&mut self, vcpu: VcpuId, _: Time) -> Placement {
        if let Some(slot) = self.current.iter().position(Option::is_none) {
            self.current[slot] = Some(vcpu);
            return Placement::Run(Slot(slot as u16));
        }
        self.queue.push_back(vcpu);
        Placement::Queue(None)
    }

    fn next(&mut self, slot: Slot, why: Why, now: Time) -> Decision {
        let slot = slot.index();
        let Some(current) = self.current[slot] else {
            let next = self.queue.pop_front();
            return self.install(slot, next, now);
        };
        if why == Why::Free {
            return self.install(slot, Some(current), now);
        }
        let left = &mut self.left[current.index()];
        *left = left.saturating_sub(now.since(self.charged[slot]));
        let over = *left == Nanos::ZERO;
        if over {
            *left = QUOTA;
        }
        match why {
            Why::Yield(y) if !over => return self.yields(slot, current, y.wait, now),
            Why::Block | Why::Retire => {}
            _ if over => self.queue.push_back(current),
            _ => return self.install(slot, Some(current), now),
        }
        let next = self.queue.pop_front();
        self.install(slot, next, now)
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}

/// SD's walk of an epoch over the levels of a row: a task that expires is queued at its first level, but the level is
/// not marked as used. Returns the quotas granted in an epoch once that has happened.
pub(super) fn quotas_of_an_epoch(levels: &[u64]) -> usize {
    // Queued at the first level, unmarked: a grant.
    let mut grants = 1;
    let mut used = Vec::new();
    while let Some(&level) = levels.iter().find(|level| !used.contains(*level)) {
        used.push(level);
        grants += 1;
    }
    grants
}
