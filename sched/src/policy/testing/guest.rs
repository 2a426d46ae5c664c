//! Scripted guests, and what they share: ticket locks and mailboxes.

use crate::{Nanos, Time, VcpuId, Wait, Yield};
use std::collections::VecDeque;

/// What a guest does next.
#[derive(Debug, Clone, Copy)]
pub(in crate::policy) enum Step {
    /// Runs for so long.
    Compute(Nanos),
    /// Runs until [`Guest::ready`], but not longer than this.
    Spin(Nanos),
    /// Yields.
    Yield(Yield),
    /// Waits for an event, or for this time.
    Idle(Time),
}

/// What all guests share.
#[derive(Debug, Default)]
pub(in crate::policy) struct World {
    /// Each lock's tickets; the first is the holder's.
    pub(in crate::policy) locks: Vec<VecDeque<usize>>,
    /// Letters by addressee.
    pub(in crate::policy) mail: Vec<u32>,
    /// Done so far, by vCPU: locks taken, letters answered, probes.
    pub(in crate::policy) ops: Vec<u64>,
    /// vCPUs that got an event in this step.
    pub(in crate::policy) events: Vec<usize>,
}

impl World {
    pub(in crate::policy) fn admit(&mut self, v: usize) {
        // Lock 0 is always there.
        self.locks.resize(self.locks.len().max(1), VecDeque::new());
        // A letter may have been sent before its addressee started.
        self.mail.resize(self.mail.len().max(v + 1), 0);
        self.ops.resize(self.ops.len().max(v + 1), 0);
    }

    /// A first letter, so that somebody begins.
    pub(in crate::policy) fn post(&mut self, v: usize) {
        self.mail[v] += 1;
    }

    pub(in crate::policy) fn ops_of(&self, group: &[usize]) -> u64 {
        group.iter().map(|&v| self.ops[v]).sum()
    }
}

/// How a guest waits once it has spun for its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::policy) enum Patience {
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
pub(in crate::policy) enum Guest {
    /// Computes for ever.
    Hog,
    /// Computes, and yields with these words after every stretch.
    Yielder { stretch: Nanos, says: Wait, yielding: bool },
    /// Takes a lock again and again.
    Locker { lock: usize, hold: Nanos, gap: Nanos, spin: Nanos, patience: Patience, phase: Phase },
    /// Answers every letter from its peer.
    Pinger { peer: usize, work: Nanos, spin: Nanos, patience: Patience, phase: Phase },
    /// Works, then sleeps for so long however late that was: a client with one request at a time.
    Client { work: Nanos, sleep: Nanos, phase: Phase },
    /// Wakes up periodically and works.
    Prober { period: Nanos, work: Nanos, next: Time, phase: Phase },
}

/// Where a guest is in its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::policy) enum Phase {
    Apart,
    Waiting { again: bool },
    Yielded,
    Working,
}

impl Guest {
    /// A locker of lock 0: so long within the lock, so long outside.
    pub(in crate::policy) fn locker(hold: Nanos, gap: Nanos, patience: Patience) -> Self {
        Self::Locker { lock: 0, hold, gap, spin: Nanos::from_micros(5), patience, phase: Phase::Apart }
    }

    /// One of a pair.
    pub(in crate::policy) fn pinger(peer: usize, patience: Patience) -> Self {
        let (work, spin) = (Nanos::from_micros(2), Nanos::from_micros(5));
        Self::Pinger { peer, work, spin, patience, phase: Phase::Apart }
    }

    pub(in crate::policy) fn prober(period: Nanos, work: Nanos) -> Self {
        Self::Prober { period, work, next: Time(0), phase: Phase::Apart }
    }

    pub(in crate::policy) fn client(work: Nanos, sleep: Nanos) -> Self {
        Self::Client { work, sleep, phase: Phase::Apart }
    }

    pub(in crate::policy) fn yielder(stretch: Nanos, says: Wait) -> Self {
        Self::Yielder { stretch, says, yielding: false }
    }

    /// The first step.
    pub(in crate::policy) fn start(&mut self) -> Step {
        match self {
            Self::Hog => Step::Compute(Nanos::from_millis(1_000_000)),
            Self::Yielder { stretch, .. } => Step::Compute(*stretch),
            Self::Locker { gap, .. } => Step::Compute(*gap),
            Self::Pinger { .. } | Self::Prober { .. } | Self::Client { .. } => Step::Compute(Nanos(100)),
        }
    }

