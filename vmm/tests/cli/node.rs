//! A node and its API, over its socket, as programs of users see them.

use crate::linux::{kernel_of, with_kernel};
use crate::program::{folder, output, stile};
use hyper::Method;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stile_api::{Change, ChangeState, Figures, Frame, NodeInfo, Problem, Reason, VmDetails, VmInfo, VmState};
use stile_client::{Client, ClientError};
use stile_machine::unikernel::image::forge::code;
use stile_tests::require_kvm;
use tempfile::TempDir;

/// Much longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);
/// Changes, where the environment does not say how many (`STILE_CHANGES`).
const CHANGES: usize = 30;

/// A node in a folder of its own. It is ended, and waited for, when this is dropped.
struct Node {
    folder: TempDir,
    process: Child,
    client: Client,
    /// What it has printed on standard error since it listens.
    log: Arc<Mutex<String>>,
}

impl Node {
    fn start(arguments: &[&str]) -> Self {
        Self::start_in(folder(""), arguments)
    }

    fn start_in(folder: TempDir, arguments: &[&str]) -> Self {
        let socket = folder.path().join("node.sock");
        let mut command = stile(folder.path(), &["serve", "--socket", "node.sock"]);
        let process = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut process = process.expect("cargo built the program");
        let mut told = BufReader::new(process.stderr.take().expect("it is a pipe"));
        let mut line = String::new();
        while !line.contains("listens on") {
            line.clear();
            assert_ne!(told.read_line(&mut line).expect("it is text"), 0, "the node ended");
        }
        // What it tells later must not fill the pipe.
        let log = Arc::<Mutex<String>>::default();
        let lines = Arc::clone(&log);
        std::thread::spawn(move || {
            told.lines()
                .map_while(Result::ok)
                .for_each(|line| lines.lock().expect("nobody panics with it").extend([line, "\n".to_owned()]))
        });
        let client = Client::new(&socket).expect("this process may have a client");
        Self { folder, process, client, log }
    }

    fn told(&self) -> String {
        self.log.lock().expect("nobody panics with it").clone()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("node.sock")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = stile(self.folder.path(), arguments);
        command.env("STILE_SOCKET", self.socket());
        command
    }

    fn create(&self, vm: Value) {
        let _: VmInfo = self.client.send(Method::POST, "/v1/vms?start=true", Some(&vm)).expect("it is a VM");
    }

    fn vm(&self, name: &str) -> VmDetails {
        self.client.get(&format!("/v1/vms/{name}")).expect("there is one")
    }

    fn wait_for(&self, what: impl Fn(&Self) -> bool) {
        let until = Instant::now() + LONG;
        while !what(self) {
            assert!(Instant::now() < until, "it does not come");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it as a user does. Returns its exit code.
    fn end(mut self) -> Option<i32> {
        self.terminate();
        self.process.wait().expect("it was started").code()
    }

    fn terminate(&self) {
        let id = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.terminate();
        let _ = self.process.wait();
    }
}

fn problem<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> Problem {
    match answer {
        Err(ClientError::Problem(problem)) => problem,
        other => panic!("a problem was expected: {other:?}"),
    }
}

fn hog(name: &str) -> Value {
    json!({ "name": name, "image": "builtin:hog" })
}

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
fn a_second_node_on_the_same_socket_is_refused_and_the_first_goes_on() {
    let _ = require_kvm!();
    let node = Node::start(&[]);
    let (status, _, stderr) = output(node.command(&["serve"]));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("a node listens on"), "{stderr}");
    let _: NodeInfo = node.client.get("/v1").unwrap();
    std::fs::write(node.folder.path().join("file"), "kept").unwrap();
    let (status, _, stderr) = output(node.command(&["serve", "--socket", "file"]));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("is no socket"), "{stderr}");
}

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

/// 24 vCPUs: six netbench pairs, eight that take a lock in turn, and four probes.
fn guests(node: &Node) {
    for pair in 1..=6 {
        let (server, client) = (2 * pair - 1, 2 * pair);
        node.create(json!({ "name": format!("server-{pair}"), "image": "builtin:netbench-server", "network": "lan" }));
        node.create(json!({
            "name": format!("client-{pair}"), "image": "builtin:netbench-client", "network": "lan",
            "cmdline": format!("server=10.0.0.{server}"),
        }));
        assert_eq!(client, server + 1);
    }
    node.create(json!({ "name": "ticket", "image": "builtin:ticket", "vcpus": 8 }));
    node.create(
        json!({ "name": "probe", "image": "builtin:probe", "vcpus": 4, "cmdline": "period_us=2000 work_us=50" }),
    );
}

/// Numbers that look random (xorshift, Marsaglia 2003), the same ones for the same seed.
struct Random(u64);

impl Random {
    /// A number below this one.
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }
}

