//! How long a vCPU can wait: a bound that follows from the configuration alone.
//!
//! Let a vCPU be queued on stair `x` while stair `s` is served.
//!
//! * `x` is at most [`deepest`] below `s`, for the vCPU itself or for the one that was head when it yielded and took
//!   its place behind it.
//! * A vCPU that sleeps or wakes stands at most [`LAG`](super::limits::LAG) above `s`, and one that yields, or comes
//!   from another slot's queue, at most [`kept`]. One whose last stair above that is a whole step of its row away may
//!   use its quota there: that is the one that was begun before.
//! * A vCPU that runs before it stands on a stair above it, or was let past the head of the run queue from at most
//!   [`WAITERS_REACH`] further down.
//!
//! So all that can run before it is what the others may use on these `w = kept + deepest + WAITERS_REACH + 1` stairs:
//! as many quotas each as its row has of them ([`Row::most_among`]), and one that was begun before. With `S` slots that
//! takes `sum(quotas) / S`, and the last lease, of one and a half quotas, may have just begun. Where a yield lends a
//! lease, that one may be its own.
//!
//! The `k`-th vCPU that runs before it finds `k` others that are runnable, or sleep where they could still run before
//! it ([`sleepers`](super::sleepers)); so its quotas are as short as [`scale`](super::scale) makes them for `k + 1`.
//! The longest quotas count first.
//!
//! Where a yield costs what is left of a rotation ([`YieldRule::Expire`]), or a level's budget pushes others down
//! ([`Variant::LevelQuota`]), `x` can be further down, as far as the queue's window reaches. Then the bound is four
//! rotations.
//!
//! *Classes.* Beside class rt the staircase has only what its budget leaves, and a period's budget may come first. An
//! rt vCPU waits only for others of its class, which may run without end, and for the budget's next period. Class idle
//! has no bound while there are others enough for all slots.
//!
//! Not in the bound: what switches and kicks take, which is charged to no vCPU, and what the host takes from the pCPUs.
//! The properties hold the bound against random guests.

use super::config::{RsdlConfig, YieldRule};
use super::limits::{deepest, kept};
use super::matrix::{Row, Stair, Variant};
use super::rt::{PERIOD, SHARE};
use super::scale::Scale;
use super::silent::WAITERS_REACH;
use crate::attributes::{Attributes, Class};
use crate::time::Nanos;

/// Rotations that others may run before a vCPU, where it can stand as far down as the window reaches.
const ROTATIONS: u64 = 4;

/// The longest time that a runnable vCPU waits for a slot beside these others. `None`: there is no bound.
pub fn wait_bound(config: &RsdlConfig, me: Attributes, others: &[Attributes], slots: usize) -> Option<Nanos> {
    let row = |of: &Attributes| config.row_of(*of);
    let lends = matches!(config.yield_rule, YieldRule::Polite(_)).then_some(&me);
    let longest_lease = others.iter().chain(lends).map(|of| row(of).quota.0 * 3 / 2).max().unwrap_or(0);
    let rt = others.iter().filter(|other| other.class == Class::Rt).count();
    let idle = others.iter().filter(|other| other.class == Class::Idle).count();
    match me.class {
        _ if others.len() < slots => Some(Nanos::ZERO),
        Class::Rt if rt < slots => Some(PERIOD + Nanos(longest_lease)),
        Class::Idle if others.len() - idle < slots && config.yield_rule == YieldRule::None => {
            Some(Nanos(others.iter().map(|other| row(other).quota.0).sum::<u64>() + longest_lease))
        }
        Class::Rt | Class::Idle => None,
        Class::Normal | Class::Batch => {
            let rows: Vec<Row> = others.iter().filter(|other| on_the_staircase(other)).map(row).collect();
            let before = before(config, row(&me), &rows, slots) / slots as u64 + longest_lease;
            let (left, all) = (100 - SHARE, 100);
            Some(Nanos(if rt > 0 { before * all / left + PERIOD.0 } else { before }))
        }
    }
}

fn on_the_staircase(vcpu: &Attributes) -> bool {
    matches!(vcpu.class, Class::Normal | Class::Batch)
}

