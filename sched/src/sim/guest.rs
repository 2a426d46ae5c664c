//! Modelled guests: what the built-in workloads do, as far as a scheduler can tell.
//!
//! A guest is a state machine that is asked for its next step when the last one is over. It waits as real ones do: it
//! spins for a moment, then yields, names the vCPU that it waits for, says whether it yields *again* in this wait, and
//! looks anew. A guest that is told which vCPUs run spins longer for one that runs, and not at all for one that does
//! not.

mod chatter;
mod exchange;
mod manners;
pub(super) mod step;
mod waiting;

pub use chatter::Chatter;
pub use manners::{Manners, Patience};
pub use step::Phase;

use super::world::World;
use crate::time::{Nanos, Time};
use crate::wait::{Wait, Yield};
use std::ops::Range;
use step::Step;

/// A guest.
#[derive(Debug, Clone)]
pub enum Guest {
    /// Computes for ever.
    Hog,
    /// Computes, and yields with these words after every stretch.
    Yielder {
        /// How long it computes.
        stretch: Nanos,
        /// What it says.
        says: Wait,
        /// It has computed.
        yielding: bool,
    },
    /// Computes, and has its thread do device work after every stretch.
    Device {
        /// How long it computes.
        stretch: Nanos,
        /// How long a turn of device work takes.
        turn: Nanos,
        /// It has computed.
        working: bool,
    },
    /// Wakes vCPUs after every stretch.
    Waker {
        /// The vCPUs.
        wakes: Range<usize>,
        /// How long it computes.
        stretch: Nanos,
        /// It has computed.
        waking: bool,
    },
    /// Takes a lock again and again.
    Locker {
        /// The number of the lock.
        lock: usize,
        /// Work with the lock held.
        hold: Nanos,
        /// Work between.
        gap: Nanos,
        /// How it waits.
        manners: Manners,
        /// Where it is.
        phase: Phase,
    },
    /// Answers every letter from its peer.
    Pinger {
        /// The vCPU that it writes to.
        peer: usize,
        /// Work before an answer.
        work: Nanos,
        /// How it waits.
        manners: Manners,
        /// Where it is.
        phase: Phase,
    },
    /// Works, then sleeps for so long however late that was: a client with one request at a time.
    Client {
        /// How long it works.
        work: Nanos,
        /// How long it sleeps.
        sleep: Nanos,
        /// Where it is.
        phase: Phase,
    },
    /// Wakes up periodically and works. A late wake hides none of the next ones.
    Prober {
        /// Time from one wake to the next.
        period: Nanos,
        /// Work at each.
        work: Nanos,
        /// When the next is due; before it has started, how long after that its first period begins.
        due: Time,
        /// Where it is.
        phase: Phase,
    },
    /// Sends a request, idles until it is answered, and sends the next one.
    Requester {
        /// The vCPU that it asks.
        server: usize,
        /// Which of the world's exchanges is next.
        exchange: u32,
        /// Where it is.
        phase: Phase,
    },
    /// Idles until it is asked, and answers.
    Server {
        /// Where it is.
        phase: Phase,
    },
    /// Has a moment's work once, and then none.
    Newcomer {
        /// How long it works.
        work: Nanos,
        /// Where it is.
        phase: Phase,
    },
    /// A thread of a chat room.
    Chatter(Box<Chatter>),
}

impl Guest {
    /// A locker of lock 0: so long within the lock, so long outside.
    pub fn locker(hold: Nanos, gap: Nanos, patience: Patience) -> Self {
        let manners = Manners { spin: Nanos::from_micros(5), patience };
        Self::Locker { lock: 0, hold, gap, manners, phase: Phase::Apart }
    }

    /// One of a pair.
    pub fn pinger(peer: usize, patience: Patience) -> Self {
        let (work, manners) = (Nanos::from_micros(2), Manners { spin: Nanos::from_micros(5), patience });
        Self::Pinger { peer, work, manners, phase: Phase::Apart }
    }

    /// A probe.
    pub fn prober(period: Nanos, work: Nanos) -> Self {
        Self::Prober { period, work, due: Time(0), phase: Phase::Apart }
    }

    /// A client with so much work between two sleeps.
    pub fn client(work: Nanos, sleep: Nanos) -> Self {
        Self::Client { work, sleep, phase: Phase::Apart }
    }

