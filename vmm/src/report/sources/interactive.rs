//! The first source's table: how a desktop feels beside loads, by what a yield means.
//!
//! Its kernels were -mm2, -mm2 whose yield does nothing, and RSDL whose yield does nothing; here they are `host`, `host-noyield`
//! and `rsdl+none`. Sentences are made of the figures; where a figure is missing, so is what would follow from it.

use super::SourceTable;
use crate::host::CpuList;
use crate::report::format;
use crate::report::metric::Metric;
use crate::report::model::{Cell, ParamValue, Report};
use crate::report::rating::{Probe, Rating};
use crate::report::suite::Suite;
use crate::report::view;

const TITLE: &str = "What a user notices beside loads, and what a yield has to do with it";
const CITATION: &str =
    "\"RSDL-mm 0.28\", a test of -mm2, -mm2 without sched_yield, and RSDL without sched_yield (2007)";
/// The source's kernels, and the policies that stand for them.
const KERNELS: [(&str, &str); 3] = [("-mm2", "host"), ("-mm2+noyield", "host-noyield"), ("rsdl+noyield", "rsdl+none")];
/// The policy that promises something, by either of its names.
const PROMISING: [&str; 2] = ["rsdl+polite", "rsdl"];
/// How far throughput may be below that of `host`.
const WITHIN: f64 = 0.05;

/// The source's ratings for a load, by probe and kernel; two where it gives two.
struct Rated {
    load: &'static str,
    title: &'static str,
    ratings: [[&'static str; 3]; 5],
    /// vCPUs of the load that always compute, here.
    computing: u32,
}

const GOOD: [&str; 3] = ["good", "good", "good"];

#[rustfmt::skip] // a table
const RATED: [Rated; 6] = [
    Rated { load: "none", title: "no load", computing: 0,
            ratings: [["great", "great", "great"], GOOD, GOOD, GOOD, GOOD] },
    Rated { load: "memload", title: "memload x10", computing: 10,
            ratings: [["awful/bad", "great", "good"], ["good", "good", "ok/good"], GOOD, GOOD, GOOD] },
    Rated { load: "execload", title: "execload x10", computing: 10,
            ratings: [["awful/bad", "bad/good", "good"], ["good", "bad/good", "ok/good"], ["good", "bad", "good"],
                      ["good", "bad/good", "good"], ["good", "bad/good", "good"]] },
    Rated { load: "forkload", title: "forkload x10", computing: 0,
            ratings: [["good", "good", "great"], ["good", "good", "ok/good"], GOOD, ["good", "good", "ok/good"], GOOD] },
    Rated { load: "make", title: "make -j5", computing: 0,
            ratings: [["ok", "good", "good/great"], ["good", "good", "ok/good"], GOOD, GOOD, GOOD] },
    Rated { load: "make-ccache", title: "make -j5, ccache", computing: 0,
            ratings: [["ok", "good", "awful"], ["good", "good", "bad"], ["good", "good", "bad"],
                      ["good", "good", "bad/ok"], ["good", "good", "bad/ok"]] },
];

/// The source's times of its builds, by kernel (unit: s): real, user, sys.
const TIMES: [(&str, [[f64; 3]; 3]); 2] = [
    ("make", [[481.857, 530.659, 489.282], [439.127, 483.494, 450.740], [30.910, 33.722, 29.542]]),
    ("make-ccache", [[126.182, 139.032, 121.832], [99.466, 108.787, 97.250], [19.741, 22.993, 20.109]]),
];
const BUILD: [(Metric, &str); 3] =
    [(Metric::BuildReal, "real"), (Metric::BuildUser, "user"), (Metric::BuildSys, "sys")];

/// The source's table with a report's figures; `None` if it has none of this suite.
pub fn table(report: &Report) -> Option<SourceTable> {
    let figures = Figures::of(report)?;
    let mut header = vec!["load".to_owned(), "what".to_owned()];
    header.extend(figures.policies.iter().map(|policy| (*policy).to_owned()));
    header.extend(KERNELS.iter().map(|(kernel, _)| format!("source: {kernel}")));
    let rows = RATED.iter().flat_map(|rated| figures.rows(rated)).collect();
    let findings = [figures.agreement(), figures.disagreement(), figures.promise(), figures.throughput()];
    let findings = findings.into_iter().flatten().chain(figures.shares()).collect();
    Some(SourceTable { title: TITLE.to_owned(), citation: CITATION, header, rows, findings })
}

/// What a probe came to.
#[derive(Debug, Clone, Copy)]
struct Felt {
    rating: Rating,
    p99_us: f64,
    missed: f64,
}

impl std::fmt::Display for Felt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rating, p99_us, missed } = self;
        write!(f, "{}, {}, {missed:.1} %", rating.name(), format::time_us(*p99_us))
    }
}

