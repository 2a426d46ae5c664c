//! A cell of netbench: client VMs, each with a server VM of its own, as a file server has a process for each
//! connection. Meanwhile new VMs are started, to measure how long they wait.
//!
//! The ramp-up (clients connect, caches fill) and the ramp-down are not measured. Clients go on for a moment after the
//! window's second reading, so that no client leaves within the window. New VMs that have not begun by then are waited
//! for while clients still work.
//!
//! With affinity there is a domain for each pCPU, and a client, its server and the frames between them stay in one.

pub(crate) mod step;

use super::site::Site;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::plan::{RAMP_DOWN, WARM_UP};
use crate::window::metrics::{activity, detail, fairness, latency, operations, ops_of};
use crate::window::{Reading, VcpuCounts, Window, errors};
use crate::workload::spec;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use step::Step;
use stile_machine::devices::net::{PortNumber, Switch};
use stile_machine::unikernel::{Spec, Vm};
use stile_machine::vm::console::Sink;
use stile_sched::time::monotonic;
use stile_sched::{Nanos, Time};
use stile_suites::metric::{Metric, START_GIVEN_UP};

/// Memory of a client or server (units: bytes).
const MEMORY: u64 = 6 << 20;
/// New VMs started during a window.
pub(crate) const STARTS: u32 = 5;
/// The time limit for a start.
const START_LIMIT: Duration = Duration::from_micros(START_GIVEN_UP as u64);
/// The longest extra time of the ramp-up, if a client has not sent its first request.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Measures on one site, or on several with a part of the clients each.
pub(crate) fn measure(sites: &[Site<'_>], step: Option<&Step>) -> Result<Measured, CompareError> {
    let Some(first) = sites.first() else { return Ok(None) };
    let (planned, bench) = (first.planned, Bench { sites, step, switch: Switch::new() });
    let size = planned.case.size;
    let parts = bench.parts(size)?;
    // Servers start first: a client that finds no server waits before it tries again.
    parts.iter().flat_map(|part| &part.servers).for_each(|vm| vm.start());
    parts.iter().flat_map(|part| &part.clients).for_each(|vm| vm.start());
    let connected = || parts.iter().flat_map(|part| &part.clients).all(|client| client.state().ready().is_some());
    if !(first.sleep(WARM_UP) && until(first, Instant::now() + CONNECT_LIMIT, connected)?) {
        return Ok(None);
    }
    let (before, dropped) = (bench.read(&parts), bench.dropped());
    let Some(newcomers) = bench.newcomers(planned.window)? else { return Ok(None) };
    let (after, dropped) = (bench.read(&parts), bench.dropped() - dropped);
    let begun = || newcomers.iter().all(|(_, vm)| vm.state().started().is_some());
    if !(first.sleep(RAMP_DOWN) && until(first, Instant::now() + START_LIMIT, begun)?) {
        return Ok(None);
    }
    let starts: Vec<f64> = newcomers.iter().map(|(asked, vm)| latency_of(*asked, vm)).collect();
    let mut windows = Vec::new();
    for (part, (before, after)) in parts.iter().zip(before.iter().zip(&after)) {
        let window = before.until(after);
        part.vms().try_for_each(|vm| part.site.still_runs(vm))?;
        part.site.audit(&window)?;
        windows.push(window);
    }
    let window = clients_first(windows, &parts);
    let mut detail = detail(&window);
    detail["start_latency_us"] = json!(starts);
    detail["clients"] = json!(size);
    let mut values = values(&window, size as usize, dropped, &starts);
    // An error takes longer to be noticed than most windows last, so errors outside the window count as well.
    let errors = errors(parts.iter().flat_map(|part| &part.clients));
    values.insert(Metric::ClientErrors, errors as f64);
    Ok(Measurement::only(values, detail))
}

/// Waits until `is` holds, or until this moment. Returns false if the user ended the run.
fn until(site: &Site<'_>, limit: Instant, is_so: impl Fn() -> bool) -> Result<bool, CompareError> {
    let looked = site.look(|| Ok((is_so() || Instant::now() >= limit).then_some(())))?;
    Ok(looked.is_some())
}

/// From asking for a new VM until its code ran (units: us), limited by the time for which it is waited for.
fn latency_of(asked: Time, newcomer: &Vm) -> f64 {
    let ran = newcomer.state().started().unwrap_or_else(monotonic);
    ran.since(asked).min(Nanos::from(START_LIMIT)).0 as f64 / 1000.0
}

/// The windows of all sites as one: the clients of all, then the servers of all.
fn clients_first(windows: Vec<Window>, parts: &[Part<'_>]) -> Window {
    let (clients, servers): (Vec<_>, Vec<_>) = windows
        .into_iter()
        .zip(parts)
        .map(|(mut window, part)| {
            let servers = window.vcpus.split_off(part.clients.len());
            (window, servers)
        })
        .unzip();
    let mut all = Window::join(clients);
    all.vcpus.extend(servers.into_iter().flatten());
    all
}

/// The metrics of a window in which the clients come first and their servers then.
pub(crate) fn values(window: &Window, clients: usize, dropped: u64, starts: &[f64]) -> BTreeMap<Metric, f64> {
    let clients: Vec<&VcpuCounts> = window.vcpus[..clients].iter().collect();
    let sum = |of: fn(&VcpuCounts) -> u64| clients.iter().map(|v| of(v)).sum::<u64>() as f64;
    let mut values = activity(window);
    values.insert(Metric::Throughput, sum(|v| v.bytes) * 8.0 / 1e6 / window.seconds);
    // A server's vCPU takes part in each of its client's requests.
    let all: Vec<&VcpuCounts> = window.vcpus.iter().collect();
    values.extend(operations(ops_of(&clients), window.seconds, &all));
    values.insert(Metric::ClientErrors, sum(|v| v.errors));
    values.insert(Metric::DroppedFrames, dropped as f64);
    values.extend(starts.iter().copied().reduce(f64::max).map(|max| (Metric::StartLatencyMax, max)));
    fairness(&clients, &mut values);
    latency(&clients, &mut values);
    values
}

/// The role of a VM in the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Server,
    Client,
    /// It is started during the window, and does nothing.
    Newcomer,
}

impl Role {
    const ALL: [Self; 3] = [Self::Server, Self::Client, Self::Newcomer];

    fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::Newcomer => "newcomer",
        }
    }

    /// The name of the VM with this number.
    fn guest(self, n: u32) -> String {
        format!("{}-{n}", self.name())
    }

    fn image(self) -> &'static str {
        match self {
            Self::Server => "netbench-server",
            Self::Client => "netbench-client",
            Self::Newcomer => "hello",
        }
    }
}

