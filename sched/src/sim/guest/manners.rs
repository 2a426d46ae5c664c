//! How a guest waits for others: it spins, then yields or blocks.

use super::step::{Phase, Step};
use crate::sim::world::World;
use crate::time::{Nanos, Time};
use crate::wait::{Wait, Yield};

/// How a guest waits once it has spun for its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Yields and names the vCPU that it waits for.
    Hints,
    /// Yields and says nothing.
    Mute,
    /// Would spin on, but is seen to.
    Seen,
    /// Blocks until the event (letters only).
    Blocks,
}

/// Spins before a yield for a target that runs, as the guests' runtime has it.
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

    /// Whether the vCPU that it waits for runs, if it is told.
    fn runs(self, wait: Wait, world: &World) -> Option<bool> {
        match wait {
            Wait::Lock(vcpu) | Wait::Message(vcpu) if self.patience == Patience::Hints => world.runs(vcpu.index()),
            _ => None,
        }
    }
}
