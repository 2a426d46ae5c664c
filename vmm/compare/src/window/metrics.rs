//! Computes the metrics of the suites of one VM from a window. Other suites use the same functions.

use super::{VcpuCounts, Window};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use stile_abi::gauge::bucket_top;
use stile_metrics::json::spans;
use stile_results::stats::{jain, max_share, min_share, percentile};
use stile_sched::histogram::Histogram;
use stile_suites::{Metric, Part, Suite};

/// A metric, and its quantile.
pub(crate) type Quantile = (Metric, f64);

/// The quantiles of most suites.
pub(crate) const LATENCY: &[Quantile] =
    &[(Metric::LatencyP50, 0.5), (Metric::LatencyP99, 0.99), (Metric::LatencyP999, 0.999), (Metric::LatencyMax, 1.0)];

/// The metrics of a suite of one VM.
pub(crate) fn of_suite(suite: Suite, window: &Window) -> BTreeMap<Metric, f64> {
    let vcpus = window.vcpus.len();
    let with = |wanted: Part| {
        let all = window.vcpus.iter().enumerate();
        all.filter(move |(i, _)| suite.part(*i, vcpus) == wanted).map(|(_, v)| v).collect::<Vec<_>>()
    };
    let (main, pairs, hogs) = (with(Part::Main), with(Part::Pair), with(Part::Hog));
    let mut values = activity(window);
    values.extend(work(ops_of(&main), window.seconds, &main));
    fairness(&main, &mut values);
    latency(&main, &mut values);
    if !hogs.is_empty() {
        values.insert(Metric::HogThroughput, ops_rate(&hogs, window.seconds));
    }
    if !pairs.is_empty() {
        values.insert(Metric::PairThroughput, ops_rate(&pairs, window.seconds));
    }
    if suite.has_lockers_beside_others() {
        let run: Vec<f64> = window.vcpus.iter().map(|v| v.usage.run_ns as f64).collect();
        values.extend(jain(&run).map(|jain| (Metric::JainCpu, jain)));
        let groups = [(Metric::LockersCpuShare, main), (Metric::PairsCpuShare, pairs), (Metric::HogsCpuShare, hogs)];
        let share = |(metric, group): (Metric, Vec<&VcpuCounts>)| Some((metric, cpu_share(&group, window)?));
        values.extend(groups.into_iter().filter_map(share));
    }
    values
}

/// CPU time of some vCPUs over an equal share; `None` if there are no such vCPUs, or no vCPU ran.
pub(crate) fn cpu_share(group: &[&VcpuCounts], window: &Window) -> Option<f64> {
    let sum = |vcpus: &mut dyn Iterator<Item = &VcpuCounts>| vcpus.map(|v| v.usage.run_ns).sum::<u64>() as f64;
    let fair = sum(&mut window.vcpus.iter()) * group.len() as f64 / window.vcpus.len() as f64;
    (fair > 0.0).then(|| sum(&mut group.iter().copied()) / fair)
}

/// Exits, switches, migrations and yields in a second, the part of their time that the vCPUs waited, and their gaps.
pub(crate) fn activity(window: &Window) -> BTreeMap<Metric, f64> {
    let per_second = |n: u64| n as f64 / window.seconds;
    let sum = |of: fn(&VcpuCounts) -> u64| window.vcpus.iter().map(of).sum::<u64>();
    let total = sum(|v| v.usage.run_ns + v.usage.wait_ns + v.usage.idle_ns + v.usage.taken_ns);
    let ready = (total > 0).then(|| (Metric::CpuReady, 100.0 * sum(|v| v.usage.wait_ns) as f64 / total as f64));
    let rates = BTreeMap::from([
        (Metric::ExitsPerS, per_second(window.totals.exits)),
        (Metric::SwitchesPerS, per_second(window.totals.switches)),
        (Metric::MigrationsPerS, per_second(window.totals.migrations)),
        (Metric::YieldsPerS, per_second(window.totals.yields.total())),
    ]);
    rates.into_iter().chain(ready).chain(super::gaps::gaps(&window.vcpus)).collect()
}

/// How evenly the operations are spread.
pub(crate) fn fairness(vcpus: &[&VcpuCounts], values: &mut BTreeMap<Metric, f64>) {
    shares(&vcpus.iter().map(|v| v.ops as f64).collect::<Vec<_>>(), values);
}

/// How evenly operations are spread, from the count of each vCPU or group of vCPUs.
pub(crate) fn shares(ops: &[f64], values: &mut BTreeMap<Metric, f64>) {
    let of = [(Metric::Jain, jain(ops)), (Metric::MinShare, min_share(ops)), (Metric::MaxShare, max_share(ops))];
    values.extend(of.into_iter().filter_map(|(metric, value)| Some((metric, value?))));
}

