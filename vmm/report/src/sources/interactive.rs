//! The first source's table: how a desktop feels beside loads, by the meaning of a yield.
//!
//! The source's kernels were -mm2, -mm2 with a yield that does nothing, and RSDL with a yield that does nothing. Here
//! `host`, `host-noyield` and `rsdl+none` stand for them. Sentences are made of the figures. A sentence is left out if
//! one of its figures is missing.

mod findings;
mod source;

use super::table::SourceTable;
use crate::format;
use crate::view;
use source::{KERNELS, RATED, Rated, TIMES};
use stile_results::model::{Cell, ParamValue, Report};
use stile_results::rating::{Probe, Rating};
use stile_suites::{Metric, Suite};

const TITLE: &str =
    "What a user notices beside loads, and what a yield has to do with it: rating, p99, deadlines missed";
const BUILD: [(Metric, &str); 3] =
    [(Metric::BuildReal, "real"), (Metric::BuildUser, "user"), (Metric::BuildSys, "sys")];

/// The source's table with a report's figures; `None` if it has none of this suite.
pub(super) fn table(report: &Report, citation: &'static str) -> Option<SourceTable> {
    let figures = Figures::of(report)?;
    let mut header = vec![String::new()];
    header.extend(figures.policies.iter().map(|policy| (*policy).to_owned()));
    header.extend(KERNELS.iter().map(|(kernel, _)| format!("there: {kernel}")));
    let rows = RATED.iter().flat_map(|rated| figures.rows(rated)).collect();
    let findings =
        [figures.agreement(), figures.disagreement(), figures.expiry(), figures.promise(), figures.throughput()];
    let findings = findings.into_iter().flatten().chain(figures.shares()).collect();
    Some(SourceTable { title: TITLE.to_owned(), citation, header, rows, findings })
}

/// The result of a probe.
#[derive(Debug, Clone, Copy)]
struct Felt {
    rating: Rating,
    p99_us: f64,
    missed: f64,
}

impl std::fmt::Display for Felt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rating, p99_us, missed } = self;
        write!(f, "{}, {}", rating.name(), stile_text::time_us(*p99_us))?;
        if *missed > 0.0 { write!(f, ", {missed:.1} %") } else { Ok(()) }
    }
}

/// Number of CPUs in a list of the host's facts, such as `0-3,8`; `None` if it is malformed.
fn cpus_in(list: &str) -> Option<u32> {
    let in_part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.split(',').map(in_part).try_fold(0, |all: u32, part| all.checked_add(part?))
}

/// A report's cells of the suite.
struct Figures<'a> {
    cells: Vec<&'a Cell>,
    policies: Vec<&'a str>,
    pcpus: Option<f64>,
}

impl<'a> Figures<'a> {
    fn of(report: &'a Report) -> Option<Self> {
        let cells: Vec<&Cell> = report.cells.iter().filter(|cell| cell.suite == Suite::Interactive).collect();
        let ran = |policy: &&str| cells.iter().any(|cell| cell.policy == *policy);
        let policies: Vec<&str> = view::policies(report).into_iter().filter(ran).collect();
        let pcpus = report.host.get("pcpus").and_then(|list| cpus_in(list.as_str()?));
        (!cells.is_empty()).then_some(Self { cells, policies, pcpus: pcpus.map(f64::from) })
    }

    /// A cell of a load, or of a probe beside it. With several sizes it is the first one.
    fn cell(&self, policy: &str, load: &str, probe: Option<Probe>, metric: Metric) -> Option<&'a Cell> {
        let wanted = |cell: &&&Cell| {
            (cell.policy == policy && cell.metric == metric)
                && (word(cell, "load") == Some(load) && word(cell, "probe") == probe.map(Probe::name))
        };
        self.cells.iter().find(wanted).copied()
    }

    fn felt(&self, policy: &str, load: &str, probe: Probe) -> Option<Felt> {
        let median = |metric| self.cell(policy, load, Some(probe), metric).map(|cell| cell.median);
        let (p99_us, missed) = (median(Metric::LatencyP99)?, median(Metric::MissedShare)?);
        Some(Felt { rating: probe.rate(p99_us, missed), p99_us, missed })
    }

    fn rows(&self, rated: &'static Rated) -> Vec<Vec<String>> {
        let row = |what: &str, ours: &dyn Fn(&str) -> Option<String>, theirs: [String; 3]| {
            let ours: Vec<_> = self.policies.iter().map(|policy| ours(policy)).collect();
            let label = format!("{}: {what}", rated.title);
            let cells = ours.iter().map(|cell| cell.clone().unwrap_or_default());
            ours.iter().any(Option::is_some).then(|| [label].into_iter().chain(cells).chain(theirs).collect())
        };
        let probes = Probe::ALL.iter().zip(rated.ratings).filter_map(|(&probe, theirs)| {
            let felt = |policy: &str| self.felt(policy, rated.load, probe).map(|felt| felt.to_string());
            row(probe.name(), &felt, theirs.map(str::to_owned))
        });
        let work = |policy: &str| {
            let cell = self.cell(policy, rated.load, None, Metric::Throughput)?;
            Some(format::value_with_unit(Metric::Throughput, Suite::Interactive, cell.median))
        };
        let work = row("throughput", &work, Default::default());
        let times = TIMES.iter().filter(|(load, _)| *load == rated.load).flat_map(|(_, times)| BUILD.iter().zip(times));
        let times = times.filter_map(|((metric, what), theirs)| {
            let time = |policy: &str| Some(stile_text::time_us(self.cell(policy, rated.load, None, *metric)?.median));
            row(what, &time, theirs.map(|seconds| format!("{seconds:.1} s")))
        });
        probes.chain(work).chain(times).collect()
    }
}

/// A parameter of a cell that is a word.
fn word<'a>(cell: &'a Cell, name: &str) -> Option<&'a str> {
    match cell.params.get(name) {
        Some(ParamValue::Text(text)) => Some(text.as_str()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
