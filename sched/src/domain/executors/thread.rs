//! The life of an executor: run the current vCPU, ask the policy when there is something to say, take up its answer.

use super::shared::{Act, DUE_AT_ONCE, Gone, LockedState, ShardShared, Shared, SlotShared};
use super::turn_length::TurnLength;
use crate::domain::carried::set_carried;
use crate::domain::carrier_thread::enter_thread;
use crate::domain::cpu_meter::{CpuMeter, overran};
use crate::domain::moves::Moves;
use crate::domain::pause::pause;
use crate::domain::spin_probe::SpinProbe;
use crate::ids::{Shard, Slot, VcpuId};
use crate::kick;
use crate::lock::Caller;
use crate::policy::Why;
use crate::sync::mpsc::SyncSender;
use crate::time::{Nanos, Time, monotonic};
use crate::vcpu::{Presence, Stop, Vcpu};
use arrayvec::ArrayVec;
use rustix::thread::CpuSet;
use std::io;
use std::sync::atomic::Ordering;

/// The vCPU that an executor runs.
struct CurrentVcpu {
    id: VcpuId,
    vcpu: Box<dyn Vcpu>,
    caller: Caller,
    probe: SpinProbe,
    /// What it had waited in all when it was put on the slot.
    waited: Nanos,
    /// What the host has taken from it in all.
    taken: Nanos,
    /// The part of that which other domains know of.
    taken_before: Nanos,
}

/// Why the current vCPU stopped, and if it blocks, until when.
#[derive(Clone, Copy)]
struct Stopped {
    why: Why,
    until: Time,
    /// Its thread was at work for it: if it comes late, that is its own doing.
    at_work: bool,
}

/// Room for what due deadlines and a decision ask of others.
type Acts = ArrayVec<Act, { 2 * DUE_AT_ONCE + 1 }>;

/// What is left to do once the lock is free.
#[derive(Default)]
struct After {
    acts: Acts,
    /// A slot of another shard that should take a vCPU from here.
    relief: Option<Act>,
    /// A slot that has to look in place of this one, which no longer idles.
    passed_on: Option<Act>,
    /// A vCPU the domain has let go of.
    gone: Option<Gone>,
    /// How long the vCPU that goes on stays outside its guest.
    pause: Nanos,
}

/// The life of an executor.
pub(super) fn execute(shared: &Shared, slot: Slot, cpu: usize, ready: &SyncSender<io::Result<()>>) {
    let mut only = CpuSet::new();
    only.set(cpu);
    enter_thread(&only);
    let timer = match kick::Timer::for_this_thread() {
        Ok(timer) => timer,
        Err(e) => return ready.send(Err(e)).unwrap_or(()),
    };
    let me = &shared.slots[slot.index()];
    let _ = me.thread.set(kick::this_thread());
    // The starter waits for this; if it has gone, the executor ends soon.
    let _ = ready.send(Ok(()));
    let (armed, ask_at, turns) = (Time::NEVER, Time::NEVER, TurnLength::default());
    let home = shared.division.plan.of(slot);
    let shard = &shared.shards[home.index()];
    let mut executor = Executor {
        shared,
        slot,
        home,
        shard,
        me,
        timer,
        armed,
        ask_at,
        lease_end: Time::NEVER,
        meter: CpuMeter::default(),
        turns,
        since: monotonic(),
    };
    let mut current = None;
    while !shared.ending.load(Ordering::Relaxed) {
        current = match current {
            Some(current) => executor.run(current),
            None => executor.idle(),
        };
    }
    if let Some(current) = current {
        executor.leave(current);
    }
}

struct Executor<'a> {
    shared: &'a Shared,
    slot: Slot,
    home: Shard,
    shard: &'a ShardShared,
    me: &'a SlotShared,
    timer: kick::Timer,
    /// What the timer is set to; a time that has passed means it is not set.
    armed: Time,
    /// When the policy wants to be asked, or a deadline or the alarm comes.
    ask_at: Time,
    lease_end: Time,
    meter: CpuMeter,
    turns: TurnLength,
    /// When it last asked, or stopped waiting.
    since: Time,
}