    /// Whether what it spins for has come.
    pub(in crate::policy) fn ready(&self, world: &World, me: usize) -> bool {
        match self {
            Self::Locker { lock, .. } => world.locks[*lock].front() == Some(&me),
            Self::Pinger { .. } => world.mail[me] > 0,
            _ => true,
        }
    }

    /// The step after the one that is over.
    pub(in crate::policy) fn proceed(&mut self, world: &mut World, me: usize, now: Time) -> Step {
        let ready = |guest: &Self, world: &World| guest.ready(world, me);
        match self {
            Self::Hog => self.start(),
            Self::Yielder { stretch, says, yielding } => {
                *yielding = !*yielding;
                if *yielding { Step::Yield(Yield { wait: *says, again: false }) } else { Step::Compute(*stretch) }
            }
            Self::Client { work, sleep, phase } => {
                if *phase == Phase::Working {
                    world.ops[me] += 1;
                    *phase = Phase::Apart;
                    return Step::Idle(now + *sleep);
                }
                *phase = Phase::Working;
                Step::Compute(*work)
            }
            Self::Prober { period, work, next, phase } => {
                if *phase == Phase::Working {
                    world.ops[me] += 1;
                    *next = (*next + *period).max(now);
                    *phase = Phase::Apart;
                    return Step::Idle(*next);
                }
                *next = (*next).max(now);
                *phase = Phase::Working;
                Step::Compute(*work)
            }
            Self::Locker { phase, lock, gap, .. } => {
                let (lock, gap) = (*lock, *gap);
                match phase {
                    Phase::Working => {
                        world.locks[lock].pop_front();
                        world.ops[me] += 1;
                        *phase = Phase::Apart;
                        return Step::Compute(gap);
                    }
                    Phase::Apart => world.locks[lock].push_back(me),
                    Phase::Waiting { .. } | Phase::Yielded => {}
                }
                let ready = ready(self, world);
                self.wait_or_work(world, ready)
            }
            Self::Pinger { phase, peer, .. } => {
                if *phase == Phase::Working {
                    world.ops[me] += 1;
                    world.admit(*peer);
                    world.mail[*peer] += 1;
                    world.events.push(*peer);
                    *phase = Phase::Apart;
                }
                let ready = ready(self, world);
                let step = self.wait_or_work(world, ready);
                if ready {
                    world.mail[me] -= 1;
                }
                step
            }
        }
    }

    /// For lockers and pingers: work if what they wait for is there, else spin, then yield or block.
    fn wait_or_work(&mut self, world: &World, ready: bool) -> Step {
        let (Self::Locker { phase, spin, patience, .. } | Self::Pinger { phase, spin, patience, .. }) = self else {
            unreachable!("only they wait")
        };
        let step = match *phase {
            _ if ready => {
                *phase = Phase::Working;
                None
            }
            Phase::Apart | Phase::Working => {
                *phase = Phase::Waiting { again: false };
                Some(Step::Spin(*spin))
            }
            Phase::Yielded => {
                *phase = Phase::Waiting { again: true };
                Some(Step::Spin(*spin))
            }
            Phase::Waiting { again } => {
                *phase = Phase::Yielded;
                Some(match patience {
                    Patience::Blocks => Step::Idle(Time::NEVER),
                    Patience::Mute => Step::Yield(Yield { wait: Wait::Unknown, again }),
                    Patience::Seen => Step::Yield(Yield { wait: Wait::Spin, again }),
                    Patience::Hints => Step::Yield(Yield { wait: self.waits_for(world), again }),
                })
            }
        };
        step.unwrap_or(Step::Compute(match self {
            Self::Locker { hold, .. } => *hold,
            Self::Pinger { work, .. } => *work,
            _ => unreachable!("only they work"),
        }))
    }

    fn waits_for(&self, world: &World) -> Wait {
        let id = |v: usize| VcpuId(v as u32);
        match self {
            Self::Locker { lock, .. } => world.locks[*lock].front().map_or(Wait::Unknown, |&v| Wait::Lock(id(v))),
            Self::Pinger { peer, .. } => Wait::Message(id(*peer)),
            _ => Wait::Unknown,
        }
    }
}