#[test]
fn guests_work_on_while_policy_pcpus_nice_and_caps_change_at_random() {
    let _ = require_kvm!();
    const POLICIES: [&str; 5] = ["rsdl", "o1", "credit2", "host", "rsdl:leases"];
    const CLASSES: [&str; 2] = ["batch", "normal"];
    let number = |key: &str, default| std::env::var(key).map_or(default, |text| text.parse().unwrap());
    let (changes, seed) = (number("STILE_CHANGES", CHANGES), number("STILE_SEED", 1));
    println!("STILE_CHANGES={changes} STILE_SEED={seed}");
    let mut random = Random(seed as u64 + (1 << 32));
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

/// Threads and descriptors of a process.
fn holdings(process: u32) -> (usize, usize) {
    let count = |what: &str| std::fs::read_dir(format!("/proc/{process}/{what}")).expect("it runs").count();
    (count("task"), count("fd"))
}

#[test]
fn many_clients_make_vms_come_and_go_and_nothing_is_left_of_them() {
    let _ = require_kvm!();
    const CLIENTS: usize = 8;
    let rounds = std::env::var("STILE_ROUNDS").map_or(2, |rounds| rounds.parse().unwrap());
    let node = Node::start(&[]);
    node.create(hog("stays"));
    let client = |n: usize| {
        let client = Client::new(&node.socket()).unwrap();
        for round in 0..rounds {
            let names: Vec<String> = (0..4).map(|vm| format!("vm-{n}-{round}-{vm}")).collect();
            for name in &names {
                let _: VmInfo = client.send(Method::POST, "/v1/vms", Some(&hog(name))).unwrap();
                for what in ["start", "pause", "resume"] {
                    let _: VmInfo = client.post(&format!("/v1/vms/{name}/{what}")).unwrap();
                }
            }
            let _: Frame = client.get("/v1/frame").unwrap();
            for name in &names {
                client.send_bytes(Method::DELETE, &format!("/v1/vms/{name}?force=true"), None).unwrap();
            }
        }
    };
    let all = || std::thread::scope(|scope| (0..CLIENTS).for_each(|n| drop(scope.spawn(move || client(n)))));
    all();
    let first = holdings(node.process.id());
    all();
    // Connections are closed a moment after their answers.
    node.wait_for(|node| {
        let now = holdings(node.process.id());
        now.0 <= first.0 && now.1 <= first.1
    });
    assert_eq!(node.client.get::<Vec<VmInfo>>("/v1/vms").unwrap().len(), 1);
}

/// Sends these bytes, and returns the first line of the answer.
fn raw(socket: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("it is a span");
    // The node may have hung up by then.
    let _ = stream.write_all(bytes);
    let mut line = String::new();
    let _ = BufReader::new(stream).read_line(&mut line);
    line
}

#[test]
fn requests_that_make_no_sense_are_refused_and_the_node_goes_on() {
    let _ = require_kvm!();
    let node = Node::start(&[]);
    let socket = node.socket();
    let head = |length: usize| {
        format!(
            "POST /v1/vms HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    for (bytes, status) in [
        (b"\0\0\0\0\r\n\r\n".to_vec(), "400"),
        (b"GET /nothing HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(), "404"),
        (b"BREW /v1/vms HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(), "405"),
        ([head(2).as_bytes(), b"{]"].concat(), "400"),
        ([head(5).as_bytes(), b"[1,2]"].concat(), "400"),
        (head(1 << 30).into_bytes(), "413"),
        (format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "x".repeat(1 << 20)).into_bytes(), "4"),
    ] {
        let answer = raw(&socket, &bytes);
        let told = answer.strip_prefix("HTTP/1.1 ").unwrap_or_default();
        assert!(told.starts_with(status), "{status} expected: {answer:?}");
    }
    // A body is read to its end, also where what is before it is wrong already.
    let wrong_query = head(20_000).replace("/v1/vms", "/v1/vms?dry_run=-1");
    let mut slow = UnixStream::connect(&socket).unwrap();
    slow.write_all(&[wrong_query.as_bytes(), &[b' '; 10_000]].concat()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    slow.write_all(&[b' '; 10_000]).expect("the node reads on");
    let mut line = String::new();
    BufReader::new(slow).read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 400"), "{line:?}");
    // Half a request, and a client that goes in the midst of a stream.
    let halves: Vec<UnixStream> = (0..50)
        .map(|n| {
            let mut stream = UnixStream::connect(&socket).unwrap();
            let text: &[u8] = if n % 2 == 0 { b"GET /v1/fra" } else { b"GET /v1/frames HTTP/1.1\r\nhost: a\r\n\r\n" };
            stream.write_all(text).unwrap();
            stream
        })
        .collect();
    drop(halves);
    let _: NodeInfo = node.client.get("/v1").unwrap();
    assert_eq!(node.end(), Some(0));
}

#[test]
fn ten_thousand_connections_are_taken_or_told_so_and_the_first_ones_go_on() {
    let _ = require_kvm!();
    const CONNECTIONS: u64 = 10_000;
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    if most < CONNECTIONS + 200 {
        return eprintln!(
            "skipped: this process may have {most} descriptors, and the test needs {CONNECTIONS} and more"
        );
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(CONNECTIONS + 200), ..limit }).unwrap();
    let node = Node::start(&[]);
    node.create(hog("a"));
    let (socket, before) = (node.socket(), holdings(node.process.id()));
    let mut all: Vec<UnixStream> = (0..CONNECTIONS).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    // The last ones are beyond the node's bound.
    for stream in all.iter_mut().rev().take(100) {
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 503");
    }
    assert!(holdings(node.process.id()).1 <= before.1 + 600, "{:?}, before {before:?}", holdings(node.process.id()));
    let first = &mut all[0];
    first.write_all(b"GET /v1 HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    first.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    drop(all);
    node.wait_for(|node| node.client.get::<NodeInfo>("/v1").is_ok());
    node.wait_for(|node| holdings(node.process.id()).1 <= before.1);
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
