//! A machine made of a clock, that runs scripted guests under any policy.
//!
//! It drives a policy exactly as the executors do (fast path for yields while nobody waits, stamps and kicks, a timer
//! per slot for the lease's end and for the deadlines the slot watches; slot 0 watches the alarm), but time is a number: a run is a function of
//! its arguments. After every answer it checks what must hold of any policy:
//!
//! * no vCPU on two slots, no slot with two; who is picked was runnable and placed nowhere else;
//! * [`Policy::waiting`] is the number of runnable vCPUs without a slot;
//! * work conservation: no slot idles while somebody is queued, unless it has been told and is about to ask;
//! * a lease ends after now, and at most `longest_lease` later unless nobody waits;
//! * who is held back is not picked, and an alarm is set for it;
//! * CPU time is conserved: what vCPUs ran is what slots were busy.
//!
//! It does not model caches, nor the lock of the executors.

pub(super) mod guest;
pub(super) mod old;

use super::{Decision, Placement, Policy, Why};
use crate::domain::Attributes;
use crate::{Nanos, Nice, Slot, Time, VcpuId, Yield};
use guest::{Guest, Step, World};
use std::collections::BTreeSet;

/// What things cost (units: ns).
#[derive(Debug, Clone, Copy)]
pub(super) struct Costs {
    /// An exit and the return to a guest.
    pub(super) exit: Nanos,
    /// On top of it, if it returns to another vCPU.
    pub(super) switch: Nanos,
    /// From a stamp to the exit it causes, or from waking an idle slot to its question.
    pub(super) kick: Nanos,
}

impl Default for Costs {
    fn default() -> Self {
        Self { exit: Nanos(1_500), switch: Nanos(1_000), kick: Nanos(5_000) }
    }
}

/// What became of a vCPU.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Record {
    pub(super) run: Nanos,
    /// From runnable without a slot until on one, at most.
    pub(super) longest_wait: Nanos,
    /// Times it was put on a slot.
    pub(super) turns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Blocked,
    Queued,
    /// On an idle slot that has not asked yet.
    Placed(usize),
    On(usize),
}

struct VcpuSim {
    guest: Guest,
    step: Step,
    place: Place,
    /// Since when it waits, or runs.
    since: Time,
    /// An event that came while it was not blocked.
    event: bool,
    record: Record,
}

#[derive(Default)]
struct SlotSim {
    hand: Option<usize>,
    last: Option<usize>,
    /// The guest's code has run up to here; later than now while a switch is under way.
    from: Time,
    /// When the timer fires.
    timer: Time,
    /// When a kick, or the wake-up of the idle slot, arrives.
    told: Option<Time>,
    wanted: bool,
    deadlines: BTreeSet<(Time, usize)>,
    busy: Nanos,
    busy_since: Time,
}

/// The machine.
pub(super) struct Machine<P> {
    pub(super) policy: P,
    pub(super) world: World,
    now: Time,
    costs: Costs,
    longest_lease: Nanos,
    slots: Vec<SlotSim>,
    vcpus: Vec<VcpuSim>,
}

impl<P: Policy> Machine<P> {
    /// A machine of idle slots. `longest_lease`: what no lease may exceed.
    pub(super) fn new(policy: P, slots: usize, longest_lease: Nanos) -> Self {
        Self {
            policy,
            world: World::default(),
            now: Time(1_000_000),
            costs: Costs::default(),
            longest_lease,
            slots: (0..slots).map(|_| SlotSim { timer: Time::NEVER, ..SlotSim::default() }).collect(),
            vcpus: Vec::new(),
        }
    }

    pub(super) fn with_costs(mut self, costs: Costs) -> Self {
        self.costs = costs;
        self
    }

    /// A new vCPU that runs this guest, runnable at once.
    pub(super) fn start(&mut self, nice: i8, guest: Guest) -> usize {
        self.start_as(Attributes { nice: Nice::new(nice).unwrap(), ..Attributes::default() }, guest)
    }

