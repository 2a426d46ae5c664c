//! The findings on the first source, in sentences made of the figures: what agrees and what does not, whether the
//! promise is kept, and what a fair share allows.

use super::source::{KERNELS, RATED, Rated, TIMES};
use super::{Felt, Figures};
use stile_results::rating::{Probe, Rating};
use stile_suites::Metric;

/// The policy that has a promise, by either of its names.
const PROMISING: [&str; 2] = ["rsdl+polite", "rsdl"];
/// The least part of `host`'s throughput that the promise allows.
const WITHIN: f64 = 0.05;
/// A ratio this far above 1 counts as a difference if there are too few rounds for an interval.
const SEEN: f64 = 0.02;
/// This many more missed deadlines count as more (unit: percent of all).
const WORSE: f64 = 10.0;

/// A rating of stile's run beside the source's.
struct Compared {
    rated: &'static Rated,
    probe: Probe,
    policy: &'static str,
    theirs: &'static str,
    ours: Rating,
    /// How many steps stile's rating is better (below 0) or worse (above 0) than the nearest of the source's.
    off: i32,
}

/// The time of a build without yields, over its time with yields.
struct Build {
    load: &'static str,
    there: f64,
    here: f64,
    /// Whether it takes longer here.
    longer: bool,
}

impl std::fmt::Display for Build {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (there, here) = (stile_text::ratio(self.there), stile_text::ratio(self.here));
        write!(f, "without yields {} takes {here} times as long as with them ({there} there)", self.load)
    }
}

