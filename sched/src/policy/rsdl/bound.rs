//! How long a vCPU can wait: a bound that follows from the configuration alone.
//!
//! A vCPU that is queued for its stair is passed only by vCPUs on that stair or above, and every other vCPU has at most
//! one quota on each stair. While yields mean nothing, the stairs between it and the best place anybody can have are
//! [`LAG`] (a woken vCPU), its own row's longest step (its next stair), and [`REACH`]. With `S` slots, each other vCPU's
//! quota `q` and a lease `l` (at most one and a half quotas) that was begun before, it waits at most
//! `(LAG + step + REACH + 1) * sum(q) / S + max(l)`.
//!
//! A vCPU that yields all the time keeps its stair while those it lets through walk on, as far as the queue's window
//! reaches: a little more than three rotations. When it computes at last, it runs until it has caught up. So where a yield
//! means something the bound is four rotations: `4 * sum(per_rotation) / S + max(l)`. A limit to what a yielder may save
//! up, like [`LAG`] for sleepers, would bring it near the first one.
//!
//! Not in the bound: what switches and kicks take, which is charged to nobody, and what the host takes from the pCPUs.
//! The properties hold the bound against random guests.

use super::matrix::{LEVELS, Row};
use super::polite::REACH;
use super::{LAG, RsdlConfig, YieldRule};
use crate::Nanos;
use crate::domain::Attributes;

/// Rotations that others may run before a vCPU, where a yield means something.
const ROTATIONS: u64 = 4;

/// The longest time that a runnable vCPU waits for a slot beside these others.
pub fn wait_bound(config: &RsdlConfig, me: Attributes, others: &[Attributes], slots: usize) -> Nanos {
    if others.len() < slots {
        return Nanos::ZERO;
    }
    let row = |of: &Attributes| Row::new(of.nice, config.rr_interval, config.variant);
    let sum = |of: fn(Row) -> Nanos| others.iter().map(|other| of(row(other)).0).sum::<u64>();
    let before = match config.yield_rule {
        YieldRule::None => (LAG + longest_step(row(&me)) + REACH + 1) * sum(|row| row.quota),
        YieldRule::Expire | YieldRule::Polite(_) => ROTATIONS * sum(Row::per_rotation),
    };
    let longest_lease = others.iter().map(|other| row(other).quota.0 * 3 / 2).max().unwrap_or(0);
    Nanos(before / slots as u64 + longest_lease)
}

/// The most stairs between two that a row allows.
fn longest_step(row: Row) -> u64 {
    (0..LEVELS).map(|level| row.after(level) - level).max().unwrap_or(LEVELS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nice;
    use crate::policy::rsdl::PoliteSwitches;

    fn bound(rule: YieldRule, me: i8, others: &[i8], slots: usize) -> Nanos {
        let attributes = |nice: i8| Attributes { nice: Nice::new(nice).unwrap(), ..Attributes::default() };
        let others: Vec<Attributes> = others.iter().copied().map(attributes).collect();
        wait_bound(&RsdlConfig { yield_rule: rule, ..RsdlConfig::default() }, attributes(me), &others, slots)
    }

    #[test]
    fn with_a_slot_for_each_nobody_waits() {
        assert_eq!(bound(YieldRule::None, 0, &[0], 2), Nanos::ZERO);
        assert!(bound(YieldRule::None, 0, &[0, 0], 2) > Nanos::ZERO);
    }

    #[test]
    fn sixteen_equal_vcpus_on_two_slots_wait_a_third_of_a_second_at_most_while_yields_mean_nothing() {
        // LAG + REACH + 1 and a step of 2 are 7 quotas of 6 ms for each of 15 others, on two slots; a lease of 9 ms.
        assert_eq!(bound(YieldRule::None, 0, &[0; 15], 2), Nanos::from_millis(324));
        // Four rotations of 120 ms.
        let polite = YieldRule::Polite(PoliteSwitches::default());
        assert_eq!(bound(polite, 0, &[0; 15], 2), Nanos::from_millis(3609));
    }

    #[test]
    fn more_others_wait_longer_and_more_slots_shorten_it() {
        let rule = YieldRule::None;
        assert!(bound(rule, 0, &[0; 8], 2) > bound(rule, 0, &[0; 7], 2));
        assert!(bound(rule, 0, &[0; 8], 3) < bound(rule, 0, &[0; 8], 2));
        assert!(bound(rule, 19, &[0; 8], 2) > bound(rule, 0, &[0; 8], 2), "its next stair is a rotation away");
    }
}
