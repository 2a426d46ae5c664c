//! One event after the other: what a slot does when its time comes, as an executor would.

use super::{LATE_KEPT, SimMachine};
use crate::ids::{Shard, Slot, VcpuId};
use crate::policy::{Decision, Lease, Placement, Policy, Why};
use crate::sim::guest::step::Step;
use crate::sim::slot::Asks;
use crate::sim::vcpu::Place;
use crate::time::{Nanos, Time};
use crate::wait::{Wait, Yield};

/// What makes a vCPU runnable.
#[derive(Debug, Clone, Copy)]
pub(super) enum Waker {
    /// A slot that asks anyway, and has the lock.
    Asks(usize),
    /// The vCPU on a slot, by an exit, after which the slot looks whether it is wanted.
    Exits(usize),
    /// Anything else.
    Other,
}

impl<P: Policy> SimMachine<P> {
    /// Tells the agenda when a slot does something next.
    pub(super) fn plan(&mut self, slot: usize) {
        let s = &self.slots[slot];
        if let Some(asks) = s.asks {
            return self.agenda.set(slot, asks.at);
        }
        let at = match s.current {
            None => s.told.min(s.deadline()).min(self.alarm(slot)).max(s.stalled),
            Some(v) => {
                let vcpu = &self.vcpus[v];
                let end = s.from + vcpu.left;
                let stop = if vcpu.spins && vcpu.guest.ready(&self.world, v) {
                    end.min(s.from.max(vcpu.sees)).max(self.now)
                } else {
                    end
                };
                // An interrupt during a switch is taken at its end.
                stop.min(s.told.min(s.timer).min(self.alarm(slot)).max(s.from))
            }
        };
        self.agenda.set(slot, at);
    }

    /// When this slot has to let its policy's alarm ring: the first one of a shard watches it.
    fn alarm(&self, slot: usize) -> Time {
        let shard = &self.shards[self.shard_of(slot).index()];
        if slot == shard.slots.start { shard.ledger.alarm().max(self.now) } else { Time::NEVER }
    }

    pub(super) fn advance(&mut self, slot: usize) {
        let now = self.now;
        if let Some(asks) = self.slots[slot].asks {
            // A slot that was told something meanwhile hears of it next.
            return if asks.at <= now {
                self.goes_on(slot, asks)
            };
        }
        let alarm = self.alarm(slot) <= now;
        let s = &mut self.slots[slot];
        let told = s.told <= now;
        let interrupted = alarm || told || s.timer <= now;
        if told {
            s.told = Time::NEVER;
        }
        let Some(v) = s.current else { return self.ask(slot, Why::Free, Nanos::ZERO) };
        // A kick's way out of the guest is within its own cost.
        let leave = if told { Nanos::ZERO } else { self.costs.leave };
        let ran = now.since(s.from);
        s.from = s.from.max(now);
        let vcpu = &mut self.vcpus[v];
        vcpu.left = vcpu.left.saturating_sub(ran);
        if !vcpu.spins {
            vcpu.record.worked += ran;
        }
        let seen = || vcpu.spins && vcpu.sees <= now && vcpu.guest.ready(&self.world, v);
        if vcpu.left > Nanos::ZERO && !seen() {
            // If nothing interrupts it, what it was to see has changed anew meanwhile, and it spins on.
            return if interrupted {
                self.ask(slot, Why::Check, leave)
            };
        }
        let step = vcpu.guest.proceed(&mut self.world, v, now);
        self.show(slot);
        match step {
            // What it sends goes out by its exit.
            Step::Idle(_) | Step::Kick => self.slots[slot].sends.append(&mut self.world.events),
            _ => self.deliver(None),
        }
        self.begin(slot, v, step, interrupted.then_some(leave));
    }