    /// The same with any attributes.
    pub(super) fn start_as(&mut self, attributes: Attributes, mut guest: Guest) -> usize {
        let v = self.vcpus.len();
        let id = VcpuId(v as u32);
        self.policy.add(id, attributes, self.now);
        self.world.admit(v);
        let step = guest.start();
        let (place, record) = (Place::Blocked, Record::default());
        self.vcpus.push(VcpuSim { guest, step, place, since: self.now, event: false, record });
        self.unblock(v, None);
        v
    }

    /// Lets this much time pass.
    pub(super) fn run(&mut self, span: Nanos) {
        let end = self.now + span;
        while let Some((at, slot)) = (0..self.slots.len()).map(|s| (self.due(s), s)).min()
            && at <= end
        {
            assert!(at >= self.now, "time went back");
            self.now = at;
            self.advance(slot);
            self.check();
        }
        self.now = end;
    }

    /// What became of a vCPU up to now.
    pub(super) fn record(&self, v: usize) -> Record {
        let vcpu = &self.vcpus[v];
        let mut record = vcpu.record;
        let since = self.now.since(vcpu.since);
        match vcpu.place {
            Place::On(_) => record.run += since,
            Place::Queued | Place::Placed(_) => record.longest_wait = record.longest_wait.max(since),
            Place::Blocked => {}
        }
        record
    }

    /// A vCPU's part of all CPU time so far, 1.0 being an equal one.
    pub(super) fn share(&self, v: usize) -> f64 {
        let run = |v| self.record(v).run.0 as f64;
        run(v) * self.vcpus.len() as f64 / (0..self.vcpus.len()).map(run).sum::<f64>()
    }

    /// Mean of [`share`](Self::share) over a group.
    pub(super) fn share_of(&self, group: &[usize]) -> f64 {
        group.iter().map(|&v| self.share(v)).sum::<f64>() / group.len() as f64
    }

    /// Whether a vCPU is runnable and without a slot.
    pub(super) fn is_queued(&self, v: usize) -> bool {
        self.vcpus[v].place == Place::Queued
    }

    /// For how long a vCPU was held back so far.
    pub(super) fn throttled(&self, v: usize) -> Nanos {
        self.policy.throttled(VcpuId(v as u32), self.now).time
    }

    /// When a slot does something next.
    fn due(&self, slot: usize) -> Time {
        let s = &self.slots[slot];
        let alarm = if slot == 0 { self.policy.alarm().max(self.now) } else { Time::NEVER };
        let told = s.told.unwrap_or(Time::NEVER).min(alarm);
        let Some(v) = s.hand else { return told.min(s.deadlines.first().map_or(Time::NEVER, |d| d.0)) };
        let stop = match self.vcpus[v].step {
            Step::Compute(left) => s.from + left,
            Step::Spin(_) if self.vcpus[v].guest.ready(&self.world, v) => s.from.max(self.now),
            Step::Spin(left) => s.from + left,
            // What it asked for when it was interrupted, or begins with.
            Step::Yield(_) | Step::Idle(_) => s.from,
        };
        // An interrupt during a switch is taken at its end.
        stop.min(told.min(s.timer).max(s.from))
    }

    fn advance(&mut self, slot: usize) {
        let now = self.now;
        let s = &mut self.slots[slot];
        let alarm = slot == 0 && self.policy.alarm() <= now;
        let interrupted = alarm || s.told.is_some_and(|at| at <= now) || s.timer <= now;
        s.told = s.told.filter(|&at| at > now);
        let Some(v) = s.hand else { return self.ask(slot, Why::Free) };
        let ran = now.since(s.from);
        s.from = s.from.max(now);
        let vcpu = &mut self.vcpus[v];
        let over = match &mut vcpu.step {
            Step::Compute(left) | Step::Spin(left) => {
                *left = left.saturating_sub(ran);
                *left == Nanos::ZERO || matches!(vcpu.step, Step::Spin(_)) && vcpu.guest.ready(&self.world, v)
            }
            Step::Yield(_) | Step::Idle(_) => true,
        };
        if over {
            if !matches!(vcpu.step, Step::Yield(_) | Step::Idle(_)) {
                vcpu.step = vcpu.guest.proceed(&mut self.world, v, now);
            }
            self.deliver_events();
            return self.stop(slot, v, interrupted);
        }
        self.ask(slot, Why::Check);
    }

