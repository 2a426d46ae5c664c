//! Changes of how VMs are scheduled while they run.

use super::harness::{LONG, Node, guests, hog, problem};
use super::random::{Random, number, policies};
use crate::linux::{kernel_of, with_kernel};
use crate::program::folder;
use hyper::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;
use stile_api::{Change, ChangeState, Figures, Frame, NodeInfo, Problem, Reason, VmInfo, VmState};
use stile_client::ClientError;
use stile_tests::require_kvm;

/// Changes, where the environment does not say how many (`STILE_CHANGES`).
const CHANGES: usize = 30;
/// Requests for changes, as above.
const REQUESTS: usize = 300;

#[test]
fn a_change_goes_back_without_confirmation_and_stays_with_it() {
    let _ = require_kvm!();
    let node = Node::start(&["--policy", "rsdl"]);
    node.create(hog("a"));
    let put = |query: &str, policy: &str| -> Change {
        let body = json!({ "policy": policy });
        node.client.send(Method::PUT, &format!("/v1/policy?{query}"), Some(&body)).unwrap()
    };
    let policy = || node.client.get::<NodeInfo>("/v1").unwrap().policy;
    let checked = put("dry_run=true", "credit2");
    assert_eq!((checked.state, policy().as_str()), (ChangeState::Checked, "rsdl"));
    let change = put("confirm_within=200ms", "credit2");
    assert!(matches!(change.state, ChangeState::Awaiting { .. }));
    assert_eq!(policy(), "credit2");
    node.wait_for(|_| policy() == "rsdl");
    let last = node.client.get::<Vec<Change>>("/v1/changes").unwrap().pop().unwrap();
    assert!(matches!(last.state, ChangeState::Reverted { .. }), "{last:?}");
    let kept = put("confirm_within=60s", "credit2");
    let told = problem(node.client.send::<Change>(Method::PUT, "/v1/policy", Some(&json!({ "policy": "rsdl" }))));
    assert!(told.message.contains("waits to be confirmed"), "{told}");
    let _: Change = node.client.post(&format!("/v1/changes/{}/confirm", kept.id)).unwrap();
    assert_eq!(policy(), "credit2");
    let told = problem(node.client.post::<Change>(&format!("/v1/changes/{}/revert", kept.id)));
    assert_eq!(told.reason, Reason::Conflict);
    // They fit the schema, which takes any text.
    for none in ["", "rsdl:rr_interval=never"] {
        let told = problem(node.client.send::<Change>(Method::PUT, "/v1/policy", Some(&json!({ "policy": none }))));
        assert_eq!(told.reason, Reason::Conflict, "{told}");
    }
}

#[test]
fn a_change_that_cannot_be_taken_back_in_time_is_taken_back_when_it_can_be() {
    let _ = require_kvm!();
    // jmp to itself
    let files = with_kernel(&kernel_of(&[0xeb, 0xfe]));
    let node = Node::start(&["--try-linux", "--policy", "rsdl:executors", "--files", files.path().to_str().unwrap()]);
    // Its vCPUs halt inside the kernel, where executors cannot carry them.
    let tux = json!({ "name": "tux", "kernel": files.path().join("vmlinuz"), "memory": "64M", "interrupts": "kernel" });
    let host = json!({ "policy": "host" });
    let change = loop {
        let change: Change = node.client.send(Method::PUT, "/v1/policy?confirm_within=2s", Some(&host)).unwrap();
        // It is refused if this host slept until the change went back.
        if node.client.send::<VmInfo>(Method::POST, "/v1/vms?start=true", Some(&tux)).is_ok() {
            break change.id;
        }
    };
    node.wait_for(|node| node.told().contains(&format!("change {change} cannot be taken back")));
    let told = problem(node.client.post::<Change>(&format!("/v1/changes/{change}/revert")));
    assert!(told.reason == Reason::Conflict && told.message.contains("cannot carry VM tux"), "{told}");
    let info: NodeInfo = node.client.get("/v1").unwrap();
    assert_eq!((info.awaiting, info.policy.as_str()), (Some(change), "host"));
    let _: VmInfo = node.client.post("/v1/vms/tux/stop?mode=hard").unwrap();
    node.wait_for(|node| node.client.get::<NodeInfo>("/v1").unwrap().awaiting.is_none());
    assert_eq!(node.client.get::<NodeInfo>("/v1").unwrap().policy, "rsdl:executors");
    let state = node.client.get::<Vec<Change>>("/v1/changes").unwrap().pop().unwrap().state;
    assert!(matches!(&state, ChangeState::Reverted { why } if why.contains("not confirmed")), "{state:?}");
}

