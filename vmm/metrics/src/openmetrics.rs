//! Readings as OpenMetrics text, for Prometheus and what reads its format.
//!
//! The number of series is bounded by the vCPUs of the reading, of which each has one for every counter and every pair
//! of labels of its yields. A histogram takes a series for each bucket, so there is one for each VM, not for each vCPU.
//! VMs that are not in the reading any more have no series. A figure that is not known is left out, never 0.

use super::metric::{Kind, Metric, OF_DOMAIN, OF_VCPUS, Sampled, Unit, Value, labelled};
use super::reading::{Reading, Sample, VmReading};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{self, Registry};
use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;
use stile_sched::Nanos;
use stile_sched::histogram::Histogram;

/// The media type of a page.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The bounds of the buckets of a histogram, as powers of two (unit: ns): 1 us, about the time of an exit, to 17 s,
/// half of what the scheduler's histograms tell apart. At these bounds they count exactly. A quantile that is computed
/// of the buckets is off by a factor of two at most; with powers of four, a turn of 6 ms and a wait of 16 ms would be
/// one. They are fixed: series of other bounds cannot be added up.
pub(crate) const BOUNDS: RangeInclusive<u32> = 10..=34;

const OF_VCPUS_PREFIX: &str = "stile_vcpu";
const OF_DOMAIN_PREFIX: &str = "stile_domain";
/// Whether a VM has ended.
pub(crate) const ENDED: (&str, &str) =
    ("stile_vm_ended", "1 if the VM has ended: its figures are then its last ones. 0 if not.");

/// The reading as a page of OpenMetrics text.
pub fn page(reading: &Reading) -> String {
    let mut registry = Registry::default();
    // A registry owns its collectors. The copy is smaller than the page.
    registry.register_collector(Box::new(Families(reading.clone())));
    let mut page = String::new();
    text::encode(&mut page, &registry).expect("a String takes any text");
    page
}

/// The name of a vCPU's or VM's figure on the page, as queries use it.
pub fn name_of_vcpus(metric: &Metric<Sample>) -> String {
    name(OF_VCPUS_PREFIX, metric)
}

/// The name of a domain's figure on the page, as queries use it.
pub fn name_of_domain<S>(metric: &Metric<S>) -> String {
    name(OF_DOMAIN_PREFIX, metric)
}

fn name<S>(prefix: &str, metric: &Metric<S>) -> String {
    let suffix = match metric.kind {
        Kind::Counter => "_total",
        Kind::Histogram => "",
    };
    format!("{prefix}_{}{suffix}", metric.name)
}

type Labels<'a> = Vec<(&'static str, Cow<'a, str>)>;

/// A sample of which a figure is read, and what tells it from others of its family.
struct Labelled<'a, S> {
    labels: Labels<'a>,
    sample: &'a S,
}

#[derive(Debug)]
struct Families(Reading);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(Reading { vms, domain, .. }) = self;
        let sums: Vec<Sample> = vms.iter().map(VmReading::sum).collect();
        let of_vms: Vec<_> =
            vms.iter().zip(&sums).map(|(vm, sample)| Labelled { labels: vec![of_vm(vm)], sample }).collect();
        let of_vcpus: Vec<_> = vms.iter().flat_map(each_vcpu).collect();
        for metric in OF_VCPUS {
            let samples = match metric.kind {
                Kind::Counter => &of_vcpus,
                Kind::Histogram => &of_vms,
            };
            family(&mut encoder, OF_VCPUS_PREFIX, metric, samples)?;
        }
        for metric in OF_DOMAIN {
            family(&mut encoder, OF_DOMAIN_PREFIX, metric, &[Labelled { labels: Vec::new(), sample: domain }])?;
        }
        let (name, help) = ENDED;
        let mut ended = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for vm in vms {
            ConstGauge::new(u64::from(vm.ended)).encode(ended.encode_family(&[of_vm(vm)])?)?;
        }
        Ok(())
    }
}

