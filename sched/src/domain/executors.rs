//! Executors: one thread per pCPU, bound to it, runs whichever vCPU the policy picks.
//!
//! A switch is a return from one vCPU and the start of another on the same thread: no hand-over between threads, no
//! change of affinity. It needs guests whose every wait is an exit, and a kernel that lets a vCPU go from thread to
//! thread freely (Linux 6.13 or newer).
//!
//! # Protocol of a slot
//! 1. The executor runs its vCPU. An exit that leaves the vCPU runnable goes straight back while the slot is not wanted,
//!    and so does a yield while nobody waits: one load each, no lock. This is rump's fast path: the vCPU that just left
//!    is the one to run.
//! 2. Else the executor *asks*: it acknowledges the stamp on its slot, then takes the lock, wakes what is due, tells the
//!    policy why the vCPU stopped, and does what it decides. In this order, a stamp set after the policy has answered
//!    makes it ask again.
//! 3. Others that put somebody in the queue stamp the slot and, if theirs is the first stamp, kick its thread. An idle
//!    executor is woken instead.
//!
//! How a vCPU that blocks and an event for it meet: see `events.rs` beside this file. The lock is never held across a system call, nor while a vCPU is dropped.

use super::deadlines::Deadlines;
use super::events::Events;
use super::numbers::Numbers;
use super::parker::Parker;
use super::{Attributes, Domain, DomainError, Totals, Usage, Yields, kick};
use crate::policy::{Placement, Policy, Why};
use crate::slot::SlotWord;
use crate::time::monotonic;
use crate::{Slot, Stop, Time, Vcpu, VcpuId, Wait};
use arrayvec::ArrayVec;
use parking_lot::Mutex;
use rustix::thread::CpuSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

/// Most vCPUs of a domain.
pub const MAX_VCPUS: usize = 1 << 17;
/// Deadlines handled in one go, so that the lock is held for a bounded time; the rest follows at once.
const DUE_AT_ONCE: usize = 8;

/// A domain with a policy and an executor for each pCPU.
#[derive(Debug)]
pub struct Executors {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    core: Mutex<Core>,
    slots: Box<[SlotShared]>,
    events: Box<[Events]>,
    /// Somebody is queued. Written under the lock; read without, where being late only means one more exit.
    waiters: AtomicBool,
    keeps_slot_over_exits: bool,
    ending: AtomicBool,
}

/// What others may see of a slot.
#[derive(Debug, Default)]
struct SlotShared {
    word: SlotWord,
    parker: Parker,
    thread: OnceLock<kick::ThreadId>,
    counts: Counts,
}

/// Counters written by their executor only.
#[derive(Debug, Default)]
struct Counts {
    exits: AtomicU64,
    unknown: AtomicU64,
    lock: AtomicU64,
    message: AtomicU64,
    alone: AtomicU64,
}

/// What the lock guards.
struct Core {
    policy: Box<dyn Policy>,
    vcpus: Vec<Option<Entry>>,
    numbers: Numbers,
    deadlines: Box<[Deadlines]>,
    /// Who was last on each slot.
    last: Box<[Option<VcpuId>]>,
    switches: u64,
    migrations: u64,
    switched: u64,
    stayed: u64,
}

struct Entry {
    /// Here while the vCPU is not on a slot.
    vcpu: Option<Box<dyn Vcpu>>,
    on: Option<Slot>,
    last: Option<Slot>,
    /// The slot that watches its deadline.
    deadline: Option<Slot>,
    retiring: bool,
    usage: Usage,
    /// When it was put on its slot, and that slot's exits then.
    since: Time,
    exits_before: u64,
}

