//! The page in a browser: every suite's figures are there, nothing fails to load, and screenshots are kept.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use stile_report::write_all;
use stile_results::model::ParamValue;
use stile_results::{Params, Report, RunContext, Sample};
use stile_suites::{Metric, Suite};
use stile_tests::chromium;

const POLICIES: [&str; 2] = ["host", "rsdl"];
const SIZES: [u64; 2] = [4, 16];

/// The detail of a sample besides its metrics.
fn detail(policy: &str, size: u64, round: u32) -> Value {
    let ours = if policy == "host" { 1 } else { 3 };
    let vcpus: Vec<Value> =
        (0..size).map(|n| json!({"run_ns": 1_000_000 * (10 + n / ours) + u64::from(round)})).collect();
    let latency: Vec<(u64, u64)> = (0..20).map(|step| (1000 << step, 1_000_000 >> (step + ours))).collect();
    let mut detail = json!({"vcpus": vcpus, "latency_ns": latency});
    if (policy, size, round) == ("rsdl", 16, 2) {
        let turn =
            |n: u32| json!({"from": 900.0 * f64::from(n), "to": 900.0 * f64::from(n + 1), "vcpu": format!("vm/{n}")});
        let lanes: Vec<Value> =
            (0..2).map(|cpu| json!({"cpu": cpu, "turns": (0..10).map(turn).collect::<Vec<_>>()})).collect();
        detail["moment"] = json!({
            "vcpu": "vm/9", "wait": [1000.0, 8100.0], "length": 9000.0, "longest": 9900.0, "kept": 50_000.0, "lanes": lanes,
        });
    }
    detail
}

/// Made-up samples of every suite with all that its tables and plots show.
fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for suite in Suite::ALL {
        for (round, policy, size) in (0..5).flat_map(|r| POLICIES.map(|p| SIZES.map(|s| (r, p, s)))).flatten() {
            let value = |metric: &Metric| {
                let work = if metric.is_share() { 1.0 } else { 1000.0 * size as f64 };
                (*metric, work * if policy == "host" { 1.0 } else { 1.2 } * (1.0 + f64::from(round) / 100.0))
            };
            let values: BTreeMap<Metric, f64> = suite.headline().iter().chain(suite.plotted()).map(value).collect();
            let params = Params::default().with(suite.counted().name(), ParamValue::Integer(size));
            let detail = detail(policy, size, round);
            samples.push(Sample { suite, policy: policy.to_owned(), params, round, values, detail });
        }
    }
    samples
}

fn browse(chromium: &Path, page: &Path, arguments: &[&str]) -> (String, String) {
    let profile = tempfile::tempdir().expect("a test may write temporary files");
    let output = Command::new("timeout")
        .args(["-s", "KILL", "120"])
        .arg(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr", "--v=0"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("timeout is part of every system");
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{:?}: {stderr}", output.status);
    (stdout, stderr)
}

/// The folder of the screenshots, which are kept for inspection.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    fs::create_dir_all(&folder).expect("a test may write into its folder");
    folder
}

/// Width and height of a PNG.
fn size_of(png: &Path) -> (u32, u32) {
    let bytes = fs::read(png).expect("the browser wrote it");
    assert_eq!(&bytes[1..4], b"PNG");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    (number(16), number(20))
}

/// Opens a page in a frame as wide as a phone, since a window cannot be that narrow, and writes what it finds.
const ON_A_PHONE: &str = r#"<body style="margin:0"><iframe src="report.html" width="390" height="4000" style="border:0"></iframe>
<script>onload = () => requestAnimationFrame(() => {
  const page = document.querySelector("iframe").contentDocument;
  const hint = box => page.defaultView.getComputedStyle(box, "::before").height;
  const boxes = [...page.querySelectorAll(".scroll")].filter(box => !box.closest("details:not([open])"));
  const found = boxes.map(box => ({ wide: box.scrollWidth > box.clientWidth, told: parseFloat(hint(box)) > 0 }));
  const all = { page: page.documentElement.scrollWidth, boxes: found };
  document.body.append(Object.assign(document.createElement("pre"), { id: "found", textContent: JSON.stringify(all) }));
})</script>"#;