/// CPU time that others may use before a vCPU.
fn before(config: &RsdlConfig, me: Row, others: &[Row], slots: usize) -> u64 {
    let deepest: Stair = others.iter().chain([&me]).map(|&row| deepest(row)).max().unwrap_or(0);
    let stairs = kept(config) + deepest + WAITERS_REACH + 1;
    let far = config.yield_rule == YieldRule::Expire || config.variant == Variant::LevelQuota;
    let quotas = |row: &Row| match far {
        true => ROTATIONS * row.per_rotation().0,
        false => (row.most_among(stairs) + 1) * row.quota.0,
    };
    let mut nominal: Vec<u64> = others.iter().map(quotas).collect();
    nominal.sort_unstable_by(|a, b| b.cmp(a));
    let real = |(k, quotas)| Scale::new(config, k + 2, slots).real(Nanos(quotas)).0;
    nominal.into_iter().enumerate().map(real).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Nice;
    use crate::policy::rsdl::polite_switches::PoliteSwitches;

    fn vcpu(class: Class, nice: i8) -> Attributes {
        Attributes { nice: Nice::new(nice).unwrap(), class, group: None }
    }

    fn config(yield_rule: YieldRule) -> RsdlConfig {
        RsdlConfig { yield_rule, ..RsdlConfig::default() }
    }

    fn bound(rule: YieldRule, me: i8, others: &[i8], slots: usize) -> Nanos {
        let others: Vec<Attributes> = others.iter().map(|&nice| vcpu(Class::Normal, nice)).collect();
        wait_bound(&config(rule), vcpu(Class::Normal, me), &others, slots).unwrap()
    }

    #[test]
    fn with_a_slot_for_each_nobody_waits() {
        assert_eq!(bound(YieldRule::None, 0, &[0], 2), Nanos::ZERO);
        assert!(bound(YieldRule::None, 0, &[0, 0], 2) > Nanos::ZERO);
    }

    #[test]
    fn eight_equal_vcpus_on_two_slots_wait_for_whole_quotas() {
        // 19 stairs hold ten quotas of 6 ms for each of 7 others, and one was begun; a lease of 9 ms.
        let polite = YieldRule::Polite(PoliteSwitches::default());
        assert_eq!(bound(polite, 0, &[0; 7], 2), Nanos::from_millis(11 * 6 * 7 / 2 + 9));
        // Four rotations of 120 ms.
        assert_eq!(bound(YieldRule::Expire, 0, &[0; 7], 2), Nanos::from_millis(4 * 120 * 7 / 2 + 9));
    }

    #[test]
    fn more_vcpus_than_fit_into_the_target_wait_for_shorter_quotas() {
        // From the eighth other on quotas shrink, and from the fifteenth on they are 3 ms.
        let polite = YieldRule::Polite(PoliteSwitches::default());
        let bound = |others| bound(polite, 0, &vec![0; others], 2);
        assert_eq!(bound(47) - bound(46), Nanos::from_micros(11 * 3_000 / 2));
        assert!(bound(47) < Nanos::from_millis(1000));
        assert!(bound(8) - bound(7) < Nanos::from_millis(11 * 6 / 2));
    }

    #[test]
    fn who_lends_its_lease_to_others_of_shorter_quotas_may_wait_for_its_end() {
        let bound = |rule| wait_bound(&config(rule), vcpu(Class::Normal, 0), &[vcpu(Class::Idle, 5); 2], 1).unwrap();
        let quota = |nice| config(YieldRule::None).row_of(vcpu(Class::Normal, nice)).quota;
        assert_eq!(bound(YieldRule::Polite(PoliteSwitches::default())), Nanos(quota(0).0 * 3 / 2));
        assert_eq!(bound(YieldRule::None), Nanos(quota(5).0 * 3 / 2));
    }

    #[test]
    fn more_others_wait_longer_and_more_slots_shorten_it() {
        let rule = YieldRule::None;
        assert!(bound(rule, 0, &[0; 8], 2) > bound(rule, 0, &[0; 7], 2));
        assert!(bound(rule, 0, &[0; 8], 3) < bound(rule, 0, &[0; 8], 2));
        assert!(bound(rule, 19, &[0; 8], 2) > bound(rule, 0, &[0; 8], 2), "its next stair is a rotation away");
    }

    #[test]
    fn classes_wait_for_what_goes_before_them() {
        let config = config(YieldRule::None);
        let bound = |me: Class, others: &[Class]| {
            let others: Vec<Attributes> = others.iter().map(|&class| vcpu(class, 0)).collect();
            wait_bound(&config, vcpu(me, 0), &others, 2)
        };
        let normal = bound(Class::Normal, &[Class::Normal; 3]).unwrap();
        assert!(bound(Class::Batch, &[Class::Normal; 3]).unwrap() > normal, "its levels are in one piece");
        assert!(bound(Class::Normal, &[Class::Normal, Class::Normal, Class::Idle]).unwrap() < normal);
        assert!(bound(Class::Normal, &[Class::Normal, Class::Normal, Class::Rt]).unwrap() > normal);
        assert_eq!(bound(Class::Idle, &[Class::Normal; 3]), None);
        assert!(bound(Class::Rt, &[Class::Normal; 3]).unwrap() < Nanos::from_millis(110));
        assert_eq!(bound(Class::Rt, &[Class::Rt; 3]), None);
    }
}
