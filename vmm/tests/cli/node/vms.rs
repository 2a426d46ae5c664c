//! VMs of a node, from their making to their end.

use super::harness::{LONG, Node, guests, hog, problem};
use crate::linux::{kernel_of, with_kernel};
use crate::program::{folder, output};
use hyper::Method;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::{Duration, Instant};
use stile_api::{Change, Reason, VmDetails, VmInfo, VmState};
use stile_machine::unikernel::image::forge::code;
use stile_tests::require_kvm;

#[test]
fn a_vm_is_created_started_paused_resumed_stopped_and_deleted() {
    let _ = require_kvm!();
    let node = Node::start(&[]);
    node.create(hog("a"));
    node.wait_for(|node| node.vm("a").figures.is_some_and(|figures| figures.run_seconds > 0.0));
    let same = json!({ "nice": 0, "class": "normal" });
    let change: Change = node.client.send(Method::PATCH, "/v1/vms/a/scheduling", Some(&same)).unwrap();
    assert_eq!(change.vcpus, 0, "nothing differs, and nothing is handed over");
    let paused: VmInfo = node.client.post("/v1/vms/a/pause").unwrap();
    assert_eq!(paused.state, VmState::Paused);
    let run = || node.vm("a").figures.unwrap().run_seconds;
    // Its pCPU has to be given up as well, which the host may delay: until then that counts as run.
    let idle = || node.vm("a").figures.unwrap().idle_seconds;
    let idled = idle();
    node.wait_for(|_| idle() > idled);
    let before = run();
    std::thread::sleep(Duration::from_millis(50));
    // It may fall, by what turns out to have been taken by the host.
    assert!(run() <= before, "a paused VM runs no guest code");
    assert_eq!(problem(node.client.post::<VmInfo>("/v1/vms/a/pause")).reason, Reason::Conflict);
    let _: VmInfo = node.client.post("/v1/vms/a/resume").unwrap();
    node.wait_for(|_| run() > before);
    assert_eq!(problem(node.client.send::<Value>(Method::DELETE, "/v1/vms/a", None::<&()>)).reason, Reason::Conflict);
    let stopped: VmInfo = node.client.post("/v1/vms/a/stop").unwrap();
    assert_eq!((stopped.state, stopped.outcome.as_deref()), (VmState::Stopped, Some("stopped")));
    let again: VmInfo = node.client.post("/v1/vms/a/start").unwrap();
    assert_eq!((again.state, again.starts), (VmState::Running, 2));
    node.client.send_bytes(Method::DELETE, "/v1/vms/a?force=true", None).unwrap();
    assert_eq!(problem(node.client.get::<VmDetails>("/v1/vms/a")).reason, Reason::NotFound);
    assert_eq!(node.end(), Some(0));
}

#[test]
fn a_vm_that_ends_by_itself_leaves_its_console_its_figures_and_its_outcome() {
    let _ = require_kvm!();
    let node = Node::start(&[]);
    node.create(json!({ "name": "hi", "image": "builtin:hello" }));
    node.wait_for(|node| node.vm("hi").info.state == VmState::Stopped);
    let vm = node.vm("hi");
    assert_eq!((vm.info.outcome.as_deref(), vm.info.ended_well), (Some("exit code 0"), Some(true)));
    assert!(vm.figures.unwrap().exits > 0);
    let (status, stdout, stderr) = output(node.command(&["console", "hi"]));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("hello"), "{stdout}");
}

#[test]
fn a_vm_with_sockets_is_started_in_the_jail_and_a_guest_that_ignores_the_button_is_ended() {
    let _ = require_kvm!();
    let files = with_kernel(&kernel_of(&[0xeb, 0xfe]));
    let node = Node::start(&["--try-linux", "--grace", "100ms", "--files", files.path().to_str().unwrap()]);
    let (kernel, vsock) = (files.path().join("vmlinuz"), files.path().join("sock"));
    node.create(json!({ "name": "tux", "kernel": kernel, "memory": "64M", "vsock": vsock }));
    assert!(vsock.exists());
    let stopped: VmInfo = node.client.post("/v1/vms/tux/stop?grace=100ms").unwrap();
    assert_eq!((stopped.state, stopped.outcome.as_deref()), (VmState::Stopped, Some("stopped")));
    // Its files are free when it is stopped: it starts again at once, and others could use them.
    for _ in 0..20 {
        assert!(!vsock.exists());
        let _: VmInfo = node.client.post("/v1/vms/tux/start").unwrap();
        let _: VmInfo = node.client.post("/v1/vms/tux/stop?mode=hard").unwrap();
    }
    let _: VmInfo = node.client.post("/v1/vms/tux/start").unwrap();
    assert_eq!(node.end(), Some(0));
    assert!(!vsock.exists(), "the node has left it");
}

