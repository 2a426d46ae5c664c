//! A node that runs beside a test, and the guests that tests give it.

use crate::program::{folder, stile};
use hyper::Method;
use serde_json::{Value, json};
use std::io::BufRead;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stile_api::{Problem, VmDetails, VmInfo};
use stile_client::{Client, ClientError};
use stile_tests::process::listening;
use tempfile::TempDir;

/// Much longer than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A node in a folder of its own. It is ended, and waited for, when this is dropped.
pub(crate) struct Node {
    pub(crate) folder: TempDir,
    pub(crate) process: Child,
    pub(crate) client: Client,
    /// What it has printed on standard error since it listens.
    log: Arc<Mutex<String>>,
    listener: Option<JoinHandle<()>>,
}

impl Node {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_in(folder(""), arguments)
    }

    pub(crate) fn start_in(folder: TempDir, arguments: &[&str]) -> Self {
        let socket = folder.path().join("node.sock");
        let mut command = stile(folder.path(), &["serve", "--socket", "node.sock"]);
        let process = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut process = process.expect("cargo built the program");
        let told = listening(&mut process);
        // What it tells later must not fill the pipe.
        let log = Arc::<Mutex<String>>::default();
        let lines = Arc::clone(&log);
        let listener = std::thread::spawn(move || {
            told.lines()
                .map_while(Result::ok)
                .for_each(|line| lines.lock().expect("nobody panics with it").extend([line, "\n".to_owned()]))
        });
        let client = Client::new(&socket).expect("this process may have a client");
        Self { folder, process, client, log, listener: Some(listener) }
    }

    pub(crate) fn told(&self) -> String {
        self.log.lock().expect("nobody panics with it").clone()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("node.sock")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = stile(self.folder.path(), arguments);
        command.env("STILE_SOCKET", self.socket());
        command
    }

    pub(crate) fn create(&self, vm: Value) {
        let _: VmInfo = self.client.send(Method::POST, "/v1/vms?start=true", Some(&vm)).expect("it is a VM");
    }

    pub(crate) fn vm(&self, name: &str) -> VmDetails {
        self.client.get(&format!("/v1/vms/{name}")).expect("there is one")
    }

    pub(crate) fn wait_for(&self, what: impl Fn(&Self) -> bool) {
        let until = Instant::now() + LONG;
        while !what(self) {
            assert!(Instant::now() < until, "it does not come");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it as a user does. Returns its exit code. No thread of it has panicked.
    pub(crate) fn end(self) -> Option<i32> {
        self.terminate();
        self.ended()
    }

    /// Waits for its end, which it was told of. To tell it once more would end it without its VMs' leave. Returns its
    /// exit code. No thread of it has panicked.
    pub(crate) fn ended(mut self) -> Option<i32> {
        let code = self.process.wait().expect("it was started").code();
        let _ = self.listener.take().map(JoinHandle::join);
        assert!(!self.told().contains("panicked"), "{}", self.told());
        code
    }

    /// Tells it to end.
    pub(crate) fn terminate(&self) {
        let id = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Another process may have its id once it was waited for.
        if let Ok(None) = self.process.try_wait() {
            self.terminate();
            let _ = self.process.wait();
        }
    }
}

pub(crate) fn problem<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> Problem {
    match answer {
        Err(ClientError::Problem(problem)) => problem,
        other => panic!("a problem was expected: {other:?}"),
    }
}

pub(crate) fn hog(name: &str) -> Value {
    json!({ "name": name, "image": "builtin:hog" })
}

/// 24 vCPUs: six netbench pairs, eight that take a lock in turn, and four probes.
pub(crate) fn guests(node: &Node) {
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
