//! Compares a report with an earlier one, the baseline, and finds the headline figures that have become worse.
//!
//! It compares medians of headline metrics under the same policy with the same parameters. A figure is worse if it
//! differs by more than the tolerance *and* the intervals of both medians do not overlap: the first alone may be
//! chance, and the second alone does not matter. Both reports must come from the same machine; a warning names the
//! facts that differ.

use super::check::{CheckError, read_report};
use super::{format, view};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use stile_results::model::{BASELINE, Cell, Params, Report};
use stile_results::stats::{Interval, MIN_FOR_INTERVAL};
use stile_suites::Better;
use stile_suites::Suite;
use thiserror::Error;

/// The facts of a host that measured figures depend on.
const MACHINE: [&str; 3] = ["cpu", "kernel", "pcpus"];

/// An earlier report that others are compared with.
#[derive(Debug)]
pub struct Baseline {
    path: PathBuf,
    report: Report,
    /// Part by which a figure may be worse.
    tolerance: f64,
}

/// Why a report cannot be the baseline of a comparison.
#[derive(Debug, Error)]
pub enum BaselineError {
    /// It is not a valid report.
    #[error("--baseline {} cannot be used; name the report.json of an earlier run of this comparison", path.display())]
    Report {
        /// Its file or folder.
        path: PathBuf,
        /// The mistake.
        #[source]
        source: CheckError,
    },
    /// It is of other suites.
    #[error("--baseline {} is of {was}, and this comparison of {is}; compare the same suites", path.display())]
    Suites {
        /// The earlier report.
        path: PathBuf,
        /// Its suites.
        was: String,
        /// The suites to be run.
        is: String,
    },
    /// It lacks parameters, or has others.
    #[error(
        "--baseline {} has {was}, and this comparison {is}; give the same parameters as for `{command}`", path.display()
    )]
    Params {
        /// The earlier report.
        path: PathBuf,
        /// A setting that only one of both has.
        was: String,
        /// The settings of the other one in its place.
        is: String,
        /// The command line of the earlier report.
        command: String,
    },
    /// It is of other policies.
    #[error("--baseline {} has none of the policies {is}; have --policies name one at least that it has: {was}", path.display())]
    Policies {
        /// The earlier report.
        path: PathBuf,
        /// Its policies.
        was: String,
        /// The policies to be run.
        is: String,
    },
    /// One is simulated, and the other one measured.
    #[error("--baseline {} is {}", path.display(), match simulated {
        true => "simulated, and this comparison measured; simulate it with --sim, or measure the baseline without it",
        false => "measured, and this comparison simulated; simulate the baseline, too",
    })]
    Simulated {
        /// The earlier report.
        path: PathBuf,
        /// Whether the earlier report is simulated.
        simulated: bool,
    },
    /// Every run of a policy was disturbed, and the user refuses such a baseline.
    #[error("--strict-baseline: {0}")]
    Disturbed(String),
    /// It has too few rounds: without intervals a difference cannot be told from chance.
    #[error(
        "--baseline {} has {}, and figures have intervals from {MIN_FOR_INTERVAL} on; make it anew with --reps \
         {MIN_FOR_INTERVAL} or more",
        path.display(), stile_text::count(*rounds as usize, "round")
    )]
    Rounds {
        /// The earlier report.
        path: PathBuf,
        /// Its rounds.
        rounds: u32,
    },
}

/// The measurement that is planned.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// Each suite with each of its settings.
    pub settings: Vec<(Suite, Params)>,
    /// Labels of the policies.
    pub policies: Vec<&'a str>,
    /// Whether it is simulated.
    pub simulated: bool,
}

/// A comparison against its baseline.
#[derive(Debug)]
pub struct Judgement<'a> {
    /// Figures that are worse, with the earlier ones.
    pub worse: Vec<(&'a Cell, &'a Cell)>,
    /// Figures that both have.
    pub compared: usize,
    /// Sentences for the reader.
    pub told: Vec<String>,
}

impl Baseline {
    /// Reads an earlier report.
    pub fn read(path: &Path, tolerance: f64) -> Result<Self, BaselineError> {
        let path = path.to_owned();
        let report = match read_report(&path) {
            Ok(report) => report,
            Err(source) => return Err(BaselineError::Report { path, source }),
        };
        if (report.rounds as usize) < MIN_FOR_INTERVAL {
            return Err(BaselineError::Rounds { path, rounds: report.rounds });
        }
        Ok(Self { path, report, tolerance })
    }