/// A rating here beside the source's.
struct Compared {
    rated: &'static Rated,
    probe: Probe,
    policy: &'static str,
    theirs: &'static str,
    ours: Rating,
    /// How many ratings ours is better (below 0) or worse (above) than the nearest of theirs.
    off: i32,
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
        let listed = report.host.get("pcpus").and_then(|list| list.as_str()?.parse::<CpuList>().ok());
        (!cells.is_empty()).then_some(Self { cells, policies, pcpus: listed.map(|list| list.len() as f64) })
    }

    /// A cell of a load, or of a probe beside it; with several sizes the first one.
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
            let labels = [rated.title.to_owned(), what.to_owned()];
            let cells = ours.iter().map(|cell| cell.clone().unwrap_or_default());
            ours.iter().any(Option::is_some).then(|| labels.into_iter().chain(cells).chain(theirs).collect())
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
            let time = |policy: &str| Some(format::time_us(self.cell(policy, rated.load, None, *metric)?.median));
            row(what, &time, theirs.map(|seconds| format!("{seconds:.1} s")))
        });
        probes.chain(work).chain(times).collect()
    }

    /// Every rating that the source has and this report as well.
    fn compared(&self) -> Vec<Compared> {
        let mut compared = Vec::new();
        for rated in &RATED {
            for (&probe, ratings) in Probe::ALL.iter().zip(&rated.ratings) {
                for (&(_, policy), &theirs) in KERNELS.iter().zip(ratings) {
                    if let Some(Felt { rating: ours, .. }) = self.felt(policy, rated.load, probe) {
                        compared.push(Compared { rated, probe, policy, theirs, ours, off: off(ours, theirs) });
                    }
                }
            }
        }
        compared
    }

    /// How much longer a build takes without yields: in the source, and here.
    fn without_yields(&self) -> Vec<(&'static str, f64, f64)> {
        let ratio = |(load, [real, ..]): &(&'static str, [[f64; 3]; 3])| {
            let here = |policy| self.cell(policy, load, None, Metric::BuildReal).map(|cell| cell.median);
            Some((*load, real[1] / real[0], here("host-noyield")? / here("host")?))
        };
        TIMES.iter().filter_map(ratio).collect()
    }

    fn agreement(&self) -> Option<String> {
        let compared = self.compared();
        let same = compared.iter().filter(|c| c.off == 0).count();
        let near = compared.iter().filter(|c| c.off.abs() == 1).count();
        let builds = self.without_yields().into_iter().filter(|(_, there, here)| (*there > 1.0) == (*here > 1.0));
        let mut sentence = format!(
            "As in the source: {same} of {} ratings are the same, and {near} more differ by one step",
            compared.len()
        );
        sentence.extend(builds.map(|build| format!("; {}", of_build(build))));
        (!compared.is_empty()).then_some(sentence + ".")
    }

    fn disagreement(&self) -> Option<String> {
        let mut compared = self.compared();
        let count = |sign: i32| compared.iter().filter(|c| c.off.signum() == sign).count();
        let (better, worse) = (count(-1), count(1));
        let builds = self.without_yields().into_iter().filter(|(_, there, here)| (*there > 1.0) != (*here > 1.0));
        let builds: Vec<String> = builds.map(|build| format!("; {}", of_build(build))).collect();
        if better + worse == 0 && builds.is_empty() {
            return None;
        }
        compared.sort_by_key(|c| std::cmp::Reverse(c.off.abs()));
        let furthest = compared.first().map_or(0, |c| c.off.abs());
        let named = compared.iter().filter(|c| furthest > 0 && c.off.abs() == furthest).take(4).map(|c| {
            let Compared { rated, probe, policy, theirs, ours, .. } = c;
            format!("{} beside {} under {policy} ({theirs} there, {} here)", probe.name(), rated.load, ours.name())
        });
        let named: Vec<String> = named.collect();
        let furthest = if named.is_empty() { String::new() } else { format!("; furthest apart: {}", named.join(", ")) };
        Some(format!(
            "Unlike the source: {better} ratings are better here and {worse} worse{furthest}{}.",
            builds.concat()
        ))
    }

    fn promising(&self) -> Option<&'static str> {
        PROMISING.into_iter().find(|policy| self.policies.contains(policy))
    }

    /// Whether every probe is good or better beside every load.
    fn promise(&self) -> Option<String> {
        let policy = self.promising()?;
        let all = RATED.iter().flat_map(|rated| Probe::ALL.map(|probe| (rated.load, probe)));
        let felt: Vec<_> =
            all.filter_map(|(load, probe)| Some((load, probe, self.felt(policy, load, probe)?))).collect();
        let short: Vec<String> = felt
            .iter()
            .filter(|(_, _, felt)| felt.rating > Rating::Good)
            .map(|(load, probe, felt)| format!("{} beside {load} ({felt})", probe.name()))
            .collect();
        let whole = if felt.len() == RATED.len() * Probe::ALL.len() { "every load" } else { "every load measured" };
        Some(match short.len() {
            _ if felt.is_empty() => return None,
            0 => format!("Under {policy} every probe is good or better beside {whole}."),
            n => format!("Under {policy} {n} of {} probes are not good: {}.", felt.len(), format::list(&short)),
        })
    }

    /// Whether the loads get as much done as under the host's scheduler.
    fn throughput(&self) -> Option<String> {
        let policy = self.promising()?;
        let ratio = |rated: &Rated| {
            let cell = self.cell(policy, rated.load, None, Metric::Throughput)?;
            Some((rated.load, cell.ratio_to_host?))
        };
        let ratios: Vec<_> = RATED.iter().filter_map(ratio).collect();
        let words = |(load, ratio): &(&str, f64)| format!("{load} ({})", format::ratio(*ratio));
        let (kept, short): (Vec<_>, Vec<_>) = ratios.iter().partition(|(_, ratio)| *ratio >= 1.0 - WITHIN);
        let list = |loads: &[&(&str, f64)]| format::list(&loads.iter().map(|load| words(load)).collect::<Vec<_>>());
        Some(match (kept.is_empty(), short.is_empty()) {
            (true, true) => return None,
            (_, true) => format!("The loads get at least 0.95 of host's throughput under {policy}: {}.", list(&kept)),
            (true, _) => format!("No load gets 0.95 of host's throughput under {policy}: {}.", list(&short)),
            _ => format!(
                "Under {policy} {} get at least 0.95 of host's throughput, but not {}.",
                list(&kept),
                list(&short)
            ),
        })
    }

    /// What an equal share is worth to those who draw, where they got less than they want.
    fn shares(&self) -> Vec<String> {
        let (Some(policy), Some(pcpus)) = (self.promising(), self.pcpus) else { return Vec::new() };
        let short = |load, probe| self.felt(policy, load, probe).filter(|felt| felt.rating > Rating::Good);
        let sentence = |rated: &Rated| {
            let share = equal_share(pcpus, rated.computing)?;
            let (beryl, galeon) = (Probe::Beryl.wants(), Probe::Galeon.wants());
            let drawing = short(rated.load, Probe::Beryl).filter(|_| share < beryl).map(|felt| {
                format!(
                    "beryl wants {beryl:.2}, and a policy that is fair at equal nice values must miss {:.0} % of its pictures \
                     at least ({policy} missed {:.0} %)",
                    100.0 * (1.0 - share / beryl),
                    felt.missed
                )
            });
            let scrolling = short(rated.load, Probe::Galeon).filter(|_| share < Probe::GALEON_SCROLLING).map(|_| {
                format!(
                    "galeon wants {:.2} while it scrolls and {galeon:.2} in the mean, and so keeps up only on what it may save \
                     while it rests",
                    Probe::GALEON_SCROLLING
                )
            });
            let why: Vec<String> = drawing.into_iter().chain(scrolling).collect();
            (!why.is_empty()).then(|| {
                format!(
                    "Beside {}, whose {} vCPUs always compute, an equal share of {pcpus} pCPUs is {share:.2} of a CPU: {}.",
                    rated.load,
                    rated.computing,
                    why.join("; ")
                )
            })
        };
        RATED.iter().filter_map(sentence).collect()
    }
}