/// Something to do once the lock is free.
enum Act {
    /// The slot has to ask.
    Ask(Slot),
    /// The idle executor of the slot has to look.
    Rouse(Slot),
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl Executors {
    /// A domain on these host CPUs, whose slots they are in this order.
    pub fn new(cpus: &[usize], policy: Box<dyn Policy>) -> io::Result<Self> {
        let keeps_slot_over_exits = policy.keeps_slot_over_exits();
        let core = Core {
            policy,
            vcpus: Vec::new(),
            numbers: Numbers::default(),
            deadlines: cpus.iter().map(|_| Deadlines::default()).collect(),
            last: cpus.iter().map(|_| None).collect(),
            switches: 0,
            migrations: 0,
            switched: 0,
            stayed: 0,
        };
        let shared = Arc::new(Shared {
            core: Mutex::new(core),
            slots: cpus.iter().map(|_| SlotShared::default()).collect(),
            events: (0..MAX_VCPUS).map(|_| Events::default()).collect(),
            waiters: AtomicBool::new(false),
            keeps_slot_over_exits,
            ending: AtomicBool::new(false),
        });
        let mut domain = Self { shared, threads: Vec::new() };
        for (slot, &cpu) in cpus.iter().enumerate() {
            domain.start(Slot(slot as u16), cpu)?;
        }
        Ok(domain)
    }

    fn start(&mut self, slot: Slot, cpu: usize) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let (ready, started) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name(format!("pcpu {cpu}"))
            .stack_size(super::STACK_BYTES)
            .spawn(move || execute(&shared, slot, cpu, &ready))?;
        self.threads.push(thread);
        started.recv().unwrap_or_else(|_| Err(io::Error::other("an executor ended while it started")))
    }
}

impl Drop for Executors {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        for slot in &self.shared.slots {
            slot.word.want();
            slot.parker.wake();
            if let Some(thread) = slot.thread.get() {
                kick::send(*thread);
            }
        }
        for thread in self.threads.drain(..) {
            // A panic there was reported by the panic hook; there is nothing left to do about it.
            let _ = thread.join();
        }
    }
}

impl Domain for Executors {
    fn add(&self, vcpu: Box<dyn Vcpu>, attributes: Attributes) -> Result<VcpuId, DomainError> {
        let mut core = self.shared.core.lock();
        let id = core.numbers.take(MAX_VCPUS).ok_or(DomainError::Full(MAX_VCPUS))?;
        if id.index() == core.vcpus.len() {
            core.vcpus.push(None);
            core.deadlines.iter_mut().for_each(|d| d.admit(id));
        }
        core.policy.add(id, attributes, monotonic());
        core.vcpus[id.index()] = Some(Entry {
            vcpu: Some(vcpu),
            on: None,
            last: None,
            deadline: None,
            retiring: false,
            usage: Usage::default(),
            since: Time(0),
            exits_before: 0,
        });
        self.shared.events[id.index()].admit();
        Ok(id)
    }

    fn wake(&self, vcpu: VcpuId) {
        if !self.shared.events.get(vcpu.index()).is_some_and(Events::signal) {
            return;
        }
        let act = {
            let mut core = self.shared.core.lock();
            let act = self.shared.unblock(&mut core, vcpu, monotonic());
            self.shared.publish(&core);
            act
        };
        act.into_iter().for_each(|act| self.shared.perform(act));
    }

    fn retire(&self, vcpu: VcpuId) {
        let gone = {
            let mut core = self.shared.core.lock();
            let Some(Some(entry)) = core.vcpus.get_mut(vcpu.index()) else { return };
            match entry.on {
                Some(slot) => {
                    entry.retiring = true;
                    Err(slot)
                }
                None => {
                    core.policy.remove(vcpu);
                    let gone = self.shared.forget(&mut core, vcpu);
                    self.shared.publish(&core);
                    Ok(gone)
                }
            }
        };
        match gone {
            Ok(vcpu) => vcpu.into_iter().for_each(Vcpu::retired),
            Err(slot) => self.shared.perform(Act::Ask(slot)),
        }
    }

    fn usage(&self, vcpu: VcpuId) -> Option<Usage> {
        let core = self.shared.core.lock();
        let entry = core.vcpus.get(vcpu.index())?.as_ref()?;
        let mut usage = entry.usage;
        if let Some(slot) = entry.on {
            usage.run_ns += monotonic().since(entry.since).0;
            usage.exits += self.shared.slots[slot.index()].counts.exits.load(Ordering::Relaxed) - entry.exits_before;
        }
        Some(usage)
    }

