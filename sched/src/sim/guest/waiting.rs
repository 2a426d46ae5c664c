//! Guests that wait as spinning ones do: those at a ticket lock, and pairs that pass letters.

use super::Guest;
use super::step::{Phase, Step};
use crate::ids::VcpuId;
use crate::sim::world::World;
use crate::time::Time;
use crate::wait::Wait;

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
