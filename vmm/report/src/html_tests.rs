//! The page as a whole: its required content, and a realistic report for a preview.

use std::collections::BTreeMap;

use serde_json::json;

use super::page;
use crate::table::{self, Screen};
use crate::{plot, writer};
use stile_results::model::{Params, Report, RunContext, Sample};
use stile_results::testing::ticket;
use stile_suites::Metric;
use stile_suites::Suite;

/// Opening tags that have an end tag in a page, with the number of those that are open at the end.
fn unbalanced(page: &str) -> Vec<&'static str> {
    let tags = ["main", "section", "table", "thead", "tbody", "tr", "td", "figure", "svg", "details", "dl", "ul", "li"];
    let count = |what: &str| page.matches(what).count();
    tags.into_iter()
        .filter(|tag| {
            let opened = count(&format!("<{tag}>")) + count(&format!("<{tag} "));
            opened != count(&format!("</{tag}>"))
        })
        .collect()
}

fn report(samples: &[Sample]) -> Report {
    Report::from_samples(samples, RunContext { interrupted: samples.is_empty(), ..RunContext::default() })
}

#[test]
fn an_empty_interrupted_report_renders() {
    let page = page(&report(&[]), &[]).unwrap();
    assert!(page.contains("interrupted before anything was measured"));
    assert_eq!(unbalanced(&page), [""; 0]);
}

#[test]
fn many_remarks_are_folded_and_few_are_not() {
    let page = |n: usize| {
        let notes = vec!["The host was busy.".to_owned(); n];
        let report = Report::from_samples(&[], RunContext { notes, ..RunContext::default() });
        super::page(&report, &[]).unwrap()
    };
    assert!(!page(3).contains("remarks on the run"));
    assert!(page(4).contains("<summary>4 remarks on the run</summary><ul class=\"notes\">"));
}

#[test]
fn disturbances_of_every_run_stand_above_the_summary_and_others_among_the_remarks() {
    let mut report = report(&ticket("host", Metric::Throughput, &[1.0; 5]));
    report.disturbed.notes.push("Other programs ran.".to_owned());
    report.disturbed.count("host", true);
    let place = |report: &Report, text: &str| super::page(report, &[]).unwrap().find(text);
    assert!(place(&report, "<li>Other programs ran.") < place(&report, "class=\"summary\""));
    assert!(place(&report, "class=\"warning\"").is_some());
    report.disturbed.count("host", false);
    assert!(place(&report, "class=\"notes\"><li>Other programs ran.").is_some());
    assert_eq!(place(&report, "class=\"warning\""), None);
}

#[test]
fn the_tables_of_sources_stand_below_the_figures_of_the_run() {
    let mut samples = ticket("host", Metric::Throughput, &[1.0; 3]);
    samples.iter_mut().for_each(|sample| sample.suite = Suite::Netbench);
    let page = page(&report(&samples), &[]).unwrap();
    assert!(page.find("Figures of netbench").unwrap() < page.find("class=\"source\"").unwrap());
}

#[test]
fn a_single_sample_renders() {
    let page = page(&report(&ticket("host", Metric::Throughput, &[1000.0])), &[]).unwrap();
    assert!(page.contains("1.00k locks/s") && page.contains("<circle"));
    assert_eq!(unbalanced(&page), [""; 0]);
}

#[test]
fn whatever_comes_from_outside_is_escaped() {
    let context = RunContext {
        command: vec!["stile".into(), "<script>alert(1)</script>".into()],
        host: json!({"cpu": "<b>cpu", "policies": {"x": "</pre><script>"}}),
        notes: vec!["<i>note".into()],
        ..RunContext::default()
    };
    let samples = ticket("<u>policy", Metric::Throughput, &[1.0; 3]);
    let page = page(&Report::from_samples(&samples, context), &samples).unwrap();
    for tag in ["<script", "<b>cpu", "<i>note", "<u>policy"] {
        assert!(!page.contains(tag), "{tag}");
    }
}