/// Quantiles of all waits or responses together. The longest one may not have ended.
pub(crate) fn latency(vcpus: &[&VcpuCounts], values: &mut BTreeMap<Metric, f64>) {
    values.extend(quantiles(&histogram(vcpus), LATENCY));
    let under_way = vcpus.iter().map(|v| v.waiting_ns).max().filter(|ns| *ns > 0).map(us);
    if let Some(under_way) = under_way {
        values.entry(Metric::LatencyMax).and_modify(|longest| *longest = longest.max(under_way)).or_insert(under_way);
    }
}

/// Quantiles of times that were counted by length, from the shortest up (unit: ns), as metrics (unit: us); empty
/// without counts.
pub(crate) fn quantiles(
    counted: &[(u64, u64)],
    quantiles: &'static [Quantile],
) -> impl Iterator<Item = (Metric, f64)> + use<> {
    let found: Vec<_> = quantiles.iter().map(|&(metric, part)| (metric, percentile(counted, part))).collect();
    found.into_iter().filter_map(|(metric, ns)| Some((metric, us(ns?))))
}

/// Quantiles of single times, in any order.
pub(crate) fn quantiles_of(
    times: impl IntoIterator<Item = u64>,
    wanted: &'static [Quantile],
) -> impl Iterator<Item = (Metric, f64)> {
    let mut counted: Vec<(u64, u64)> = times.into_iter().map(|time| (time, 1)).collect();
    counted.sort_unstable();
    quantiles(&counted, wanted)
}

pub(super) fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn histogram(vcpus: &[&VcpuCounts]) -> Vec<(u64, u64)> {
    sum_of(vcpus.iter().map(|v| &*v.latency))
}