#[test]
fn a_hard_stop_ends_a_guest_for_which_a_soft_one_waits() {
    let _ = require_kvm!();
    let files = with_kernel(&kernel_of(&[0xeb, 0xfe]));
    let node = Node::start(&["--try-linux", "--files", files.path().to_str().unwrap()]);
    node.create(json!({ "name": "tux", "kernel": files.path().join("vmlinuz"), "memory": "64M" }));
    let client = stile_client::Client::new(&node.socket()).unwrap();
    let soft = std::thread::spawn(move || client.post::<VmInfo>("/v1/vms/tux/stop?grace=3600s"));
    // Most likely it waits by then.
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    let stopped: VmInfo = node.client.post("/v1/vms/tux/stop?mode=hard").unwrap();
    assert!(stopped.state == VmState::Stopped && began.elapsed() < LONG, "{stopped:?}");
    // Whichever came first.
    let _ = soft.join().unwrap();
    // So does a deletion.
    let _: VmInfo = node.client.post("/v1/vms/tux/start").unwrap();
    let client = stile_client::Client::new(&node.socket()).unwrap();
    let soft = std::thread::spawn(move || client.post::<VmInfo>("/v1/vms/tux/stop?grace=3600s"));
    std::thread::sleep(Duration::from_millis(300));
    node.client.send_bytes(Method::DELETE, "/v1/vms/tux?force=true", None).unwrap();
    let _ = soft.join().unwrap();
    assert_eq!(node.end(), Some(0));
}

#[test]
fn a_vm_that_the_host_starves_is_paused_and_ended() {
    let _ = require_kvm!();
    let pcpu = stile_host::allowed_cpus().unwrap().iter().next().unwrap();
    let node = Node::start_in(folder(&format!("[host]\npcpus = [{pcpu}]\n")), &["stile.toml", "--policy", "host"]);
    let starves = |name: &str| json!({ "name": name, "image": "builtin:hog", "vcpus": 2, "class": "idle" });
    let runs = |node: &Node, name: &str| node.vm(name).figures.is_some_and(|figures| figures.run_seconds > 0.0);
    let early = ["paused", "stopped"];
    early.iter().for_each(|name| node.create(starves(name)));
    node.wait_for(|node| early.iter().all(|name| runs(node, name)));
    node.create(json!({ "name": "others", "image": "builtin:hog", "vcpus": 60 }));
    let ends = |name: &str| {
        let stopped: VmInfo = node.client.post(&format!("/v1/vms/{name}/stop?mode=hard")).unwrap();
        assert_eq!((stopped.state, stopped.outcome.as_deref()), (VmState::Stopped, Some("stopped")));
    };
    ends("stopped");
    let paused: VmInfo = node.client.post("/v1/vms/paused/pause").unwrap();
    assert_eq!(paused.state, VmState::Paused);
    ends("paused");
    // The threads of this one start beside the others.
    node.create(starves("late"));
    ends("late");
    assert_eq!(node.end(), Some(0));
}

#[test]
fn no_vm_starts_while_the_node_ends() {
    let _ = require_kvm!();
    let files = with_kernel(&kernel_of(&[0xeb, 0xfe]));
    let node = Node::start(&["--try-linux", "--grace", "3600s", "--files", files.path().to_str().unwrap()]);
    node.create(json!({ "name": "tux", "kernel": files.path().join("vmlinuz"), "memory": "64M" }));
    let _: VmInfo = node.client.send(Method::POST, "/v1/vms", Some(&hog("late"))).unwrap();
    node.terminate();
    // It is told a moment later.
    node.wait_for(|node| {
        let told = match node.client.post::<VmInfo>("/v1/vms/late/start") {
            Ok(_) => format!("{:?}", node.client.post::<VmInfo>("/v1/vms/late/stop")),
            Err(refused) => problem::<VmInfo>(Err(refused)).message,
        };
        told.contains("the node ends")
    });
    let _: VmInfo = node.client.post("/v1/vms/tux/stop?mode=hard").unwrap();
    assert_eq!(node.ended(), Some(0));
}

