//! Readings as JSON: all figures since the start, times in seconds. A figure that is not known is `null`.

use super::metric::{Metric, OF_DOMAIN, OF_VCPUS, Sampled, Value, labelled};
use super::reading::{Reading, VmReading};
use serde_json::{Map, Value as Json, json};
use stile_sched::Nanos;
use stile_sched::histogram::Histogram;

/// A reading at this time after the start. The final one is taken when all VMs have ended.
pub fn line(reading: &Reading, after: Nanos, is_final: bool) -> Json {
    json!({
        "seconds": seconds(after),
        "final": is_final,
        "domain": figures(&OF_DOMAIN, &reading.domain),
        "vms": reading.vms.iter().map(vm).collect::<Vec<_>>(),
    })
}

/// Number and lengths of spans (units: s); `null` if there were none.
pub fn spans(spans: &Histogram) -> Json {
    let known = |span: Nanos| (spans.count() > 0).then(|| seconds(span));
    let [p50, p99] = [0.5, 0.99].map(|q| known(spans.quantile(q)));
    json!({ "count": spans.count(), "p50": p50, "p99": p99, "max": known(spans.max()) })
}

fn vm(vm: &VmReading) -> Json {
    let mut all = figures(&OF_VCPUS, &vm.sum());
    all.insert("vm".to_owned(), json!(vm.name));
    all.insert("ended".to_owned(), json!(vm.ended));
    all.insert("vcpus".to_owned(), vm.vcpus.iter().map(|vcpu| Json::Object(figures(&OF_VCPUS, vcpu))).collect());
    all.into()
}

fn figures<S: Sampled>(metrics: &[&Metric<S>], sample: &S) -> Map<String, Json> {
    let figure = |metric: &&Metric<S>| {
        let value = metric.value(sample).map_or(Json::Null, |value| figure(value, sample.by_policy()));
        (metric.name.to_owned(), value)
    };
    metrics.iter().map(figure).collect()
}

fn figure(value: Value<'_>, by_policy: bool) -> Json {
    match value {
        Value::Time(time) => json!(seconds(time)),
        Value::Count(number) => json!(number),
        Value::Spans(all) => spans(all),
        Value::Yields(yields) => {
            let mut kinds = Map::new();
            for ([kind, outcome], number) in labelled(yields, by_policy) {
                kinds.entry(kind).or_insert_with(|| json!({}))[outcome] = json!(number);
            }
            kinds.into()
        }
    }
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::super::reading::Sample;
    use super::super::reading::tests::{reading, vcpu, vm};
    use super::*;

    #[test]
    fn a_line_has_every_figure_of_vcpus_vms_and_the_domain() {
        let two = reading(vec![vm("a", vec![vcpu(500, 400, 100), vcpu(300, 600, 100)])]);
        let line = line(&two, Nanos::from_millis(1500), true);
        assert_eq!((&line["seconds"], &line["final"]), (&json!(1.5), &json!(true)));
        let (of_vm, of_vcpu) = (&line["vms"][0], &line["vms"][0]["vcpus"][1]);
        assert_eq!(
            (&of_vm["vm"], &of_vm["run_seconds"], &of_vcpu["run_seconds"]),
            (&json!("a"), &json!(0.8), &json!(0.3))
        );
        for metric in OF_VCPUS {
            assert!(!of_vm[metric.name].is_null() && !of_vcpu[metric.name].is_null(), "{}", metric.name);
        }
        assert_eq!(of_vm["yields"]["lock"], json!({ "alone": 2, "switched": 4, "stayed": 6 }));
        assert_eq!(line["domain"]["kick_seconds"]["count"], json!(40));
        assert_eq!(line["domain"]["switches"], json!(40));
    }

    #[test]
    fn spans_that_there_are_none_of_have_no_length() {
        assert_eq!(spans(&Histogram::default()), json!({ "count": 0, "p50": null, "p99": null, "max": null }));
    }

    #[test]
    fn what_the_host_does_not_tell_is_null() {
        let sample = Sample { by_policy: false, ..vcpu(500, 400, 100) };
        let line = line(&reading(vec![vm("a", vec![sample])]), Nanos::ZERO, false);
        assert!(line["vms"][0]["turn_wait_seconds"].is_null() && line["vms"][0]["wait_seconds"] == json!(0.4));
        assert_eq!(line["vms"][0]["yields"]["lock"], json!({ "untold": 0 }));
    }
}
