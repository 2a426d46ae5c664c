//! The table and its sentences, of reports made up for it.

use super::findings::{equal_share, off};
use super::*;
use serde_json::json;
use std::collections::BTreeMap;
use stile_results::model::{Params, RunContext, Sample};

fn sample(policy: &str, load: &str, probe: Option<&str>, values: &[(Metric, f64)]) -> Sample {
    let params = Params::default().with("load", load).with("hint", "full");
    let params = probe.map_or(params.clone(), |probe| params.with("probe", probe));
    let values: BTreeMap<_, _> = values.iter().copied().collect();
    Sample { suite: Suite::Interactive, policy: policy.into(), params, round: 0, values, detail: json!(null) }
}

fn probe(policy: &str, load: &str, probe: Probe, p99_us: f64, missed: f64) -> Sample {
    let values = [(Metric::LatencyP99, p99_us), (Metric::MissedShare, missed)];
    sample(policy, load, Some(probe.name()), &values)
}

fn table_of(samples: &[Sample]) -> Option<SourceTable> {
    let context = RunContext { host: json!({"pcpus": "0-1"}), ..RunContext::default() };
    table(&Report::from_samples(samples, context), "a source")
}

#[test]
fn cpus_are_counted_from_the_list_in_the_hosts_facts() {
    assert_eq!(["0-1", "3", "0-3,8"].map(cpus_in), [Some(2), Some(1), Some(5)]);
    assert_eq!(["", "a", "3-1"].map(cpus_in), [None; 3]);
}

#[test]
fn a_report_without_the_suite_has_no_table() {
    let other = Sample { suite: Suite::Ticket, ..sample("host", "none", None, &[(Metric::Throughput, 1.0)]) };
    assert_eq!(table_of(&[other]), None);
}

#[test]
fn a_row_has_our_rating_with_its_figures_and_the_sources_beside() {
    let samples = [
        probe("host", "memload", Probe::Beryl, 20_000.0, 2.0),
        sample("host", "make", None, &[(Metric::BuildReal, 2.5e6)]),
    ];
    let table = table_of(&samples).unwrap();
    assert_eq!(table.header.len(), 5);
    let row = ["memload x10: beryl", "good, 20.0 ms, 2.0 %", "awful/bad", "great", "good"];
    assert_eq!(table.rows[0], row);
    assert_eq!(table.rows[1], ["make -j5: real", "2.50 s", "481.9 s", "530.7 s", "489.3 s"]);
}

#[test]
fn ratings_are_held_against_the_nearest_of_the_sources() {
    assert_eq!(off(Probe::Beryl, Rating::Bad, "awful/bad"), 0);
    assert_eq!(off(Probe::Beryl, Rating::Good, "awful/bad"), -2);
    assert_eq!(off(Probe::Mouse, Rating::Awful, "good"), 3);
    assert_eq!([Probe::Mouse, Probe::Beryl].map(|probe| off(probe, Rating::Great, "good")), [0, -1]);
}

#[test]
fn what_agrees_and_what_does_not_follows_from_the_figures() {
    let samples = [
        probe("host", "none", Probe::Mouse, 20_000.0, 0.0),
        probe("host", "memload", Probe::Mouse, 300_000.0, 0.0),
        sample("host", "make", None, &[(Metric::BuildReal, 4e6)]),
        sample("host-noyield", "make", None, &[(Metric::BuildReal, 2e6)]),
    ];
    let findings = table_of(&samples).unwrap().findings;
    assert!(findings[0].contains("1 of 2 ratings are the same"), "{findings:?}");
    assert!(findings[1].contains("0 ratings are better here and 1 worse"), "{findings:?}");
    assert!(findings[1].contains("mouse beside memload under host (good there, awful here)"), "{findings:?}");
    assert!(findings[1].contains("make takes 0.50 times as long as with them (1.10 there)"), "{findings:?}");
}

#[test]
fn a_promise_that_does_not_hold_is_told_with_who_breaks_it() {
    let kept = probe("rsdl+polite", "none", Probe::Mouse, 1_000.0, 0.0);
    let findings = table_of(std::slice::from_ref(&kept)).unwrap().findings;
    assert!(findings.iter().any(|f| f.contains("every probe is good or better beside every load measured")));
    let broken = probe("rsdl+polite", "memload", Probe::Beryl, 90_000.0, 70.0);
    let findings = table_of(&[kept, broken]).unwrap().findings;
    assert!(findings.iter().any(|f| f.contains("1 of 2 probes are not good: beryl beside memload")), "{findings:?}");
    assert!(findings.iter().any(|f| f.contains("an equal share of 2 pCPUs is 0.16")), "{findings:?}");
}

#[test]
fn throughput_is_told_by_load() {
    let at = |policy, load, rate| sample(policy, load, None, &[(Metric::Throughput, rate)]);
    let samples = [
        at("host", "memload", 100.0),
        at("rsdl+polite", "memload", 97.0),
        at("host", "make", 100.0),
        at("rsdl+polite", "make", 80.0),
    ];
    let findings = table_of(&samples).unwrap().findings;
    let told = "memload (0.970) get at least 0.95 of host's throughput, but not make (0.800)";
    assert!(findings.iter().any(|f| f.contains(told)), "{findings:?}");
}

#[test]
fn shares_give_everybody_what_it_wants_or_an_equal_part() {
    let share = equal_share(2.0, 10).unwrap();
    let given: f64 = Probe::ALL.iter().map(|probe| probe.wants().min(share)).sum();
    assert!((given + 10.0 * share - 2.0).abs() < 1e-9, "{share}");
    assert_eq!(equal_share(2.0, 0), None);
}

#[test]
fn a_build_that_takes_longer_without_yields_agrees_with_the_source() {
    let times = [("host", 4e6), ("host-noyield", 4.4e6)];
    let mut samples = times.map(|(policy, us)| sample(policy, "make", None, &[(Metric::BuildReal, us)])).to_vec();
    samples.push(probe("host", "none", Probe::Mouse, 1_000.0, 0.0));
    let findings = table_of(&samples).unwrap().findings;
    assert!(findings[0].contains("make takes 1.10 times as long as with them (1.10 there)"), "{findings:?}");
}

#[test]
fn a_yield_to_the_end_of_the_line_is_told_where_it_costs_pictures() {
    let of = |expire| {
        let samples = [("rsdl+expire", expire), ("rsdl+none", 60.0)];
        table_of(&samples.map(|(policy, missed)| probe(policy, "memload", Probe::Beryl, 90_000.0, missed)))
            .unwrap()
            .findings
    };
    let told =
        |findings: Vec<String>| findings.iter().any(|f| f.contains("misses 95 instead of 60 % (-mm2: awful/bad)"));
    assert!(told(of(95.0)));
    assert!(!told(of(65.0)));
}
