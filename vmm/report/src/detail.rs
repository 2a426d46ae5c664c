//! Reads what samples hold besides metrics: latency distributions, the CPU time of each vCPU, and the longest waits.
//!
//! The cells of a report do not hold these, so a page made without samples does not show them.

use super::view::Block;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use stile_results::model::Sample;
use stile_results::moment::{MOMENT, Moment};
use stile_results::stats;

/// Bars that a page can show apart. Of more vCPUs this many ranks are shown.
const MOST_SHARES: usize = 100;

/// The samples of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Details<'a>(pub &'a [Sample]);

impl<'a> Details<'a> {
    /// The samples of a policy at the largest size of a block.
    fn of(self, block: &'a Block<'_>, policy: &'a str) -> impl Iterator<Item = &'a Sample> {
        let row = block.largest();
        let is = move |sample: &&Sample| sample.suite == block.suite && sample.policy == policy;
        self.0.iter().filter(is).filter(move |sample| Some(&sample.params) == row)
    }

    /// All waits or responses of a policy at the largest size, as (ns, count) in ascending order.
    pub fn latency(self, block: &'a Block<'_>, policy: &'a str) -> Vec<(u64, u64)> {
        let mut all = BTreeMap::new();
        let histograms = self.of(block, policy).filter_map(|sample| sample.detail.get("latency_ns"));
        for (ns, count) in histograms.filter_map(|h| Vec::<(u64, u64)>::deserialize(h).ok()).flatten() {
            *all.entry(ns).or_insert(0) += count;
        }
        all.into_iter().collect()
    }

    /// The CPU time of each vCPU over an equal share, largest first: at each rank the median over the rounds.
    pub fn shares(self, block: &'a Block<'_>, policy: &'a str) -> Vec<f64> {
        let sorted: Vec<Vec<f64>> = self.of(block, policy).filter_map(|sample| shares_of(&sample.detail)).collect();
        let vcpus = sorted.iter().map(Vec::len).min().unwrap_or(0);
        let shown = vcpus.min(MOST_SHARES);
        let rank = |nth: usize| if shown == vcpus { nth } else { nth * (vcpus - 1) / (shown - 1) };
        let at = |rank: usize| stats::median(&sorted.iter().map(|shares| shares[rank]).collect::<Vec<_>>());
        (0..shown).filter_map(|nth| at(rank(nth))).collect()
    }

    /// The longest waits of a block, with their policy, size and round.
    pub fn moments(self, block: &'a Block<'_>) -> impl Iterator<Item = (&'a Sample, Moment)> {
        let is = move |sample: &&Sample| sample.suite == block.suite && block.rows.contains(&&sample.params);
        self.0
            .iter()
            .filter(is)
            .filter_map(|sample| Some((sample, Moment::deserialize(sample.detail.get(MOMENT)?).ok()?)))
    }
}

/// The CPU times of a sample's vCPUs over their mean, largest first; `None` if no vCPU ran.
fn shares_of(detail: &Value) -> Option<Vec<f64>> {
    let vcpus = detail.get("vcpus")?.as_array()?;
    let run: Option<Vec<f64>> = vcpus.iter().map(|vcpu| vcpu.get("run_ns")?.as_f64()).collect();
    let mut run = run.filter(|run| run.len() > 1)?;
    let mean = run.iter().sum::<f64>() / run.len() as f64;
    run.iter_mut().for_each(|time| *time /= mean);
    run.sort_unstable_by(|a, b| b.total_cmp(a));
    (mean > 0.0).then_some(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view;
    use serde_json::json;
    use stile_results::model::{Report, RunContext};
    use stile_results::testing::ticket;
    use stile_suites::Metric;

    fn samples(details: &[Value]) -> Vec<Sample> {
        let mut samples = ticket("rsdl", Metric::Throughput, &vec![1.0; details.len()]);
        samples.iter_mut().zip(details).for_each(|(sample, detail)| sample.detail = detail.clone());
        samples
    }

    fn with<T>(samples: &[Sample], look: impl Fn(Details<'_>, &Block<'_>) -> T) -> T {
        let report = Report::from_samples(samples, RunContext::default());
        look(Details(samples), &view::blocks(&report)[0])
    }

    #[test]
    fn distributions_add_up_over_rounds() {
        let samples = samples(&[json!({"latency_ns": [[10, 2], [30, 1]]}), json!({"latency_ns": [[10, 1], [20, 4]]})]);
        let all = with(&samples, |details, block| details.latency(block, "rsdl"));
        assert_eq!(all, [(10, 3), (20, 4), (30, 1)]);
    }

    #[test]
    fn shares_are_sorted_within_each_round_and_ranks_are_medians() {
        let of = |times: &[u64]| json!({"vcpus": times.iter().map(|ns| json!({"run_ns": ns})).collect::<Vec<_>>()});
        let found = with(&samples(&[of(&[1, 3]), of(&[3, 1]), of(&[2, 2])]), |d, block| d.shares(block, "rsdl"));
        assert_eq!(found, [1.5, 0.5]);
        let many = with(&samples(&[of(&(1..=1000).collect::<Vec<_>>())]), |d, block| d.shares(block, "rsdl"));
        assert_eq!(many.len(), MOST_SHARES);
        assert!((many[0] - 1000.0 / 500.5).abs() < 1e-9 && (many[MOST_SHARES - 1] - 1.0 / 500.5).abs() < 1e-9);
    }

    #[test]
    fn samples_without_detail_tell_nothing() {
        let samples = samples(&[json!(null), json!({"vcpus": [1, 2], "latency_ns": "no", "moment": 3})]);
        let told = with(&samples, |d, block| {
            (d.latency(block, "rsdl").len(), d.shares(block, "rsdl").len(), d.moments(block).count())
        });
        assert_eq!(told, (0, 0, 0));
    }
}