impl Figures<'_> {
    /// Every rating that both the source and this report have.
    fn compared(&self) -> Vec<Compared> {
        let mut compared = Vec::new();
        for rated in &RATED {
            for (&probe, ratings) in Probe::ALL.iter().zip(&rated.ratings) {
                for (&(_, policy), &theirs) in KERNELS.iter().zip(ratings) {
                    if let Some(Felt { rating: ours, .. }) = self.felt(policy, rated.load, probe) {
                        compared.push(Compared { rated, probe, policy, theirs, ours, off: off(probe, ours, theirs) });
                    }
                }
            }
        }
        compared
    }

    /// Times of builds without yields, as ratios: in the source, and here.
    fn without_yields(&self) -> Vec<Build> {
        let ratio = |(load, [real, ..]): &(&'static str, [[f64; 3]; 3])| {
            let cell = self.cell("host-noyield", load, None, Metric::BuildReal)?;
            let here = cell.ratio?;
            // Without an interval, a ratio counts as a difference if it is large.
            let longer = cell.ratio_ci95.map_or(here > 1.0 + SEEN, |interval| interval.lo > 1.0);
            Some(Build { load, there: real[1] / real[0], here, longer })
        };
        TIMES.iter().filter_map(ratio).collect()
    }

    pub(super) fn agreement(&self) -> Option<String> {
        let compared = self.compared();
        let same = compared.iter().filter(|c| c.off == 0).count();
        let near = compared.iter().filter(|c| c.off.abs() == 1).count();
        let builds = self.without_yields().into_iter().filter(|build| build.longer == (build.there > 1.0));
        let mut sentence = format!(
            "As in the source: {same} of {} ratings are the same, and {near} more differ by one step",
            compared.len()
        );
        sentence.extend(builds.map(|build| format!("; {build}")));
        (!compared.is_empty()).then_some(sentence + ".")
    }

    pub(super) fn disagreement(&self) -> Option<String> {
        let mut compared = self.compared();
        let count = |sign: i32| compared.iter().filter(|c| c.off.signum() == sign).count();
        let (better, worse) = (count(-1), count(1));
        let builds = self.without_yields().into_iter().filter(|build| build.longer != (build.there > 1.0));
        let builds: Vec<String> = builds.map(|build| format!("; {build}")).collect();
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

    /// The cost of a yield to the end of the queue for a program that draws, compared with a yield that does nothing.
    pub(super) fn expiry(&self) -> Option<String> {
        let worse = |rated: &Rated| {
            let missed = |policy| Some(self.felt(policy, rated.load, Probe::Beryl)?.missed);
            let (expire, none) = (missed("rsdl+expire")?, missed("rsdl+none")?);
            let theirs = rated.ratings[0][0];
            (expire > none + WORSE).then(|| {
                format!("beside {} beryl misses {expire:.0} instead of {none:.0} % (-mm2: {theirs})", rated.load)
            })
        };
        let worse: Vec<String> = RATED.iter().filter_map(worse).collect();
        let told =
            || format!("A yield to the end of the queue hurts the program that yields: {}.", stile_text::list(&worse));
        (!worse.is_empty()).then(told)
    }

    fn promising(&self) -> Option<&'static str> {
        PROMISING.into_iter().find(|policy| self.policies.contains(policy))
    }

    /// Whether every probe is good or better beside every load.
    pub(super) fn promise(&self) -> Option<String> {
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
            n => format!("Under {policy} {n} of {} probes are not good: {}.", felt.len(), stile_text::list(&short)),
        })
    }

    /// Whether the loads get as much throughput as under the host's scheduler.
    pub(super) fn throughput(&self) -> Option<String> {
        let policy = self.promising()?;
        let ratio = |rated: &Rated| {
            let cell = self.cell(policy, rated.load, None, Metric::Throughput)?;
            Some((rated.load, cell.ratio?))
        };
        let ratios: Vec<_> = RATED.iter().filter_map(ratio).collect();
        let words = |(load, ratio): &(&str, f64)| format!("{load} ({ratio:.3})");
        let (kept, short): (Vec<_>, Vec<_>) = ratios.iter().partition(|(_, ratio)| *ratio >= 1.0 - WITHIN);
        let list = |loads: &[&(&str, f64)]| stile_text::list(&loads.iter().map(|load| words(load)).collect::<Vec<_>>());
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

    /// The equal share of the probes that draw, if they got less than they want.
    pub(super) fn shares(&self) -> Vec<String> {
        let (Some(policy), Some(pcpus)) = (self.promising(), self.pcpus) else { return Vec::new() };
        let short = |load, probe| self.felt(policy, load, probe).filter(|felt| felt.rating > Rating::Good);
        let sentence = |rated: &Rated| {
            let share = equal_share(pcpus, rated.computing)?;
            let (beryl, galeon) = (Probe::Beryl.wants(), Probe::Galeon.wants());
            let drawing = short(rated.load, Probe::Beryl).filter(|_| share < beryl).map(|felt| {
                format!(
                    "beryl wants {beryl:.2}, so that it {} {:.0} % of its pictures at least under a policy that is fair at \
                     equal nice values ({policy} missed {:.0} %)",
                    if rated.always { "must miss" } else { "would miss" },
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
            let Rated { load, computing, always, .. } = rated;
            let supposed = match always {
                true => format!("whose {computing} vCPUs always compute, an equal share of {pcpus} pCPUs is"),
                false => format!("if its {computing} vCPUs never waited, an equal share of {pcpus} pCPUs would be"),
            };
            let why = why.join("; ");
            (!why.is_empty()).then(|| format!("Beside {load}, {supposed} {share:.2} of a CPU: {why}."))
        };
        RATED.iter().filter_map(sentence).collect()
    }
}

/// How many steps a rating is from the nearest of the source's, above 0 if it is worse.
pub(super) fn off(probe: Probe, ours: Rating, theirs: &str) -> i32 {
    let theirs = || theirs.split('/').filter_map(Rating::named);
    let (Some(best), Some(worst)) = (theirs().min(), theirs().max()) else { return 0 };
    // The source calls only beryl great. For the other probes its best rating is good.
    match if probe == Probe::Beryl { ours } else { ours.max(Rating::Good) } {
        ours if ours < best => -(ours.distance(best) as i32),
        ours if ours > worst => ours.distance(worst) as i32,
        _ => 0,
    }
}

/// The equal share of a vCPU that wants more than it gets, if this many vCPUs always compute beside the probes; `None`
/// if no vCPU wants more, so that shares do not decide.
pub(super) fn equal_share(pcpus: f64, computing: u32) -> Option<f64> {
    let mut wants = Probe::ALL.map(Probe::wants);
    wants.sort_by(f64::total_cmp);
    let (mut left, mut sharers) = (pcpus, f64::from(computing) + wants.len() as f64);
    // A probe that wants less than an equal share gets what it wants. The others share the rest.
    for want in wants {
        if want > left / sharers {
            break;
        }
        left -= want;
        sharers -= 1.0;
    }
    (computing > 0).then(|| left / sharers)
}
