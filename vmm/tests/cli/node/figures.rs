//! What a node tells of VMs that run and have run: figures, traces, recordings and causes of waits.

use super::harness::{LONG, Node, hog};
use crate::program::{folder, output};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use stile_api::{Frame, VmInfo, VmState};
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

/// The counters of a page of metrics, and the exits of each VM in a frame.
fn counters(node: &Node) -> HashMap<String, f64> {
    let frame: Frame = node.client.get("/v1/frame").expect("the node has one");
    let exits = frame.vms.into_iter().map(|vm| (vm.name, vm.figures.exits as f64));
    let page = node.client.get_bytes("/v1/metrics").expect("the node has one");
    let page = String::from_utf8(page).expect("it is a text");
    let values = page.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    let counters = values.filter(|(series, _)| !series.starts_with("stile_vm_ended"));
    counters.map(|(series, value)| (series.to_owned(), value.parse().expect("a number"))).chain(exits).collect()
}

/// Readers of OpenMetrics take a counter that goes back for one that began anew, and add all of it once more.
#[test]
fn no_counter_goes_back_while_the_host_takes_time_and_vms_end_and_policies_change() {
    let _ = require_kvm!();
    let pcpu = stile_host::allowed_cpus().unwrap().iter().next().unwrap();
    let node = Node::start_in(folder(&format!("[host]\npcpus = [{pcpu}]\n")), &["stile.toml"]);
    let probe = |n: u32| json!({ "name": format!("probe-{n}"), "image": "builtin:probe", "vcpus": 2 });
    (0..8).for_each(|n| node.create(probe(n)));
    node.create(hog("hog"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut only = CpuSet::new();
            only.set(pcpu as usize);
            sched_setaffinity(None, &only).unwrap();
            let until = Instant::now() + LONG;
            while !done.load(Ordering::Relaxed) && Instant::now() < until {
                std::hint::spin_loop();
            }
        });
        let changes = scope.spawn(|| {
            for n in 0..8 {
                let policy = ["credit2", "o1", "host", "rsdl"][n % 4];
                assert_eq!(output(node.command(&["policy", policy])).0, Some(0));
                let _: VmInfo = node.client.post(&format!("/v1/vms/probe-{n}/stop?mode=hard")).unwrap();
            }
        });
        let (mut before, mut looks) = (counters(&node), 0);
        while !changes.is_finished() || looks < 100 {
            let now = counters(&node);
            let back = before.iter().filter_map(|(series, &was)| Some((series, was, *now.get(series)?)));
            let back: Vec<_> = back.filter(|(_, was, is)| is < was).collect();
            assert!(back.is_empty(), "look {looks}: {back:?}");
            (before, looks) = (now, looks + 1);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(node.end(), Some(0));
}