/// A parameter of a cell that is a word.
fn word<'a>(cell: &'a Cell, name: &str) -> Option<&'a str> {
    match cell.params.get(name) {
        Some(ParamValue::Text(text)) => Some(text.as_str()),
        _ => None,
    }
}

/// How far a rating is from the nearest of the source's, above 0 if it is worse.
fn off(ours: Rating, theirs: &str) -> i32 {
    let theirs = || theirs.split('/').filter_map(Rating::named);
    let (Some(best), Some(worst)) = (theirs().min(), theirs().max()) else { return 0 };
    match ours {
        ours if ours < best => -(ours.distance(best) as i32),
        ours if ours > worst => ours.distance(worst) as i32,
        _ => 0,
    }
}

fn of_build((load, there, here): (&str, f64, f64)) -> String {
    let (there, here) = (format::ratio(there), format::ratio(here));
    format!("without yields {load} takes {here} times as long as with them ({there} there)")
}

/// The share of each vCPU that wants more than it gets, where so many always compute beside the probes; `None` where
/// nobody does, and shares do not decide.
fn equal_share(pcpus: f64, computing: u32) -> Option<f64> {
    let mut wants = Probe::ALL.map(Probe::wants);
    wants.sort_by(f64::total_cmp);
    let (mut left, mut sharers) = (pcpus, f64::from(computing) + wants.len() as f64);
    // Who wants less than an equal share gets what it wants; the others share what is left.
    for want in wants {
        if want > left / sharers {
            break;
        }
        left -= want;
        sharers -= 1.0;
    }
    (computing > 0).then(|| left / sharers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{Params, RunContext, Sample};
    use serde_json::json;
    use std::collections::BTreeMap;

    fn sample(policy: &str, load: &str, probe: Option<&str>, values: &[(Metric, f64)]) -> Sample {
        let params = Params::default().with("load", load).with("hint", "full");
        let params = probe.map_or(params.clone(), |probe| params.with("probe", probe));
        let values: BTreeMap<_, _> = values.iter().copied().collect();
        Sample { suite: Suite::Interactive, policy: policy.into(), params, round: 0, values, detail: json!(null) }
    }

    fn probe(policy: &str, load: &str, probe: Probe, p99_us: f64, missed: f64) -> Sample {
        let values = [(Metric::LatencyP99, p99_us), (Metric::MissedShare, missed)];
        sample(policy, load, Some(probe.name()), &values)
    }

    fn table_of(samples: &[Sample]) -> Option<SourceTable> {
        let context = RunContext { host: json!({"pcpus": "0-1"}), ..RunContext::default() };
        table(&Report::from_samples(samples, context))
    }

    #[test]
    fn a_report_without_the_suite_has_no_table() {
        let other = Sample { suite: Suite::Ticket, ..sample("host", "none", None, &[(Metric::Throughput, 1.0)]) };
        assert_eq!(table_of(&[other]), None);
    }

    #[test]
    fn a_row_has_our_rating_with_its_figures_and_the_sources_beside() {
        let samples = [
            probe("host", "memload", Probe::Beryl, 20_000.0, 2.0),
            sample("host", "make", None, &[(Metric::BuildReal, 2.5e6)]),
        ];
        let table = table_of(&samples).unwrap();
        assert_eq!(table.header.len(), 6);
        let row = ["memload x10", "beryl", "good, 20.0 ms, 2.0 %", "awful/bad", "great", "good"];
        assert_eq!(table.rows[0], row);
        assert_eq!(table.rows[1], ["make -j5", "real", "2.50 s", "481.9 s", "530.7 s", "489.3 s"]);
    }

    #[test]
    fn ratings_are_held_against_the_nearest_of_the_sources() {
        assert_eq!(off(Rating::Bad, "awful/bad"), 0);
        assert_eq!(off(Rating::Good, "awful/bad"), -2);
        assert_eq!(off(Rating::Awful, "good"), 3);
    }

    #[test]
    fn what_agrees_and_what_does_not_follows_from_the_figures() {
        let samples = [
            probe("host", "none", Probe::Mouse, 20_000.0, 0.0),
            probe("host", "memload", Probe::Mouse, 300_000.0, 0.0),
            sample("host", "make", None, &[(Metric::BuildReal, 4e6)]),
            sample("host-noyield", "make", None, &[(Metric::BuildReal, 2e6)]),
        ];
        let findings = table_of(&samples).unwrap().findings;
        assert!(findings[0].contains("1 of 2 ratings are the same"), "{findings:?}");
        assert!(findings[1].contains("0 ratings are better here and 1 worse"), "{findings:?}");
        assert!(findings[1].contains("mouse beside memload under host (good there, awful here)"), "{findings:?}");
        assert!(findings[1].contains("make takes 0.50 times as long as with them (1.10 there)"), "{findings:?}");
    }

    #[test]
    fn a_promise_that_does_not_hold_is_told_with_who_breaks_it() {
        let kept = probe("rsdl+polite", "none", Probe::Mouse, 1_000.0, 0.0);
        let findings = table_of(std::slice::from_ref(&kept)).unwrap().findings;
        assert!(findings.iter().any(|f| f.contains("every probe is good or better beside every load measured")));
        let broken = probe("rsdl+polite", "memload", Probe::Beryl, 90_000.0, 70.0);
        let findings = table_of(&[kept, broken]).unwrap().findings;
        assert!(
            findings.iter().any(|f| f.contains("1 of 2 probes are not good: beryl beside memload")),
            "{findings:?}"
        );
        assert!(findings.iter().any(|f| f.contains("an equal share of 2 pCPUs is 0.16")), "{findings:?}");
    }

    #[test]
    fn throughput_is_told_by_load() {
        let at = |policy, load, rate| sample(policy, load, None, &[(Metric::Throughput, rate)]);
        let samples = [
            at("host", "memload", 100.0),
            at("rsdl+polite", "memload", 97.0),
            at("host", "make", 100.0),
            at("rsdl+polite", "make", 80.0),
        ];
        let findings = table_of(&samples).unwrap().findings;
        let told = "memload (0.97) get at least 0.95 of host's throughput, but not make (0.80)";
        assert!(findings.iter().any(|f| f.contains(told)), "{findings:?}");
    }

    #[test]
    fn shares_give_everybody_what_it_wants_or_an_equal_part() {
        let share = equal_share(2.0, 10).unwrap();
        let given: f64 = Probe::ALL.iter().map(|probe| probe.wants().min(share)).sum();
        assert!((given + 10.0 * share - 2.0).abs() < 1e-9, "{share}");
        assert_eq!(equal_share(2.0, 0), None);
    }
}
