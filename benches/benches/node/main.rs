//! What a node's API takes: the time of requests while guests want more than both pCPUs, what stays of VMs that come
//! and go, how long changes of pCPUs and policy take, and what guests lose of their CPU time while the API is in use.
//! `scripts/node-load` runs it.

mod changes;
mod node;
mod requests;

use node::{Node, Work};
use requests::{Clients, Done};
use std::process::ExitCode;
use std::time::Duration;
use stile_benches::{Limit, Promise, tell};
use stile_tests::process::Holdings;

/// Parts that can be run alone.
const PARTS: [&str; 3] = ["requests", "changes", "guests"];
/// Limit of the 99th percentile of a request (unit: ms).
const P99: f64 = 50.0;
/// Limit of what guests keep of their throughput.
const KEPT: f64 = 0.98;
/// Requests a second of all clients, while guests are compared.
const RATES: [u32; 4] = [25, 50, 100, 200];

fn main() -> ExitCode {
    if stile_tests::kvm().is_none() {
        return ExitCode::SUCCESS;
    }
    let given: Vec<String> = std::env::args().collect();
    let is_given = |word: &str| given.iter().any(|argument| argument == word);
    let is_wanted = |part: &str| is_given(part) || !PARTS.iter().any(|part| is_given(part));
    let quick = is_given("--quick");
    let mut promises = Vec::new();
    let node = Node::start();
    if is_wanted(PARTS[0]) {
        let (rounds, count) = if quick { (2, 1_000) } else { (4, 10_000) };
        promises.extend(come_and_go(&node, rounds, count));
    }
    if is_wanted(PARTS[1]) {
        promises.extend(changes::measure(node.client(), if quick { 10 } else { 100 }));
    }
    if is_wanted(PARTS[2]) {
        let (pairs, window) = if quick { (2, 1) } else { (25, 3) };
        let asked: Vec<u32> = given.iter().filter_map(|argument| argument.parse().ok()).collect();
        let rates = if asked.is_empty() { &RATES[..] } else { &asked };
        rates.iter().for_each(|&rate| promises.extend(kept(&node, rate, pairs, Duration::from_secs(window))));
    }
    node.end();
    tell(&promises)
}

/// Clients make VMs come and go, as fast as they are answered. After the first round nothing may stay of one.
fn come_and_go(node: &Node, rounds: usize, count: u64) -> Vec<Promise> {
    let clients = Clients::of(node.socket());
    let (mut p99, mut first) = (Vec::new(), None);
    for round in 0..rounds {
        let (before, used) = (node.work(), node.control_time());
        let Done { times, seconds } = clients.run(count);
        let cost = (node.control_time() - used) / times.len() as f64;
        let cpus = (node.work().cpu - before.cpu) / seconds;
        let quantile = |part: f64| times[(part * (times.len() - 1) as f64) as usize] * 1e3;
        let now = node.settled(first.as_ref());
        println!(
            "round {round}: {} requests in {seconds:.1} s; median {:.1}, p99 {:.1}, longest {:.1} ms; {:.2} ms of CPU time \
             in the API's threads for each; guests used {cpus:.2} CPUs; then {now}",
            times.len(),
            quantile(0.5),
            quantile(0.99),
            quantile(1.0),
            cost * 1e3,
        );
        p99.push(quantile(0.99));
        first.get_or_insert(now);
    }
    let last = node.settled(first.as_ref());
    let first: Holdings = first.unwrap_or_default();
    let grown = last.threads.saturating_sub(first.threads) + last.descriptors.saturating_sub(first.descriptors);
    let what = "p99 of a request, 16 clients, 208 VMs that come and go".to_owned();
    let stays = "threads and descriptors that stay".to_owned();
    vec![
        Promise { what, unit: "ms", samples: p99, limit: Limit::Below(P99) },
        Promise { what: stays, unit: "", samples: vec![grown as f64], limit: Limit::Below(1.0) },
    ]
}

/// What guests do in a window in which clients ask so often, to what they do in one without, in turn.
fn kept(node: &Node, rate: u32, pairs: usize, window: Duration) -> Vec<Promise> {
    let clients = Clients::of(node.socket());
    let quiet = || node.work_in(|| std::thread::sleep(window));
    let busy = || node.work_in(|| clients.run_for(window, rate));
    let mut ratios: Vec<[f64; 2]> = Vec::new();
    // The first window of each is for caches and memory.
    let _ = (quiet(), busy());
    for pair in 0..pairs {
        let (with, without) = if pair % 2 == 0 {
            let with = busy();
            (with, quiet())
        } else {
            let without = quiet();
            (busy(), without)
        };
        let Work { cpu, messages } = with;
        ratios.push([cpu / without.cpu, messages / without.messages]);
    }
    let promise = |what: &str, of: usize| Promise {
        what: format!("{what} with {rate} requests/s to that without"),
        unit: "",
        samples: ratios.iter().map(|ratio| ratio[of]).collect(),
        limit: Limit::AtLeast(KEPT),
    };
    vec![promise("guests' CPU time", 0), promise("netbench's messages", 1)]
}
