//! The disturbances of a run's cells, in a sentence for each kind. Samples of disturbed cells are kept: a comparison
//! that drops samples by choice proves nothing.

use stile_host::Disturbance;
use stile_results::disturbed::Disturbed;
use stile_results::stats;

/// The largest number of cells that a sentence names.
const NAMED: usize = 4;

/// The state of the host in most cells.
#[derive(Default)]
struct Usual {
    mhz: Option<f64>,
    /// The value of the best cell: a host may be slow for most of a run.
    hop_ns: Option<f64>,
}

/// A kind of disturbance.
struct Kind {
    /// Its amount, if that is above the threshold.
    amount: fn(&Disturbance, &Usual) -> Option<f64>,
    /// The words for the largest amount.
    words: fn(f64) -> String,
}

/// Below 5 % other programs do what they do on any system. Time that a host above takes is missing at once.
const KINDS: [Kind; 6] = [
    Kind {
        amount: |found, _| found.others.filter(|&part| part > 0.05),
        words: |most| format!("Other programs took up to {} of the pCPUs' time", stile_text::percent(most)),
    },
    Kind {
        amount: |found, _| found.stolen.filter(|&part| part > 0.01),
        words: |most| format!("A host above took up to {} of the pCPUs' time", stile_text::percent(most)),
    },
    Kind {
        amount: |found, _| found.memory_stall.filter(|&part| part > 0.01),
        words: |most| format!("Tasks waited for memory up to {} of the time", stile_text::percent(most)),
    },
    Kind {
        amount: |found, _| found.throttled.filter(|&times| times > 0).map(|times| times as f64),
        words: |most| format!("CPUs were throttled up to {} times", stile_text::si(most)),
    },
    Kind {
        amount: |found, usual| Some(1.0 - found.mhz? / usual.mhz?).filter(|&part| part > 0.05),
        words: |most| format!("CPUs were up to {} slower than in most runs", stile_text::percent(most)),
    },
    Kind {
        amount: |found, usual| Some(found.hop_ns? as f64 / usual.hop_ns?).filter(|&times| times > 1.5),
        words: |most| {
            let times = stile_text::si(most);
            format!("A cache line took up to {times} times as long from one pCPU to another as in the best run")
        },
    },
];

/// The runs so far, with the host's disturbances.
#[derive(Debug, Default)]
pub(super) struct Disturbances {
    /// The policy of each run.
    policies: Vec<String>,
    /// Each run in words, with its disturbances.
    runs: Vec<(String, Disturbance)>,
}

impl Disturbances {
    pub(super) fn add(&mut self, policy: String, run: String, found: Disturbance) {
        self.policies.push(policy);
        self.runs.push((run, found));
    }

    /// The number of disturbed runs of each policy, and a sentence for each kind of disturbance.
    pub(super) fn told(&self) -> Disturbed {
        let each = || self.runs.iter().map(|(_, found)| found);
        let usual = Usual {
            mhz: stats::median(&each().filter_map(|found| found.mhz).collect::<Vec<_>>()),
            hop_ns: each().filter_map(|found| found.hop_ns).min().map(|ns| ns.max(1) as f64),
        };
        let mut told = Disturbed::default();
        for (policy, found) in self.policies.iter().zip(each()) {
            told.count(policy, KINDS.iter().any(|kind| (kind.amount)(found, &usual).is_some()));
        }
        told.notes = KINDS.iter().filter_map(|kind| self.note(kind, &usual)).collect();
        told
    }

    /// The sentence for a kind: "Other programs took up to 23 % of the pCPUs' time, in 2 of 40 runs (rsdl, 4 vCPUs,
    /// round 1; ...). ..."
    fn note(&self, Kind { amount, words }: &Kind, usual: &Usual) -> Option<String> {
        let amounts = self.runs.iter().filter_map(|(cell, found)| Some((amount(found, usual)?, cell.as_str())));
        let (amounts, cells): (Vec<f64>, Vec<&str>) = amounts.unzip();
        let most = amounts.iter().copied().reduce(f64::max)?;
        let more = match cells.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let (named, of) = (cells[..cells.len().min(NAMED)].join("; "), stile_text::count(self.runs.len(), "run"));
        Some(format!("{}, in {} of {of} ({named}{more}). Their samples are kept.", words(most), cells.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(found: &[Disturbance]) -> Disturbed {
        let mut all = Disturbances::default();
        let policy = |n: usize| if n.is_multiple_of(2) { "host" } else { "rsdl" };
        let runs = found.iter().enumerate();
        runs.for_each(|(n, found)| all.add(policy(n).to_owned(), format!("cell {n}"), found.clone()));
        all.told()
    }

    fn told(found: &[Disturbance]) -> Vec<String> {
        all(found).notes
    }

    #[test]
    fn a_run_disturbed_in_two_ways_counts_once_for_its_policy() {
        let with = |others: f64, stolen: f64| Disturbance {
            others: Some(others),
            stolen: Some(stolen),
            ..Disturbance::default()
        };
        let runs = all(&[with(0.3, 0.2), with(0.0, 0.0), with(0.0, 0.2), with(0.3, 0.0)]).runs;
        let counts: Vec<_> = runs.iter().map(|runs| (runs.policy.as_str(), runs.disturbed, runs.runs)).collect();
        assert_eq!(counts, [("host", 2, 2), ("rsdl", 1, 2)]);
    }

    #[test]
    fn a_quiet_host_is_not_worth_a_word_nor_one_that_tells_nothing() {
        let quiet = Disturbance {
            others: Some(0.02),
            stolen: Some(0.0),
            memory_stall: Some(0.001),
            throttled: Some(0),
            mhz: Some(3000.0),
            hop_ns: Some(50),
        };
        assert_eq!(told(&[quiet, Disturbance::default()]), [""; 0]);
    }

    #[test]
    fn each_kind_is_told_with_its_most_and_its_cells() {
        let with = |others: f64| Disturbance { others: Some(others), ..Disturbance::default() };
        let told_of = told(&[with(0.3), with(0.01), with(0.07)]);
        let expected = "Other programs took up to 30 % of the pCPUs' time, in 2 of 3 runs (cell 0; cell 2). \
                        Their samples are kept.";
        assert_eq!(told_of, [expected]);
        let many: Vec<_> = (0..6).map(|_| Disturbance { throttled: Some(2), ..Disturbance::default() }).collect();
        assert!(
            told(&many)[0].contains("throttled up to 2 times, in 6 of 6 runs (cell 0; cell 1; cell 2; cell 3; and 2")
        );
    }

    #[test]
    fn a_cell_on_slower_cpus_than_usual_is_told() {
        let at = |mhz: f64| Disturbance { mhz: Some(mhz), ..Disturbance::default() };
        let told = told(&[at(3000.0), at(2400.0), at(3000.0), at(2990.0)]);
        assert!(
            told[0].starts_with("CPUs were up to 20 % slower than in most runs, in 1 of 4 runs (cell 1)"),
            "{told:?}"
        );
    }

    #[test]
    fn cells_whose_pcpus_were_far_apart_are_told() {
        let at = |ns| Disturbance { hop_ns: Some(ns), ..Disturbance::default() };
        let told = told(&[at(200), at(40), at(45), at(160)]);
        let expected =
            "A cache line took up to 5 times as long from one pCPU to another as in the best run, in 2 of 4 runs";
        assert!(told[0].starts_with(expected), "{told:?}");
    }
}
