//! The request of a comparison, the cells that are run for it, in order, and the time that they take.
//!
//! | module | concern |
//! |---|---|
//! | `options` | everything that a user can ask for, and the defaults |
//! | `linux` | the files that Linux guests boot |
//! | `case` | the size and setup of a cell |
//! | `guests`, `work` | the VMs of a cell, and their work if it has an end |
//! | `sizes`, `settings` | the sizes and parameters that a suite has; others are refused before anything runs |
//! | `until` | when enough rounds have been run |
//! | `reports` | the suites that repeat published reports, one after the other |

pub(super) mod case;
pub(super) mod guests;
pub(super) mod linux;
pub(super) mod options;
pub(super) mod reports;
pub(super) mod settings;
pub(super) mod sizes;
pub(super) mod until;
pub(super) mod work;

use case::Case;
use options::Options;
use std::time::Duration;
use stile_config::PolicyConfig;
use stile_sched::sim::Draw;
use stile_suites::{Builtin, Length, RunKind, Setup};
use work::Work;

/// Before a window: guests start, caches fill, the policy settles.
pub(super) const WARM_UP: Duration = Duration::from_millis(300);
/// After the window of a suite with clients that leave: their last moments are not measured.
pub(super) const RAMP_DOWN: Duration = Duration::from_millis(100);
/// The time to make and end the VMs of a cell on a slow host: a part for each cell, and a part for each VM.
const PER_CELL: f64 = 0.08;
const PER_VM: f64 = 0.008;
/// The time to make and end a vCPU of a VM with dozens of them.
const PER_VCPU: f64 = 0.001;
/// Bounds of a window's length if the user names none (units: s).
const WINDOW: std::ops::RangeInclusive<f64> = 0.4..=3.0;
/// From asking for a Linux guest until its first process has loaded its drivers, about (unit: s).
const LINUX_BOOT: f64 = 1.0;

/// One measured run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellPlan {
    /// Its round, from 0.
    pub round: u32,
    /// The index of its policy in the options.
    pub policy: usize,
    /// Its size and setup.
    pub case: Case,
    /// Length of its window.
    pub window: Duration,
}

/// All cells in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The cells, in the order in which they run.
    pub cells: Vec<CellPlan>,
    overhead: f64,
    /// The run begins no round that would end later.
    limit: Option<Duration>,
}

impl Plan {
    /// Makes the plan for these options.
    pub fn new(options: &Options) -> Self {
        let cases = Case::all(options);
        let once: f64 = cases.iter().map(|case| overhead(options, *case)).sum();
        let of_rounds = |rounds: u32| once * options.policies.len() as f64 * f64::from(rounds);
        let count = cases.len() * options.policies.len() * options.rounds() as usize;
        let budget = options.budget.unwrap_or(usual_budget(options));
        let fitting = (budget - of_rounds(options.rounds())) / count.max(1) as f64;
        let mut draw = Draw::new(options.seed);
        let mut cells = Vec::new();
        for round in 0..options.most_rounds() {
            for &case in &cases {
                let first = cells.len();
                let window = window(options, case.size, fitting);
                cells.extend((0..options.policies.len()).map(|policy| CellPlan { round, policy, case, window }));
                draw.shuffle(&mut cells[first..]);
            }
        }
        let limit = options.until.map(|until| until.limit);
        Self { cells, overhead: of_rounds(options.most_rounds()), limit }
    }

    /// The estimated time of the run. With `--until` it is the longest time.
    pub fn estimate(&self) -> Duration {
        let of = |cells: &[CellPlan]| cells.iter().map(|cell| self.estimate_of(cell)).sum();
        match self.limit {
            None => of(&self.cells),
            // The first round always runs.
            Some(limit) => limit.max(self.cells.chunk_by(|a, b| a.round == b.round).next().map_or(limit, of)),
        }
    }

    /// The estimated time of one of its cells.
    pub fn estimate_of(&self, cell: &CellPlan) -> Duration {
        cell.window + Duration::from_secs_f64(self.overhead / self.cells.len().max(1) as f64)
    }

