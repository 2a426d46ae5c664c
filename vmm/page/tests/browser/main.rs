//! The page in a browser, beside a node that is made up: its figures are those of the API's frames, names are texts, a
//! lost connection is told and found again, and nothing breaks the content security policy.

mod browser;
mod node;

use browser::Browser;
use node::{Node, Phase};
use serde_json::Value;
use stile_tests::chromium;

/// What the page shows of a figure.
fn figure<'a>(found: &'a Value, vm: &str, figure: &str) -> &'a str {
    let found = &found["figures"][format!("{vm} {figure}")];
    found.as_str().unwrap_or_else(|| panic!("no {figure} of {vm}: {found}"))
}

#[test]
fn the_page_shows_the_figures_of_the_frames_and_tells_a_lost_connection() {
    let Some(chromium) = chromium() else { return };
    let node = Node::start();
    let browser = Browser::open(&chromium, &format!("{}/watch", node.address()));

    let found = node.next_report();
    assert!(!browser.log().contains("CONSOLE"), "{}", browser.log());
    assert_eq!(found["connection"], "live");
    assert_eq!(found["images"], 0, "a name is a text and no element");
    assert_eq!(found["page_width"], 390, "only boxes inside the page scroll sideways");
    let shown = ["state", "nice", "class", "cap", "run", "ready", "wait-p99", "exits"];
    assert_eq!(
        shown.map(|name| figure(&found, "web", name)),
        ["running", "-5", "normal", "1.5", "50.0 %", "20.0 %", "2.00 ms", "12.3k"]
    );
    assert_eq!(["run", "capped", "wait-p99"].map(|name| figure(&found, node::HOSTILE, name)), ["10.0 %", "-", "-"]);
    assert_eq!(["run", "state"].map(|name| figure(&found, "web/1", name)), ["40.0 %", "cpu3"]);
    assert_eq!(found["by_name"], serde_json::json!([node::HOSTILE, "web"]));
    assert_eq!(found["by_run"], serde_json::json!(["web", node::HOSTILE]));
    let facts = ["policy", "mechanism", "pcpus", "used", "switches", "kicks-p99", "version"];
    let told = facts.map(|name| found["node"][name].as_str().unwrap_or_default());
    assert_eq!(told, ["rsdl", "executors", "2", "55.0 %", "1.50k/s", "45.2 µs", "1.2.3"]);
    assert_eq!(found["pcpus"], serde_json::json!({"0": "-", "3": "web/1"}));
    assert_eq!(found["events"], serde_json::json!(["web ended: exit code 3", "web was started"]), "the newest first");
    assert_eq!(found["lines"], serde_json::json!({"ready": 2, "wait-p99": 2}));

    node.enter(Phase::Down);
    assert_eq!(node.next_report()["connection"], "lost");
    node.enter(Phase::Up);
    assert_eq!(node.next_report()["connection"], "live");
}
