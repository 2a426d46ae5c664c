//! A cell of netbench: client VMs, each with a server VM of its own, as a file server has a process for each connection;
//! and meanwhile new VMs are started, to see how long a newcomer waits.

use super::cell::{Measured, Measurement};
use super::metrics::{activity, detail, fairness, latency, ops_rate};
use super::plan::WARM_UP;
use super::runner::CompareError;
use super::site::Site;
use super::window::{Reading, VcpuCounts, Window};
use crate::net::{PortNumber, Switch};
use crate::report::metric::Metric;
use crate::vm::console::Sink;
use crate::vm::{Spec, Vm};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stile_sched::domain::Attributes;
use stile_sched::time::monotonic;

/// Memory of a client or server (units: bytes).
const MEMORY: u64 = 6 << 20;
/// New VMs started during a window.
pub(super) const STARTS: u32 = 5;
/// A start that takes longer is given up and counts as this long (the source of this suite saw two minutes).
const START_LIMIT: Duration = Duration::from_secs(10);
/// How often a start is looked at; its own time stamp is exact.
const LOOK_EVERY: Duration = Duration::from_millis(1);

pub(super) fn measure(site: &Site<'_>) -> Result<Measured, CompareError> {
    let bench = Bench { site, switch: Switch::new() };
    let size = site.planned.case.size;
    let (servers, clients) = bench.pairs(size)?;
    servers.iter().chain(&clients).for_each(Vm::start);
    if !site.sleep(WARM_UP) {
        return Ok(None);
    }
    let measured: Vec<&Vm> = clients.iter().chain(&servers).collect();
    let (before, dropped) = (Reading::take(&measured, &*site.domain), bench.dropped());
    let Some(starts) = bench.starts(site.planned.window)? else { return Ok(None) };
    let window = before.until(&Reading::take(&measured, &*site.domain));
    let dropped = bench.dropped() - dropped;
    measured.iter().try_for_each(|vm| site.still_runs(vm))?;
    site.audit(&window)?;
    let mut detail = detail(&window);
    detail["start_latency_us"] = json!(starts);
    detail["clients"] = json!(size);
    Ok(Measurement::only(values(&window, size as usize, dropped, &starts), detail))
}

/// The metrics, for a window of the clients first and their servers then.
pub(super) fn values(window: &Window, clients: usize, dropped: u64, starts: &[f64]) -> BTreeMap<Metric, f64> {
    let clients: Vec<&VcpuCounts> = window.vcpus[..clients].iter().collect();
    let sum = |of: fn(&VcpuCounts) -> u64| clients.iter().map(|v| of(v)).sum::<u64>() as f64;
    let mut values = activity(window);
    values.insert(Metric::Throughput, sum(|v| v.bytes) * 8.0 / 1e6 / window.seconds);
    values.insert(Metric::OpsPerS, ops_rate(&clients, window.seconds));
    values.insert(Metric::ClientErrors, sum(|v| v.errors));
    values.insert(Metric::DroppedFrames, dropped as f64);
    values.extend(starts.iter().copied().reduce(f64::max).map(|max| (Metric::StartLatencyMax, max)));
    fairness(&clients, &mut values);
    latency(&clients, &mut values);
    values
}

struct Bench<'a> {
    site: &'a Site<'a>,
    switch: Arc<Switch>,
}

impl Bench<'_> {
    /// Servers and their clients, none running yet. Ports are numbered from 1: servers odd, clients even.
    fn pairs(&self, clients: u32) -> Result<(Vec<Vm>, Vec<Vm>), CompareError> {
        let mut pairs = (Vec::new(), Vec::new());
        for n in 0..clients {
            let port = |odd: u32| PortNumber::new((2 * n + odd) as u16).expect("at most 500 clients");
            let (server, client) = (port(1), port(2));
            let seed = self.site.context.options.seed + u64::from(n);
            pairs.0.push(self.guest("netbench-server", &format!("server-{n}"), Some(server), "")?);
            let line = format!("server={} seed={seed}", server.ip());
            pairs.1.push(self.guest("netbench-client", &format!("client-{n}"), Some(client), &line)?);
        }
        Ok(pairs)
    }

    fn guest(&self, image: &str, name: &str, port: Option<PortNumber>, line: &str) -> Result<Vm, CompareError> {
        let spec = Spec {
            name,
            image: stile_guest_images::image(image).expect("the suites run built-in images"),
            vcpus: 1,
            memory: MEMORY,
            attributes: Attributes::default(),
            cmdline: line,
            console: Sink::Terminal,
            device: None,
        };
        self.site.create(&spec, port.map(|port| (&self.switch, port)))
    }

    fn dropped(&self) -> u64 {
        self.switch.total().drops.total()
    }

    /// The window: starts a VM at the beginning of each of its parts. Times from asking for the VM until its code runs
    /// (units: us); `None` if the user ended the run.
    fn starts(&self, window: Duration) -> Result<Option<Vec<f64>>, CompareError> {
        let mut times = Vec::new();
        let (begin, part) = (Instant::now(), window / STARTS);
        for n in 0..STARTS {
            times.push(self.start()?);
            let next = begin + part * (n + 1);
            if !self.site.sleep(next.saturating_duration_since(Instant::now())) {
                return Ok(None);
            }
        }
        Ok(Some(times))
    }

    fn start(&self) -> Result<f64, CompareError> {
        let asked = monotonic();
        let vm = self.guest("hello", "newcomer", None, "console=none")?;
        vm.start();
        let begin = Instant::now();
        while vm.state().started().is_none() && begin.elapsed() < START_LIMIT {
            std::thread::sleep(LOOK_EVERY);
        }
        let ran = vm.state().started().unwrap_or_else(monotonic);
        Ok(ran.since(asked).0 as f64 / 1000.0)
    }
}