    /// The guest has come to its next step; some of them are stops.
    fn stop(&mut self, slot: usize, v: usize, interrupted: bool) {
        match self.vcpus[v].step {
            Step::Compute(_) | Step::Spin(_) if interrupted => self.ask(slot, Why::Check),
            Step::Compute(_) | Step::Spin(_) => {}
            Step::Yield(y) => self.yields(slot, v, y),
            Step::Idle(until) => {
                self.vcpus[v].step = self.vcpus[v].guest.proceed(&mut self.world, v, self.now);
                if until <= self.now || std::mem::take(&mut self.vcpus[v].event) {
                    return self.ask(slot, Why::Check);
                }
                if until != Time::NEVER {
                    self.slots[slot].deadlines.insert((until, v));
                }
                self.ask(slot, Why::Block);
            }
        }
    }

    fn yields(&mut self, slot: usize, v: usize, y: Yield) {
        self.vcpus[v].step = self.vcpus[v].guest.proceed(&mut self.world, v, self.now);
        let s = &mut self.slots[slot];
        if self.policy.waiting() == 0 && !s.wanted && !self.policy.is_told_of_lone_yields() {
            s.from = self.now + self.costs.exit;
            return;
        }
        self.ask(slot, Why::Yield(y));
    }

    fn ask(&mut self, slot: usize, why: Why) {
        self.slots[slot].wanted = false;
        while let Some(&(at, v)) = self.slots[slot].deadlines.first()
            && at <= self.now
        {
            self.unblock(v, Some(slot));
        }
        while self.policy.alarm() <= self.now {
            let resumed = self.policy.tick(self.now).expect("the alarm has come");
            let v = resumed.vcpu.index();
            assert_eq!(self.vcpus[v].place, Place::Queued, "v{v} was held back");
            self.place(v, resumed.placement, Some(slot));
        }
        let decision = self.policy.next(Slot(slot as u16), why, self.now);
        self.carry_out(slot, why, decision);
    }

    fn carry_out(&mut self, slot: usize, why: Why, decision: Decision) {
        let now = self.now;
        let next = decision.run.map(|lease| lease.vcpu.index());
        let before = self.slots[slot].hand;
        if before != next || why == Why::Block {
            if let Some(v) = before {
                self.put_down(v, why);
            }
            if let Some(v) = next {
                self.pick_up(slot, v);
            }
        }
        let waiting = self.policy.waiting();
        let lease_end = match decision.run {
            Some(lease) => {
                let span = lease.until.since(now);
                assert!(lease.until > now, "{why:?}: a lease that has ended");
                let endless = waiting == 0;
                assert!(endless || span <= self.longest_lease, "{why:?}: a lease of {span:?}");
                lease.until
            }
            None => {
                assert_eq!(waiting, 0, "{why:?}: idle while somebody waits");
                Time::NEVER
            }
        };
        let switch = if next.is_some() && next != self.slots[slot].last { self.costs.switch } else { Nanos::ZERO };
        let s = &mut self.slots[slot];
        match (before, next) {
            (None, Some(_)) => s.busy_since = now,
            (Some(_), None) => s.busy += now.since(s.busy_since),
            _ => {}
        }
        s.hand = next;
        s.last = next.or(s.last);
        s.from = now + self.costs.exit + switch;
        // A timer that is set earlier is left, as the executors leave it: it costs a question.
        let armed = Some(s.timer).filter(|&at| at > now).unwrap_or(Time::NEVER);
        s.timer = armed.min(lease_end).min(s.deadlines.first().map_or(Time::NEVER, |d| d.0));
        if let Some(kick) = decision.kick {
            self.want(kick.index());
        }
    }

    fn put_down(&mut self, v: usize, why: Why) {
        let vcpu = &mut self.vcpus[v];
        vcpu.record.run += self.now.since(vcpu.since);
        vcpu.since = self.now;
        vcpu.place = if why == Why::Block { Place::Blocked } else { Place::Queued };
    }