    /// The guest has come to its next step; some of them are stops.
    fn begin(&mut self, slot: usize, v: usize, step: Step, interrupted: Option<Nanos>) {
        let vcpu = &mut self.vcpus[v];
        (vcpu.left, vcpu.spins) = match step {
            Step::Compute(span) => (self.draw.about(span, self.noise), false),
            Step::Spin(span) => (self.draw.about(span, self.noise), true),
            // It looks anew as soon as it is back.
            Step::Device(_) | Step::Yield(_) | Step::Idle(_) | Step::Kick => (Nanos::ZERO, false),
        };
        match step {
            Step::Compute(_) | Step::Spin(_) => {
                if let Some(leave) = interrupted {
                    self.ask(slot, Why::Check, leave);
                }
            }
            Step::Device(turn) => {
                self.slots[slot].at_work = true;
                self.ask(slot, Why::Exit, self.costs.leave + turn);
            }
            Step::Yield(y) => self.ask(slot, Why::Yield(y), self.costs.leave),
            Step::Kick => self.ask(slot, Why::Exit, self.costs.leave),
            Step::Idle(until) => {
                vcpu.idles = until;
                self.ask(slot, Why::Block, self.costs.leave);
            }
        }
    }

    /// The slot's vCPU leaves its guest, which takes so long, and the slot asks.
    fn ask(&mut self, slot: usize, why: Why, leave: Nanos) {
        if self.slots[slot].current.is_some() {
            let leave = self.exits(leave);
            self.slots[slot].from = self.now + leave;
            let asks = Asks { why, at: self.now + leave, has_lock: false };
            if leave > Nanos::ZERO {
                self.slots[slot].asks = Some(asks);
                return;
            }
            return self.goes_on(slot, asks);
        }
        self.goes_on(slot, Asks { why, at: self.now, has_lock: false });
    }

    /// How long an exit takes this time, or a part of one.
    fn exits(&mut self, usually: Nanos) -> Nanos {
        if self.noise == 0 { usually } else { self.draw.exit(usually) }
    }

    /// The monitor has the exit, or then the lock.
    fn goes_on(&mut self, slot: usize, asks: Asks) {
        self.slots[slot].asks = None;
        if asks.has_lock {
            return self.decide(slot, asks.why);
        }
        if let Some(v) = self.slots[slot].current {
            self.totals.exits += 1;
            self.vcpus[v].record.exits += 1;
        }
        self.world.events.append(&mut self.slots[slot].sends);
        self.deliver((asks.why == Why::Exit).then_some(slot));
        // After device work it looks whether its lease has ended.
        let s = &self.slots[slot];
        let wanted = s.wanted || s.at_work && s.timer <= self.now;
        let stays = match asks.why {
            Why::Yield(y) => self.is_alone(slot, y),
            Why::Exit => !wanted && self.policy().keeps_slot_over_exits(),
            _ => false,
        };
        let why = if asks.why == Why::Exit && wanted { Why::Check } else { asks.why };
        if stays {
            self.slots[slot].at_work = false;
            let back = self.costs.exit - self.costs.leave;
            self.slots[slot].from = self.now + self.exits(back);
            return;
        }
        self.slots[slot].wanted = false;
        let shard = self.shard_of(slot).index();
        let at = self.shards[shard].lock.enter(self.now);
        if at > self.now {
            self.slots[slot].from = at;
            self.slots[slot].asks = Some(Asks { why, at, has_lock: true });
        } else {
            self.decide(slot, why);
        }
    }

    /// The host takes the pCPU of a slot for so long, from now on.
    pub(super) fn stalls(&mut self, slot: usize, span: Nanos) {
        let (now, s) = (self.now, &mut self.slots[slot]);
        s.stalled = now + span;
        if let Some(v) = s.current {
            let (ran, vcpu) = (now.since(s.from), &mut self.vcpus[v]);
            vcpu.left = vcpu.left.saturating_sub(ran);
            vcpu.record.worked += if vcpu.spins { Nanos::ZERO } else { ran };
            (s.from, s.taken) = (s.from.max(now) + span, s.taken + span);
        }
        if let Some(asks) = &mut s.asks {
            asks.at = asks.at + span;
        }
        self.plan(slot);
    }