    /// Checks, before anything is run, that the planned comparison can be compared with the baseline.
    pub fn fits(&self, wanted: &Wanted<'_>) -> Result<(), BaselineError> {
        let path = || self.path.clone();
        if wanted.simulated != self.report.simulated {
            return Err(BaselineError::Simulated { path: path(), simulated: self.report.simulated });
        }
        let names = |suites: &BTreeSet<Suite>| stile_text::list(&suites.iter().map(|s| s.name()).collect::<Vec<_>>());
        let was: BTreeSet<Suite> = view::suites(&self.report).into_iter().collect();
        let is: BTreeSet<Suite> = wanted.settings.iter().map(|(suite, _)| *suite).collect();
        if was != is {
            return Err(BaselineError::Suites { path: path(), was: names(&was), is: names(&is) });
        }
        if let Some((was, is)) = self.other_params(&wanted.settings) {
            return Err(BaselineError::Params { path: path(), was, is, command: self.report.command.join(" ") });
        }
        let policies = view::policies(&self.report);
        if !wanted.policies.iter().any(|policy| policies.contains(policy)) {
            let (was, is) = (stile_text::list(&policies), stile_text::list(&wanted.policies));
            return Err(BaselineError::Policies { path: path(), was, is });
        }
        Ok(())
    }

    /// A warning if every run of a policy that both have was disturbed when the baseline was measured.
    pub fn doubt(&self, policies: &[&str]) -> Option<String> {
        let wholly = self.report.disturbed.wholly();
        let wholly: Vec<_> = wholly.into_iter().filter(|runs| policies.contains(&runs.policy.as_str())).collect();
        let counts = wholly.iter().map(|runs| format!("{} of {} runs of {}", runs.disturbed, runs.runs, runs.policy));
        let counts: Vec<String> = counts.collect();
        (!counts.is_empty()).then(|| {
            format!(
                "the baseline {} is not reliable: other work on the machine disturbed {}. Measure it again on a quiet \
                 machine: {}",
                self.path.display(),
                stile_text::list(&counts),
                self.report.command.join(" ")
            )
        })
    }

    /// A setting that only one of both has, in words, with all settings of the other one in its suite. Samples may have
    /// parameters besides those of their setting.
    fn other_params(&self, settings: &[(Suite, Params)]) -> Option<(String, String)> {
        let measured: BTreeSet<(Suite, &Params)> = self.report.cells.iter().map(|c| (c.suite, &c.params)).collect();
        let is_of =
            |params: &Params, setting: &Params| setting.iter().all(|(name, value)| params.get(name) == Some(value));
        let words = |(suite, params): (Suite, &Params)| {
            let all = params.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>();
            format!("{suite} with {}", all.join(", "))
        };
        let lacking = settings
            .iter()
            .find(|(suite, setting)| !measured.iter().any(|(other, params)| other == suite && is_of(params, setting)));
        if let Some((suite, setting)) = lacking {
            let same = measured.iter().filter(|(other, _)| other == suite).map(|&setting| words(setting));
            return Some((stile_text::list(&same.collect::<Vec<_>>()), words((*suite, setting))));
        }
        let more = measured
            .iter()
            .find(|(suite, params)| !settings.iter().any(|(other, setting)| other == suite && is_of(params, setting)));
        more.map(|&(suite, params)| {
            let same =
                settings.iter().filter(|(other, _)| *other == suite).map(|(suite, params)| words((*suite, params)));
            (words((suite, params)), stile_text::list(&same.collect::<Vec<_>>()))
        })
    }

    /// Compares a report with the baseline.
    pub fn judge<'a>(&'a self, report: &'a Report) -> Judgement<'a> {
        let headline = |cell: &&Cell| cell.suite.headline().contains(&cell.metric) && cell.suite.judges(cell.metric);
        let earlier = |cell: &Cell| {
            self.report.cells.iter().find(|old| {
                (old.suite, &old.policy, &old.params, old.metric)
                    == (cell.suite, &cell.policy, &cell.params, cell.metric)
            })
        };
        let both: Vec<(&Cell, &Cell)> =
            report.cells.iter().filter(headline).filter_map(|cell| Some((cell, earlier(cell)?))).collect();
        let worse: Vec<_> = both.iter().copied().filter(|(new, old)| is_worse(new, old, self.tolerance)).collect();
        let told = self.told(report, &worse, both.len());
        Judgement { worse, compared: both.len(), told }
    }