#[test]
fn nothing_is_loaded_from_elsewhere_and_no_script_runs() {
    let page = page(&report(&ticket("host", Metric::LatencyP99, &[5.0; 3])), &[]).unwrap();
    for outside in ["<script", "<link", "@import", "url(", "src=", "href="] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn the_style_maps_every_colour_that_plots_use() {
    let hex = |c: &plotters::style::RGBColor| format!("=\"#{:02X}{:02X}{:02X}\"]", c.0, c.1, c.2);
    for color in &plot::PALETTE {
        assert_eq!(super::STYLE.matches(&hex(color)).count(), 2, "{}", hex(color));
    }
    for color in [plot::GRID, plot::INK] {
        assert!(super::STYLE.contains(&format!("[stroke{}", hex(&color))), "{}", hex(&color));
    }
}

#[test]
fn better_and_worse_are_signed_and_shaded() {
    let host = ticket("host", Metric::Throughput, &[1.0; 5]);
    let samples = [host, ticket("up", Metric::Throughput, &[2.0; 5]), ticket("down", Metric::Throughput, &[0.5; 5])];
    let page = page(&report(&samples.concat()), &[]).unwrap();
    assert!(page.contains(r#"<td class="number better" title="better"><b class="sign">+</b> <b>2.00</b>"#), "{page}");
    assert!(page.contains(r#"<td class="number worse" title="worse"><b class="sign">−</b> <b>0.50</b>"#), "{page}");
}

#[test]
fn a_ratio_of_few_rounds_is_told_as_such() {
    let of = |policy, work| ticket(policy, Metric::Throughput, &[work; 2]);
    let page = page(&report(&[of("host", 1.0), of("rsdl", 133.0)].concat()), &[]).unwrap();
    assert!(page.contains(r#"<b>133</b> <span class="interval">(2 rounds, no interval)</span>"#), "{page}");
}

/// Invented samples of the size and shape of a full run.
struct Invented {
    random: u64,
    samples: Vec<Sample>,
}

impl Invented {
    fn noise(&mut self) -> f64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1.0 + ((self.random >> 40) as f64 / (1u64 << 24) as f64 - 0.5) * 0.1
    }

    fn add(&mut self, suite: Suite, policy: &str, params: &Params, base: &[(Metric, f64)]) {
        for round in 0..5 {
            let values: BTreeMap<Metric, f64> = base
                .iter()
                .map(|&(metric, value)| {
                    let noisy = value * self.noise();
                    let whole = matches!(metric, Metric::ClientErrors | Metric::DroppedFrames);
                    (metric, if whole { value } else { noisy })
                })
                .collect();
            let (policy, params) = (policy.to_owned(), params.clone());
            self.samples.push(Sample { suite, policy, params, round, values, detail: json!({"vcpus": [1, 2]}) });
        }
    }
}

fn invented(rounds: u32) -> Report {
    use Metric as M;
    let mut run = Invented { random: 1, samples: Vec::new() };
    for (policy, gain) in [("host", 1.0), ("rsdl", 1.08), ("freelist", 0.93)] {
        for clients in [4, 8, 16, 48u64] {
            let n = clients as f64;
            let base = [
                (M::Throughput, 610.0 * gain / (1.0 + n / 90.0)),
                (M::OpsPerS, 9100.0 * gain),
                (M::LatencyP50, 90.0 * n / gain),
                (M::LatencyP99, 400.0 * n.powf(1.3) / gain.powi(4)),
                (M::LatencyMax, 2500.0 * n / gain),
                (M::ClientErrors, if policy == "freelist" && clients == 48 { 2.0 } else { 0.0 }),
                (M::DroppedFrames, 0.0),
                (M::StartLatencyMax, 900.0 * n / gain.powi(9)),
                (M::SwitchesPerS, 21_000.0),
                (M::YieldsPerS, 3100.0),
            ];
            run.add(Suite::Netbench, policy, &Params::default().with("clients", clients), &base);
        }
    }
    for (policy, slope) in
        [("host", 1.0_f64), ("rsdl", 0.25), ("freelist", 0.9), ("rsdl+expire", 1.05), ("host-noyield", 0.0)]
    {
        for (vcpus, hint) in [(4u64, "full"), (8, "full"), (16, "full"), (4, "none"), (8, "none"), (16, "none")] {
            let slope = if hint == "none" { slope.max(0.9) } else { slope };
            let work = if policy == "host-noyield" {
                1600.0 / vcpus as f64
            } else {
                30_600.0 * (4.0 / vcpus as f64).powf(slope)
            };
            let base = [
                (M::Throughput, work),
                (M::LatencyP50, 30.0 * vcpus as f64 * 30_600.0 / work),
                (M::LatencyP99, 900.0 * vcpus as f64 * (30_600.0 / work).powf(0.7)),
                (M::Jain, 0.95),
                (M::MinShare, 0.91),
                (M::MaxShare, 1.07),
            ];
            run.add(Suite::Ticket, policy, &Params::default().with("vcpus", vcpus).with("hint", hint), &base);
        }
        let shares = if policy.starts_with("host") { 0.1 } else { 1.0 };
        for vcpus in [8u64, 16] {
            let base = [
                (M::Throughput, 17_500.0 * shares),
                (M::HogThroughput, 4.1e8 * (2.0 - shares)),
                (M::LatencyP99, 900.0 / shares),
                (M::LockersCpuShare, shares),
                (M::HogsCpuShare, 2.0 - shares),
            ];
            run.add(Suite::Mixed, policy, &Params::default().with("vcpus", vcpus).with("hint", "full"), &base);
            let three =
                [(M::PairThroughput, 3.0e5 * shares), (M::PairsCpuShare, shares), (M::JainCpu, 0.5 + shares / 2.0)];
            run.add(Suite::Threeway, policy, &Params::default().with("vcpus", vcpus), &[&base[..], &three].concat());
            let off = 1.0 - shares;
            let weights = [
                (M::Throughput, 2.0e5),
                (M::WeightError, 40.0 * off),
                (M::Nice0Share, 1.0 + off / 5.0),
                (M::Nice5Share, 1.0 - off / 5.0),
                (M::Nice10Share, 1.0 - off / 3.0),
            ];
            run.add(Suite::Weights, policy, &Params::default().with("vcpus", vcpus), &weights);
        }
    }
    for (policy, p99) in [("host", 9000.0), ("rsdl", 700.0)] {
        let base = [(M::Throughput, 1590.0), (M::LatencyP99, p99), (M::HogThroughput, 4.1e8)];
        run.add(Suite::Probe, policy, &Params::default().with("vcpus", 8), &base);
    }
    let host = json!({
        "cpu": "Invented CPU 2 x 2.60 GHz", "kernel": "6.18.5", "kvm_backend": "VMX", "pcpus": [0, 1],
        "halt_poll_ns": 0,
        "load": [0.31, 0.2, 0.18], "commit": "0123abc", "memory": "7.8 GiB", "kvm": {"directed_yield": true},
        "policies": {
            "host": {"algorithm": "host"},
            "rsdl": {"algorithm": "rsdl", "rr_interval_us": 6000, "yield": "polite"},
        },
    });
    let policies = ["host", "host-noyield", "freelist", "rsdl", "rsdl+expire"].map(str::to_owned).to_vec();
    let command = "stile compare netbench ticket --hint full,none --reps 5".split(' ').map(str::to_owned).collect();
    run.samples.retain(|sample| sample.round < rounds);
    Report::from_samples(&run.samples, RunContext { command, host, policies, seed: 42, ..RunContext::default() })
}

/// `STILE_PREVIEW=DIR cargo test -p stile-report preview` writes pages and tables into DIR for inspection.
#[test]
fn a_full_report_renders_and_preview_is_kept_if_asked_for() {
    let (full, few, one) = (invented(5), invented(3), invented(1));
    for report in [&full, &few, &one] {
        assert_eq!(unbalanced(&page(report, &[]).unwrap()), [""; 0]);
    }
    let Some(dir) = std::env::var_os("STILE_PREVIEW").map(std::path::PathBuf::from) else { return };
    for (name, report) in [("full", full), ("few-rounds", few), ("one-round", one), ("empty", self::report(&[]))] {
        writer::write_all(&dir.join(name), &report, &[]).unwrap();
    }
    for width in [80, 120] {
        let shown = table::terminal(&invented(5), Screen { width, colour: false });
        std::fs::write(dir.join(format!("table-{width}.txt")), shown).unwrap();
    }
    std::fs::write(dir.join("table.md"), table::markdown(&invented(5))).unwrap();
}