#[test]
fn mistakes_in_a_request_are_told_as_those_in_a_file_and_change_nothing() {
    let _ = require_kvm!();
    let node = Node::start(&[]);
    let wrong = json!({ "name": "a", "image": "builtin:hog", "nice": 99, "vcpu": 2 });
    let told = problem(node.client.send::<VmInfo>(Method::POST, "/v1/vms", Some(&wrong)));
    let keys: Vec<&str> = told.findings.iter().map(|finding| finding.key.as_str()).collect();
    assert_eq!((told.reason, keys), (Reason::Invalid, vec!["nice", "vcpu"]));
    let elsewhere = json!({ "name": "a", "image": node.folder.path().join("stile.toml") });
    let told = problem(node.client.send::<VmInfo>(Method::POST, "/v1/vms", Some(&elsewhere)));
    assert_eq!(told.reason, Reason::Forbidden);
    assert!(told.remedy.unwrap().contains("--files"));
    assert_eq!(node.client.get::<Vec<VmInfo>>("/v1/vms").unwrap(), []);
    let (status, _, stderr) = output(node.command(&["policy", "rsld"]));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("did you mean `rsdl`"), "{stderr}");
}

#[test]
fn ports_of_networks_are_numbered_by_the_order_of_the_file() {
    let _ = require_kvm!();
    // By name the client would be the first.
    let vms = "[[vm]]\nname = \"server\"\nimage = \"builtin:netbench-server\"\nnetwork = \"lan\"\n\
               [[vm]]\nname = \"client\"\nimage = \"builtin:netbench-client\"\nnetwork = \"lan\"\n\
               cmdline = \"server=10.0.0.1\"\n";
    let node = Node::start_in(folder(vms), &["stile.toml"]);
    // A client that finds no server tries again now and then.
    node.wait_for(|node| node.vm("client").figures.is_some_and(|figures| figures.exits > 2000));
    assert_eq!(node.end(), Some(0));
}

#[test]
fn files_that_the_nodes_own_configuration_names_may_be_used() {
    let _ = require_kvm!();
    let folder = folder("[[vm]]\nname = \"a\"\nimage = \"own.elf\"\n");
    // jmp to itself
    std::fs::write(folder.path().join("own.elf"), code(&[0xeb, 0xfe])).unwrap();
    let node = Node::start_in(folder, &["stile.toml"]);
    let vms: Vec<VmInfo> = node.client.get("/v1/vms").unwrap();
    assert_eq!((vms[0].name.as_str(), vms[0].state), ("a", VmState::Running));
    assert_eq!(node.end(), Some(0));
}

#[test]
fn a_node_that_is_ended_under_load_ends_all_guests_in_time() {
    let _ = require_kvm!();
    let node = Node::start(&[]);
    let mut events = node.command(&["events"]).stdout(Stdio::piped()).spawn().expect("cargo built the program");
    let mut told = BufReader::new(events.stdout.take().expect("it is a pipe"));
    guests(&node);
    let mut line = String::new();
    // It reads from before the end on.
    while !line.contains("started vm=probe") {
        line.clear();
        assert_ne!(told.read_line(&mut line).expect("it is text"), 0, "no event comes");
    }
    let (vms, began, socket) = (node.client.get::<Vec<VmInfo>>("/v1/vms").unwrap(), Instant::now(), node.socket());
    assert_eq!(node.end(), Some(0));
    assert!(began.elapsed() < LONG && !socket.exists());
    let mut rest = String::new();
    told.read_to_string(&mut rest).expect("it is text");
    let _ = events.wait();
    for VmInfo { name, .. } in vms {
        assert!(rest.contains(&format!("ended vm={name} outcome=stopped")), "{name}: {rest}");
    }
}