    /// Counts a yield. True: no vCPU waits, so this one just goes on.
    fn is_alone(&mut self, slot: usize, y: Yield) -> bool {
        let count = &mut self.totals.yields;
        *match y.wait {
            Wait::Unknown | Wait::Spin => &mut count.unknown,
            Wait::Lock(_) => &mut count.lock,
            Wait::Message(_) => &mut count.message,
        } += 1;
        let ledger = &self.shards[self.shard_of(slot).index()].ledger;
        let nobody = ledger.waiting() == 0 && !ledger.policy().is_told_of_lone_yields();
        let target = if let Wait::Lock(target) | Wait::Message(target) = y.wait { Some(target) } else { None };
        let elsewhere = target.is_some_and(|target| self.waits_elsewhere(slot, target));
        let alone = nobody && !self.slots[slot].wanted && !elsewhere;
        self.totals.yields.alone += u64::from(alone);
        alone
    }

    /// The vCPU on this slot would idle: whether it does, or what it idles for has come.
    fn blocks(&mut self, slot: usize) -> bool {
        let Some(v) = self.slots[slot].current else { return false };
        let vcpu = &mut self.vcpus[v];
        if std::mem::take(&mut vcpu.event) || vcpu.idles <= self.now {
            return false;
        }
        if vcpu.idles != Time::NEVER {
            vcpu.deadline = Some((slot, vcpu.idles));
            self.slots[slot].deadlines.insert((vcpu.idles, v));
        }
        true
    }

    fn decide(&mut self, slot: usize, why: Why) {
        self.slots[slot].placed = None;
        let why = if why == Why::Block && !self.blocks(slot) { Why::Check } else { why };
        while let Some(&(at, v)) = self.slots[slot].deadlines.first()
            && at <= self.now
        {
            self.unblock(v, Waker::Asks(slot));
        }
        let shard = self.shard_of(slot);
        let alarm = self.shards[shard.index()].ledger.alarm();
        while self.shards[shard.index()].ledger.alarm() <= self.now {
            self.decisions += 1;
            let ledger = &mut self.shards[shard.index()].ledger;
            let resumed = ledger.tick(self.now);
            self.now = ledger.now();
            let Some(resumed) = resumed else { break };
            let v = resumed.vcpu.index();
            assert_eq!(self.vcpus[v].place, Place::Queued, "v{v} was held back");
            self.place(v, resumed.placement, Some(slot), Nanos::ZERO);
        }
        if let Why::Yield(y) = why {
            self.brings_target(slot, y);
        }
        self.takes_from_one_behind(slot, why);
        let taken = std::mem::take(&mut self.slots[slot].taken);
        let ledger = &mut self.shards[shard.index()].ledger;
        if taken > Nanos::ZERO && self.slots[slot].current.is_some() {
            ledger.taken(Slot(slot as u16), taken, self.now);
            self.slots[slot].told_taken += taken;
            self.now = ledger.now();
        }
        let s = &mut self.slots[slot];
        if std::mem::take(&mut s.at_work) && s.current.is_some() && self.now > s.lease_end + Lease::LATE {
            ledger.overran(Slot(slot as u16), self.now);
            self.now = ledger.now();
        }
        self.decisions += 1;
        let decision = ledger.next(Slot(slot as u16), why, self.now);
        self.now = ledger.now();
        let idled = self.slots[slot].current.is_none();
        self.carry_out(slot, why, decision);
        self.publish(shard);
        self.watch(shard, alarm);
        if decision.run.is_none() && self.relieves(slot) {
            return self.decide(slot, Why::Free);
        }
        self.calls_for_relief(shard, Nanos::ZERO);
        if idled && decision.run.is_some() {
            self.passes_call_on(slot);
        }
    }