fn of_vm(vm: &VmReading) -> (&'static str, Cow<'_, str>) {
    ("vm", Cow::Borrowed(&vm.name))
}

fn each_vcpu(vm: &VmReading) -> impl Iterator<Item = Labelled<'_, Sample>> {
    let labels = |vcpu: usize| vec![of_vm(vm), ("vcpu", vcpu.to_string().into())];
    vm.vcpus.iter().enumerate().map(move |(vcpu, sample)| Labelled { labels: labels(vcpu), sample })
}

/// Writes a figure with all samples that know it. A figure that none knows is left out.
fn family<S: Sampled>(
    encoder: &mut DescriptorEncoder<'_>,
    prefix: &str,
    metric: &Metric<S>,
    samples: &[Labelled<'_, S>],
) -> fmt::Result {
    if samples.iter().all(|of| metric.value(of.sample).is_none()) {
        return Ok(());
    }
    let (unit, suffix) = match metric.unit {
        Unit::Seconds => (Some(&registry::Unit::Seconds), "_seconds"),
        Unit::Count => (None, ""),
    };
    let kind = match metric.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Histogram => MetricType::Histogram,
    };
    // The encoder puts the unit behind the name.
    let name = format!("{prefix}_{}", metric.name.strip_suffix(suffix).unwrap_or(metric.name));
    let mut family = encoder.encode_descriptor(&name, metric.help, unit, kind)?;
    for Labelled { labels, sample } in samples {
        match metric.value(*sample) {
            None => {}
            Some(Value::Time(time)) => ConstCounter::new(seconds(time)).encode(family.encode_family(labels)?)?,
            Some(Value::Count(number)) => ConstCounter::new(number).encode(family.encode_family(labels)?)?,
            Some(Value::Spans(spans)) => histogram(family.encode_family(labels)?, spans)?,
            Some(Value::Yields(yields)) => {
                for (of, number) in labelled(yields, sample.by_policy()) {
                    let more = metric.labels.iter().copied().zip(of.map(Cow::Borrowed));
                    let labels: Labels<'_> = labels.iter().cloned().chain(more).collect();
                    ConstCounter::new(number).encode(family.encode_family(&labels)?)?;
                }
            }
        }
    }
    Ok(())
}

