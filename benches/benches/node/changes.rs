//! Changes of a node's pCPUs and of its policy, while guests want more than both pCPUs.

use hyper::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use stile_api::Change;
use stile_benches::{Limit, Promise};
use stile_client::Client;

/// Limit of a change: a pCPU is given up when it is answered (unit: ms).
const LIMIT: f64 = 50.0;
/// Guests run between two changes, longer than a rotation of theirs takes.
const BETWEEN: Duration = Duration::from_millis(50);

/// Makes each change this many times, one after the other.
pub(crate) fn measure(client: &Client, rounds: usize) -> Vec<Promise> {
    let policy = |name| ("/v1/policy", json!({ "policy": name }));
    let pcpus = |pcpus: &[u32]| ("/v1/pcpus", json!({ "pcpus": pcpus }));
    let changes = [
        ("2 pCPUs to 1", pcpus(&[0])),
        ("1 pCPU to 2", pcpus(&[0, 1])),
        ("rsdl to o1", policy("o1")),
        ("o1 to credit2", policy("credit2")),
        ("credit2 to host", policy("host")),
        ("host to rsdl", policy("rsdl")),
    ];
    let mut took = changes.each_ref().map(|_| Vec::new());
    let mut stood = took.clone();
    for _ in 0..rounds {
        for (kind, (_, (target, body))) in changes.iter().enumerate() {
            std::thread::sleep(BETWEEN);
            let from = Instant::now();
            let change = ask(client, target, body);
            took[kind].push(from.elapsed().as_secs_f64() * 1e3);
            stood[kind].push(change.seconds * 1e3);
        }
    }
    let promise = |what: String, samples| Promise { what, unit: "ms", samples, limit: Limit::Below(LIMIT) };
    let promises = changes.iter().zip(took).zip(stood).flat_map(|(((what, _), took), stood)| {
        [promise(format!("{what}: the request"), took), promise(format!("{what}: no vCPU ran"), stood)]
    });
    promises.collect()
}

fn ask(client: &Client, target: &str, body: &Value) -> Change {
    client.send(Method::PUT, target, Some(body)).unwrap_or_else(|error| panic!("{target} {body}: {error}"))
}