    fn told(&self, report: &Report, worse: &[(&Cell, &Cell)], compared: usize) -> Vec<String> {
        let (tolerated, of) = (stile_text::percent(self.tolerance), stile_text::count(compared, "headline figure"));
        let path = self.path.display();
        let doubt = self.doubt(&view::policies(report)).map(|doubt| format!("Warning: {doubt}"));
        let mut told: Vec<String> = doubt.into_iter().collect();
        told.push(match worse.len() {
            0 => format!("Against {path}: of {of} none is worse by more than {tolerated} and outside its interval."),
            n => format!(
                "Against {path}: of {of} {n} {} worse by more than {tolerated} and outside the interval:",
                if n == 1 { "is" } else { "are" }
            ),
        });
        told.extend(worse.iter().map(|(new, old)| sentence(new, old)));
        if worse.iter().any(|(cell, _)| cell.policy == BASELINE) {
            told.push(format!("`{BASELINE}` itself is worse: the machine may have changed, or be disturbed."));
        }
        let known = view::policies(&self.report);
        let unknown: Vec<&str> = view::policies(report).into_iter().filter(|policy| !known.contains(policy)).collect();
        if !unknown.is_empty() {
            told.push(format!("Not compared, as the baseline does not have them: {}.", stile_text::list(&unknown)));
        }
        let differ = MACHINE.into_iter().filter(|fact| self.report.host.get(fact) != report.host.get(fact));
        let differ: Vec<&str> = differ.collect();
        if !differ.is_empty() {
            told.push(format!("The machine is not the same: {} differ.", stile_text::list(&differ)));
        }
        told
    }
}

/// "ticket: rsdl, 16 vCPUs: throughput 20.1k locks/s, 0.72 times the baseline value 27.9k locks/s".
pub fn sentence(new: &Cell, old: &Cell) -> String {
    let value = |cell: &Cell| format::value_with_unit(cell.metric, cell.suite, cell.median);
    let was = match old.median {
        0.0 => format!("baseline value {}", value(old)),
        _ => format!("{} times the baseline value {}", stile_text::ratio(new.median / old.median), value(old)),
    };
    format!("  {}: {} {}, {was}", new.suite, new.words(), value(new))
}

