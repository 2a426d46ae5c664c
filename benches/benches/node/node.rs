//! A node with guests that want more than both pCPUs, in a process of its own.

use std::fs;
use std::io::BufRead;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use stile_api::Frame;
use stile_client::Client;
use stile_tests::process::{Holdings, listening};
use tempfile::TempDir;

/// Guests: two pairs that exchange messages, and two that compute.
const GUESTS: &str = r#"
[[vm]]
name = "server-a"
image = "builtin:netbench-server"
network = "a"
[[vm]]
name = "client-a"
image = "builtin:netbench-client"
network = "a"
cmdline = "server=10.0.0.1"
[[vm]]
name = "server-b"
image = "builtin:netbench-server"
network = "b"
[[vm]]
name = "client-b"
image = "builtin:netbench-client"
network = "b"
cmdline = "server=10.0.0.1"
[[vm]]
name = "hog-a"
image = "builtin:hog"
[[vm]]
name = "hog-b"
image = "builtin:hog"
"#;
/// Until guests have found each other.
const WARM_UP: Duration = Duration::from_secs(1);
/// Until connections and VMs that have ended leave nothing.
const SETTLE: Duration = Duration::from_secs(20);

/// A node. It is ended, and waited for, when this is dropped.
pub(crate) struct Node {
    folder: TempDir,
    process: Child,
    client: Client,
}

/// What the guests have done: CPU time (unit: s), and netbench's messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    pub(crate) cpu: f64,
    pub(crate) messages: f64,
}

impl Node {
    /// The program is the one that the environment names as `STILE`.
    pub(crate) fn start() -> Self {
        let program = std::env::var_os("STILE").expect("STILE names the program; scripts/node-load sets it");
        let folder = TempDir::new().expect("there is room for temporary files");
        fs::write(folder.path().join("node.toml"), GUESTS).expect("as above");
        let mut command = Command::new(program);
        command.args(["serve", "--socket", "node.sock", "node.toml"]).current_dir(folder.path());
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut process = process.expect("STILE is a program");
        let told = listening(&mut process);
        // What it tells later must not fill the pipe.
        std::thread::spawn(move || told.lines().map_while(Result::ok).for_each(|line| eprintln!("{line}")));
        let client = Client::new(&folder.path().join("node.sock")).expect("this process may have a client");
        std::thread::sleep(WARM_UP);
        Self { folder, process, client }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("node.sock")
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Ends it as a user does.
    pub(crate) fn end(mut self) {
        self.terminate();
        let code = self.process.wait().expect("it was started").code();
        assert_eq!(code, Some(0), "the node failed");
    }

    fn terminate(&self) {
        let id = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }

    /// What its own guests have done. Exits of a client are a measure of its messages.
    pub(crate) fn work(&self) -> Work {
        let frame: Frame = self.client.get("/v1/frame").expect("a frame is always there");
        let own = frame.vms.iter().filter(|vm| GUESTS.contains(&format!("\"{}\"", vm.name)));
        let (mut cpu, mut messages) = (0.0, 0.0);
        for vm in own {
            cpu += vm.figures.run_seconds;
            messages += if vm.name.starts_with("client") { vm.figures.exits as f64 } else { 0.0 };
        }
        Work { cpu, messages }
    }

    /// What they do meanwhile, in a second.
    pub(crate) fn work_in(&self, meanwhile: impl FnOnce()) -> Work {
        let (from, before) = (Instant::now(), self.work());
        meanwhile();
        let (now, seconds) = (self.work(), from.elapsed().as_secs_f64());
        Work { cpu: (now.cpu - before.cpu) / seconds, messages: (now.messages - before.messages) / seconds }
    }

    /// CPU time of its threads but those that carry vCPUs or do the work of devices (unit: s).
    pub(crate) fn control_time(&self) -> f64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process.id())).expect("it runs");
        let of = |task: PathBuf| -> Option<f64> {
            let name = fs::read_to_string(task.join("comm")).ok()?;
            let control = ["api", "stile", "keeper", "freer"].iter().any(|kind| name.trim().starts_with(kind));
            let used = fs::read_to_string(task.join("schedstat")).ok()?;
            control.then(|| used.split(' ').next()?.parse::<f64>().ok()).flatten()
        };
        tasks.filter_map(|task| of(task.ok()?.path())).sum::<f64>() / 1e9
    }

    /// What it holds, once it holds no more threads and descriptors than this, or when it has had the time. Without
    /// `at_most`: a moment later.
    pub(crate) fn settled(&self, at_most: Option<&Holdings>) -> Holdings {
        let Some(most) = at_most else {
            std::thread::sleep(WARM_UP);
            return self.holdings();
        };
        let until = Instant::now() + SETTLE;
        loop {
            let now = self.holdings();
            let settled = now.threads <= most.threads && now.descriptors <= most.descriptors;
            if settled || Instant::now() > until {
                return now;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn holdings(&self) -> Holdings {
        Holdings::of(self.process.id())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.terminate();
        let _ = self.process.wait();
    }
}