    /// Lengths of the windows, in seconds.
    fn windows(&self) -> String {
        let lengths = || self.cells.iter().map(|cell| cell.window.as_secs_f64());
        let (least, most) = (lengths().fold(f64::INFINITY, f64::min), lengths().fold(0.0, f64::max));
        if most - least < 0.05 { format!("{most:.1}") } else { format!("{least:.1} to {most:.1}") }
    }

    /// One line that says what is about to run, and how long that takes.
    pub fn announcement(&self, options: &Options) -> String {
        let about = if self.limit.is_some() { "at most" } else { "about" };
        format!("{}, {about} {} s", self.scope(options), self.estimate().as_secs_f64().ceil())
    }

    /// What is about to run.
    pub fn scope(&self, options: &Options) -> String {
        let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(", ");
        let loads = options.setups().iter().all(|setup| matches!(setup, Setup::Load(_)));
        let what = match loads {
            true => format!("loads {}", list(&mut options.setups().iter().map(Setup::to_string))),
            false => {
                let sizes = list(&mut options.sizes().iter().map(u32::to_string));
                format!("{sizes} {}", options.suite.counted().words())
            }
        };
        let rounds = match options.until {
            Some(until) => format!("rounds until intervals are at most {} wide,", stile_text::percent(until.width)),
            None => stile_text::count(options.rounds() as usize, "round"),
        };
        format!(
            "{}: {what} under {} on pCPUs {}, {rounds} of {} s{}",
            options.suite,
            list(&mut options.policies.iter().map(|(label, _)| label.clone())),
            options.pcpus,
            self.windows(),
            if options.suite.has_end() { ", or as long as it takes" } else { " windows" },
        )
    }
}

/// The time budget of the run, unless the user gives one (unit: s).
fn usual_budget(options: &Options) -> f64 {
    let budget = options.suite.descriptor().budget;
    match options.kind {
        RunKind::Quick => budget.quick,
        RunKind::Usual | RunKind::Full => budget.usual,
    }
}

/// Length of a cell's window; `fitting` is the length that the time budget allows (unit: s).
fn window(options: &Options, size: u32, fitting: f64) -> Duration {
    let fitting = || fitting.clamp(*WINDOW.start(), *WINDOW.end());
    let own = match options.suite.descriptor().length {
        Length::Work(_) => match Work::of(options, size).filter(|_| !options.has_linux_guests()) {
            Some(work) => return Duration::from_secs_f64(work.expected()),
            None => fitting(),
        },
        Length::Rotations(count) => count * rotation(options, size),
        Length::Fitting => fitting(),
    };
    Duration::from_secs_f64(options.duration.unwrap_or(own))
}

/// A rotation of the slowest policy (unit: s).
fn rotation(options: &Options, size: u32) -> f64 {
    let guests = guests::guests(options.suite, size);
    let of = |policy: &PolicyConfig| {
        let seconds = |nice| policy.rotation(nice).0 as f64 / 1e9;
        guests.iter().map(|guest| f64::from(guest.vcpus) * seconds(guest.nice)).sum::<f64>()
    };
    let rotation = options.policies.iter().map(|(_, policy)| of(policy)).fold(0.0, f64::max);
    rotation / options.pcpus.iter().count() as f64
}

/// Time of a cell outside its window (unit: s).
fn overhead(options: &Options, case: Case) -> f64 {
    let descriptor = options.suite.descriptor();
    match (options.has_linux_guests(), &descriptor.builtin, &descriptor.linux) {
        (true, _, Some(linux)) => {
            // A batch of boot is its own window.
            if linux.measures_boot {
                return 0.0;
            }
            let at_a_time = options.pcpus.len().max(1) as f64;
            LINUX_BOOT * (f64::from(guests::count(linux.vms, case.size)) / at_a_time).max(1.0)
        }
        (false, Some(guests), _) => of_builtin(options, case, guests),
        (true, _, None) | (false, None, _) => 0.0,
    }
}