#[test]
fn going_back_leaves_a_vm_alone_that_has_the_name_of_a_deleted_one() {
    let _ = require_kvm!();
    let node = Node::start(&["--policy", "rsdl"]);
    node.create(hog("a"));
    let nice = json!({ "nice": 5 });
    let target = "/v1/vms/a/scheduling?confirm_within=3600s";
    let change: Change = node.client.send(Method::PATCH, target, Some(&nice)).unwrap();
    node.client.send_bytes(Method::DELETE, "/v1/vms/a?force=true", None).unwrap();
    node.create(json!({ "name": "a", "image": "builtin:hog", "nice": 3, "class": "batch" }));
    let _: Change = node.client.post(&format!("/v1/changes/{}/revert", change.id)).unwrap();
    assert_eq!(node.vm("a").info.nice, 3);
}

#[test]
fn a_period_in_which_a_cap_has_too_little_time_is_refused() {
    let _ = require_kvm!();
    let node = Node::start(&["--policy", "rsdl"]);
    node.create(json!({ "name": "a", "image": "builtin:hog", "vcpus": 4, "cap": 0.01, "cap_period": "100ms" }));
    let shorter = json!({ "cap_period": "10ms" });
    let told = problem(node.client.send::<Change>(Method::PATCH, "/v1/vms/a/scheduling", Some(&shorter)));
    assert_eq!(told.findings.iter().map(|finding| finding.key.as_str()).collect::<Vec<_>>(), ["cap"], "{told}");
}

#[test]
fn a_cap_rests_under_a_policy_that_keeps_none() {
    let _ = require_kvm!();
    let node = Node::start(&["--policy", "rsdl"]);
    node.create(hog("a"));
    let set = |body: Value| node.client.send::<Change>(Method::PATCH, "/v1/vms/a/scheduling", Some(&body));
    let policy = |policy: &str| -> Change {
        node.client.send(Method::PUT, "/v1/policy", Some(&json!({ "policy": policy }))).unwrap()
    };
    set(json!({ "cap": 0.5 })).unwrap();
    policy("host");
    set(json!({ "nice": 3, "class": "batch" })).unwrap();
    let told = problem(set(json!({ "cap": 0.25 })));
    assert_eq!(told.findings.iter().map(|finding| finding.key.as_str()).collect::<Vec<_>>(), ["cap"]);
    policy("rsdl");
    let info = node.vm("a").info;
    assert_eq!((info.cap.map(|cap| cap.cpus()), info.nice), (Some(0.5), 3));
}

#[test]
fn a_starvation_that_a_change_brings_about_takes_it_back() {
    let _ = require_kvm!();
    let pcpu = stile_host::allowed_cpus().unwrap().iter().next().unwrap();
    let node = Node::start(&["--policy", "rsdl"]);
    let one = json!({ "pcpus": [pcpu] });
    let _: Change = node.client.send(Method::PUT, "/v1/pcpus", Some(&one)).unwrap();
    node.create(hog("a"));
    node.create(hog("b"));
    // Of two vCPUs of one pCPU, with turns of five seconds, one waits longer than this policy's bound of 100 ms.
    let starves = json!({ "policy": "freelist:rr_interval=5s:starvation_bound=100ms" });
    let change: Change = node.client.send(Method::PUT, "/v1/policy?confirm_within=3600s", Some(&starves)).unwrap();
    node.wait_for(|node| node.client.get::<NodeInfo>("/v1").unwrap().policy == "rsdl");
    let changes: Vec<Change> = node.client.get("/v1/changes").unwrap();
    let state = changes.into_iter().find(|this| this.id == change.id).unwrap().state;
    assert!(node.told().contains("warning: vCPU a/0 waited") || node.told().contains("warning: vCPU b/0 waited"));
    assert!(matches!(&state, ChangeState::Reverted { why } if why.contains("watchdog")), "{state:?}");
}