impl Executor<'_> {
    /// Runs the current vCPU until the policy has to be asked, and asks.
    fn run(&mut self, mut current: CurrentVcpu) -> Option<CurrentVcpu> {
        let counts = &self.me.counts;
        set_carried(self.shared, current.id, self.slot);
        current.vcpu.waited(current.waited, current.taken);
        self.tell(&mut current, Presence::Here);
        loop {
            let stop = current.vcpu.run();
            counts.exit();
            let why = match stop {
                Stop::Exit if self.me.word.is_wanted() => Why::Check,
                Stop::Exit if self.shared.policy.keeps_slot_over_exits => continue,
                Stop::Exit => Why::Exit,
                Stop::Yield(y) => {
                    current.probe.yields(y.wait);
                    let elsewhere = self.shared.target_elsewhere(self.slot, y).is_some();
                    if self.is_alone() && !elsewhere && !self.shared.policy.told_of_lone_yields {
                        counts.yielded(y.wait);
                        continue;
                    }
                    Why::Yield(y)
                }
                // A vCPU that halts inside keeps its executor waiting: it belongs under leases.
                Stop::Kicked | Stop::Overran | Stop::Halted => match self.kicked(&mut current) {
                    Some(why) => why,
                    None => continue,
                },
                Stop::Idle(_) => {
                    current.probe.idles();
                    Why::Block
                }
                Stop::Done => Why::Retire,
            };
            let until = if let Stop::Idle(until) = stop { until } else { Time::NEVER };
            return self.ask(Some(current), Stopped { why, until, at_work: stop.is_of_work() });
        }
    }

    fn tell(&self, current: &mut CurrentVcpu, presence: Presence) {
        if self.shared.policy.tells_presence {
            current.vcpu.presence(presence);
        }
    }

    /// No vCPU waits, as far as is known without the lock.
    fn is_alone(&self) -> bool {
        !self.shard.waiters.load(Ordering::Relaxed) && !self.me.word.is_wanted()
    }

    /// What there is to ask after a kick; `None`: nothing, it was only a look, and the vCPU goes on.
    fn kicked(&mut self, current: &mut CurrentVcpu) -> Option<Why> {
        kick::drain();
        let now = monotonic();
        if self.armed <= now {
            self.armed = Time::NEVER;
        }
        if !self.shared.detects_spinning {
            return Some(Why::Check);
        }
        let CurrentVcpu { vcpu, probe, .. } = current;
        if let Some(y) = probe.kicked(now, || vcpu.spins())
            && !self.is_alone()
        {
            return Some(Why::Yield(y));
        }
        if self.ask_at <= now || self.me.word.is_wanted() {
            return Some(Why::Check);
        }
        self.arm(self.ask_at.min(probe.next()), now);
        None
    }

    /// Waits until there is something to do, unless a vCPU waits in another shard, and asks.
    fn idle(&mut self) -> Option<CurrentVcpu> {
        if !self.shared.relieves(self.slot) {
            let until = {
                let mut state = self.shard.state.lock();
                state.deadlines(self.slot).earliest().min(state.watch.of(self.slot))
            };
            self.me.parker.wait(until);
            self.meter.slept();
        }
        self.since = monotonic();
        self.ask(None, Stopped { why: Why::Free, until: Time::NEVER, at_work: false })
    }

    /// Tells the policy why the current vCPU stopped, and takes up what it decides.
    fn ask(&mut self, current: Option<CurrentVcpu>, stopped: Stopped) -> Option<CurrentVcpu> {
        self.me.word.acknowledge();
        let mut after = After::default();
        let idled = current.is_none();
        let caller = current.as_ref().map_or(Caller::Normal, |current| current.caller);
        self.shared.brings_before(self.slot, stopped.why, ());
        let looked = monotonic();
        let taken = self.meter.worked(self.since, looked);
        let next = {
            let mut state = self.shard.state.lock_as(caller);
            let now = monotonic();
            let taken = taken + CpuMeter::until_asked(looked, now);
            self.turns.learn(now.since(self.since));
            let overran = stopped.at_work && overran(self.lease_end + taken, self.since + taken, now);
            self.since = now;
            if taken > Nanos::ZERO && current.is_some() {
                state.ledger.taken(self.slot, taken, now);
            }
            if overran && current.is_some() {
                state.ledger.overran(self.slot, now);
            }
            self.wake_due(&mut state, now, &mut after.acts);
            let next = self.answer(&mut state, current, stopped, now, &mut after);
            self.shared.publish(self.home, &mut state);
            self.ask_at = self.ask_at.min(self.shared.watch(&mut state, self.slot));
            after.relief = self.shared.relief(self.home, &state);
            if idled && next.is_some() {
                after.passed_on = self.shared.passes_call_on(self.home);
            }
            next
        };
        after
            .acts
            .into_iter()
            .chain(after.relief)
            .chain(after.passed_on)
            .for_each(|act| self.shared.perform(act, None));
        after.gone.into_iter().for_each(Gone::give_back);
        pause(after.pause, || self.me.word.is_wanted());
        if let Some(current) = &next {
            self.arm(self.ask_at.min(current.probe.next()), self.since);
        }
        next
    }

    /// Wakes the blocked vCPUs this slot watches whose time has come, and resumes those that were held back.
    fn wake_due(&self, state: &mut LockedState, now: Time, acts: &mut Acts) {
        // This slot is asking already.
        let mine = |act: &Act| matches!(act, Act::Ask(slot) | Act::Rouse(slot) if *slot == self.slot);
        for _ in 0..DUE_AT_ONCE {
            let Some(vcpu) = state.deadlines(self.slot).pop_due(now) else { break };
            if let Some(entry) = state.vcpus[vcpu.index()].as_mut() {
                entry.deadline = None;
            }
            // The policy is told below, whatever the event found.
            let _ = self.shared.events[vcpu.index()].signal();
            acts.extend(self.shared.unblock(state, vcpu, None, now).filter(|act| !mine(act)));
        }
        self.shared.tick(state, now, |act| acts.extend(Some(act).filter(|act| !mine(act))));
    }

    /// Why the policy is asked, now that nothing can change any more: the vCPU may have been retired meanwhile, or need
    /// not wait.
    fn final_reason(&self, state: &mut LockedState, current: Option<&CurrentVcpu>, stopped: Stopped, now: Time) -> Why {
        match current {
            Some(current) if state.vcpus[current.id.index()].as_ref().is_none_or(|e| e.retiring) => Why::Retire,
            Some(current) if stopped.why == Why::Block && !self.blocks(state, current.id, stopped.until, now) => {
                Why::Check
            }
            _ => stopped.why,
        }
    }

    /// The policy's answer under the lock: what to run; noted, when to ask again at the latest and when to look.
    fn answer(
        &mut self,
        state: &mut LockedState,
        current: Option<CurrentVcpu>,
        stopped: Stopped,
        now: Time,
        after: &mut After,
    ) -> Option<CurrentVcpu> {
        let before = current.as_ref().map(|h| h.id);
        let why = self.final_reason(state, current.as_ref(), stopped, now);
        let decision = state.ledger.next(self.slot, why, now);
        after.acts.extend(decision.kick.map(Act::Ask));
        after.pause = decision.pause;
        let next = decision.run.map(|lease| lease.vcpu);
        let mut current = match current {
            Some(mut current) if next == Some(current.id) => {
                current.taken = current.taken_before + state.ledger.taken_from(current.id);
                Some(current)
            }
            current => {
                if let Some(current) = current {
                    let presence = if why == Why::Block { Presence::Idle } else { Presence::Away };
                    let vcpu = self.put_down(state, current, presence);
                    self.shared.division.whereabouts.waits(vcpu, !matches!(why, Why::Block | Why::Retire));
                    if why == Why::Retire {
                        after.gone = self.shared.forget(self.home, state, vcpu);
                    }
                }
                next.map(|vcpu| self.pick_up(state, vcpu))
            }
        };
        self.stamp_word(before, next);
        next.into_iter().for_each(|vcpu| self.shared.division.whereabouts.waits(vcpu, false));
        let lease_end = decision.run.map_or(Time::NEVER, |lease| lease.until);
        self.lease_end = lease_end;
        self.ask_at = lease_end.min(state.deadlines(self.slot).earliest());
        if let Some(current) = &mut current {
            current.probe.plan(now, lease_end != Time::NEVER);
        }
        current
    }

    /// Marks a vCPU as blocked; false if it need not wait.
    fn blocks(&self, state: &mut LockedState, vcpu: VcpuId, until: Time, now: Time) -> bool {
        let events = &self.shared.events[vcpu.index()];
        if until <= now {
            events.use_up();
            return false;
        }
        if !events.block() {
            return false;
        }
        if until != Time::NEVER {
            state.deadlines(self.slot).insert(until, vcpu);
            if let Some(entry) = state.vcpus[vcpu.index()].as_mut() {
                entry.deadline = Some(self.slot);
            }
        }
        true
    }

    /// The executor ends with a current vCPU, which stays on the slot for all that the policy knows.
    fn leave(&self, current: CurrentVcpu) {
        let mut state = self.shard.state.lock();
        let entry = state.vcpus[current.id.index()].as_mut().expect("a vCPU on a slot is known");
        let counts = self.me.counts.read();
        entry.counted = entry.counted.plus(counts.since(std::mem::replace(&mut entry.counts_before, counts)));
        entry.vcpu = Some(current.vcpu);
    }

    fn put_down(&self, state: &mut LockedState, mut current: CurrentVcpu, presence: Presence) -> VcpuId {
        self.tell(&mut current, presence);
        let entry = state.vcpus[current.id.index()].as_mut().expect("a vCPU on a slot is known");
        entry.counted = entry.counted.plus(self.me.counts.read().since(entry.counts_before));
        entry.on = None;
        (entry.vcpu, entry.probe) = (Some(current.vcpu), current.probe);
        current.id
    }

    /// The slot word follows: under the lock, so that a thread that finds the slot busy there can stamp it.
    fn stamp_word(&self, before: Option<VcpuId>, next: Option<VcpuId>) {
        match (before, next) {
            (Some(_), None) => self.me.word.vacate(),
            (None, Some(_)) => self.me.word.occupy(),
            _ => return,
        }
        if self.shared.division.board.is_needed() {
            self.shared.division.board.idles(self.home, next.is_none());
        }
    }

    fn pick_up(&self, state: &mut LockedState, vcpu: VcpuId) -> CurrentVcpu {
        let (waited, taken) = (state.ledger.waited(vcpu), state.ledger.taken_from(vcpu));
        let entry = state.vcpus[vcpu.index()].as_mut().expect("the policy names only vCPUs it was told of");
        entry.on = Some(self.slot);
        entry.counts_before = self.me.counts.read();
        let here = entry.vcpu.take().expect("a vCPU that is on no slot is here");
        let (waited, taken_before) = (entry.before.waited() + waited, entry.before.taken());
        let taken = taken_before + taken;
        CurrentVcpu { id: vcpu, vcpu: here, caller: entry.caller, probe: entry.probe, waited, taken, taken_before }
    }

    /// Sees to it that the executor asks at this time. A timer that is set earlier is left where the next question
    /// comes before it: setting it would cost a system call for each switch.
    fn arm(&mut self, at: Time, now: Time) {
        let early = at > self.armed && self.armed.since(now) < self.turns.window();
        if at < self.armed || early {
            self.timer.set(at);
            self.armed = at;
        }
    }
}