    /// Has the first slot of a shard watch the policy's alarm, unless that is still this one.
    fn watch(&mut self, shard: Shard, before: Time) {
        let shard = &self.shards[shard.index()];
        if shard.ledger.alarm() != before {
            self.plan(shard.slots.start);
        }
    }

    fn carry_out(&mut self, slot: usize, why: Why, decision: Decision) {
        let now = self.now;
        let next = decision.run.map(|lease| lease.vcpu.index());
        let lease_end = decision.run.map_or(Time::NEVER, |lease| lease.until);
        if let Some(audit) = &self.audit {
            audit.decision(why, decision, self.shards[self.shard_of(slot).index()].ledger.waiting(), now);
        }
        let before = self.slots[slot].current;
        if before != next || why == Why::Block {
            if let Some(v) = before {
                self.put_down(v, why);
            }
            if let Some(v) = next {
                self.pick_up(slot, v);
            }
        }
        let s = &mut self.slots[slot];
        match (before, next) {
            (None, Some(_)) => s.busy_since = now,
            (Some(_), None) => s.busy += now.since(s.busy_since),
            _ => {}
        }
        match (before, next) {
            (None, Some(_)) => self.tells_idle(slot, false),
            (Some(_), None) => self.tells_idle(slot, true),
            _ => {}
        }
        let s = &mut self.slots[slot];
        let switches = next.is_some() && next != s.last;
        let switch = if switches { self.costs.switch } else { Nanos::ZERO };
        let migrates = next.is_some_and(|v| self.vcpus[v].last.replace(slot).is_some_and(|last| last != slot));
        let moving = if migrates { self.costs.migration } else { Nanos::ZERO };
        s.current = next;
        s.last = next.or(s.last);
        let back = self.exits(self.costs.exit - self.costs.leave + switch + moving);
        let s = &mut self.slots[slot];
        s.from = now + self.costs.lock + back + decision.pause + std::mem::take(&mut s.delayed);
        // A timer that is set earlier is left, as the executors leave it: it costs a question.
        let armed = Some(s.timer).filter(|&at| at > now).unwrap_or(Time::NEVER);
        s.lease_end = lease_end;
        s.timer = armed.min(lease_end).min(s.deadline());
        if let Some(kick) = decision.kick {
            self.want(kick.index(), Nanos::ZERO);
        }
    }

    fn put_down(&mut self, v: usize, why: Why) {
        self.world.place(v, false);
        let vcpu = &mut self.vcpus[v];
        vcpu.since = self.now;
        vcpu.place = if why == Why::Block { Place::Blocked } else { Place::Queued };
    }

    fn pick_up(&mut self, slot: usize, v: usize) {
        let now = self.now;
        let held = self.ledger_of(v).policy().throttled(VcpuId(v as u32), now).is_held;
        let vcpu = &mut self.vcpus[v];
        let free = matches!(vcpu.place, Place::Queued) && !held || vcpu.place == Place::Placed(slot);
        assert!(free, "slot {slot} got v{v}, which is {:?}", vcpu.place);
        let waited = now.since(vcpu.since);
        if waited > vcpu.bound {
            self.late_count += 1;
            if self.late.len() < LATE_KEPT {
                self.late.push(self.late_vcpu(v));
            }
        }
        let vcpu = &mut self.vcpus[v];
        vcpu.place = Place::On(slot);
        self.world.place(v, true);
        vcpu.record.longest_wait = vcpu.record.longest_wait.max(waited);
        vcpu.record.turns += 1;
        vcpu.since = now;
        vcpu.first_ran.get_or_insert(now);
    }

    /// Lets others see what the vCPU on this slot has written for them.
    fn show(&mut self, from: usize) {
        while let Some(v) = self.world.noticed.pop() {
            let Some(vcpu) = self.vcpus.get_mut(v) else { continue };
            vcpu.sees = self.now + self.costs.hop;
            match vcpu.place {
                Place::On(slot) if slot != from => self.plan(slot),
                _ => {}
            }
        }
    }

