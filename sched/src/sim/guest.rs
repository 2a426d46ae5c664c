//! Modelled guests: what the built-in workloads do, as far as a scheduler can tell.
//!
//! A guest is a state machine that is asked for its next step when the last one is over. It waits as real ones do: it
//! spins for a moment, then yields, says for whom it waits and whether it asks *again*, and looks anew.

use super::world::World;
use crate::{Nanos, Time, VcpuId, Wait, Yield};

/// What a guest does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Runs for so long.
    Compute(Nanos),
    /// Runs until [`Guest::ready`], but not longer than this.
    Spin(Nanos),
    /// Yields.
    Yield(Yield),
    /// Waits for an event, or for this time.
    Idle(Time),
}

/// How a guest waits once it has spun for its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Yields and says for whom it waits.
    Hints,
    /// Yields and says nothing.
    Mute,
    /// Would spin on, but is seen to.
    Seen,
    /// Blocks until the event (letters only).
    Blocks,
}

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
    /// Takes a lock again and again.
    Locker {
        /// Which.
        lock: usize,
        /// Work with the lock held.
        hold: Nanos,
        /// Work between.
        gap: Nanos,
        /// Spinning before a yield.
        spin: Nanos,
        /// What it does then.
        patience: Patience,
        /// Where it is.
        phase: Phase,
    },
    /// Answers every letter from its peer.
    Pinger {
        /// Who.
        peer: usize,
        /// Work before an answer.
        work: Nanos,
        /// Spinning before a yield.
        spin: Nanos,
        /// What it does then.
        patience: Patience,
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
        /// From one wake to the next.
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
        /// Whom it asks.
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
}

/// Where a guest is in its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Between two rounds.
    Apart,
    /// It spins for what it waits for.
    Waiting {
        /// It has yielded for it already.
        again: bool,
    },
    /// It yielded, or went to sleep, for what it waits for.
    Yielded,
    /// It has got it.
    Working,
}

impl Guest {
    /// A locker of lock 0: so long within the lock, so long outside.
    pub fn locker(hold: Nanos, gap: Nanos, patience: Patience) -> Self {
        Self::Locker { lock: 0, hold, gap, spin: Nanos::from_micros(5), patience, phase: Phase::Apart }
    }

