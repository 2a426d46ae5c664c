//! Guests that wait as spinning ones do: those at a ticket lock, and pairs that pass letters.

use super::{Guest, Patience, Phase, Step};
use crate::sim::world::World;
use crate::{Nanos, Time, VcpuId, Wait, Yield};

/// Spins for one who runs before it yields, as the guests' runtime has it.
const FOR_ONE_WHO_RUNS: u32 = 16;

/// How a guest waits for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manners {
    /// Spinning before a yield.
    pub spin: Nanos,
    /// What it does then.
    pub patience: Patience,
}

impl Manners {
    /// What is waited for has not come: spin, then yield or block. `wait` is what it waits for at this moment.
    pub(super) fn waits(self, phase: &mut Phase, wait: Wait, world: &World) -> Step {
        let (again, looks) = match *phase {
            Phase::Apart | Phase::Working => (false, FOR_ONE_WHO_RUNS),
            Phase::Yielded => (true, FOR_ONE_WHO_RUNS),
            Phase::Waiting { again, looks } => (again, looks),
        };
        let spins = match self.runs(wait, world) {
            None => !matches!(phase, Phase::Waiting { .. }),
            Some(runs) => runs && looks > 0,
        };
        if spins {
            *phase = Phase::Waiting { again, looks: looks - 1 };
            return Step::Spin(self.spin);
        }
        *phase = Phase::Yielded;
        match self.patience {
            Patience::Blocks => Step::Idle(Time::NEVER),
            Patience::Mute => Step::Yield(Yield { wait: Wait::Unknown, again: false }),
            Patience::Seen => Step::Yield(Yield { wait: Wait::Spin, again }),
            Patience::Hints => Step::Yield(Yield { wait, again }),
        }
    }

    /// Whether the one who is waited for runs, if it is told.
    fn runs(self, wait: Wait, world: &World) -> Option<bool> {
        match wait {
            Wait::Lock(vcpu) | Wait::Message(vcpu) if self.patience == Patience::Hints => world.runs(vcpu.index()),
            _ => None,
        }
    }
}

impl Guest {
    pub(super) fn locks(&mut self, world: &mut World, me: usize, now: Time) -> Step {
        let Self::Locker { phase, lock, gap, hold, manners } = self else { unreachable!("only lockers lock") };
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
        let wait = world.locks[*lock].front().map_or(Wait::Unknown, |&v| Wait::Lock(VcpuId(v as u32)));
        manners.waits(phase, wait, world)
    }

    pub(super) fn plays(&mut self, world: &mut World, me: usize, now: Time) -> Step {
        let Self::Pinger { phase, peer, work, manners } = self else { unreachable!("only pairs play") };
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
        manners.waits(phase, Wait::Message(VcpuId(*peer as u32)), world)
    }
}
