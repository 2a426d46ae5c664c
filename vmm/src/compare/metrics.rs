//! From a window to the metrics of its suite.

use super::window::{VcpuCounts, Window};
use super::workload::{Part, part};
use crate::report::metric::{Metric, Suite};
use crate::report::stats::{jain, max_share, min_share, percentile};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use stile_abi::gauge::bucket_top;

/// The metrics a suite of one VM has.
pub(super) fn of_suite(suite: Suite, window: &Window) -> BTreeMap<Metric, f64> {
    let vcpus = window.vcpus.len();
    let with = |wanted: Part| {
        let all = window.vcpus.iter().enumerate();
        all.filter(move |(i, _)| part(suite, *i, vcpus) == wanted).map(|(_, v)| v).collect::<Vec<_>>()
    };
    let (main, hogs) = (with(Part::Main), with(Part::Hog));
    let mut values = activity(window);
    let rate = ops_rate(&main, window.seconds);
    values.insert(Metric::Throughput, rate);
    values.insert(Metric::OpsPerS, rate);
    fairness(&main, &mut values);
    latency(&main, &mut values);
    if !hogs.is_empty() {
        values.insert(Metric::HogThroughput, ops_rate(&hogs, window.seconds));
    }
    if suite == Suite::Mixed {
        let total: u64 = window.vcpus.iter().map(|v| v.run_ns).sum();
        for (metric, group) in [(Metric::LockersCpuShare, &main), (Metric::HogsCpuShare, &hogs)] {
            let run: u64 = group.iter().map(|v| v.run_ns).sum();
            let fair = total as f64 * group.len() as f64 / vcpus as f64;
            if fair > 0.0 {
                values.insert(metric, run as f64 / fair);
            }
        }
    }
    values
}

/// Exits, switches, migrations and yields in a second.
pub(super) fn activity(window: &Window) -> BTreeMap<Metric, f64> {
    let per_second = |n: u64| n as f64 / window.seconds;
    BTreeMap::from([
        (Metric::ExitsPerS, per_second(window.totals.exits)),
        (Metric::SwitchesPerS, per_second(window.totals.switches)),
        (Metric::MigrationsPerS, per_second(window.totals.migrations)),
        (Metric::YieldsPerS, per_second(window.totals.yields.total())),
    ])
}

/// How evenly the operations are spread.
pub(super) fn fairness(vcpus: &[&VcpuCounts], values: &mut BTreeMap<Metric, f64>) {
    let ops: Vec<f64> = vcpus.iter().map(|v| v.ops as f64).collect();
    let of = [(Metric::Jain, jain(&ops)), (Metric::MinShare, min_share(&ops)), (Metric::MaxShare, max_share(&ops))];
    values.extend(of.into_iter().filter_map(|(metric, value)| Some((metric, value?))));
}

/// Percentiles of all waits or responses together (units: us).
pub(super) fn latency(vcpus: &[&VcpuCounts], values: &mut BTreeMap<Metric, f64>) {
    let buckets = histogram(vcpus);
    for (metric, quantile) in [(Metric::LatencyP50, 0.5), (Metric::LatencyP99, 0.99), (Metric::LatencyMax, 1.0)] {
        if let Some(ns) = percentile(&buckets, quantile) {
            values.insert(metric, ns as f64 / 1000.0);
        }
    }
}

fn histogram(vcpus: &[&VcpuCounts]) -> Vec<(u64, u64)> {
    let buckets = vcpus.first().map_or(0, |v| v.latency.len());
    let count = |bucket: usize| vcpus.iter().map(|v| u64::from(v.latency[bucket])).sum::<u64>();
    (0..buckets).map(|bucket| (bucket_top(bucket), count(bucket))).filter(|(_, count)| *count > 0).collect()
}

/// Operations in a second.
pub(super) fn ops_rate(vcpus: &[&VcpuCounts], seconds: f64) -> f64 {
    vcpus.iter().map(|v| v.ops).sum::<u64>() as f64 / seconds
}

/// What is kept of a window besides its metrics.
pub(super) fn detail(window: &Window) -> Value {
    let y = window.totals.yields;
    let all: Vec<&VcpuCounts> = window.vcpus.iter().collect();
    json!({
        "seconds": window.seconds,
        "vcpus": all.iter().map(|v| json!({
            "ops": v.ops, "bytes": v.bytes, "errors": v.errors, "run_ns": v.run_ns, "exits": v.exits,
        })).collect::<Vec<_>>(),
        "yields": {
            "unknown": y.unknown, "lock": y.lock, "message": y.message,
            "alone": y.alone, "switched": y.switched, "stayed": y.stayed,
        },
        "latency_ns": histogram(&all),
    })
}