fn is_worse(new: &Cell, old: &Cell, tolerance: f64) -> bool {
    let (Some(now), Some(then)) = (new.ci95, old.ci95) else { return false };
    let Interval { lo, hi } = now;
    match new.better {
        Better::Higher => new.median < old.median * (1.0 - tolerance) && hi < then.lo,
        Better::Lower => new.median > old.median * (1.0 + tolerance) && lo > then.hi,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_results::model::{RunContext, Sample};
    use stile_results::testing::ticket;
    use stile_suites::Metric;

    fn report(samples: &[Vec<Sample>]) -> Report {
        Report::from_samples(&samples.concat(), RunContext::default())
    }

    fn baseline(samples: &[Vec<Sample>]) -> Baseline {
        Baseline { path: "old.json".into(), report: report(samples), tolerance: 0.1 }
    }

    fn work(policy: &str, around: f64) -> Vec<Sample> {
        ticket(policy, Metric::Throughput, &[around * 0.99, around, around * 1.01])
    }

    fn wanted(suite: Suite, vcpus: &[u64]) -> Wanted<'static> {
        let settings = vcpus.iter().map(|&n| (suite, Params::default().with("vcpus", n))).collect();
        Wanted { settings, policies: vec!["host", "rsdl"], simulated: false }
    }

    #[test]
    fn a_figure_is_worse_beyond_the_tolerance_and_the_interval() {
        let old = baseline(&[work("host", 100.0), work("rsdl", 200.0)]);
        let worse = |now: &[Vec<Sample>]| {
            let now = report(now);
            old.judge(&now).worse.iter().map(|(cell, _)| cell.policy.clone()).collect::<Vec<_>>()
        };
        assert_eq!(worse(&[work("host", 101.0), work("rsdl", 150.0)]), ["rsdl"]);
        assert_eq!(worse(&[work("host", 95.0), work("rsdl", 185.0)]), [""; 0], "within the tolerance");
        let scattered = ticket("rsdl", Metric::Throughput, &[100.0, 150.0, 205.0]);
        assert_eq!(worse(&[work("host", 100.0), scattered]), [""; 0], "the intervals overlap");
        assert_eq!(worse(&[work("host", 300.0), work("rsdl", 600.0)]), [""; 0], "better is not worse");
    }

    #[test]
    fn a_longer_latency_is_worse_and_a_shorter_one_is_not() {
        let of = |us: f64| vec![ticket("rsdl", Metric::LatencyP99, &[us, us * 1.01, us * 1.02])];
        assert_eq!(baseline(&of(100.0)).judge(&report(&of(120.0))).worse.len(), 1);
        assert_eq!(baseline(&of(100.0)).judge(&report(&of(80.0))).worse.len(), 0);
    }

    #[test]
    fn a_policy_that_the_baseline_does_not_have_is_told_and_not_compared() {
        let old = baseline(&[work("host", 100.0)]);
        let now = report(&[work("host", 100.0), work("o1", 50.0)]);
        let Judgement { worse, compared, told } = old.judge(&now);
        assert_eq!((worse.len(), compared), (0, 1));
        assert!(told.join(" ").contains("the baseline does not have them: o1."), "{told:?}");
    }

    #[test]
    fn the_host_itself_being_slower_is_told() {
        let old = baseline(&[work("host", 100.0), work("rsdl", 200.0)]);
        let now = report(&[work("host", 50.0), work("rsdl", 100.0)]);
        let told = old.judge(&now).told.join("\n");
        assert!(
            told.contains("of 2 headline figures 2 are worse") && told.contains("the machine may have changed"),
            "{told}"
        );
        assert!(
            told.contains("ticket: rsdl, 4 vCPUs: throughput 100 locks/s, 0.50 times the baseline value 200 locks/s"),
            "{told}"
        );
    }

    #[test]
    fn a_baseline_is_doubted_if_every_run_of_a_compared_policy_was_disturbed() {
        let mut old = baseline(&[work("host", 100.0), work("rsdl", 200.0)]);
        for (policy, disturbed) in [("host", true), ("host", true), ("rsdl", true), ("rsdl", false)] {
            old.report.disturbed.count(policy, disturbed);
        }
        let now = report(&[work("host", 100.0)]);
        let doubt = old.doubt(&["host", "rsdl"]).unwrap();
        assert!(doubt.contains("old.json") && doubt.contains("disturbed 2 of 2 runs of host. Measure"), "{doubt}");
        assert_eq!(old.judge(&now).told[0], format!("Warning: {doubt}"));
        assert_eq!(old.doubt(&["rsdl", "o1"]), None);
    }

    #[test]
    fn what_cannot_be_compared_is_refused_with_both_sides() {
        let old = baseline(&[work("host", 100.0), work("rsdl", 200.0)]);
        let refused = |wanted: &Wanted<'_>| old.fits(wanted).unwrap_err().to_string();
        assert!(old.fits(&wanted(Suite::Ticket, &[4])).is_ok());
        assert!(refused(&wanted(Suite::Mixed, &[4])).contains("is of ticket, and this comparison of mixed"));
        assert!(refused(&wanted(Suite::Ticket, &[4, 8])).contains("has ticket with vcpus 4, and"), "more sizes");
        assert!(refused(&wanted(Suite::Ticket, &[8])).contains("ticket with vcpus 8"), "another size");
        let strangers = Wanted { policies: vec!["o1"], ..wanted(Suite::Ticket, &[4]) };
        assert!(refused(&strangers).contains("none of the policies o1"));
        let simulated = Wanted { simulated: true, ..wanted(Suite::Ticket, &[4]) };
        assert!(refused(&simulated).contains("is measured, and this comparison simulated"));
    }

    #[test]
    fn a_report_of_another_schema_or_of_two_rounds_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "{\"schema\": 7}").unwrap();
        let refused = Baseline::read(file.path(), 0.1).unwrap_err();
        let why = std::error::Error::source(&refused).map(ToString::to_string).unwrap_or_default();
        assert!(refused.to_string().contains("--baseline") && why.contains("has schema 7"), "{refused}: {why}");
        let two = report(&[ticket("host", Metric::Throughput, &[1.0, 2.0])]);
        std::fs::write(file.path(), serde_json::to_string(&two).unwrap()).unwrap();
        assert!(Baseline::read(file.path(), 0.1).unwrap_err().to_string().contains("has 2 rounds, and"));
    }
}