    /// Lets events come to those they are for. They are sent by the exit of the vCPU on `slot`, if that is named, which
    /// looks whether it is wanted before it goes on.
    pub(super) fn deliver(&mut self, slot: Option<usize>) {
        while let Some(v) = self.world.events.pop() {
            match self.vcpus.get_mut(v) {
                Some(vcpu) if vcpu.place != Place::Blocked => vcpu.event = true,
                Some(_) => self.unblock(v, slot.map_or(Waker::Other, Waker::Exits)),
                None => {}
            }
        }
    }

    /// Makes a blocked vCPU runnable.
    pub(super) fn unblock(&mut self, v: usize, waker: Waker) {
        assert_eq!(self.vcpus[v].place, Place::Blocked);
        let by = match waker {
            Waker::Exits(slot) => self.slots[slot].current.map(|v| VcpuId(v as u32)),
            Waker::Asks(_) | Waker::Other => None,
        };
        let asking = if let Waker::Asks(slot) = waker { Some(slot) } else { None };
        if let Some((slot, at)) = self.vcpus[v].deadline.take() {
            self.slots[slot].deadlines.remove(&(at, v));
            if asking != Some(slot) {
                self.plan(slot);
            }
        }
        self.decisions += 1;
        if let (Waker::Exits(slot), Some(waker)) = (waker, by) {
            self.follows_waker(v, slot, waker);
        }
        let shard = self.vcpus[v].shard;
        let s = &mut self.shards[shard.index()];
        // A slot that asks anyway has its shard's lock.
        let has_lock = asking.is_some_and(|slot| s.slots.contains(&slot));
        let waits = if has_lock { Nanos::ZERO } else { s.lock.enter(self.now).since(self.now) };
        let alarm = s.ledger.alarm();
        let placement = s.ledger.wake(VcpuId(v as u32), by, self.now);
        self.now = s.ledger.now();
        self.publish(shard);
        self.watch(shard, alarm);
        if let Placement::Preempt(_) | Placement::Queue(_) = placement {
            self.calls_for_relief(shard, waits);
        }
        self.vcpus[v].since = self.now;
        if let Waker::Exits(slot) = waker
            && placement.slot().is_some_and(|wanted| wanted.index() == slot)
        {
            self.slots[slot].wanted = true;
            return self.place(v, placement, Some(slot), waits);
        }
        self.place(v, placement, asking, waits);
    }

    /// A vCPU went there; others are told of it so much later.
    pub(super) fn place(&mut self, v: usize, placement: Placement, asking: Option<usize>, later: Nanos) {
        self.vcpus[v].place = match placement {
            Placement::Run(slot) => {
                let slot = slot.index();
                let s = &mut self.slots[slot];
                assert!(s.current.is_none() && s.placed.is_none(), "slot {slot} is busy");
                s.placed = Some(v);
                if asking != Some(slot) {
                    self.tell(slot, later);
                }
                Place::Placed(slot)
            }
            Placement::Preempt(slot) | Placement::Queue(Some(slot)) => {
                if asking != Some(slot.index()) {
                    self.want(slot.index(), later);
                }
                Place::Queued
            }
            Placement::Queue(None) | Placement::Held => Place::Queued,
        };
    }

    /// Stamps a slot; the first stamp kicks.
    fn want(&mut self, slot: usize, later: Nanos) {
        if self.slots[slot].current.is_some() && !std::mem::replace(&mut self.slots[slot].wanted, true) {
            self.tell(slot, later);
        }
    }

    pub(super) fn tell(&mut self, slot: usize, later: Nanos) {
        let s = &mut self.slots[slot];
        let takes = if s.current.is_some() { self.costs.kick } else { self.costs.wake };
        s.told = s.told.min(self.now + later + takes);
        self.plan(slot);
    }
}
