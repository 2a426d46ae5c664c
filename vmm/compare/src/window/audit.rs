//! Checks a window's accounts: figures that contradict each other must not enter a comparison.
//!
//! For every vCPU, run, wait and idle time add up to the time that passed. All vCPUs together ran no longer than there
//! were pCPUs. The steal time that a guest has read is the wait in the scheduler's accounts.

use super::{VcpuCounts, Window};
use std::time::Duration;
use stile_sched::Nanos;

/// The tolerance, as a part of the window.
const TOLERANCE: f64 = 0.01;
/// The tolerance of steal time: accounts and guests' figures are rounded at different moments.
const ROUNDING: Duration = Duration::from_millis(1);

/// Accounts that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Discrepancy {
    /// A vCPU's four times do not add up to the time that passed.
    #[error("vCPU {vcpu} ran {run:?}, waited {wait:?}, idled {idle:?} and had {taken:?} taken in {wall:?}")]
    Total {
        /// Its number in the window.
        vcpu: usize,
        /// On a pCPU.
        run: Duration,
        /// Runnable without one.
        wait: Duration,
        /// Blocked.
        idle: Duration,
        /// Taken by the host.
        taken: Duration,
        /// Time that passed.
        wall: Duration,
    },
    /// The vCPUs ran longer than the pCPUs had time.
    #[error("all vCPUs ran {run:?} together in {wall:?} on {pcpus} pCPU(s)")]
    Capacity {
        /// Run time of all vCPUs.
        run: Duration,
        /// Time that passed.
        wall: Duration,
        /// Number of pCPUs.
        pcpus: usize,
    },
    /// The guest's steal time is not the scheduler's wait.
    #[error("vCPU {vcpu} had waited {before:?} and then {after:?}, and its guest has seen {seen:?}")]
    Steal {
        /// Its number in the window.
        vcpu: usize,
        /// By the scheduler's account, when the window began.
        before: Duration,
        /// By the guest's last reading.
        seen: Duration,
        /// By the scheduler's account, when the window ended.
        after: Duration,
    },
}

/// The wait of a vCPU since it was made, by the scheduler's accounts and by its guest.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Steal {
    pub(crate) before: Duration,
    pub(crate) seen: Duration,
    pub(crate) after: Duration,
}

/// Finds the first discrepancy in a window.
pub(crate) fn audit(window: &Window, pcpus: usize) -> Result<(), Discrepancy> {
    window.vcpus.iter().enumerate().try_for_each(|(vcpu, counts)| one(vcpu, counts))?;
    let run: u64 = window.vcpus.iter().map(|v| v.usage.run_ns).sum();
    if run as f64 > pcpus as f64 * more(window.span).0 as f64 {
        return Err(Discrepancy::Capacity { run: ns(run), wall: window.span.into(), pcpus });
    }
    Ok(())
}

fn one(vcpu: usize, counts: &VcpuCounts) -> Result<(), Discrepancy> {
    let (usage, wall) = (counts.usage, counts.wall);
    let total = Nanos(usage.run_ns + usage.wait_ns + usage.idle_ns + usage.taken_ns);
    if total > more(wall.most) || more(total) < wall.least {
        let [run, wait, idle, taken] = [usage.run_ns, usage.wait_ns, usage.idle_ns, usage.taken_ns].map(ns);
        let wall = wall.most.into();
        return Err(Discrepancy::Total { vcpu, run, wait, idle, taken, wall });
    }
    match counts.steal {
        // By its last operation the guest has read all steal time from before the window, and none that is still to
        // come.
        Some(Steal { before, seen, after })
            if counts.ops > 0 && (seen > after + ROUNDING || seen + ROUNDING < before) =>
        {
            Err(Discrepancy::Steal { vcpu, before, seen, after })
        }
        _ => Ok(()),
    }
}

fn more(time: Nanos) -> Nanos {
    Nanos((time.0 as f64 * (1.0 + TOLERANCE)) as u64)
}

fn ns(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

#[cfg(test)]
mod tests {
    use super::super::Wall;
    use super::*;
    use stile_sched::ledger::{Totals, Usage};

    const MS: u64 = 1_000_000;

    /// A vCPU with an operation in a window of a second, and these times (unit: ms).
    fn vcpu(run: u64, wait: u64, idle: u64) -> VcpuCounts {
        let usage = Usage { run_ns: run * MS, wait_ns: wait * MS, idle_ns: idle * MS, exits: 0, ..Usage::default() };
        let second = Nanos(1000 * MS);
        VcpuCounts { ops: 1, usage, wall: Wall { least: second, most: second }, ..VcpuCounts::default() }
    }

    fn audited(vcpus: Vec<VcpuCounts>, pcpus: usize) -> Result<(), Discrepancy> {
        let span = Nanos(1000 * MS);
        audit(&Window { seconds: 1.0, span, vcpus, totals: Totals::default(), kicks: None }, pcpus)
    }

    #[test]
    fn times_that_make_up_the_window_are_sound() {
        assert_eq!(audited(vec![vcpu(500, 400, 100), vcpu(500, 495, 0), vcpu(1000, 0, 5)], 2), Ok(()));
    }

    #[test]
    fn times_that_do_not_make_up_the_window_are_named_with_their_vcpu() {
        for (run, wait, idle) in [(500, 400, 50), (500, 400, 150)] {
            let found = audited(vec![vcpu(500, 500, 0), vcpu(run, wait, idle)], 2).unwrap_err();
            assert!(matches!(found, Discrepancy::Total { vcpu: 1, .. }), "{found}");
        }
    }

    #[test]
    fn more_than_the_pcpus_have_cannot_have_been_run() {
        let found = audited(vec![vcpu(700, 300, 0), vcpu(700, 300, 0)], 1).unwrap_err();
        assert_eq!(found.to_string(), "all vCPUs ran 1.4s together in 1s on 1 pCPU(s)");
    }

    #[test]
    fn vcpus_that_were_read_one_after_the_other_may_have_run_for_as_long_as_that_took() {
        let vcpus = vec![vcpu(1000, 0, 0), vcpu(40, 960, 0)];
        let audited = |span| {
            let window = Window { seconds: 1.0, span, vcpus: vcpus.clone(), totals: Totals::default(), kicks: None };
            audit(&window, 1).is_ok()
        };
        assert!(audited(Nanos(1040 * MS)) && !audited(Nanos(1000 * MS)));
    }

    #[test]
    fn a_guest_sees_what_it_waited_before_the_window_and_no_more_than_it_did_in_all() {
        for (seen, sound) in [(250, true), (400, true), (190, false), (420, false)] {
            let [before, seen, after] = [200, seen, 400].map(Duration::from_millis);
            let counts = VcpuCounts { steal: Some(Steal { before, seen, after }), ..vcpu(500, 400, 100) };
            assert_eq!(audited(vec![counts.clone()], 1).is_ok(), sound, "{seen:?}");
            assert_eq!(audited(vec![VcpuCounts { ops: 0, ..counts }], 1), Ok(()), "it has not looked");
        }
    }
}
