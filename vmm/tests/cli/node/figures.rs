//! What a node tells of VMs that run and have run: figures, traces, recordings and causes of waits.

use super::harness::{Node, hog};
use crate::program::output;
use serde_json::{Value, json};
use stile_api::{Frame, VmState};
use stile_tests::require_kvm;

#[test]
fn figures_of_a_frame_are_those_of_metrics_and_of_inspection() {
    let _ = require_kvm!();
    let node = Node::start(&[]);
    node.create(json!({ "name": "hi", "image": "builtin:hello" }));
    node.wait_for(|node| node.vm("hi").info.state == VmState::Stopped);
    let frame: Frame = node.client.get("/v1/frame").unwrap();
    let vm = node.vm("hi");
    assert_eq!(Some(frame.vms[0].figures), vm.figures);
    let metrics = String::from_utf8(node.client.get_bytes("/v1/metrics").unwrap()).unwrap();
    let exits = format!("stile_vcpu_exits_total{{vm=\"hi\",vcpu=\"0\"}} {}", frame.vms[0].figures.exits);
    assert!(metrics.contains(&exits) && metrics.ends_with("# EOF\n"), "no {exits} in {metrics}");
}

#[test]
fn the_last_seconds_are_a_trace_and_explain_a_wait() {
    let _ = require_kvm!();
    let node = Node::start(&["--recordings", "."]);
    (0..3).for_each(|n| node.create(hog(&format!("hog-{n}"))));
    node.wait_for(|node| node.vm("hog-2").figures.is_some_and(|figures| figures.turns > 3));
    let trace: Value = node.client.get("/v1/trace?last=60s").unwrap();
    assert!(trace.to_string().contains("hog-2/0"));
    let (status, stdout, stderr) = output(node.command(&["why", "hog-2/0"]));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("hog-2/0 under rsdl"), "{stdout}");
    let (status, ..) = output(node.command(&["record", "a.rec"]));
    assert_eq!(status, Some(0));
    let before = node.vm("hog-1").figures.unwrap().turns;
    let gets_on = |node: &Node, from: u64| node.vm("hog-1").figures.is_some_and(|figures| figures.turns > from + 3);
    node.wait_for(|node| gets_on(node, before));
    // A change of the domain: the recording goes on in another file.
    let (status, ..) = output(node.command(&["policy", "credit2"]));
    assert_eq!(status, Some(0));
    let then = node.vm("hog-1").figures.unwrap().turns;
    node.wait_for(|node| gets_on(node, then));
    let (status, stdout, _) = output(node.command(&["record", "--end"]));
    assert_eq!(status, Some(0));
    assert!(stdout.contains("a-2.rec") && stdout.contains("events, 0 lost"), "{stdout}");
    for (file, policy) in [("a.rec", "rsdl"), ("a-2.rec", "credit2")] {
        let (status, stdout, stderr) = output(node.command(&["why", "hog-1/0", file]));
        assert_eq!((status, stderr.as_str()), (Some(0), ""), "{file}");
        assert!(stdout.contains(&format!("hog-1/0 under {policy}")), "{stdout}");
        let (status, _, stderr) = output(node.command(&["replay", file]));
        assert_eq!((status, stderr.as_str()), (Some(0), ""), "{file}");
    }
}