/// The CPUs on which a thread of a process may run, by thread.
fn affinities(process: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs").flatten();
    let status = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let list = |status: String| {
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t").map(ToOwned::to_owned))
    };
    status.filter_map(list).collect()
}

#[test]
fn a_pcpu_that_is_given_up_has_no_thread_of_the_node() {
    let _ = require_kvm!();
    let available: Vec<u32> = stile_host::allowed_cpus().unwrap().iter().collect();
    let [first, second, ..] = available[..] else { return eprintln!("skipped: it takes two CPUs") };
    let node = Node::start(&[]);
    (0..4).for_each(|n| node.create(hog(&format!("hog-{n}"))));
    for _ in 0..5 {
        let _: Change = node.client.send(Method::PUT, "/v1/pcpus", Some(&json!({ "pcpus": [first] }))).unwrap();
        let all = affinities(node.process.id());
        let on_second = |list: &String| list.parse::<stile_host::CpuList>().unwrap().contains(second);
        assert!(!all.iter().any(on_second), "{all:?}");
        let both = json!({ "pcpus": [first, second] });
        let _: Change = node.client.send(Method::PUT, "/v1/pcpus", Some(&both)).unwrap();
        let all = affinities(node.process.id());
        assert!(all.iter().any(on_second), "{all:?}");
    }
}

#[test]
fn guests_work_on_while_policy_pcpus_nice_and_caps_change_at_random() {
    let _ = require_kvm!();
    const POLICIES: [&str; 5] = ["rsdl", "o1", "credit2", "host", "rsdl:leases"];
    const CLASSES: [&str; 2] = ["batch", "normal"];
    let (changes, seed) = (number("STILE_CHANGES", CHANGES), number("STILE_SEED", 1));
    println!("STILE_CHANGES={changes} STILE_SEED={seed}");
    let mut random = Random::new(seed);
    let available: Vec<u32> = stile_host::allowed_cpus().unwrap().iter().collect();
    let node = Node::start(&["--policy", "rsdl"]);
    guests(&node);
    let turns = |frame: &Frame| -> Vec<u64> { frame.vms.iter().map(|vm| vm.figures.turns).collect() };
    let frame = || node.client.get::<Frame>("/v1/frame").unwrap();
    assert_eq!(frame().vms.iter().map(|vm| vm.vcpus.len()).sum::<usize>(), 24);
    let names: Vec<String> = frame().vms.into_iter().map(|vm| vm.name).collect();
    let (mut policy, mut before) = (0, turns(&frame()));
    // For how long no vCPU ran, by the kind of change and the policy that follows (unit: s).
    let mut took: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for _ in 0..changes {
        let name = &names[random.below(names.len())];
        let target = format!("/v1/vms/{name}/scheduling");
        let (method, target, body) = match random.below(5) {
            0 => {
                policy = (policy + 1) % POLICIES.len();
                (Method::PUT, "/v1/policy", json!({ "policy": POLICIES[policy] }))
            }
            1 => (Method::PUT, "/v1/pcpus", json!({ "pcpus": &available[..=random.below(available.len())] })),
            2 => (Method::PATCH, target.as_str(), json!({ "nice": random.below(11) as i64 - 5 })),
            3 => (Method::PATCH, target.as_str(), json!({ "class": CLASSES[random.below(2)] })),
            // The host's scheduler keeps no caps.
            _ if POLICIES[policy] == "host" => continue,
            _ => {
                let cap = if random.below(2) == 0 { json!(0.5) } else { json!("none") };
                (Method::PATCH, target.as_str(), json!({ "cap": cap }))
            }
        };
        let change: Change = node.client.send(method, target, Some(&body)).unwrap();
        assert!(change.vcpus == 24 || change.before == change.after, "{change:?}");
        if change.vcpus > 0 {
            let kind = match (target.rsplit('/').next(), &change.before.pcpus, &change.after.pcpus) {
                (Some("pcpus"), Some(before), Some(after)) if before.len() < after.len() => "more pCPUs",
                (Some("pcpus"), ..) => "fewer pCPUs",
                (Some("policy"), ..) => "policy",
                _ => "a VM's scheduling",
            };
            took.entry(format!("{kind}, {}", POLICIES[policy])).or_default().push(change.seconds);
        }
        // o1 lets those wait that sleep less than others, and promises nothing. So all must have got on when the next
        // policy has ruled.
        if POLICIES[policy] != "o1" {
            node.wait_for(|_| turns(&frame()).iter().zip(&before).all(|(now, before)| now > before));
            before = turns(&frame());
        }
    }
    for (kind, mut took) in took {
        took.sort_by(f64::total_cmp);
        let [median, p99, longest] = [took.len() / 2, took.len() * 99 / 100, took.len() - 1].map(|n| took[n] * 1e3);
        println!("{kind}, {} times: no vCPU ran for {median:.1}, p99 {p99:.1}, at most {longest:.1} ms", took.len());
    }
    for vm in frame().vms {
        let Figures { waits, taken_seconds, .. } = vm.figures;
        println!("{}: waits {waits:?}, taken {taken_seconds:?}", vm.name);
    }
    let told = node.told();
    told.lines().filter(|line| line.contains("its bound is")).for_each(|line| println!("{line}"));
    for vm in node.client.get::<Vec<VmInfo>>("/v1/vms").unwrap() {
        assert_eq!((vm.state, &vm.outcome), (VmState::Running, &None), "{}", vm.name);
        let printed = node.client.get_bytes(&format!("/v1/vms/{}/console", vm.name)).unwrap();
        assert_eq!(String::from_utf8_lossy(&printed), "", "{}", vm.name);
    }
    assert_eq!(node.end(), Some(0));
}