fn histogram(mut encoder: MetricEncoder<'_>, spans: &Histogram) -> fmt::Result {
    let mut below = 0;
    let mut bucket = |bound: f64, all: u64| (bound, all.saturating_sub(std::mem::replace(&mut below, all)));
    // `le` includes its bound, and spans are whole nanoseconds.
    let mut buckets: Vec<_> =
        BOUNDS.map(|exponent| bucket(seconds(Nanos((1 << exponent) - 1)), spans.shorter_than(exponent))).collect();
    buckets.push(bucket(f64::INFINITY, spans.count()));
    encoder.encode_histogram::<NoLabelSet>(seconds(spans.sum()), spans.count(), &buckets, None)
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::super::metric::{KICKS, SWITCHES, WAITS, YIELDS};
    use super::super::reading::tests::{reading, vcpu, vm};
    use super::*;
    use std::collections::BTreeMap;

    /// The samples of a page: what stands before a value, and the value.
    fn samples(page: &str) -> BTreeMap<&str, f64> {
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let parts = lines.map(|line| line.rsplit_once(' ').unwrap());
        let samples: Vec<_> = parts.map(|(series, value)| (series, value.parse().unwrap())).collect();
        let by_series: BTreeMap<_, _> = samples.iter().copied().collect();
        assert_eq!(by_series.len(), samples.len(), "a series has one value");
        by_series
    }

    /// The numbers of spans at most as long as each bound, in the order of the page.
    fn buckets(page: &str, family: &str) -> Vec<(f64, u64)> {
        let begin = format!("{family}_bucket{{le=\"");
        let of_line = |line: &str| {
            let (bound, rest) = line.strip_prefix(&begin)?.split_once('"').unwrap();
            Some((bound.parse().unwrap(), rest.rsplit_once(' ').unwrap().1.parse().unwrap()))
        };
        page.lines().filter_map(of_line).collect()
    }

    fn two_vms() -> Reading {
        let mut ended = vm("b", vec![vcpu(1, 2, 3)]);
        ended.ended = true;
        reading(vec![vm("a", vec![vcpu(500, 400, 100), vcpu(300, 600, 100)]), ended])
    }

    #[test]
    fn every_figure_has_its_help_type_and_unit_and_the_page_ends() {
        let page = page(&two_vms());
        let of_vcpus = OF_VCPUS.iter().map(|m| (OF_VCPUS_PREFIX, m.name, m.kind, m.unit, m.help));
        let of_domain = OF_DOMAIN.iter().map(|m| (OF_DOMAIN_PREFIX, m.name, m.kind, m.unit, m.help));
        for (prefix, name, kind, unit, help) in of_vcpus.chain(of_domain) {
            let kind = if kind == Kind::Counter { "counter" } else { "histogram" };
            assert!(!help.contains(['\n', '\\', '"']), "these are not escaped: {help}");
            let mut lines = vec![format!("# HELP {prefix}_{name} {help}"), format!("# TYPE {prefix}_{name} {kind}")];
            lines.extend((unit == Unit::Seconds).then(|| format!("# UNIT {prefix}_{name} seconds")));
            assert_eq!(page.matches(&format!("{}\n", lines.join("\n"))).count(), 1, "{name}: {page}");
        }
        assert!(page.ends_with("\n# EOF\n"), "{page}");
    }

    #[test]
    fn every_name_that_queries_use_has_samples() {
        let page = page(&two_vms());
        let samples = samples(&page);
        for name in OF_VCPUS.map(name_of_vcpus).into_iter().chain(OF_DOMAIN.map(name_of_domain)) {
            let is_of = |series: &&str| series.split('{').next().unwrap().trim_end_matches("_count") == name;
            assert!(samples.keys().any(is_of), "{name}: {page}");
        }
    }

    #[test]
    fn the_values_are_those_of_the_reading() {
        let mut reading = two_vms();
        reading.vms[0].vcpus[1].account.yields.unknown.alone = 77;
        let page = page(&reading);
        let samples = samples(&page);
        for vm in &reading.vms {
            for (index, vcpu) in vm.vcpus.iter().enumerate() {
                let of = format!("vm=\"{}\",vcpu=\"{index}\"", vm.name);
                for metric in OF_VCPUS.iter().filter(|m| m.kind == Kind::Counter) {
                    let name = name_of_vcpus(metric);
                    let value = |labels: &str| samples[format!("{name}{{{of}{labels}}}").as_str()];
                    match metric.value(vcpu).unwrap() {
                        Value::Time(time) => assert_eq!(value(""), time.0 as f64 / 1e9, "{name}"),
                        Value::Count(number) => assert_eq!(value(""), number as f64, "{name}"),
                        Value::Spans(_) => panic!("{name} is a counter"),
                        Value::Yields(yields) => labelled(yields, true).for_each(|([kind, outcome], number)| {
                            let value = value(&format!(",kind=\"{kind}\",outcome=\"{outcome}\""));
                            assert_eq!(value, number as f64, "{name}");
                        }),
                    }
                }
            }
        }
        assert_eq!(samples[r#"stile_vcpu_yields_total{vm="a",vcpu="1",kind="unknown",outcome="alone"}"#], 77.0);
        assert_eq!(samples["stile_domain_switches_total"], 40.0);
        assert_eq!((samples[r#"stile_vm_ended{vm="a"}"#], samples[r#"stile_vm_ended{vm="b"}"#]), (0.0, 1.0));
    }

    #[test]
    fn the_buckets_of_a_vm_are_cumulative_over_its_vcpus_and_end_with_all() {
        let mut reading = two_vms();
        reading.vms.truncate(1);
        // 500 waits of 2 ms; one too short and one too long for any bound; one on a bound, and one behind it.
        let long = 60_000_000_000;
        let waits = &mut reading.vms[0].vcpus[1].account.waits;
        [0, long, (1 << 12) - 1, 1 << 12].into_iter().for_each(|ns| waits.record(Nanos(ns)));
        let page = page(&reading);
        let found = buckets(&page, &name_of_vcpus(&WAITS));
        assert_eq!(found.len(), BOUNDS.count() + 1);
        assert!(found.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{found:?}");
        let at = |ns: u64| found.iter().rfind(|(bound, _)| *bound <= ns as f64 / 1e9).unwrap().1;
        assert_eq!([1023, 4095, 8191, 1 << 20, 1 << 21, long].map(at), [1, 2, 3, 3, 503, 503]);
        assert_eq!(found.last(), Some(&(f64::INFINITY, 504)));
        let samples = samples(&page);
        let sum = 1.0 + 60.0 + (4095.0 + 4096.0) / 1e9;
        let [told_sum, told_count] =
            ["sum", "count"].map(|of| samples[format!("stile_vcpu_turn_wait_seconds_{of}{{vm=\"a\"}}").as_str()]);
        assert!((told_sum - sum).abs() < 1e-9, "{told_sum} for {sum}");
        assert_eq!(told_count, 504.0);
        let kicks = buckets(&page, &name_of_domain(&KICKS));
        assert_eq!((kicks.first().unwrap().1, kicks.last().unwrap().1), (0, 40));
    }

    #[test]
    fn series_are_bounded_by_the_vcpus_and_those_of_deleted_vms_are_gone() {
        let number = |reading: &Reading| samples(&page(reading)).len();
        let mut reading = two_vms();
        let all = number(&reading);
        let gone = reading.vms.remove(0);
        // Two vCPUs, and a VM's histogram and whether it has ended.
        let of_vcpu = OF_VCPUS.len() - 2 + 9;
        assert_eq!(all - number(&reading), 2 * of_vcpu + BOUNDS.count() + 3 + 1);
        assert!(!page(&reading).contains("\"a\""));
        reading.vms = vec![gone];
        reading.vms[0].vcpus.clear();
        assert!(page(&reading).ends_with("# EOF\n"));
    }

    #[test]
    fn names_of_vms_are_escaped() {
        let page = page(&reading(vec![vm("a\"b\\c\nd", vec![vcpu(1, 1, 1)])]));
        assert!(page.contains(r#"stile_vcpu_run_seconds_total{vm="a\"b\\c\nd",vcpu="0"} 0.001"#), "{page}");
    }

    #[test]
    fn what_the_host_does_not_tell_is_left_out() {
        let mut reading = reading(vec![vm("a", vec![Sample { by_policy: false, ..vcpu(500, 400, 100) }])]);
        reading.domain.by_policy = false;
        let page = page(&reading);
        for metric in OF_VCPUS {
            let is_there = page.contains(&format!("# HELP stile_vcpu_{} ", metric.name));
            assert_eq!(is_there, metric.told_by_host, "{}: {page}", metric.name);
        }
        assert!(page.contains(&name_of_domain(&SWITCHES)) && !page.contains(&name_of_domain(&KICKS)), "{page}");
        assert!(page.contains(&format!(
            "{}{{vm=\"a\",vcpu=\"0\",kind=\"lock\",outcome=\"untold\"}} 0",
            name_of_vcpus(&YIELDS)
        )));
    }

    #[test]
    fn steal_time_has_series_for_the_guests_that_are_told_it() {
        let untold = Sample { steal: None, ..vcpu(1, 1, 1) };
        let page = page(&reading(vec![vm("a", vec![vcpu(1, 1, 1)]), vm("b", vec![untold])]));
        let of = |vm: &str| page.contains(&format!("stile_vcpu_steal_published_seconds_total{{vm=\"{vm}\""));
        assert_eq!((of("a"), of("b")), (true, false), "{page}");
    }
}
