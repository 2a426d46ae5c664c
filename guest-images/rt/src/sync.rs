//! Locks and messages that spin for a moment and then yield, saying what they wait for, or do not; and pipes, at which
//! vCPUs block.

mod mailbox;
mod park;
mod pipe;
#[cfg(test)]
mod testing;
mod ticket;
mod waiters;
mod yielding;

pub use mailbox::Mailbox;
pub use park::Park;
pub use pipe::{Notifies, Pipe};
pub use ticket::{TicketGuard, TicketLock};
pub use yielding::{YieldingGuard, YieldingLock};

use crate::doorbell;
use stile_abi::{Hint, HintKind};

/// How a waiting vCPU behaves.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// PAUSE instructions between two looks at the condition's doorbell. Short spins win under overcommitment, since
    /// whoever is waited for is often not running at all. Without meaning for [`Manners::Silent`].
    pub spins: u32,
    /// Whether it yields, and whether yields say what they wait for.
    pub manners: Manners,
}

/// What a vCPU tells of its waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manners {
    /// It yields, and says what it waits for.
    Telling,
    /// It yields.
    Wordless,
    /// Nothing: it spins for as long as it takes.
    Silent,
}

impl Patience {
    /// The default spin length: some microseconds.
    pub const SPINS: u32 = 200;

    /// Waits until `done` holds: spins, then yields with the target that `target` names at that moment, again and
    /// again.
    pub fn wait(self, done: impl Fn() -> bool, target: impl Fn() -> HintKind) {
        self.wait_as(doorbell::yield_now, done, target);
    }

    /// The same, for one who yields like this. `done` is not asked again once it holds.
    fn wait_as(self, yields: impl Fn(Hint), done: impl Fn() -> bool, target: impl Fn() -> HintKind) {
        let mut again = false;
        if self.manners == Manners::Silent {
            while !done() {
                core::hint::spin_loop();
            }
            return;
        }
        let tells = self.manners == Manners::Telling;
        loop {
            for _ in 0..self.spins {
                if done() {
                    return;
                }
                core::hint::spin_loop();
            }
            if done() {
                return;
            }
            let kind = if tells { target() } else { HintKind::Unknown };
            yields(Hint { kind, again: again && tells });
            again = true;
        }
    }
}