/// Times that were counted in several histograms of the guests, by length (unit: ns) from the shortest up.
pub(super) fn sum_of<'a>(histograms: impl Iterator<Item = &'a [u32]>) -> Vec<(u64, u64)> {
    let with: Vec<&[u32]> = histograms.filter(|counts| !counts.is_empty()).collect();
    let count = |bucket: usize| with.iter().map(|counts| u64::from(counts[bucket])).sum::<u64>();
    (0..with.first().map_or(0, |counts| counts.len()))
        .map(|bucket| (bucket_top(bucket), count(bucket)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// The metrics of operations that these vCPUs did in this time (unit: s), if operations are the suite's throughput.
pub(crate) fn work(ops: u64, seconds: f64, vcpus: &[&VcpuCounts]) -> BTreeMap<Metric, f64> {
    let mut values = operations(ops, seconds, vcpus);
    values.insert(Metric::Throughput, ops as f64 / seconds);
    values
}

/// The metrics of operations that these vCPUs did in this time (unit: s).
pub(crate) fn operations(ops: u64, seconds: f64, vcpus: &[&VcpuCounts]) -> BTreeMap<Metric, f64> {
    let exits: u64 = vcpus.iter().map(|v| v.usage.exits).sum();
    let each = (ops > 0 && !vcpus.is_empty()).then(|| (Metric::ExitsPerOp, exits as f64 / ops as f64));
    [(Metric::OpsPerS, ops as f64 / seconds)].into_iter().chain(each).collect()
}

/// Operations of these vCPUs.
pub(crate) fn ops_of(vcpus: &[&VcpuCounts]) -> u64 {
    vcpus.iter().map(|v| v.ops).sum()
}

/// Operations in a second.
pub(crate) fn ops_rate(vcpus: &[&VcpuCounts], seconds: f64) -> f64 {
    ops_of(vcpus) as f64 / seconds
}

/// The part of a window that the report keeps besides its metrics.
pub(crate) fn detail(window: &Window) -> Value {
    let y = window.totals.yields;
    let all: Vec<&VcpuCounts> = window.vcpus.iter().collect();
    let mut waits = Histogram::default();
    all.iter().for_each(|v| waits.merge(&v.waits));
    let told = |waits| window.kicks.is_some().then(|| spans(waits));
    json!({
        "seconds": window.seconds,
        "turn_wait_seconds": told(&waits),
        "kick_seconds": window.kicks.as_ref().map(spans),
        "vcpus": all.iter().map(|v| json!({
            "ops": v.ops, "bytes": v.bytes, "errors": v.errors, "run_ns": v.usage.run_ns,
            "turn_wait_seconds": told(&v.waits), "wait_ns": v.usage.wait_ns, "idle_ns": v.usage.idle_ns,
            "taken_ns": v.usage.taken_ns, "exits": v.usage.exits,
        })).collect::<Vec<_>>(),
        "yields": {
            "unknown": y.unknown, "lock": y.lock, "message": y.message,
            "alone": y.alone, "switched": y.switched, "stayed": y.stayed,
        },
        "latency_ns": histogram(&all),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_abi::gauge::{BUCKETS, bucket_of};
    use stile_sched::Nanos;
    use stile_sched::ledger::{Totals, Usage};

    fn vcpu(ops: u64, run_ns: u64) -> VcpuCounts {
        let latency = vec![0; BUCKETS].into();
        let usage = Usage { run_ns, ..Usage::default() };
        VcpuCounts { ops, usage, latency, ..VcpuCounts::default() }
    }

    fn window(vcpus: Vec<VcpuCounts>) -> Window {
        Window { seconds: 2.0, span: Nanos(2_000_000_000), vcpus, totals: Totals::default(), kicks: None }
    }

    #[test]
    fn three_ways_are_told_apart_by_work_and_by_cpu() {
        let [pair, locker, hog] = [vcpu(10, 100), vcpu(20, 200), vcpu(40, 300)];
        let vcpus = [[pair.clone(), pair], [locker.clone(), locker], [hog.clone(), hog]].concat();
        let values = of_suite(Suite::Threeway, &window(vcpus));
        let rates = [Metric::Throughput, Metric::PairThroughput, Metric::HogThroughput].map(|metric| values[&metric]);
        assert_eq!(rates, [20.0, 10.0, 40.0]);
        let shares = [Metric::PairsCpuShare, Metric::LockersCpuShare, Metric::HogsCpuShare];
        assert_eq!(shares.map(|metric| values[&metric]), [0.5, 1.0, 1.5]);
        assert!((values[&Metric::JainCpu] - 6.0 / 7.0).abs() < 1e-9);
    }

    #[test]
    fn the_longest_wait_may_be_one_that_has_not_ended() {
        let mut vcpus = vec![vcpu(1, 1), vcpu(1, 1)];
        vcpus[0].latency[bucket_of(5_000)] = 1;
        let longest = |vcpus: &[VcpuCounts]| of_suite(Suite::Pingpong, &window(vcpus.to_vec()))[&Metric::LatencyMax];
        assert!((5.0..5.2).contains(&longest(&vcpus)));
        vcpus[1].waiting_ns = 70_000;
        assert_eq!(longest(&vcpus), 70.0);
        vcpus[1].waiting_ns = 1_000;
        assert!((5.0..5.2).contains(&longest(&vcpus)));
    }

    #[test]
    fn quantiles_of_single_times_are_those_of_the_same_times_counted() {
        let counted: Vec<_> = quantiles(&[(1_000, 98), (5_000, 1), (9_000, 1)], LATENCY).collect();
        let expected = [Metric::LatencyP50, Metric::LatencyP99, Metric::LatencyP999, Metric::LatencyMax]
            .into_iter()
            .zip([1.0, 5.0, 9.0, 9.0]);
        assert_eq!(counted, expected.collect::<Vec<_>>());
        let single = [9_000, 5_000].into_iter().chain([1_000; 98]);
        assert_eq!(quantiles_of(single, LATENCY).collect::<Vec<_>>(), counted);
        assert_eq!(quantiles_of([], LATENCY).count(), 0);
    }

    #[test]
    fn exits_are_told_for_each_operation_of_the_vcpus_that_do_them() {
        let mut vcpus = [vcpu(3, 1), vcpu(1, 1)];
        (vcpus[0].usage.exits, vcpus[1].usage.exits) = (5, 1);
        let all: Vec<&VcpuCounts> = vcpus.iter().collect();
        assert_eq!(operations(4, 2.0, &all), [(Metric::OpsPerS, 2.0), (Metric::ExitsPerOp, 1.5)].into());
        assert_eq!(operations(0, 2.0, &all), [(Metric::OpsPerS, 0.0)].into());
        assert_eq!(operations(4, 2.0, &[]), [(Metric::OpsPerS, 2.0)].into(), "none of theirs were read");
    }

    #[test]
    fn cpu_ready_is_the_part_of_all_their_time_that_vcpus_waited() {
        let mut vcpus = vec![vcpu(1, 600), vcpu(1, 600)];
        (vcpus[0].usage.wait_ns, vcpus[1].usage.idle_ns) = (400, 400);
        assert_eq!(activity(&window(vcpus))[&Metric::CpuReady], 20.0);
    }

    #[test]
    fn nobody_running_has_no_share_and_no_latency() {
        let values = of_suite(Suite::Mixed, &window(vec![vcpu(0, 0), vcpu(0, 0)]));
        for metric in [Metric::LockersCpuShare, Metric::HogsCpuShare, Metric::LatencyMax] {
            assert!(!values.contains_key(&metric), "{metric:?}");
        }
    }
}
