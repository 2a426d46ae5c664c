//! Gaps: for how long vCPUs did not run that wanted to.
//!
//! Guests tell them from jumps of their own clocks, so that the figure means the same under every policy. Of guests
//! that do not, the ledger's waits for a turn are taken; under `host` there is no ledger, and no figure.

use super::VcpuCounts;
use super::metrics::{Quantile, quantiles, sum_of, us};
use stile_abi::gauge::GAP_LEAST_NS;
use stile_sched::histogram::Histogram;
use stile_suites::Metric;

const GAPS: &[Quantile] = &[(Metric::GapP99, 0.99), (Metric::GapMax, 1.0)];

/// The metrics of the gaps of these vCPUs; none if there was no gap.
pub(super) fn gaps(vcpus: &[VcpuCounts]) -> Vec<(Metric, f64)> {
    if vcpus.iter().all(|vcpu| vcpu.gaps.is_empty()) {
        return of_waits(vcpus);
    }
    // A gap that has not ended counts as one more.
    let under_way = vcpus.iter().map(|vcpu| vcpu.gap_ns).filter(|&ns| ns >= GAP_LEAST_NS).map(|ns| (ns, 1));
    let mut counted: Vec<_> = sum_of(vcpus.iter().map(|vcpu| &*vcpu.gaps)).into_iter().chain(under_way).collect();
    counted.sort_unstable();
    quantiles(&counted, GAPS).collect()
}

fn of_waits(vcpus: &[VcpuCounts]) -> Vec<(Metric, f64)> {
    let mut all = Histogram::default();
    vcpus.iter().for_each(|vcpu| all.merge(&vcpu.waits));
    let longest = all.max().0;
    if longest < GAP_LEAST_NS {
        return Vec::new();
    }
    vec![(Metric::GapP99, us(all.quantile(0.99).0)), (Metric::GapMax, us(longest))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_abi::gauge::{BUCKETS, bucket_of, bucket_top};
    use stile_sched::Nanos;

    #[test]
    fn a_gap_that_has_not_ended_counts_as_one_more() {
        let mut vcpus = [(); 2].map(|()| VcpuCounts { gaps: vec![0; BUCKETS].into(), ..VcpuCounts::default() });
        assert_eq!(gaps(&vcpus), []);
        vcpus[0].gaps[bucket_of(6_000_000)] = 199;
        let top = us(bucket_top(bucket_of(6_000_000)));
        assert_eq!(gaps(&vcpus), [(Metric::GapP99, top), (Metric::GapMax, top)]);
        // The look was a moment ago: it runs.
        vcpus[1].gap_ns = GAP_LEAST_NS - 1;
        assert_eq!(gaps(&vcpus)[1], (Metric::GapMax, top));
        vcpus[1].gap_ns = 80_000_000;
        assert_eq!(gaps(&vcpus), [(Metric::GapP99, top), (Metric::GapMax, 80_000.0)]);
    }

    #[test]
    fn the_ledger_tells_of_vcpus_whose_guests_do_not() {
        let mut vcpu = VcpuCounts::default();
        assert_eq!(gaps(std::slice::from_ref(&vcpu)), []);
        vcpu.waits.record(Nanos::from_millis(7));
        assert_eq!(gaps(&[vcpu])[1], (Metric::GapMax, 7_000.0));
    }
}
