//! tbench between two Linux guests on the switch inside the process: the clients in one of them, their servers in the
//! other. The window is the program's whole time. The figures are those that the program prints.

use super::lab::{Guest, Lab, PATIENCE};
use crate::cells::site::Site;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::plan::linux::Linux;
use crate::window::metrics::{activity, detail};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use stile_machine::devices::net::{PortNumber, Switch};
use stile_suites::Metric;

/// The first second of the program is its warm-up (unit: s).
const WARM_UP: u64 = 1;
/// The time limit for a client to find its server (unit: s).
const FIND_SERVER: u64 = 120;
/// The time limit for a server to listen (unit: s); it reports nothing when it does.
const LISTENS_WITHIN: f64 = 0.5;
/// The lines of the program's output that an error quotes if it has measured nothing.
const LAST_LINES: usize = 4;

pub(crate) fn measure(site: &Site<'_>, linux: &Linux) -> Result<Measured, CompareError> {
    let clients = site.planned.case.size;
    let seconds = site.planned.window.as_secs_f64().ceil().max(1.0) as u64 + WARM_UP;
    let (lab, switch) = (Lab::new(site, linux, 2), Switch::new());
    let port = |number| PortNumber::new(number).expect("1 and 2 are ports");
    let (of_server, of_client) = (port(1), port(2));
    let up = |port: PortNumber| format!("ip addr add {}/16 dev eth0; ip link set eth0 up", port.ip());
    let serve = format!("{}; tbench_srv &; idle {LISTENS_WITHIN}; gate; idle", up(of_server));
    let ask = format!(
        "{}; gunzip /usr/share/dbench/client.txt.gz; arping -f -w {FIND_SERVER} -I eth0 {server}; gate; \
         tbench -t {seconds} {clients} {server}; idle",
        up(of_client),
        server = of_server.ip(),
    );
    let guests: Vec<Guest> = vec![
        lab.guest("client", &ask, Some((Arc::clone(&switch), of_client)))?,
        lab.guest("server", &serve, Some((Arc::clone(&switch), of_server)))?,
    ];
    if !lab.gather(&guests)? {
        return Ok(None);
    }
    let (client, dropped) = (&guests[..1], switch.total().drops.total());
    let before = lab.read(&guests);
    lab.open(&guests[0])?;
    let limit = PATIENCE + Duration::from_secs(2 * seconds);
    if !lab.until(client, limit, |heard| heard.ended("tbench").is_some(), "was not done")? {
        return Ok(None);
    }
    let window = lab.window(&guests, &before)?;
    lab.still_runs(&guests[1])?;
    let printed = guests[0].heard(|heard| heard.output("tbench").to_vec());
    let Some(Figures { rate, longest_ms }) = printed.iter().find_map(|line| figures(line)) else {
        let last = &printed[printed.len().saturating_sub(LAST_LINES)..];
        let why = format!("has measured nothing; a longer --duration may help ({})", last.join(" | "));
        return Err(lab.broken(&guests[0].vm, why));
    };
    let mut values = activity(&window);
    values.extend([
        (Metric::Throughput, rate),
        (Metric::LatencyMax, longest_ms * 1e3),
        (Metric::DroppedFrames, (switch.total().drops.total() - dropped) as f64),
    ]);
    let mut detail = detail(&window);
    detail["printed"] = json!(printed);
    Ok(Measurement::only(values, detail))
}

/// The result that tbench prints at its end.
#[derive(Debug, PartialEq)]
struct Figures {
    /// Throughput of payload (unit: MB/s).
    rate: f64,
    /// The longest wait of a client for an answer (unit: ms).
    longest_ms: f64,
}

/// Reads a line such as `Throughput 193.8 MB/sec  2 clients  2 procs  max_latency=9.807 ms`; `None` for other lines.
fn figures(line: &str) -> Option<Figures> {
    let (rate, rest) = line.strip_prefix("Throughput ")?.split_once(" MB/sec")?;
    let (_, longest) = rest.split_once("max_latency=")?;
    let (rate, longest_ms) = (rate.parse().ok()?, longest.strip_suffix(" ms")?.parse().ok()?);
    (rate > 0.0).then_some(Figures { rate, longest_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_last_line_and_none_from_a_run_too_short() {
        let line = "Throughput 193.777 MB/sec  2 clients  2 procs  max_latency=9.807 ms";
        assert_eq!(figures(line), Some(Figures { rate: 193.777, longest_ms: 9.807 }));
        assert_eq!(figures("Throughput 0 MB/sec  2 clients  2 procs  max_latency=0.000 ms"), None);
        assert_eq!(figures(" NTCreateX       4475     0.073    13.693"), None);
    }
}
