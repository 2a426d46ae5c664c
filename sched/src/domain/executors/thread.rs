//! The life of an executor: run the vCPU in hand, ask the policy when there is something to say, take up its answer.

use super::{Act, Core, DUE_AT_ONCE, Shared, SlotShared};
use crate::domain::{enter_thread, kick};
use crate::lock::Caller;
use crate::policy::Why;
use crate::sync::mpsc::SyncSender;
use crate::time::monotonic;
use crate::{Nanos, Slot, Stop, Time, Vcpu, VcpuId, Wait};
use arrayvec::ArrayVec;
use rustix::thread::CpuSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// What an executor has in hand.
struct Hand {
    id: VcpuId,
    vcpu: Box<dyn Vcpu>,
    caller: Caller,
    /// What it had waited in all when it was put on the slot.
    waited: Nanos,
}

/// Why the vCPU in hand stopped, and if it blocks, until when.
#[derive(Clone, Copy)]
struct Stopped {
    why: Why,
    until: Time,
}

/// Room for what due deadlines and a decision ask of others.
type Acts = ArrayVec<Act, { DUE_AT_ONCE + 1 }>;

/// What is left to do once the lock is free.
#[derive(Default)]
struct After {
    acts: Acts,
    /// A vCPU the domain has let go of.
    gone: Option<Box<dyn Vcpu>>,
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
    let mut executor = Executor { shared, slot, me, timer, armed: Time::NEVER };
    let mut hand = None;
    while !shared.ending.load(Ordering::Relaxed) {
        hand = match hand {
            Some(h) => executor.run(h),
            None => executor.idle(),
        };
    }
    if let Some(hand) = hand {
        executor.leave(hand);
    }
}

struct Executor<'a> {
    shared: &'a Shared,
    slot: Slot,
    me: &'a SlotShared,
    timer: kick::Timer,
    /// What the timer is set to; a time that has passed means it is not set.
    armed: Time,
}