    /// One of a pair.
    pub fn pinger(peer: usize, patience: Patience) -> Self {
        let (work, spin) = (Nanos::from_micros(2), Nanos::from_micros(5));
        Self::Pinger { peer, work, spin, patience, phase: Phase::Apart }
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

    /// A client of this server, which begins with this one of the world's exchanges.
    pub fn requester(server: usize, exchange: u32) -> Self {
        Self::Requester { server, exchange, phase: Phase::Apart }
    }

    /// A server.
    pub fn server() -> Self {
        Self::Server { phase: Phase::Apart }
    }

    /// One that comes, works and has done.
    pub fn newcomer(work: Nanos) -> Self {
        Self::Newcomer { work, phase: Phase::Apart }
    }

    /// What it does first.
    pub(super) fn start(&self) -> Nanos {
        match self {
            Self::Hog => LONG,
            Self::Yielder { stretch, .. } => *stretch,
            Self::Locker { gap, .. } => *gap,
            _ => Nanos(100),
        }
    }

    /// Whether what it spins for has come.
    pub(super) fn ready(&self, world: &World, me: usize) -> bool {
        match self {
            Self::Locker { lock, .. } => world.locks[*lock].front() == Some(&me),
            Self::Pinger { .. } => world.mail[me] > 0,
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
            Self::Server { phase } => serve(phase, world, me),
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
        *phase = Phase::Waiting { again: false };
        Step::Idle(*due)
    }

    fn locks(&mut self, world: &mut World, me: usize, now: Time) -> Step {
        let Self::Locker { phase, lock, gap, hold, .. } = self else { unreachable!("only lockers lock") };
        let line = &mut world.locks[*lock];
        match phase {
            Phase::Working => {
                line.pop_front();
                world.noticed.extend(line.front());
                world.done(me);
                *phase = Phase::Apart;
                return Step::Compute(*gap);
            }
            Phase::Apart => {
                line.push_back(me);
                world.begin_wait(me, now);
            }
            Phase::Waiting { .. } | Phase::Yielded => {}
        }
        if world.locks[*lock].front() == Some(&me) {
            *phase = Phase::Working;
            world.end_wait(me, now);
            return Step::Compute(*hold);
        }
        self.waits(world)
    }

    fn plays(&mut self, world: &mut World, me: usize, now: Time) -> Step {
        let Self::Pinger { phase, peer, work, .. } = self else { unreachable!("only pairs play") };
        if *phase == Phase::Working {
            world.begin_wait(me, now);
            world.send(*peer);
            *phase = Phase::Apart;
        }
        if world.mail[me] > 0 {
            world.mail[me] -= 1;
            world.end_wait(me, now);
            world.done(me);
            *phase = Phase::Working;
            return Step::Compute(*work);
        }
        self.waits(world)
    }

    /// What it waits for has not come: spin, then yield or block.
    fn waits(&mut self, world: &World) -> Step {
        let (Self::Locker { phase, spin, patience, .. } | Self::Pinger { phase, spin, patience, .. }) = self else {
            unreachable!("only they wait so")
        };
        let (spin, patience) = (*spin, *patience);
        let again = match *phase {
            Phase::Apart | Phase::Working => {
                *phase = Phase::Waiting { again: false };
                return Step::Spin(spin);
            }
            Phase::Yielded => {
                *phase = Phase::Waiting { again: true };
                return Step::Spin(spin);
            }
            Phase::Waiting { again } => again,
        };
        *phase = Phase::Yielded;
        match patience {
            Patience::Blocks => Step::Idle(Time::NEVER),
            Patience::Mute => Step::Yield(Yield { wait: Wait::Unknown, again: false }),
            Patience::Seen => Step::Yield(Yield { wait: Wait::Spin, again }),
            Patience::Hints => Step::Yield(Yield { wait: self.waits_for(world), again }),
        }
    }

    fn waits_for(&self, world: &World) -> Wait {
        let id = |v: usize| VcpuId(v as u32);
        match self {
            Self::Locker { lock, .. } => world.locks[*lock].front().map_or(Wait::Unknown, |&v| Wait::Lock(id(v))),
            Self::Pinger { peer, .. } => Wait::Message(id(*peer)),
            _ => Wait::Unknown,
        }
    }

    fn asks(&mut self, world: &mut World, me: usize, now: Time) -> Step {
        let Self::Requester { server, exchange, phase } = self else { unreachable!("only they ask") };
        let at = |exchange: u32| world.traffic[exchange as usize % world.traffic.len()];
        match *phase {
            // The request is written: off it goes, and the exit that sends it also idles.
            Phase::Waiting { .. } => {
                *phase = Phase::Yielded;
                world.ask(*server, me, *exchange);
                return Step::Idle(Time::NEVER);
            }
            Phase::Yielded if world.mail[me] == 0 => return Step::Idle(Time::NEVER),
            Phase::Yielded => {
                *phase = Phase::Working;
                let takes = at(*exchange).takes;
                world.mail[me] -= 1;
                return Step::Compute(takes);
            }
            Phase::Working => {
                let bytes = u64::from(at(*exchange).bytes);
                world.end_wait(me, now);
                world.done(me);
                world.gauges[me].bytes += bytes;
                *exchange = exchange.wrapping_add(1);
            }
            Phase::Apart => {}
        }
        *phase = Phase::Waiting { again: false };
        let asks = world.traffic[*exchange as usize % world.traffic.len()].asks;
        world.begin_wait(me, now);
        Step::Compute(asks)
    }
}

/// A stretch of work that outlasts any run.
const LONG: Nanos = Nanos::from_millis(1_000_000_000);

fn serve(phase: &mut Phase, world: &mut World, me: usize) -> Step {
    if *phase == Phase::Working {
        world.done(me);
        world.send(world.asked[me].0);
        *phase = Phase::Apart;
    }
    if world.mail[me] == 0 {
        return Step::Idle(Time::NEVER);
    }
    world.mail[me] -= 1;
    *phase = Phase::Working;
    let exchange = world.asked[me].1 as usize % world.traffic.len();
    Step::Compute(world.traffic[exchange].serves)
}