    fn totals(&self) -> Totals {
        let core = self.shared.core.lock();
        let sum = |of: fn(&Counts) -> &AtomicU64| {
            self.shared.slots.iter().map(|slot| of(&slot.counts).load(Ordering::Relaxed)).sum::<u64>()
        };
        Totals {
            exits: sum(|c| &c.exits),
            switches: core.switches,
            migrations: core.migrations,
            yields: Yields {
                unknown: sum(|c| &c.unknown),
                lock: sum(|c| &c.lock),
                message: sum(|c| &c.message),
                alone: sum(|c| &c.alone),
                switched: core.switched,
                stayed: core.stayed,
            },
        }
    }
}

impl Shared {
    /// Completes a wake whose event found the vCPU blocked, unless somebody else has.
    fn unblock(&self, core: &mut Core, vcpu: VcpuId, now: Time) -> Option<Act> {
        if !self.events[vcpu.index()].unblock() {
            return None;
        }
        let entry = core.vcpus[vcpu.index()].as_mut()?;
        if let Some(slot) = entry.deadline.take() {
            core.deadlines[slot.index()].remove(vcpu);
        }
        match core.policy.wake(vcpu, now) {
            Placement::Run(slot) => Some(Act::Rouse(slot)),
            Placement::Preempt(slot) | Placement::Queue(Some(slot)) => Some(Act::Ask(slot)),
            Placement::Queue(None) => None,
        }
    }

    fn perform(&self, act: Act) {
        match act {
            Act::Rouse(slot) => self.slots[slot.index()].parker.wake(),
            Act::Ask(slot) => {
                let slot = &self.slots[slot.index()];
                if slot.word.want()
                    && let Some(thread) = slot.thread.get()
                {
                    kick::send(*thread);
                }
            }
        }
    }

    fn publish(&self, core: &Core) {
        let waiting = core.policy.waiting() > 0;
        if self.waiters.load(Ordering::Relaxed) != waiting {
            self.waiters.store(waiting, Ordering::Relaxed);
        }
    }

    /// Removes a vCPU the policy has let go of.
    fn forget(&self, core: &mut Core, vcpu: VcpuId) -> Option<Box<dyn Vcpu>> {
        self.events[vcpu.index()].retire();
        let entry = core.vcpus[vcpu.index()].take()?;
        if let Some(slot) = entry.deadline {
            core.deadlines[slot.index()].remove(vcpu);
        }
        core.numbers.give_back(vcpu);
        entry.vcpu
    }
}

/// What an executor has in hand.
struct Hand {
    id: VcpuId,
    vcpu: Box<dyn Vcpu>,
}

