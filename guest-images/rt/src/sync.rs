//! Locks and messages for which vCPUs spin for a moment and then yield, with or without a hint; and pipes, at which
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

use crate::{Boot, doorbell};
use stile_abi::{Hint, HintKind, Presence};

/// How a waiting vCPU behaves.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// PAUSE instructions before a yield, where the monitor does not tell which vCPUs run. Short spins win under
    /// overcommitment, since the vCPU that is waited for often does not run at all. Without meaning for
    /// [`Manners::Silent`].
    pub spins: u32,
    /// Whether the vCPU yields, and whether its yields have a hint.
    pub manners: Manners,
}

/// What a vCPU tells of its waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manners {
    /// It yields with a hint.
    Telling,
    /// It yields without a hint.
    Wordless,
    /// Nothing: it spins until the wait is over.
    Silent,
}

impl Patience {
    /// The default spin length: some microseconds.
    pub const SPINS: u32 = 200;

    /// Factor by which it spins longer for a vCPU that runs. That vCPU may be on its way through an exit, which takes
    /// longer than a spin; a yield in the meantime would cost two more exits.
    const FOR_ONE_WHO_RUNS: u32 = 16;

    /// Waits until `done` holds: spins, then yields with the target that `target` names at that moment, again and
    /// again.
    pub fn wait(self, done: impl Fn() -> bool, target: impl Fn() -> HintKind) {
        let presence = |vcpu: u16| Boot::page().steal(vcpu.into()).presence();
        self.wait_as(doorbell::yield_now, presence, done, target);
    }

    /// Waits like this, with the caller's functions to yield and to read the presence of a vCPU. `done` is not called
    /// again once it holds.
    fn wait_as(
        self,
        yields: impl Fn(Hint),
        presence: impl Fn(u16) -> Presence,
        done: impl Fn() -> bool,
        target: impl Fn() -> HintKind,
    ) {
        let mut again = false;
        if self.manners == Manners::Silent {
            while !done() {
                core::hint::spin_loop();
            }
            return;
        }
        let tells = self.manners == Manners::Telling;
        let target = || if tells { target() } else { HintKind::Unknown };
        let presence = || target().target().map_or(Presence::Untold, &presence);
        while !self.spins_until(&done, presence) {
            yields(Hint { kind: target(), again: again && tells });
            again = true;
        }
    }

    /// Spins: longer for a vCPU that runs, and not at all for one that does not. Returns whether `done` came to hold.
    fn spins_until(self, done: impl Fn() -> bool, presence: impl Fn() -> Presence) -> bool {
        for _ in 0..Self::FOR_ONE_WHO_RUNS {
            if done() {
                return true;
            }
            let presence = presence();
            if presence == Presence::Away {
                return false;
            }
            for _ in 0..self.spins {
                core::hint::spin_loop();
                if done() {
                    return true;
                }
            }
            if presence != Presence::Here {
                return false;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    const SPINS: u32 = 3;

    /// Waits for vCPU 1, which has this presence, until the waiter has yielded so often. Returns how often the waiter
    /// had checked its wait by the last yield.
    fn looks_until(yields: u32, manners: Manners, presence: Presence) -> u32 {
        let (looks, yielded) = (Cell::new(0), Cell::new(0));
        let patience = Patience { spins: SPINS, manners };
        let done = || {
            looks.set(looks.get() + 1);
            yielded.get() == yields
        };
        let asked = |vcpu| {
            assert_eq!(vcpu, 1, "whom it waits for");
            presence
        };
        let yields = |_| yielded.set(yielded.get() + 1);
        patience.wait_as(yields, asked, done, || HintKind::Message { peer: 1 });
        looks.get() - 1
    }

    #[test]
    fn who_is_told_nothing_spins_once_before_each_yield() {
        assert_eq!(looks_until(2, Manners::Telling, Presence::Untold), 2 * (1 + SPINS));
    }

    #[test]
    fn who_waits_for_one_that_runs_spins_for_longer_but_not_for_ever() {
        let longer = Patience::FOR_ONE_WHO_RUNS;
        assert_eq!(looks_until(2, Manners::Telling, Presence::Here), 2 * longer * (1 + SPINS));
    }

    #[test]
    fn who_waits_for_one_that_does_not_run_yields_at_once() {
        assert_eq!(looks_until(2, Manners::Telling, Presence::Away), 2);
    }

    #[test]
    fn who_does_not_say_whom_it_waits_for_does_not_ask_either() {
        assert_eq!(looks_until(1, Manners::Wordless, Presence::Away), 1 + SPINS);
    }
}
