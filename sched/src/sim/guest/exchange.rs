//! Guests that ask and answer: a request, and idling until what was asked for has come.

use super::Guest;
use super::step::{Phase, Step};
use crate::sim::world::World;
use crate::time::Time;

impl Guest {
    pub(super) fn asks(&mut self, world: &mut World, me: usize, now: Time) -> Step {
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
        *phase = Phase::Waiting { again: false, looks: 0 };
        let asks = world.traffic[*exchange as usize % world.traffic.len()].asks;
        world.begin_wait(me, now);
        Step::Compute(asks)
    }
}

/// What a server does next.
pub(super) fn serve(phase: &mut Phase, world: &mut World, me: usize) -> Step {
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
