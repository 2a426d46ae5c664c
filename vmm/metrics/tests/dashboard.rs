//! The dashboard docs/grafana.json: its queries use names that the page of OpenMetrics has.

use serde_json::Value;
use std::collections::BTreeSet;
use stile_metrics::openmetrics::page;
use stile_metrics::{DomainSample, Reading, Sample, VmReading};
use stile_sched::{Nanos, Time};

const DASHBOARD: &str = include_str!("../../../docs/grafana.json");

/// The names of all samples of a page that has every figure.
fn exported() -> BTreeSet<String> {
    let vcpu = Sample { by_policy: true, steal: Some(Nanos::ZERO), ..Sample::default() };
    let vm = VmReading { name: "a".to_owned(), ended: false, vcpus: vec![vcpu] };
    let domain = DomainSample { by_policy: true, ..DomainSample::default() };
    let page = page(&Reading { at: Time(0), vms: vec![vm], domain });
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned).collect()
}

/// Every word in the strings of a JSON value that looks like the name of a metric.
fn names(json: &Value) -> Vec<&str> {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match json {
        Value::String(text) => text.split(|c| !is_of_word(c)).filter(|word| word.starts_with("stile_")).collect(),
        Value::Array(items) => items.iter().flat_map(names).collect(),
        Value::Object(fields) => fields.values().flat_map(names).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn the_dashboard_names_metrics_that_are_exported() {
    let (dashboard, exported) = (serde_json::from_str(DASHBOARD).unwrap(), exported());
    let unknown: Vec<_> = names(&dashboard).into_iter().filter(|name| !exported.contains(*name)).collect();
    assert!(unknown.is_empty(), "docs/grafana.json names {unknown:?}; there are {exported:?}");
}

#[test]
fn every_panel_asks_for_a_metric() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(!panels.is_empty());
    for panel in panels {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty() && targets.iter().all(|target| !names(&target["expr"]).is_empty()), "{panel}");
    }
}
