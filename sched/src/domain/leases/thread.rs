//! The life of a vCPU's thread: wait for a slot, run the vCPU on it, ask the policy when there is something to say.
//!
//! While it waits, its vCPU is blocked, napping, queued, or has been handed a slot. It is woken for a grant, for an
//! event that found it napping (with one pCPU: for any event), for its end, or by its deadline; each time it looks at
//! all of them.

mod doze;
mod rest;
mod rest_length;

use super::decisions::Answer;
use super::locked_state::Left;
use super::record::Record;
use super::shared::{Asker, HOME, Shared, Stopped};
use crate::attributes::{Attributes, Class};
use crate::domain::carried::set_carried;
use crate::domain::carrier_thread::enter_thread;
use crate::domain::cpu_meter::{CpuMeter, overran};
use crate::domain::division::Division;
use crate::domain::moves::Moves;
use crate::domain::pause::pause;
use crate::domain::spin_probe::SpinProbe;
use crate::ids::{Slot, VcpuId};
use crate::kick;
use crate::ledger::Account;
use crate::lock::Caller;
use crate::policy::Why;
use crate::slot::{SlotWord, Word};
use crate::sync::{Ordering, mpsc::SyncSender};
use crate::time::{Nanos, Time, monotonic};
use crate::vcpu::{Presence, Stop, Vcpu};
use doze::Halts;
pub(super) use rest::Rest;
use rest_length::RestLength;
use rustix::thread::CpuSet;
use std::io;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

/// What a vCPU gets of a lease that ended while its thread was woken: a fifth of the shortest. With nothing, it would
/// never make progress on a host that takes longer to wake a thread than leases last.
const LEAST: Nanos = Nanos::from_micros(20);

/// What comes after the vCPU ran: the thread waits, or the vCPU has ended.
type Next = ControlFlow<End, Rest>;

/// How a thread ends.
#[derive(Clone, Copy)]
enum End {
    /// The vCPU is done, and the locked state has forgotten it.
    Retired,
    /// All threads of the domain end; how the vCPU waits, if it does.
    Domain(Rest),
}

/// What a thread has to know of its vCPU.
pub(super) struct Start {
    pub(super) id: VcpuId,
    pub(super) attributes: Attributes,
    /// How the vCPU waits at first.
    pub(super) rest: Rest,
    pub(super) before: Missed,
}

/// What a vCPU did not get in other domains.
#[derive(Clone, Copy, Default)]
pub(super) struct Missed {
    pub(super) waited: Nanos,
    pub(super) taken: Nanos,
}

/// That the vCPU can be granted a slot, or why its thread ends and what becomes of the vCPU.
pub(super) type Started = Result<(), (io::Error, Box<dyn Vcpu>)>;

/// The life of a vCPU's thread.
pub(super) fn carry<W: Word>(
    shared: Arc<Shared<W>>,
    Start { id, attributes, mut rest, before }: Start,
    vcpu: Box<dyn Vcpu>,
    timer: kick::Timer,
    ready: &SyncSender<Started>,
) {
    let mut cpus = CpuSet::new();
    shared.slots.iter().for_each(|slot| cpus.set(slot.cpu));
    enter_thread(&cpus);
    let me = shared.records.of(id);
    me.begin();
    let halts = match Halts::of(&*vcpu, &shared, me) {
        Ok(halts) => halts,
        Err(error) => return ready.send(Err((error, vcpu))).unwrap_or(()),
    };
    HOME.with(|home| home.set(Arc::as_ptr(&shared).addr()));
    // The starter waits for this.
    let _ = ready.send(Ok(()));
    let caller = if attributes.class == Class::Rt { Caller::Rt } else { Caller::Normal };
    let mut thread = Thread {
        shared: &shared,
        id,
        asker: Asker { caller, rechecks: None },
        has_cap: attributes.group.is_some(),
        late: Nanos::ZERO,
        meter: CpuMeter::default(),
        since: Time::NEVER,
        me,
        vcpu,
        halts,
        timer,
        armed: Time::NEVER,
        lease_end: Time::NEVER,
        rests: RestLength::default(),
        probe: SpinProbe::default(),
        slot: None,
        boosted: None,
        times_out: true,
        before,
        ways: Nanos::ZERO,
        waited: Nanos::ZERO,
        last: Account::default(),
    };
    let end = loop {
        let next = match thread.wait(rest) {
            Continue((slot, since)) => {
                thread.end_boost();
                thread.slot = Some(slot);
                thread.tell(Presence::Here);
                let next = thread.run(slot, since);
                thread.halts.iter().for_each(|halts| halts.ends(&shared.slots[slot.index()]));
                next
            }
            Break(end) => Break(end),
        };
        match next {
            Continue(then) => rest = then,
            Break(end) => break end,
        }
    };
    let (vcpu, last) = (thread.vcpu, thread.last);
    match end {
        End::Retired => vcpu.retired(&last),
        End::Domain(Rest { until, dozes, .. }) => {
            shared.lock_of(id).1.entry(id).left = Some(Left { vcpu, until, dozes });
        }
    }
}