    fn pick_up(&mut self, slot: usize, v: usize) {
        let vcpu = &mut self.vcpus[v];
        let held = self.policy.throttled(VcpuId(v as u32), self.now).is_held;
        let free = matches!(vcpu.place, Place::Queued) && !held || vcpu.place == Place::Placed(slot);
        assert!(free, "slot {slot} got v{v}, which is {:?}", vcpu.place);
        vcpu.place = Place::On(slot);
        vcpu.record.longest_wait = vcpu.record.longest_wait.max(self.now.since(vcpu.since));
        vcpu.record.turns += 1;
        vcpu.since = self.now;
    }

    fn deliver_events(&mut self) {
        while let Some(v) = self.world.events.pop() {
            match self.vcpus.get_mut(v) {
                Some(vcpu) if vcpu.place != Place::Blocked => vcpu.event = true,
                Some(_) => self.unblock(v, None),
                None => {}
            }
        }
    }

    /// Makes a blocked vCPU runnable; `asking` is the slot that asks anyway.
    fn unblock(&mut self, v: usize, asking: Option<usize>) {
        assert_eq!(self.vcpus[v].place, Place::Blocked);
        self.slots.iter_mut().for_each(|s| s.deadlines.retain(|d| d.1 != v));
        let placement = self.policy.wake(VcpuId(v as u32), self.now);
        self.vcpus[v].since = self.now;
        self.place(v, placement, asking);
    }

    /// A vCPU went there.
    fn place(&mut self, v: usize, placement: Placement, asking: Option<usize>) {
        self.vcpus[v].place = match placement {
            Placement::Run(slot) => {
                let slot = slot.index();
                let placed = self.vcpus.iter().any(|v| v.place == Place::Placed(slot));
                assert!(self.slots[slot].hand.is_none() && !placed, "{slot} is busy");
                if asking != Some(slot) {
                    self.tell(slot);
                }
                Place::Placed(slot)
            }
            Placement::Preempt(slot) | Placement::Queue(Some(slot)) => {
                if asking != Some(slot.index()) {
                    self.want(slot.index());
                }
                Place::Queued
            }
            Placement::Queue(None) => Place::Queued,
        };
    }

    /// Stamps a slot; the first stamp kicks.
    fn want(&mut self, slot: usize) {
        if self.slots[slot].hand.is_some() && !std::mem::replace(&mut self.slots[slot].wanted, true) {
            self.tell(slot);
        }
    }

    fn tell(&mut self, slot: usize) {
        let at = self.now + self.costs.kick;
        let told = &mut self.slots[slot].told;
        *told = Some(told.map_or(at, |t| t.min(at)));
    }

    /// What must hold between any two steps.
    fn check(&self) {
        let waits = (0..self.vcpus.len()).filter(|&v| self.is_queued(v));
        let (held, queued) =
            waits.partition::<Vec<_>, _>(|&v| self.policy.throttled(VcpuId(v as u32), self.now).is_held);
        let queued = queued.len();
        assert_eq!(self.policy.waiting(), queued, "waiting");
        assert!(held.is_empty() || self.policy.alarm() != Time::NEVER, "nobody will let {held:?} go on");
        for (i, s) in self.slots.iter().enumerate() {
            if let Some(v) = s.hand {
                assert_eq!(self.vcpus[v].place, Place::On(i));
            } else {
                let placed = self.vcpus.iter().any(|v| v.place == Place::Placed(i));
                assert!(placed || queued == 0 || s.told.is_some(), "slot {i} idles while {queued} wait");
                assert!(!placed || s.told.is_some(), "slot {i} was not told of the vCPU placed on it");
            }
        }
        let busy = |s: &SlotSim| s.busy.0 + if s.hand.is_some() { self.now.since(s.busy_since).0 } else { 0 };
        let ran: u64 = (0..self.vcpus.len()).map(|v| self.record(v).run.0).sum();
        assert_eq!(ran, self.slots.iter().map(busy).sum::<u64>(), "CPU time is conserved");
    }
}
