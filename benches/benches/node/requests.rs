//! Clients, each with some VMs of its own, which it creates, starts, looks at, pauses, resumes, stops and deletes.

use hyper::Method;
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stile_api::{VmDetails, VmInfo};
use stile_client::{Client, ClientError};

/// Clients at once.
const CLIENTS: usize = 16;
/// VMs of a client.
const VMS: usize = 13;
/// What is done with a VM, from its creation to its deletion.
const STEPS: [&str; 7] = ["create", "start", "inspect", "pause", "resume", "stop?mode=hard", "delete"];

/// The clients of a socket.
pub(crate) struct Clients {
    socket: PathBuf,
}

/// What was done.
pub(crate) struct Done {
    /// How long each request took, in ascending order (unit: s).
    pub(crate) times: Vec<f64>,
    /// How long all took together (unit: s).
    pub(crate) seconds: f64,
}

impl Clients {
    pub(crate) fn of(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// At least so many requests, as fast as they are answered. No VM stays.
    pub(crate) fn run(&self, count: u64) -> Done {
        let asked = AtomicU64::new(0);
        let from = Instant::now();
        let mut times = self.all(|client| {
            let mut times = Vec::new();
            while asked.load(Ordering::Relaxed) < count {
                for step in STEPS {
                    client.for_all(step, |took| times.push(took.as_secs_f64()));
                    asked.fetch_add(VMS as u64, Ordering::Relaxed);
                }
            }
            times
        });
        times.sort_by(f64::total_cmp);
        Done { times, seconds: from.elapsed().as_secs_f64() }
    }

    /// Requests at this rate (unit: requests/s, of all clients) for so long. VMs that are left are deleted.
    pub(crate) fn run_for(&self, window: Duration, rate: u32) {
        let pause = Duration::from_secs(CLIENTS as u64) / rate;
        let until = Instant::now() + window;
        self.all(|client| {
            let mut next = Instant::now() + pause.mul_f64(client.number as f64 / CLIENTS as f64);
            // One VM after the other, so that most of them are only asked for.
            'vms: for vm in (0..VMS).cycle() {
                for step in STEPS {
                    if next >= until {
                        client.leave(vm);
                        break 'vms;
                    }
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                    client.ask(step, vm).unwrap_or_else(|e| panic!("{step}: {e}"));
                    next += pause;
                }
            }
            Vec::new()
        });
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }

    fn all(&self, work: impl Fn(&OneClient) -> Vec<f64> + Sync) -> Vec<f64> {
        std::thread::scope(|scope| {
            let one = |number| {
                let work = &work;
                scope.spawn(move || {
                    let client = Client::new(&self.socket).expect("this process may have a client");
                    work(&OneClient { number, client })
                })
            };
            let threads: Vec<_> = (0..CLIENTS).map(one).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("a client has no error")).collect()
        })
    }
}

struct OneClient {
    number: usize,
    client: Client,
}

impl OneClient {
    fn for_all(&self, step: &str, mut tell: impl FnMut(Duration)) {
        for vm in 0..VMS {
            let from = Instant::now();
            self.ask(step, vm).unwrap_or_else(|e| panic!("{step}: {e}"));
            tell(from.elapsed());
        }
    }

    fn ask(&self, step: &str, vm: usize) -> Result<(), ClientError> {
        let name = format!("load-{}-{vm}", self.number);
        let target = format!("/v1/vms/{name}");
        match step {
            "create" => {
                // It sleeps almost all the time, so that it takes no CPU time from the guests that are looked at.
                let cmdline = "period_us=1000000 work_us=0";
                let vm = json!({ "name": name, "image": "builtin:probe", "memory": "8M", "cmdline": cmdline });
                self.client.send::<VmInfo>(Method::POST, "/v1/vms", Some(&vm)).map(drop)
            }
            "inspect" => self.client.get::<VmDetails>(&target).map(drop),
            "delete" => self.client.send_bytes(Method::DELETE, &target, None),
            change => self.client.post::<VmInfo>(&format!("{target}/{change}")).map(drop),
        }
    }

    /// Deletes the VM if it is there.
    fn leave(&self, vm: usize) {
        let _ = self.client.send_bytes(Method::DELETE, &format!("/v1/vms/load-{}-{vm}?force=true", self.number), None);
    }
}
