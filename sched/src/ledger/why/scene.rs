//! What all vCPUs did during one wait, and what follows.

use super::{Cause, Explanation, Link, Ran};
use crate::ids::{Slot, VcpuId};
use crate::ledger::event::{Event, What};
use crate::ledger::spans::{Began, Doing, Span, Spans};
use crate::time::{Nanos, Time};
use crate::wait::Wait;

/// The spans of all vCPUs during one wait.
#[derive(Debug)]
pub struct Scene {
    wait: Span,
    slots: usize,
    machine: Spans,
    /// Those that overlap with the wait, cut to it.
    spans: Vec<Span>,
    closed: Vec<Span>,
    /// When the slot asked that the policy named when the wait began.
    asked: Option<Time>,
}

/// What became of a slot's time.
#[derive(Debug, Clone, Copy, Default)]
struct OnSlot {
    /// vCPUs ran on it.
    ran: Nanos,
    /// The host took it.
    taken: Nanos,
}

impl Scene {
    /// For this wait, on so many slots.
    pub fn new(wait: Span, slots: usize) -> Self {
        let machine = Spans::new(slots);
        Self { wait, slots, machine, spans: Vec::new(), closed: Vec::new(), asked: None }
    }

    /// Takes the next event in, from the first on. False: what comes from here on does not matter.
    pub fn tell(&mut self, event: &Event) -> bool {
        if event.time > self.wait.to {
            return false;
        }
        self.machine.tell(event, &mut self.closed);
        if let What::Ask { slot, .. } = event.what
            && event.time > self.wait.from
            && self.named() == Some(slot)
        {
            self.asked.get_or_insert(event.time);
        }
        self.keep();
        true
    }

    /// What the wait was.
    pub fn explain(mut self) -> Explanation {
        self.machine.finish(&mut self.closed);
        self.keep();
        let ran = self.ran(self.wait.from, self.wait.to);
        let mut chain = Vec::new();
        let (cause, culprit) = self.judge(&mut chain);
        let all = Nanos(self.wait.time().0.saturating_mul(self.slots as u64));
        let busy: Nanos = ran.iter().map(|ran| ran.time).sum();
        let taken: Nanos = self.by_slot().iter().map(|slot| slot.taken).sum();
        Explanation { wait: self.wait, ran, free: all - busy - taken, taken, chain, cause, culprit }
    }

    fn keep(&mut self) {
        let (from, to) = (self.wait.from, self.wait.to);
        let cut = |span: Span| Span { from: span.from.max(from), to: span.to.min(to), ..span };
        self.spans.extend(self.closed.drain(..).map(cut).filter(|span| span.from < span.to));
    }

    /// The slot that was told when the wait began.
    fn named(&self) -> Option<Slot> {
        match self.wait.doing {
            Doing::Wait(Began::Woken(placement) | Began::Resumed(placement)) => placement.slot(),
            _ => None,
        }
    }

    fn judge(&self, chain: &mut Vec<Link>) -> (Cause, Option<VcpuId>) {
        if self.wait.doing == Doing::Wait(Began::HeldBack) {
            return (Cause::Cap, Some(self.wait.vcpu));
        }
        let (wait, most) = (self.wait, self.wait.time().0.div_ceil(2));
        // One that never asked meanwhile was later still.
        let latency = self.asked.unwrap_or(wait.to).since(wait.from);
        if let Some(slot) = self.named().filter(|_| latency.0 >= most) {
            return (Cause::Kick { slot, latency }, None);
        }
        let by_slot = self.by_slot();
        if let Some((slot, on)) = (0..).map(Slot).zip(&by_slot).max_by_key(|(_, on)| on.taken)
            && on.taken.0 >= most.max(on.ran.0)
        {
            return (Cause::Host { slot, time: on.taken }, None);
        }
        if let Some(culprit) = self.follow(wait, chain) {
            let lock = matches!(chain[0].wait, Wait::Lock(_));
            return (if lock { Cause::Lock } else { Cause::Message }, Some(culprit));
        }
        match self.ran_most(wait.from, wait.to) {
            Some((vcpu, _)) if by_slot.iter().any(|on| on.ran.0 >= most) => match wait.doing {
                Doing::Wait(Began::UsedUp) => (Cause::Quota, Some(wait.vcpu)),
                _ => (Cause::Turns, Some(vcpu)),
            },
            _ => (Cause::Nobody, None),
        }
    }

