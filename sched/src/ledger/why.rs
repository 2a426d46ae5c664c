//! Why a vCPU waited: its longest wait, what ran meanwhile, and which vCPU caused the wait.
//!
//! Two passes over a recording: [`Waits`] finds the longest wait of a vCPU, [`Scene`] looks at what all vCPUs did
//! during it and draws the conclusion. Both take events one by one; a scene keeps what happened within one wait.
//!
//! # How a cause is found
//! 1. *Cap*: its group's budget was used up, and it was held back.
//! 2. *Nobody*: for at least half of the wait, the slot that the policy had named had not asked: a kick, or the wake-up
//!    of a thread, took that long. Or the slots were empty for most of the wait.
//! 3. *Host*: the host took more of a slot's time than its vCPUs had, and at least half of the wait.
//! 4. *Chain*: it yielded for a lock (a message), and during its wait the holder (the sender) mostly waited itself.
//!    Then the holder's longest wait therein is looked at in the same way, and so on. At the end of the chain, the vCPU
//!    that ran most while the last one waited is the culprit. If the last one was blocked, or held back by its cap, it
//!    is the culprit itself.
//! 5. *Quota*: it had used up its lease: its own doing. Others have their turn then.
//! 6. *Turns*: otherwise the vCPU that ran most is the culprit.

mod scene;

pub use scene::Scene;

use super::event::Event;
use super::spans::{Began, Doing, Span, Spans};
use crate::histogram::Histogram;
use crate::ids::{Slot, VcpuId};
use crate::time::{Nanos, Time};
use crate::wait::Wait;

/// What one vCPU waited, in all.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Time on a slot, without what was taken.
    pub run: Nanos,
    /// Time on a slot that the host took.
    pub taken: Nanos,
    /// Runnable without a slot.
    pub wait: Nanos,
    /// Blocked.
    pub idle: Nanos,
    /// How long it waited each time.
    pub waits: Histogram,
    /// By how its waits began, in the order of [`BEGINNINGS`]: how many, and how long in all.
    pub by_beginning: [(u64, Nanos); BEGINNINGS.len()],
    /// The longest wait, one that had not ended with the recording included.
    pub longest: Option<Span>,
}

/// How waits begin, in words.
pub const BEGINNINGS: [&str; 8] = [
    "it was woken",
    "it yielded for a lock or a message",
    "it yielded and said nothing",
    "its lease was used up",
    "it made room for another one",
    "its slot was taken before it had begun",
    "its VM's cap held it back",
    "the cap let it go on",
];

/// Finds a vCPU's longest wait.
#[derive(Debug)]
pub struct Waits<F> {
    is_it: F,
    spans: Spans,
    closed: Vec<Span>,
    summary: Summary,
}

impl<F: Fn(VcpuId, Time) -> bool> Waits<F> {
    /// Finds the longest wait of the vCPU for whose id and time `is_it` is true, among others on this many slots.
    pub fn new(slots: usize, is_it: F) -> Self {
        Self { is_it, spans: Spans::new(slots), closed: Vec::new(), summary: Summary::default() }
    }

    /// Takes the next event in.
    pub fn tell(&mut self, event: &Event) {
        self.spans.tell(event, &mut self.closed);
        self.count();
    }

    /// What it came to.
    pub fn finish(mut self) -> Summary {
        self.spans.finish(&mut self.closed);
        self.count();
        self.summary
    }

    fn count(&mut self) {
        for span in self.closed.drain(..) {
            if (self.is_it)(span.vcpu, span.from) {
                self.summary.count(span);
            }
        }
    }
}

impl Summary {
    fn count(&mut self, span: Span) {
        let time = span.time();
        match span.doing {
            Doing::Run(_) => self.run += time,
            Doing::Taken(_) => self.taken += time,
            Doing::Idle => self.idle += time,
            Doing::Wait(began) => {
                self.wait += time;
                self.waits.record(time);
                let (count, total) = &mut self.by_beginning[beginning(began)];
                *count += 1;
                *total += time;
                if self.longest.is_none_or(|longest| longest.time() < time) {
                    self.longest = Some(span);
                }
            }
        }
    }
}

/// The place in [`BEGINNINGS`].
fn beginning(began: Began) -> usize {
    match began {
        Began::Woken(_) => 0,
        Began::Yielded(y) if matches!(y.wait, Wait::Lock(_) | Wait::Message(_)) => 1,
        Began::Yielded(_) => 2,
        Began::UsedUp => 3,
        Began::GaveWay => 4,
        Began::Robbed => 5,
        Began::HeldBack => 6,
        Began::Resumed(_) => 7,
    }
}

/// A wait, explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The wait.
    pub wait: Span,
    /// What ran meanwhile and where, longest first.
    pub ran: Vec<Ran>,
    /// For how long slots were empty meanwhile, in all.
    pub free: Nanos,
    /// For how long the host had taken slots meanwhile, in all.
    pub taken: Nanos,
    /// Which vCPU waited for which, as far as the wait goes on.
    pub chain: Vec<Link>,
    /// What it was.
    pub cause: Cause,
    /// The vCPU that caused it; `None` if no vCPU did.
    pub culprit: Option<VcpuId>,
}

/// A vCPU ran on a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// The vCPU.
    pub vcpu: VcpuId,
    /// Its slot.
    pub slot: Slot,
    /// How long, within the wait.
    pub time: Nanos,
    /// The number of turns.
    pub turns: u64,
}

/// One vCPU waited for another, which made no progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The vCPU that waited.
    pub waiter: VcpuId,
    /// What it waited for.
    pub wait: Wait,
    /// The vCPU that it waited for.
    pub target: VcpuId,
    /// How long the latter waited for a slot meanwhile.
    pub waited: Nanos,
    /// How long it ran meanwhile.
    pub ran: Nanos,
    /// How long it was blocked meanwhile.
    pub idled: Nanos,
    /// How the longest of those waits of it began.
    pub began: Option<Began>,
}

/// What a wait was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Others had their turns; the culprit ran longest.
    Turns,
    /// Its group had used up what its cap allows.
    Cap,
    /// It had used up its own lease.
    Quota,
    /// It waited for a lock whose holder made no progress, because of the culprit.
    Lock,
    /// It waited for a message whose sender made no progress, because of the culprit.
    Message,
    /// The slot that was to take it up, or to make room, asked late.
    Kick {
        /// The slot.
        slot: Slot,
        /// After how long.
        latency: Nanos,
    },
    /// The host had taken a slot for most of it.
    Host {
        /// The slot.
        slot: Slot,
        /// For how long.
        time: Nanos,
    },
    /// The slots were empty for most of it.
    Nobody,
}
