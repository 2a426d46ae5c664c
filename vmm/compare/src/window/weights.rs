//! Suite `weights`: how far each vCPU's CPU time is from what its nice value gives it under the policy.

use super::metrics::{activity, ops_of, work};
use super::{VcpuCounts, Window};
use crate::plan::guests::Guest;
use std::collections::BTreeMap;
use stile_config::PolicyConfig;
use stile_sched::Nice;
use stile_suites::Metric;

/// The metrics of this suite, for these guests' vCPUs in order.
pub(crate) fn values(policy: &PolicyConfig, guests: &[Guest], pcpus: usize, window: &Window) -> BTreeMap<Metric, f64> {
    let all: Vec<&VcpuCounts> = window.vcpus.iter().collect();
    let mut values = activity(window);
    values.extend(work(ops_of(&all), window.seconds, &all));
    let run: Vec<f64> = all.iter().map(|v| v.usage.run_ns as f64).collect();
    let nices = nices(guests);
    let ratios = ratios(policy, &nices, pcpus, &run);
    let error = ratios.iter().map(|ratio| 100.0 * (ratio - 1.0).abs()).reduce(f64::max);
    values.extend(error.map(|error| (Metric::WeightError, error)));
    for Guest { nice, share, .. } in guests {
        let of_nice: Vec<f64> = nices.iter().zip(&ratios).filter(|(n, _)| *n == nice).map(|(_, r)| *r).collect();
        if let (Some(metric), false) = (share, of_nice.is_empty()) {
            values.insert(*metric, of_nice.iter().sum::<f64>() / of_nice.len() as f64);
        }
    }
    values
}

/// The nice value of each vCPU.
fn nices(guests: &[Guest]) -> Vec<Nice> {
    guests.iter().flat_map(|guest| std::iter::repeat_n(guest.nice, guest.vcpus as usize)).collect()
}

/// Each vCPU's CPU time over the time that its weight gives it; empty if no vCPU ran.
fn ratios(policy: &PolicyConfig, nices: &[Nice], pcpus: usize, run: &[f64]) -> Vec<f64> {
    let total: f64 = run.iter().sum();
    if total == 0.0 {
        return Vec::new();
    }
    let weights: Vec<f64> = nices.iter().map(|&nice| stile_assembly::weight(policy, nice)).collect();
    let most = total / pcpus.min(run.len()) as f64;
    run.iter().zip(due(&weights, total, most)).map(|(run, due)| run / due).collect()
}

/// The time that each of these weights gives: its part of the total, but at most `most`, the time of one pCPU. The
/// others share the rest.
fn due(weights: &[f64], total: f64, most: f64) -> Vec<f64> {
    let mut capped = vec![false; weights.len()];
    loop {
        let taken = most * capped.iter().filter(|capped| **capped).count() as f64;
        let open = weights.iter().zip(&capped).filter(|(_, capped)| !**capped).map(|(weight, _)| weight);
        let unit = (total - taken) / open.sum::<f64>();
        let due = |(weight, capped): (&f64, &bool)| if *capped { most } else { weight * unit };
        let due: Vec<f64> = weights.iter().zip(&capped).map(due).collect();
        // A rounding error must not count as more than `most`.
        let over = |due: &f64| *due > most * (1.0 + 1e-9);
        if !due.iter().any(over) {
            return due;
        }
        capped.iter_mut().zip(&due).for_each(|(capped, due)| *capped |= over(due));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_due_by_weight_as_long_as_nobody_needs_two_pcpus() {
        assert_eq!(due(&[2.0, 1.0, 1.0], 100.0, 50.0), [50.0, 25.0, 25.0]);
        assert_eq!(due(&[8.0, 1.0, 1.0], 100.0, 50.0), [50.0, 25.0, 25.0]);
        assert_eq!(due(&[8.0, 4.0, 1.0], 100.0, 40.0), [40.0, 40.0, 20.0]);
        assert_eq!(due(&[3.0, 1.0], 100.0, 50.0), [50.0, 50.0]);
    }

    #[test]
    fn a_vcpu_that_got_what_its_policy_owes_it_has_a_ratio_of_one() {
        let nices = [0, 5, 10].map(|nice| Nice::new(nice).unwrap());
        let near = |policy: &str, run: [f64; 3], expected: [f64; 3]| {
            let found = ratios(&policy.parse().unwrap(), &nices, 1, &run);
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.01), "{policy}: {found:?}");
        };
        near("rsdl", [120.0, 45.0, 30.0], [1.0; 3]);
        near("host", [1024.0, 335.0, 110.0], [1.0; 3]);
        near("rsdl", [120.0, 30.0, 45.0], [1.0, 0.667, 1.5]);
        assert!(ratios(&"rsdl".parse().unwrap(), &nices, 1, &[0.0; 3]).is_empty());
    }
}