/// The VMs of one site.
struct Part<'a> {
    site: &'a Site<'a>,
    clients: Vec<Vm>,
    servers: Vec<Vm>,
}

impl Part<'_> {
    /// The clients first.
    fn vms(&self) -> impl Iterator<Item = &Vm> {
        self.clients.iter().chain(&self.servers)
    }
}

struct Bench<'a> {
    sites: &'a [Site<'a>],
    step: Option<&'a Step>,
    switch: Arc<Switch>,
}

impl<'a> Bench<'a> {
    /// Makes servers and their clients, which do not run yet. Ports are numbered from 1: servers odd, clients even.
    fn parts(&self, clients: u32) -> Result<Vec<Part<'a>>, CompareError> {
        let part = |site| Part { site, clients: Vec::new(), servers: Vec::new() };
        let mut parts: Vec<Part<'_>> = self.sites.iter().map(part).collect();
        for n in 0..clients {
            let Part { site, clients, servers } = &mut parts[n as usize % self.sites.len()];
            let port = |odd: u32| PortNumber::new((2 * n + odd) as u16).expect("at most 500 clients");
            let (server, client) = (port(1), port(2));
            let seed = site.context.options.seed + u64::from(n);
            servers.push(self.guest(site, (Role::Server, n), Some(server), "")?);
            let line = format!("server={} seed={seed}", server.ip());
            clients.push(self.guest(site, (Role::Client, n), Some(client), &line)?);
        }
        Ok(parts)
    }

    fn guest(
        &self,
        site: &Site<'_>,
        (role, n): (Role, u32),
        port: Option<PortNumber>,
        line: &str,
    ) -> Result<Vm, CompareError> {
        let name = role.guest(n);
        let console = self.step.map_or(Sink::Terminal, |step| step.console(&name));
        let spec = Spec { console, ..spec(role.image(), &name, MEMORY, line) };
        site.create(&spec, port.map(|port| (&self.switch, port)))
    }

    fn read(&self, parts: &[Part<'_>]) -> Vec<Reading> {
        let read = |part: &Part<'_>| Reading::take(&part.vms().collect::<Vec<_>>(), &*part.site.domain);
        parts.iter().map(read).collect()
    }

    fn dropped(&self) -> u64 {
        self.switch.total().drops.total()
    }

    /// The window. A new VM is started at the beginning of each of its parts, on one site after the other. Returns each
    /// with the time at which it was asked for; `None` if the user ended the run.
    fn newcomers(&self, window: Duration) -> Result<Option<Vec<(Time, Vm)>>, CompareError> {
        let mut newcomers = Vec::new();
        let (begin, part) = (Instant::now(), window / STARTS);
        for (n, site) in (0..STARTS).zip(self.sites.iter().cycle()) {
            let asked = monotonic();
            let vm = self.guest(site, (Role::Newcomer, n), None, "console=none")?;
            vm.start();
            newcomers.push((asked, vm));
            let next = begin + part * (n + 1);
            if !site.sleep(next.saturating_duration_since(Instant::now())) {
                return Ok(None);
            }
        }
        Ok(Some(newcomers))
    }
}