/// The estimate for built-in guests.
fn of_builtin(options: &Options, case: Case, guests: &Builtin) -> f64 {
    if let Some(work) = Work::of(options, case.size) {
        return PER_CELL + PER_VCPU * f64::from(work.vms) * f64::from(work.vcpus);
    }
    if let Setup::Bare(_) = case.setup {
        return PER_CELL;
    }
    let ramp_down = if guests.ramps_down { RAMP_DOWN } else { Duration::ZERO };
    let waits = guests.warm_ups * WARM_UP + ramp_down;
    waits.as_secs_f64() + PER_CELL + PER_VM * f64::from(guests::count(guests.vms, case.size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_suites::Suite;
    use until::Until;

    fn options(suite: Suite, policies: &[&str], kind: RunKind) -> Options {
        let policies = policies.iter().map(|p| ((*p).to_owned(), p.parse().unwrap())).collect();
        Options { kind, ..Options::new(suite, policies, "0-1".parse().unwrap()) }
    }

    #[test]
    fn every_round_runs_every_policy_once_with_every_size() {
        let options = options(Suite::Ticket, &["host", "rsdl", "freelist"], RunKind::Usual);
        let plan = Plan::new(&options);
        for round in 0..options.rounds() {
            for size in options.sizes() {
                for policy in 0..3 {
                    let same = |cell: &&CellPlan| (cell.round, cell.policy, cell.case.size) == (round, policy, size);
                    assert_eq!(plan.cells.iter().filter(same).count(), 1);
                }
            }
        }
    }

    #[test]
    fn the_default_runs_stay_within_their_time() {
        for suite in Suite::ALL.into_iter().filter(|suite| *suite != Suite::Interactive) {
            let default = Plan::new(&options(suite, &["host", "rsdl"], RunKind::Usual));
            assert!(default.estimate().as_secs() < 120, "{suite}");
            let quick = Plan::new(&options(suite, &["host", "rsdl"], RunKind::Quick));
            assert!(quick.estimate().as_secs() < 20, "{suite}");
        }
    }

    #[test]
    fn interactive_stays_within_its_time_with_all_its_loads_and_policies() {
        let policies = ["host", "host-noyield", "rsdl+none", "rsdl+expire", "rsdl+polite"];
        let run = |kind| Plan::new(&options(Suite::Interactive, &policies, kind));
        assert!(run(RunKind::Usual).estimate().as_secs() < 240, "{:?}", run(RunKind::Usual).estimate());
        assert!(run(RunKind::Quick).estimate().as_secs() < 30, "{:?}", run(RunKind::Quick).estimate());
        assert_eq!(run(RunKind::Quick).cells.len(), 6 * policies.len());
    }

    #[test]
    fn windows_of_weights_hold_ten_rotations_of_their_size_unless_the_user_names_a_length() {
        let options = Options { sizes: vec![6, 12], ..options(Suite::Weights, &["host", "rsdl"], RunKind::Usual) };
        let windows = |options: &Options| {
            let of = |size| Plan::new(options).cells.iter().find(|cell| cell.case.size == size).map(|cell| cell.window);
            [of(6), of(12)].map(Option::unwrap)
        };
        // 120, 45 and 30 ms for each vCPU of nice 0, 5 and 10; on two pCPUs.
        assert_eq!(windows(&options), [1950, 3900].map(Duration::from_millis));
        let brief = Options { duration: Some(0.5), ..options.clone() };
        assert_eq!(windows(&brief), [Duration::from_millis(500); 2]);
        let slow = Options { policies: vec![("slow".into(), "rsdl:12ms".parse().unwrap())], ..options };
        assert_eq!(windows(&slow), [3900, 7800].map(Duration::from_millis));
    }

    #[test]
    fn a_run_until_intervals_are_narrow_takes_its_limit_or_one_round() {
        let until = |seconds| Some(Until { width: 0.05, limit: Duration::from_secs(seconds) });
        let of = |until| {
            Plan::new(&Options { until, ..options(Suite::Ticket, &["host", "rsdl"], RunKind::Usual) }).estimate()
        };
        assert_eq!(of(until(600)), Duration::from_secs(600));
        let round = of(until(1));
        assert!(round > Duration::from_secs(1) && round < of(None), "{round:?}");
    }

    #[test]
    fn the_order_follows_the_seed_alone() {
        let a = options(Suite::Ticket, &["host", "rsdl"], RunKind::Usual);
        assert_eq!(Plan::new(&a), Plan::new(&a));
        let b = Options { seed: 2, ..a.clone() };
        assert_ne!(Plan::new(&a).cells, Plan::new(&b).cells);
    }
}