    /// Yields after every stretch.
    pub fn yielder(stretch: Nanos, says: Wait) -> Self {
        Self::Yielder { stretch, says, yielding: false }
    }

    /// Has its thread do device work after every stretch.
    pub fn device(stretch: Nanos, turn: Nanos) -> Self {
        Self::Device { stretch, turn, working: false }
    }

    /// Wakes these vCPUs after every stretch.
    pub fn waker(wakes: Range<usize>, stretch: Nanos) -> Self {
        Self::Waker { wakes, stretch, waking: false }
    }

    /// A client of this server, which begins with this one of the world's exchanges.
    pub fn requester(server: usize, exchange: u32) -> Self {
        Self::Requester { server, exchange, phase: Phase::Apart }
    }

    /// A server.
    pub fn server() -> Self {
        Self::Server { phase: Phase::Apart }
    }

    /// A thread of a chat room.
    pub fn chatter(thread: Chatter) -> Self {
        Self::Chatter(Box::new(thread))
    }

    /// One that comes, works and has done.
    pub fn newcomer(work: Nanos) -> Self {
        Self::Newcomer { work, phase: Phase::Apart }
    }

    /// What it does first.
    pub(super) fn start(&self) -> Nanos {
        match self {
            Self::Hog => LONG,
            Self::Yielder { stretch, .. } | Self::Device { stretch, .. } | Self::Waker { stretch, .. } => *stretch,
            Self::Locker { gap, .. } => *gap,
            _ => Nanos(100),
        }
    }

    /// Whether what it spins for has come.
    pub(super) fn ready(&self, world: &World, me: usize) -> bool {
        match self {
            Self::Locker { lock, .. } => world.locks[*lock].front() == Some(&me),
            Self::Pinger { .. } => world.mail[me] > 0,
            Self::Chatter(thread) => thread.is_free(world),
            _ => true,
        }
    }

    /// The step after the one that is over.
    pub(super) fn proceed(&mut self, world: &mut World, me: usize, now: Time) -> Step {
        match self {
            Self::Hog => Step::Compute(LONG),
            Self::Yielder { stretch, says, yielding } => {
                *yielding = !*yielding;
                if *yielding { Step::Yield(Yield { wait: *says, again: false }) } else { Step::Compute(*stretch) }
            }
            Self::Device { stretch, turn, working } => {
                *working = !*working;
                if *working { Step::Device(*turn) } else { Step::Compute(*stretch) }
            }
            Self::Waker { wakes, stretch, waking } => {
                *waking = !*waking;
                if !*waking {
                    return Step::Compute(*stretch);
                }
                world.events.extend(wakes.clone());
                Step::Kick
            }
            Self::Client { work, sleep, phase } => {
                if *phase == Phase::Working {
                    world.done(me);
                    *phase = Phase::Apart;
                    return Step::Idle(now + *sleep);
                }
                *phase = Phase::Working;
                Step::Compute(*work)
            }
            Self::Prober { .. } => self.probes(world, me, now),
            Self::Locker { .. } => self.locks(world, me, now),
            Self::Pinger { .. } => self.plays(world, me, now),
            Self::Requester { .. } => self.asks(world, me, now),
            Self::Server { phase } => exchange::serve(phase, world, me),
            Self::Chatter(thread) => thread.proceed(world, me, now),
            Self::Newcomer { work, phase } => {
                if *phase == Phase::Working {
                    return Step::Idle(Time::NEVER);
                }
                *phase = Phase::Working;
                Step::Compute(*work)
            }
        }
    }

    fn probes(&mut self, world: &mut World, me: usize, now: Time) -> Step {
        let Self::Prober { period, work, due, phase } = self else { unreachable!("only probes probe") };
        match *phase {
            Phase::Working => {
                world.end_wait(me, now);
                world.done(me);
            }
            // Due times are never based anew.
            Phase::Waiting { .. } if now >= *due => {
                *phase = Phase::Working;
                return Step::Compute(*work);
            }
            Phase::Waiting { .. } => return Step::Idle(*due),
            _ => *due = Time(now.0 + due.0),
        }
        *due = *due + *period;
        world.begin_wait(me, *due);
        *phase = Phase::Waiting { again: false, looks: 0 };
        Step::Idle(*due)
    }
}

/// A stretch of work that outlasts any run.
const LONG: Nanos = Nanos::from_millis(1_000_000_000);
