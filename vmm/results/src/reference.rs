//! The policy that a report's ratios refer to.
//!
//! A ratio is the median over the rounds of a policy's value divided by the reference's value of the same round. A
//! report keeps the samples of each cell with their rounds, so its ratios can be computed again for another reference.

use std::collections::BTreeMap;

use super::model::{Cell, Report};
use super::stats;

impl Report {
    /// The same report with its ratios to this policy. Cells that the policy was not measured in have no ratio.
    #[must_use]
    pub fn with_reference(mut self, policy: &str) -> Self {
        if self.reference == policy {
            return self;
        }
        policy.clone_into(&mut self.reference);
        self.set_ratios();
        self
    }

    /// Computes each cell's ratio to the reference and its interval.
    pub(super) fn set_ratios(&mut self) {
        let of_reference: BTreeMap<_, _> = self
            .cells
            .iter()
            .filter(|cell| cell.policy == self.reference)
            .map(|cell| ((cell.suite, cell.params.clone(), cell.metric), cell.by_round()))
            .collect();
        for cell in &mut self.cells {
            let reference = of_reference.get(&(cell.suite, cell.params.clone(), cell.metric));
            let ratios = reference.and_then(|reference| stats::paired_ratios(&cell.by_round(), reference));
            let ratios = ratios.unwrap_or_default();
            cell.ratio = stats::median(&ratios);
            cell.ratio_ci95 = stats::median_interval(&ratios, self.seed);
        }
    }

    /// Whether any cell is of the reference; if not, there are no ratios.
    pub fn has_reference(&self) -> bool {
        self.cells.iter().any(|cell| cell.is_of(&self.reference))
    }
}

impl Cell {
    /// Whether this cell is of the report's reference. Its ratio is 1.
    pub fn is_of(&self, reference: &str) -> bool {
        self.policy == reference
    }

    /// The samples by round.
    pub fn by_round(&self) -> BTreeMap<u32, f64> {
        match &self.rounds {
            Some(rounds) => rounds.iter().copied().zip(self.samples.iter().copied()).collect(),
            None => (0..).zip(self.samples.iter().copied()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{RunContext, Sample};
    use crate::testing::ticket;
    use stile_suites::Metric;

    fn samples() -> Vec<Sample> {
        let of = |policy, work: &[f64]| ticket(policy, Metric::Throughput, work);
        [of("host", &[1.0, 2.0, 4.0]), of("o1", &[2.0, 2.0, 2.0]), of("rsdl", &[4.0, 2.0, 8.0])].concat()
    }

    fn report(samples: &[Sample], reference: Option<&str>) -> Report {
        let reference = reference.map(str::to_owned);
        Report::from_samples(samples, RunContext { reference, seed: 7, ..RunContext::default() })
    }

    fn ratios(report: &Report) -> Vec<Option<f64>> {
        report.cells.iter().map(|cell| cell.ratio).collect()
    }

    #[test]
    fn ratios_refer_to_host_unless_another_policy_is_chosen() {
        let report = report(&samples(), None);
        assert_eq!((report.reference.as_str(), report.has_reference()), ("host", true));
        assert_eq!(ratios(&report), [Some(1.0), Some(1.0), Some(2.0)]);
        assert_eq!(ratios(&super::tests::report(&samples(), Some("rsdl"))), [Some(0.5), Some(0.5), Some(1.0)]);
    }

    #[test]
    fn ratios_computed_again_are_those_of_a_run_with_this_reference() {
        let again = report(&samples(), None).with_reference("o1");
        assert_eq!(again, report(&samples(), Some("o1")));
        assert_eq!(again.with_reference("host"), report(&samples(), None));
    }

    #[test]
    fn a_reference_that_was_not_measured_gives_no_ratios() {
        let report = report(&samples(), Some("freelist"));
        assert_eq!((ratios(&report), report.has_reference()), (vec![None; 3], false));
    }

    #[test]
    fn samples_are_paired_by_round_where_a_round_is_missing() {
        let mut samples = samples();
        samples.retain(|sample| !(sample.policy == "rsdl" && sample.round == 0));
        let report = report(&samples, None);
        assert_eq!(report.cells[2].rounds.as_deref(), Some(&[1, 2][..]));
        assert_eq!(report.cells[2].ratio, Some(1.5));
        assert_eq!(report.clone().with_reference("o1").with_reference("host"), report);
    }
}