    /// Follows the chain: the vCPU that this one waited for, the one for which that vCPU waited, and so on. Returns
    /// the one at the end. `None`: it waited for no vCPU, or for one that made progress.
    fn follow(&self, wait: Span, chain: &mut Vec<Link>) -> Option<VcpuId> {
        let Doing::Wait(Began::Yielded(y)) = wait.doing else { return None };
        let (Wait::Lock(target) | Wait::Message(target)) = y.wait else { return None };
        let is_known = target == self.wait.vcpu || chain.iter().any(|link| link.target == target);
        let their = |doing: fn(&Doing) -> bool| {
            let those = self.within(wait.from, wait.to).filter(move |span| span.vcpu == target && doing(&span.doing));
            those.map(|span| span.time()).sum::<Nanos>()
        };
        let ran = their(|doing| matches!(doing, Doing::Run(_) | Doing::Taken(_)));
        let idled = their(|doing| matches!(doing, Doing::Idle));
        let waited = their(|doing| matches!(doing, Doing::Wait(_)));
        if is_known || ran + idled + waited == Nanos::ZERO {
            return None;
        }
        let is_wait = |span: &Span| span.vcpu == target && matches!(span.doing, Doing::Wait(_));
        let longest = self.within(wait.from, wait.to).filter(is_wait).max_by_key(Span::time);
        let began = longest.and_then(|span| match span.doing {
            Doing::Wait(began) => Some(began),
            _ => None,
        });
        if ran >= waited && ran >= idled {
            // It made progress, and nothing tells whether it still had what the other one wanted.
            return None;
        }
        chain.push(Link { waiter: wait.vcpu, wait: y.wait, target, waited, ran, idled, began });
        match longest {
            Some(Span { doing: Doing::Wait(Began::HeldBack), .. }) => Some(target),
            Some(theirs) if waited > ran && waited > idled => {
                self.follow(theirs, chain).or_else(|| self.ran_most(theirs.from, theirs.to).map(|(vcpu, _)| vcpu))
            }
            _ => Some(target),
        }
    }

    /// Spans within a part of the wait, cut to it.
    fn within(&self, from: Time, to: Time) -> impl Iterator<Item = Span> + '_ {
        let cut = move |span: &Span| Span { from: span.from.max(from), to: span.to.min(to), ..*span };
        self.spans.iter().map(cut).filter(|span| span.from < span.to)
    }

    /// What ran, and where, within a part of the wait: longest first. What the host takes divides no turn.
    fn ran(&self, from: Time, to: Time) -> Vec<Ran> {
        // With the end of what is known of the vCPU's last turn there.
        let mut ran: Vec<(Ran, Time)> = Vec::new();
        for span in self.within(from, to) {
            let (Doing::Run(slot) | Doing::Taken(slot)) = span.doing else { continue };
            let is_run = matches!(span.doing, Doing::Run(_));
            let at = ran.iter().position(|(ran, _)| (ran.vcpu, ran.slot) == (span.vcpu, slot)).unwrap_or(ran.len());
            if at == ran.len() {
                ran.push((Ran { vcpu: span.vcpu, slot, time: Nanos::ZERO, turns: 0 }, Time::NEVER));
            }
            let (known, ended) = &mut ran[at];
            known.turns += u64::from(*ended != span.from);
            known.time += if is_run { span.time() } else { Nanos::ZERO };
            *ended = span.to;
        }
        let mut ran: Vec<Ran> = ran.into_iter().map(|(ran, _)| ran).filter(|ran| ran.time > Nanos::ZERO).collect();
        ran.sort_by_key(|ran| (std::cmp::Reverse(ran.time), ran.vcpu, ran.slot));
        ran
    }

    /// The vCPU that ran longest on all slots within a part of the wait.
    fn ran_most(&self, from: Time, to: Time) -> Option<(VcpuId, Nanos)> {
        let ran = self.ran(from, to);
        let all_of = |vcpu| ran.iter().filter(|ran| ran.vcpu == vcpu).map(|ran| ran.time).sum::<Nanos>();
        ran.iter().map(|ran| (ran.vcpu, all_of(ran.vcpu))).max_by_key(|&(vcpu, time)| (time, std::cmp::Reverse(vcpu)))
    }

    /// What each slot did during the wait.
    fn by_slot(&self) -> Vec<OnSlot> {
        let mut slots = vec![OnSlot::default(); self.slots];
        for span in &self.spans {
            match span.doing {
                Doing::Run(slot) => slots[slot.index()].ran += span.time(),
                Doing::Taken(slot) => slots[slot.index()].taken += span.time(),
                Doing::Idle | Doing::Wait(_) => {}
            }
        }
        slots
    }
}