#[test]
fn a_node_answers_all_requests_for_changes_at_random_and_ends_well() {
    let _ = require_kvm!();
    let (requests, seed) = (number("STILE_CHANGES", REQUESTS), number("STILE_SEED", 1));
    println!("STILE_CHANGES={requests} STILE_SEED={seed}");
    let mut random = Random::new(seed);
    let (policies, pcpus) = (policies(), stile_host::allowed_cpus().unwrap().iter().collect::<Vec<u32>>());
    let vms = "[[vm]]\nname = \"a\"\nimage = \"builtin:probe\"\ncmdline = \"period_us=500 work_us=30\"\nvcpus = 2\n\
               [[vm]]\nname = \"b\"\nimage = \"builtin:ticket\"\nvcpus = 3\n\
               [[vm]]\nname = \"c\"\nimage = \"builtin:hog\"\nclass = \"batch\"\n";
    let node = Node::start_in(folder(vms), &["stile.toml"]);
    let (mut done, mut longest) = (0, 0.0);
    for request in 1..=requests {
        let (method, target, body) = random.request(&policies, &pcpus);
        let told = format!("{request}: {method} {target} {body}");
        let bytes = (!body.is_null()).then(|| body.to_string().into_bytes());
        let began = Instant::now();
        let answer = node.client.send_bytes(method, &target, bytes);
        let took = began.elapsed();
        println!("{told}: {took:?}, {}", answer.as_ref().map_or_else(ToString::to_string, |()| "done".to_owned()));
        assert!(took < LONG, "it took {took:?}");
        match answer {
            Ok(()) => done += 1,
            // It may contradict the present state.
            Err(ClientError::Problem(Problem {
                reason: Reason::Conflict | Reason::NotFound | Reason::Invalid,
                ..
            })) => {}
            Err(other) => panic!("{other}: {}", node.told()),
        }
        longest = took.as_secs_f64().max(longest);
    }
    println!("{done} of {requests} requests done, the longest within {longest:.3} s");
    assert!(done * 2 >= requests, "{done} were done, and the others refused");
    assert_eq!(node.end(), Some(0));
}
