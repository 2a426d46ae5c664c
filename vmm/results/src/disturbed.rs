//! The runs of a comparison that the host disturbed: other programs ran, CPU time was stolen, CPUs were slow.
//!
//! The runner decides what counts as a disturbance. A report keeps the number of disturbed runs, and warns of them.

use serde::{Deserialize, Serialize};

/// The disturbed runs of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbed {
    /// The runs of each policy, by policy. Empty if disturbances were not measured: in a simulation, and in reports of
    /// version 1.
    pub runs: Vec<Runs>,
    /// A sentence for each kind of disturbance.
    pub notes: Vec<String>,
}

/// The runs of one policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs {
    /// The policy's label.
    pub policy: String,
    /// Runs that were disturbed.
    pub disturbed: u32,
    /// All runs.
    pub runs: u32,
}

impl Disturbed {
    /// Counts one run of a policy.
    pub fn count(&mut self, policy: &str, disturbed: bool) {
        self.add_runs(Runs { policy: policy.to_owned(), disturbed: disturbed.into(), runs: 1 });
    }

    fn add_runs(&mut self, more: Runs) {
        match self.runs.iter_mut().find(|runs| runs.policy == more.policy) {
            Some(runs) => (runs.disturbed, runs.runs) = (runs.disturbed + more.disturbed, runs.runs + more.runs),
            None => self.runs.push(more),
        }
    }

    /// Adds the runs and notes of another part of the comparison.
    pub fn add(&mut self, other: Self) {
        other.runs.into_iter().for_each(|runs| self.add_runs(runs));
        self.notes.extend(other.notes);
    }

    /// The policies of which every run was disturbed.
    pub fn wholly(&self) -> Vec<&Runs> {
        self.runs.iter().filter(|runs| runs.runs > 0 && runs.disturbed == runs.runs).collect()
    }

    /// A warning if there is a policy of which every run was disturbed.
    pub fn warning(&self) -> Option<String> {
        let policies: Vec<&str> = self.wholly().iter().map(|runs| runs.policy.as_str()).collect();
        (!policies.is_empty()).then(|| {
            format!(
                "Every run under {} was disturbed, so these figures are not reliable. Repeat the comparison on a quiet \
                 machine.",
                stile_text::list(&policies)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[(&str, bool)]) -> Disturbed {
        let mut all = Disturbed::default();
        counts.iter().for_each(|(policy, disturbed)| all.count(policy, *disturbed));
        all
    }

    #[test]
    fn runs_are_counted_by_policy_over_all_parts() {
        let mut all = of(&[("host", true), ("rsdl", false), ("host", false)]);
        all.add(Disturbed { notes: vec!["busy".into()], ..of(&[("rsdl", true), ("o1", true)]) });
        let counts: Vec<_> = all.runs.iter().map(|runs| (runs.policy.as_str(), runs.disturbed, runs.runs)).collect();
        assert_eq!(counts, [("host", 1, 2), ("rsdl", 1, 2), ("o1", 1, 1)]);
        assert_eq!(all.notes, ["busy"]);
    }

    #[test]
    fn a_policy_with_one_undisturbed_run_is_not_warned_of() {
        assert_eq!(of(&[("host", true), ("host", false)]).warning(), None);
        assert_eq!(Disturbed::default().warning(), None);
        let warning = of(&[("host", true), ("rsdl", true), ("o1", false)]).warning().unwrap();
        assert!(warning.starts_with("Every run under host and rsdl was disturbed"), "{warning}");
    }
}