/// The life of an executor.
fn execute(shared: &Shared, slot: Slot, cpu: usize, ready: &SyncSender<io::Result<()>>) {
    let mut only = CpuSet::new();
    only.set(cpu);
    super::enter_thread(&only);
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
                    if !self.shared.waiters.load(Ordering::Relaxed) && !self.me.word.is_wanted() {
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
            return self.ask(Some(hand), why, until);
        }
    }

    /// Waits until there is something to do, and asks.
    fn idle(&mut self) -> Option<Hand> {
        let until = self.shared.core.lock().deadlines[self.slot.index()].earliest();
        self.me.parker.wait(until);
        self.ask(None, Why::Free, Time::NEVER)
    }

    /// Tells the policy why the vCPU in hand stopped, and takes up what it decides.
    fn ask(&mut self, hand: Option<Hand>, why: Why, until: Time) -> Option<Hand> {
        self.me.word.acknowledge();
        let mut acts = ArrayVec::<Act, { DUE_AT_ONCE + 1 }>::new();
        let mut gone = None;
        let (next, ask_at) = {
            let mut core = self.shared.core.lock();
            let now = monotonic();
            self.wake_due(&mut core, now, &mut acts);
            let answer = self.answer(&mut core, hand, why, until, now, &mut acts, &mut gone);
            self.shared.publish(&core);
            answer
        };
        acts.into_iter().for_each(|act| self.shared.perform(act));
        gone.into_iter().for_each(|vcpu: Box<dyn Vcpu>| vcpu.retired());
        if next.is_some() {
            self.arm(ask_at);
        }
        next
    }

    /// Wakes the blocked vCPUs this slot watches whose time has come.
    fn wake_due(&self, core: &mut Core, now: Time, acts: &mut ArrayVec<Act, { DUE_AT_ONCE + 1 }>) {
        for _ in 0..DUE_AT_ONCE {
            let Some(vcpu) = core.deadlines[self.slot.index()].pop_due(now) else { break };
            if let Some(entry) = core.vcpus[vcpu.index()].as_mut() {
                entry.deadline = None;
            }
            self.shared.events[vcpu.index()].signal();
            match self.shared.unblock(core, vcpu, now) {
                // This slot is asking already.
                Some(Act::Ask(slot) | Act::Rouse(slot)) if slot == self.slot => {}
                act => acts.extend(act),
            }
        }
    }

    /// The policy's answer under the lock: what to run, and when to ask again at the latest.
    #[allow(clippy::too_many_arguments, reason = "one step of `ask`, split for reading")]
    fn answer(
        &self,
        core: &mut Core,
        hand: Option<Hand>,
        mut why: Why,
        until: Time,
        now: Time,
        acts: &mut ArrayVec<Act, { DUE_AT_ONCE + 1 }>,
        gone: &mut Option<Box<dyn Vcpu>>,
    ) -> (Option<Hand>, Time) {
        let before = hand.as_ref().map(|h| h.id);
        if let Some(hand) = &hand {
            if core.vcpus[hand.id.index()].as_ref().is_none_or(|e| e.retiring) {
                why = Why::Retire;
            } else if why == Why::Block && !self.blocks(core, hand.id, until, now) {
                why = Why::Check;
            }
        }
        let yielded = matches!(why, Why::Yield(_));
        let decision = core.policy.next(self.slot, why, now);
        acts.extend(decision.kick.map(Act::Ask));
        let next = decision.run.map(|lease| lease.vcpu);
        if yielded {
            *if next == before { &mut core.stayed } else { &mut core.switched } += 1;
        }
        let hand = match hand {
            Some(hand) if next == Some(hand.id) => Some(hand),
            hand => {
                if let Some(hand) = hand {
                    *gone = self.put_down(core, hand, why == Why::Retire, now);
                }
                next.map(|vcpu| self.pick_up(core, vcpu, now))
            }
        };
        self.stamp_word(core, before, next);
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

    fn put_down(&self, core: &mut Core, hand: Hand, retires: bool, now: Time) -> Option<Box<dyn Vcpu>> {
        let entry = core.vcpus[hand.id.index()].as_mut().expect("a vCPU on a slot is known");
        entry.usage.run_ns += now.since(entry.since).0;
        entry.usage.exits += self.me.counts.exits.load(Ordering::Relaxed) - entry.exits_before;
        entry.on = None;
        entry.vcpu = Some(hand.vcpu);
        if retires {
            return self.shared.forget(core, hand.id);
        }
        None
    }

    /// The slot word follows: under the lock, so that whoever finds the slot busy there can stamp it.
    fn stamp_word(&self, core: &mut Core, before: Option<VcpuId>, next: Option<VcpuId>) {
        let last = &mut core.last[self.slot.index()];
        match (before, next) {
            (Some(_), None) => {
                self.me.word.release(last.unwrap_or(VcpuId(0)));
            }
            (None, Some(vcpu)) => {
                let _ = self.me.word.acquire(vcpu) || self.me.word.take();
            }
            _ => {}
        }
        if next.is_some() {
            *last = next;
        }
    }

    fn pick_up(&self, core: &mut Core, vcpu: VcpuId, now: Time) -> Hand {
        if core.last[self.slot.index()].is_some_and(|last| last != vcpu) {
            core.switches += 1;
        }
        let entry = core.vcpus[vcpu.index()].as_mut().expect("the policy names only vCPUs it was told of");
        if entry.last.is_some_and(|last| last != self.slot) {
            core.migrations += 1;
        }
        (entry.on, entry.last) = (Some(self.slot), Some(self.slot));
        entry.since = now;
        entry.exits_before = self.me.counts.exits.load(Ordering::Relaxed);
        Hand { id: vcpu, vcpu: entry.vcpu.take().expect("a vCPU that is on no slot is here") }
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