#[test]
fn on_a_phone_what_is_too_wide_scrolls_in_its_own_box_and_says_so() {
    let Some(chromium) = chromium() else { return };
    let folder = tempfile::tempdir().expect("a test may write temporary files");
    let samples = samples();
    let policies = POLICIES.map(str::to_owned).to_vec();
    let report = Report::from_samples(&samples, RunContext { policies, seed: 1, ..RunContext::default() });
    write_all(folder.path(), &report, &samples).expect("the folder is this test's own");
    let page = folder.path().join("phone.html");
    fs::write(&page, ON_A_PHONE).expect("as above");
    let arguments = ["--dump-dom", "--allow-file-access-from-files", "--virtual-time-budget=5000"];
    let (dom, _) = browse(&chromium, &page, &arguments);
    let (_, found) = dom.split_once("id=\"found\">").unwrap_or_else(|| panic!("nothing was found: {dom}"));
    let found: Value = serde_json::from_str(found.split_once("</pre>").expect("it ends").0).expect("it is JSON");
    assert_eq!(found["page"], 390, "the page itself does not scroll sideways");
    let boxes = found["boxes"].as_array().expect("it is a list");
    assert!(boxes.iter().any(|of| of["wide"] == true), "{found}");
    assert!(boxes.iter().all(|of| of["wide"] == of["told"]), "{found}");
    let picture = self::folder().join("narrow.png");
    let screenshot = format!("--screenshot={}", picture.display());
    browse(&chromium, &page, &["--allow-file-access-from-files", "--window-size=500,4000", &screenshot]);
    assert_eq!(size_of(&picture), (500, 4000));
}

#[test]
fn a_browser_finds_every_suites_figures_without_an_error_and_shows_them() {
    let Some(chromium) = chromium() else { return };
    let (folder, samples) = (folder(), samples());
    let policies = POLICIES.map(str::to_owned).to_vec();
    let report = Report::from_samples(&samples, RunContext { policies, seed: 1, ..RunContext::default() });
    let written = write_all(&folder, &report, &samples).expect("the folder is this test's own");
    let (dom, log) = browse(&chromium, &written.html, &["--dump-dom"]);
    assert!(!log.contains("CONSOLE"), "{log}");
    for suite in Suite::ALL {
        let (_, section) =
            dom.split_once(&format!("<h2>{suite}</h2>")).unwrap_or_else(|| panic!("no {suite} in {dom}"));
        let (section, _) = section.split_once("</section>").expect("a section ends");
        // The suite's plots, distribution, shares and longest wait.
        let expected = suite.plotted().len() + 3;
        assert_eq!(section.matches("<figure").count(), expected, "{suite}");
        assert_eq!(section.matches("<svg viewBox=\"0 0 600 336\"").count(), expected - 1, "{suite}");
        for metric in suite.headline() {
            assert!(section.contains(metric.label()), "{suite} without {}", metric.label());
        }
        assert!(section.contains("vm/9 waited 7.10 ms for a pCPU, the longest wait in the last 50.0 ms"), "{section}");
    }
    for (name, width, dark) in [("wide", 1280, false), ("phone", 500, false), ("dark", 1280, true)] {
        let picture = folder.join(format!("{name}.png"));
        let mut arguments = vec![format!("--window-size={width},6000"), format!("--screenshot={}", picture.display())];
        arguments.extend(dark.then(|| "--blink-settings=preferredColorScheme=0".to_owned()));
        let (_, log) = browse(&chromium, &written.html, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(!log.contains("CONSOLE"), "{log}");
        assert_eq!(size_of(&picture), (width, 6000), "{name}");
    }
}