impl Executor<'_> {
    /// Runs the vCPU in hand until the policy has to be asked, and asks.
    fn run(&mut self, mut hand: Hand) -> Option<Hand> {
        let counts = &self.me.counts;
        hand.vcpu.waited(hand.waited);
        loop {
            let stop = hand.vcpu.run();
            count(&counts.exits);
            let why = match stop {
                Stop::Exit if self.me.word.is_wanted() => Why::Check,
                Stop::Exit if self.shared.keeps_slot_over_exits => continue,
                Stop::Exit => Why::Exit,
                Stop::Yield(y) => {
                    count(match y.wait {
                        Wait::Unknown => &counts.unknown,
                        Wait::Lock(_) => &counts.lock,
                        Wait::Message(_) => &counts.message,
                    });
                    let alone = !self.shared.waiters.load(Ordering::Relaxed) && !self.me.word.is_wanted();
                    if alone && !self.shared.told_of_lone_yields {
                        count(&counts.alone);
                        continue;
                    }
                    Why::Yield(y)
                }
                Stop::Kicked => {
                    kick::drain();
                    if self.armed <= monotonic() {
                        self.armed = Time::NEVER;
                    }
                    Why::Check
                }
                Stop::Idle(_) => Why::Block,
                Stop::Done => Why::Retire,
            };
            let until = if let Stop::Idle(until) = stop { until } else { Time::NEVER };
            return self.ask(Some(hand), Stopped { why, until });
        }
    }

    /// Waits until there is something to do, and asks.
    fn idle(&mut self) -> Option<Hand> {
        let until = self.shared.core.lock().deadlines[self.slot.index()].earliest();
        self.me.parker.wait(until);
        self.ask(None, Stopped { why: Why::Free, until: Time::NEVER })
    }

    /// Tells the policy why the vCPU in hand stopped, and takes up what it decides.
    fn ask(&mut self, hand: Option<Hand>, stopped: Stopped) -> Option<Hand> {
        self.me.word.acknowledge();
        let mut after = After::default();
        let caller = hand.as_ref().map_or(Caller::Normal, |hand| hand.caller);
        let (next, ask_at) = {
            let mut core = self.shared.core.lock_as(caller);
            let now = monotonic();
            self.wake_due(&mut core, now, &mut after.acts);
            let answer = self.answer(&mut core, hand, stopped, now, &mut after);
            self.shared.publish(&core);
            answer
        };
        after.acts.into_iter().for_each(|act| self.shared.perform(act, None));
        after.gone.into_iter().for_each(Vcpu::retired);
        if next.is_some() {
            self.arm(ask_at);
        }
        next
    }

    /// Wakes the blocked vCPUs this slot watches whose time has come.
    fn wake_due(&self, core: &mut Core, now: Time, acts: &mut Acts) {
        for _ in 0..DUE_AT_ONCE {
            let Some(vcpu) = core.deadlines[self.slot.index()].pop_due(now) else { break };
            if let Some(entry) = core.vcpus[vcpu.index()].as_mut() {
                entry.deadline = None;
            }
            // The policy is told below, whatever the event found.
            let _ = self.shared.events[vcpu.index()].signal();
            match self.shared.unblock(core, vcpu, now) {
                // This slot is asking already.
                Some(Act::Ask(slot) | Act::Rouse(slot)) if slot == self.slot => {}
                act => acts.extend(act),
            }
        }
    }

    /// Why the policy is asked, now that nothing can change any more: the vCPU may have been retired meanwhile, or need
    /// not wait.
    fn final_reason(&self, core: &mut Core, hand: Option<&Hand>, stopped: Stopped, now: Time) -> Why {
        match hand {
            Some(hand) if core.vcpus[hand.id.index()].as_ref().is_none_or(|e| e.retiring) => Why::Retire,
            Some(hand) if stopped.why == Why::Block && !self.blocks(core, hand.id, stopped.until, now) => Why::Check,
            _ => stopped.why,
        }
    }

    /// The policy's answer under the lock: what to run, and when to ask again at the latest.
    fn answer(
        &self,
        core: &mut Core,
        hand: Option<Hand>,
        stopped: Stopped,
        now: Time,
        after: &mut After,
    ) -> (Option<Hand>, Time) {
        let before = hand.as_ref().map(|h| h.id);
        let why = self.final_reason(core, hand.as_ref(), stopped, now);
        let decision = core.ledger.next(self.slot, why, now);
        after.acts.extend(decision.kick.map(Act::Ask));
        let next = decision.run.map(|lease| lease.vcpu);
        let hand = match hand {
            Some(hand) if next == Some(hand.id) => Some(hand),
            hand => {
                if let Some(hand) = hand {
                    after.gone = self.put_down(core, hand, why == Why::Retire);
                }
                next.map(|vcpu| self.pick_up(core, vcpu))
            }
        };
        self.stamp_word(before, next);
        let lease_end = decision.run.map_or(Time::NEVER, |lease| lease.until);
        (hand, lease_end.min(core.deadlines[self.slot.index()].earliest()))
    }

    /// Marks a vCPU as blocked; false if it need not wait.
    fn blocks(&self, core: &mut Core, vcpu: VcpuId, until: Time, now: Time) -> bool {
        let events = &self.shared.events[vcpu.index()];
        if until <= now {
            events.use_up();
            return false;
        }
        if !events.block() {
            return false;
        }
        if until != Time::NEVER {
            core.deadlines[self.slot.index()].insert(until, vcpu);
            if let Some(entry) = core.vcpus[vcpu.index()].as_mut() {
                entry.deadline = Some(self.slot);
            }
        }
        true
    }

    /// The executor ends with a vCPU in hand, which stays on the slot for all that the policy knows.
    fn leave(&self, hand: Hand) {
        let mut core = self.shared.core.lock();
        let entry = core.vcpus[hand.id.index()].as_mut().expect("a vCPU on a slot is known");
        let exits = self.me.counts.exits.load(Ordering::Relaxed);
        entry.exits += exits - std::mem::replace(&mut entry.exits_before, exits);
        entry.vcpu = Some(hand.vcpu);
    }

    fn put_down(&self, core: &mut Core, hand: Hand, retires: bool) -> Option<Box<dyn Vcpu>> {
        let entry = core.vcpus[hand.id.index()].as_mut().expect("a vCPU on a slot is known");
        entry.exits += self.me.counts.exits.load(Ordering::Relaxed) - entry.exits_before;
        entry.on = None;
        entry.vcpu = Some(hand.vcpu);
        if retires {
            return self.shared.forget(core, hand.id);
        }
        None
    }

    /// The slot word follows: under the lock, so that whoever finds the slot busy there can stamp it.
    fn stamp_word(&self, before: Option<VcpuId>, next: Option<VcpuId>) {
        match (before, next) {
            (Some(_), None) => self.me.word.vacate(),
            (None, Some(_)) => self.me.word.occupy(),
            _ => {}
        }
    }

    fn pick_up(&self, core: &mut Core, vcpu: VcpuId) -> Hand {
        let waited = core.ledger.waited(vcpu);
        let entry = core.vcpus[vcpu.index()].as_mut().expect("the policy names only vCPUs it was told of");
        entry.on = Some(self.slot);
        entry.exits_before = self.me.counts.exits.load(Ordering::Relaxed);
        let in_hand = entry.vcpu.take().expect("a vCPU that is on no slot is here");
        Hand { id: vcpu, vcpu: in_hand, caller: entry.caller, waited }
    }

    /// Sees to it that the executor asks at this time. A timer that is set earlier is left: it costs a question, less
    /// often than setting it would.
    fn arm(&mut self, at: Time) {
        if at < self.armed {
            self.timer.set(at);
            self.armed = at;
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