struct Thread<'a, W> {
    shared: &'a Shared<W>,
    id: VcpuId,
    asker: Asker,
    /// It does not nap, and tells the policy how late it began to run, however little that is.
    has_cap: bool,
    /// So late, which the policy has not been told.
    late: Nanos,
    meter: CpuMeter,
    /// When it last asked, or began to run.
    since: Time,
    me: &'a Record,
    vcpu: Box<dyn Vcpu>,
    /// For one that may halt inside.
    halts: Option<Halts>,
    timer: kick::Timer,
    /// What the timer is set to; a time that has passed means it is not set.
    armed: Time,
    /// When the policy wants to be asked; kept over a nap.
    lease_end: Time,
    rests: RestLength,
    probe: SpinProbe,
    /// The slot it last ran on, to whose pCPU it is bound.
    slot: Option<Slot>,
    /// Since when the thread is in the host's real-time class on that pCPU.
    boosted: Option<Time>,
    /// Its last wait with a deadline ended by that.
    times_out: bool,
    before: Missed,
    /// What the way took in all, from being handed a slot to running there.
    ways: Nanos,
    /// What it had waited in all, ways included, when it last came to a slot.
    waited: Nanos,
    /// Its last account, once it has retired.
    last: Account,
}

impl<W: Word> Thread<'_, W> {
    /// Tells a vCPU that is about to run what it did not get.
    fn tell_missed(&mut self) {
        let taken = Nanos(self.me.taken.load(Ordering::Relaxed));
        self.vcpu.waited(self.before.waited + self.waited, self.before.taken + taken);
    }

    fn tell(&mut self, presence: Presence) {
        if self.shared.policy.tells_presence {
            self.vcpu.presence(presence);
        }
    }

    /// Runs the vCPU on a slot, which it has had for a moment, until it gives it up.
    fn run(&mut self, slot: Slot, now: Time) -> Next {
        set_carried(self.shared, self.id, slot);
        self.me.account.start(now);
        self.meter.slept();
        self.since = now;
        self.halts.iter().for_each(|halts| halts.begins(self.shared));
        // The kick for having left the CPU. Without it nothing is pending, or a look that costs an exit.
        if self.halts.as_ref().is_some_and(Halts::is_armed) {
            self.drain();
        }
        self.lease_end = first_question(self.lease_end, now);
        self.goes_on(now);
        // Kicks may just have been drained, but what they were for shows.
        let told = self.me.retiring.load(Ordering::Relaxed) || self.shared.ending.load(Ordering::Relaxed);
        if told || self.word(slot).is_wanted() {
            let stopped = Stopped { why: Why::Check, until: Time::NEVER, dozes: false, at_work: false };
            if let Some(next) = self.ask(slot, stopped) {
                return next;
            }
        }
        loop {
            let on = &self.shared.slots[slot.index()];
            self.halts.iter_mut().for_each(|halts| halts.watch(on));
            let stop = self.vcpu.run();
            self.me.counts.exit();
            let Some(stopped) = self.reason(slot, stop) else { continue };
            if stopped.why == Why::Block && self.may_nap(slot) {
                match self.nap(slot, stopped) {
                    Some(rest) => return Continue(rest),
                    None => continue,
                }
            }
            if let Some(next) = self.ask(slot, stopped) {
                return next;
            }
        }
    }

    /// What there is to ask after a stop; `None`: nothing, the vCPU goes on.
    fn reason(&mut self, slot: Slot, stop: Stop) -> Option<Stopped> {
        let (wanted, at_work) = (self.word(slot).is_wanted(), stop.is_of_work());
        let why = match stop {
            Stop::Exit if wanted => Why::Check,
            Stop::Exit if self.shared.policy.keeps_slot_over_exits => return None,
            Stop::Exit => Why::Exit,
            Stop::Yield(y) => {
                self.probe.yields(y.wait);
                let elsewhere = self.shared.target_elsewhere(slot, y).is_some();
                let is_alone = !self.waiters(slot) && !wanted && !elsewhere;
                if is_alone && !self.shared.policy.told_of_lone_yields {
                    self.me.counts.yielded(y.wait);
                    return None;
                }
                Why::Yield(y)
            }
            Stop::Kicked | Stop::Overran => self.kicked(slot)?,
            Stop::Idle(until) => {
                self.probe.idles();
                return Some(Stopped { why: Why::Block, until, dozes: false, at_work });
            }
            Stop::Halted => {
                self.drain();
                self.probe.idles();
                return Some(Stopped { why: Why::Block, until: Time::NEVER, dozes: true, at_work });
            }
            Stop::Done => Why::Retire,
        };
        Some(Stopped { why, until: Time::NEVER, dozes: false, at_work })
    }

    /// Why to ask after a kick; `None`: it was only a look, and the vCPU goes on.
    fn kicked(&mut self, slot: Slot) -> Option<Why> {
        let now = self.drain();
        if !self.shared.detects_spinning {
            return Some(Why::Check);
        }
        let spins = self.probe.kicked(now, || self.vcpu.spins());
        let wanted = self.word(slot).is_wanted();
        if let Some(y) = spins
            && (wanted || self.waiters(slot))
        {
            return Some(Why::Yield(y));
        }
        let ends = self.me.retiring.load(Ordering::Relaxed) || self.shared.ending.load(Ordering::Relaxed);
        if self.lease_end <= now || wanted || ends {
            return Some(Why::Check);
        }
        self.arm(self.lease_end.min(self.probe.next()));
        None
    }

    /// Whether a vCPU that blocks may give its slot up without a word.
    fn may_nap(&self, slot: Slot) -> bool {
        !self.has_cap
            && self.shared.policy.keeps_slot_over_exits
            && !self.waiters(slot)
            && !self.word(slot).is_wanted()
            && !self.shared.division.board.has_spare()
    }

    /// Whether a vCPU waits in the slot's shard.
    fn waiters(&self, slot: Slot) -> bool {
        self.shared.gate(self.shared.division.plan.of(slot)).waiters()
    }

    /// Gives the slot up without a word. `None`: the vCPU need not wait.
    fn nap(&mut self, slot: Slot, stopped: Stopped) -> Option<Rest> {
        let Stopped { until, dozes, .. } = stopped;
        let now = monotonic();
        if until <= now {
            self.me.events.use_up();
            return None;
        }
        if !self.me.events.nap() {
            return None;
        }
        self.me.account.stop(now);
        self.me.naps.begin(now);
        let wanted = self.word(slot).release(self.id);
        let Division { plan, board, .. } = &self.shared.division;
        let shard = plan.of(slot);
        let mut waited_for = self.shared.gate(shard).leave(slot);
        if board.is_needed() {
            board.leaves(shard, true);
            waited_for |= board.has_spare();
        }
        if wanted || waited_for {
            self.shared.turn(shard, self.asker, |_, _, _| ());
        }
        self.tell(Presence::Idle);
        Some(Rest { until, dozes, nap: Some(slot) })
    }

    /// The thread, as it brings a vCPU to its slot's shard, before it asks.
    fn mover(&self) -> Asker {
        Asker { rechecks: Some(self.me.thread()), ..self.asker }
    }

    /// Tells the policy why the vCPU stopped. `None`: it goes on.
    fn ask(&mut self, slot: Slot, stopped: Stopped) -> Option<Next> {
        self.shared.brings_before(slot, stopped.why, self.mover());
        let shard = self.shared.division.plan.of(slot);
        let looked = monotonic();
        let mut taken = self.meter.worked(self.since, looked);
        let (answer, gone) = self.shared.turn(shard, self.asker, |state, now, acts| {
            taken += CpuMeter::until_asked(looked, now);
            self.me.taken.store(self.me.taken.load(Ordering::Relaxed) + taken.0, Ordering::Relaxed);
            taken += std::mem::take(&mut self.late);
            if taken > Nanos::ZERO {
                state.ledger.taken(slot, taken, now);
            }
            if stopped.at_work && overran(self.lease_end + taken, self.since + taken, now) {
                state.ledger.overran(slot, now);
            }
            let answer = self.shared.answer(state, slot, stopped, now, acts);
            if !matches!(answer, Answer::GoesOn { .. }) {
                self.me.account.stop(now);
            }
            if answer != Answer::Retired {
                return (answer, None);
            }
            let (last, gone) = self.shared.forget(state, self.id, now);
            self.last = last;
            (answer, gone)
        });
        drop(gone);
        match answer {
            Answer::GoesOn { .. } if self.shared.ending.load(Ordering::Relaxed) => {
                self.me.account.stop(monotonic());
                Some(Break(End::Domain(Rest::PLAIN)))
            }
            Answer::GoesOn { until, pause: time } => {
                self.lease_end = until;
                if taken > Nanos::ZERO {
                    self.tell_missed();
                }
                pause(time, || self.word(slot).is_wanted());
                self.since = monotonic();
                self.goes_on(self.since);
                None
            }
            Answer::Blocked => {
                self.tell(Presence::Idle);
                Some(Continue(Rest { until: stopped.until, dozes: stopped.dozes, nap: None }))
            }
            Answer::Queued => {
                self.tell(Presence::Away);
                Some(Continue(Rest::PLAIN))
            }
            Answer::Retired => Some(Break(End::Retired)),
        }
    }

    /// The vCPU runs from now on: sees to the next question and the next look.
    fn goes_on(&mut self, now: Time) {
        self.probe.plan(now, self.lease_end != Time::NEVER);
        self.arm(self.lease_end.min(self.probe.next()));
    }

    /// The thread is about to wait. A timer that fires meanwhile would interrupt another vCPU for nothing, so it is
    /// unset, unless the wait will be over by then. If it has just fired, its kick costs the next turn an exit.
    fn unsets_timer(&mut self, now: Time) {
        if self.armed != Time::NEVER && !self.rests.is_over_by(self.armed, now) {
            self.timer.set(Time::NEVER);
            self.armed = Time::NEVER;
        }
    }

    fn word(&self, slot: Slot) -> &SlotWord<W> {
        &self.shared.slots[slot.index()].word
    }

    /// Sees to it that the thread asks at this time. A timer that is set earlier is left: it costs a question, less
    /// often than setting it would.
    fn arm(&mut self, at: Time) {
        if at < self.armed {
            self.timer.set(at);
            self.armed = at;
        }
    }
}

/// When a vCPU with this lease that begins to run has to ask. It makes some progress first, however late its thread was
/// woken.
fn first_question(lease_end: Time, now: Time) -> Time {
    lease_end.max(now + LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vcpu_whose_lease_ended_on_the_way_runs_before_it_asks() {
        let now = Time(1_000_000);
        assert_eq!(first_question(Time(5), now), now + LEAST);
        assert_eq!(first_question(now, now), now + LEAST);
        assert_eq!(first_question(Time(9_000_000), now), Time(9_000_000));
        assert_eq!(first_question(Time::NEVER, now), Time::NEVER);
    }
}
