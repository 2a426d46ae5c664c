//! The host's side of a guest's first process: receives its reports over vsock, and opens its gate.
//!
//! A thread of its own notes each report with the time at which it came. It ends when the guest closes the connection,
//! or with the agent.

use parking_lot::Mutex;
use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use stile_abi::linux::{OPEN, REPORT_PORT, Report};
use stile_jail::Kind;
use stile_machine::devices::vsock::HostSocket;
use stile_sched::Time;
use stile_sched::time::monotonic;

/// The agent of one guest.
#[derive(Debug)]
pub(super) struct Agent {
    heard: Arc<Mutex<Heard>>,
    guest: UnixStream,
    hears: Option<JoinHandle<()>>,
}

/// The reports of a guest.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The guest's orders, in their order.
    orders: Vec<Carried>,
}

/// An order that has begun.
#[derive(Debug, Default)]
struct Carried {
    words: String,
    output: Vec<String>,
    /// When the guest reported its end, and the cause if it failed.
    ended: Option<(Time, Option<String>)>,
}

impl Heard {
    /// Notes a report that came at this time.
    fn take(&mut self, line: &str, at: Time) {
        match Report::parse(line) {
            Some(Report::Begin { words, .. }) => {
                self.orders.push(Carried { words: words.to_owned(), ..Carried::default() });
            }
            Some(Report::Output { order, line }) => {
                self.orders.get_mut(order as usize).into_iter().for_each(|order| order.output.push(line.to_owned()));
            }
            Some(Report::End { order, failure, .. }) => {
                let ended = Some((at, failure.map(str::to_owned)));
                self.orders.get_mut(order as usize).into_iter().for_each(|order| order.ended = ended.clone());
            }
            // Other reports follow from these.
            _ => {}
        }
    }

    /// Whether the guest is at its gate, or has passed it.
    pub(super) fn is_at_gate(&self) -> bool {
        self.has_begun("gate")
    }

    /// Whether an order that begins with this word has begun.
    pub(super) fn has_begun(&self, word: &str) -> bool {
        self.order(word).is_some()
    }

    /// When a program ended that was run to its end.
    pub(super) fn ended(&self, program: &str) -> Option<Time> {
        Some(self.order(program)?.ended.as_ref()?.0)
    }

    /// The output of a program, line by line.
    pub(super) fn output(&self, program: &str) -> &[String] {
        self.order(program).map_or(&[], |order| &order.output)
    }

    fn order(&self, program: &str) -> Option<&Carried> {
        self.orders.iter().find(|order| order.words.split_whitespace().next() == Some(program))
    }

    /// The order that failed, with the cause and the end of its output.
    pub(super) fn failure(&self) -> Option<String> {
        let failed = |order: &Carried| {
            let why = order.ended.as_ref()?.1.as_ref()?;
            let last = order.output.last().map(|line| format!(": {line}")).unwrap_or_default();
            Some(format!("failed at `{}` with {why}{last}", order.words))
        };
        self.orders.iter().find_map(failed)
    }
}

impl Agent {
    /// Makes an agent, and the socket of the guest that it is for.
    pub(super) fn new() -> io::Result<(Self, HostSocket)> {
        let (socket, guest) = HostSocket::inside(REPORT_PORT)?;
        let heard = Arc::new(Mutex::new(Heard::default()));
        let (lines, takes) = (BufReader::new(guest.try_clone()?), Arc::clone(&heard));
        let hear = move || {
            stile_jail::narrow(Kind::Device);
            lines.lines().map_while(Result::ok).for_each(|line| takes.lock().take(&line, monotonic()));
        };
        let hears = std::thread::Builder::new().name("agent".to_owned()).spawn(hear)?;
        Ok((Self { heard, guest, hears: Some(hears) }, socket))
    }

    /// Reads the reports so far with this function.
    pub(super) fn heard<T>(&self, of: impl FnOnce(&Heard) -> T) -> T {
        of(&self.heard.lock())
    }

    /// Opens the guest's gate.
    pub(super) fn open_gate(&self) -> io::Result<()> {
        writeln!(&self.guest, "{OPEN}")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Ends the reading thread, whether or not the guest is connected.
        let _ = self.guest.shutdown(Shutdown::Both);
        let _ = self.hears.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(lines: &[&str]) -> Heard {
        let mut heard = Heard::default();
        (1..).zip(lines).for_each(|(at, line)| heard.take(line, Time(at)));
        heard
    }

    #[test]
    fn a_program_s_lines_and_its_end_are_found_by_its_name() {
        let lines = ["started 5", "begin 0 gate", "end 0 9 ok", "begin 1 hackbench -g 1", "output 1 Time: 0.1"];
        let under_way = heard(&lines);
        assert!(under_way.is_at_gate());
        assert_eq!(
            (under_way.output("hackbench"), under_way.ended("hackbench")),
            (&["Time: 0.1".to_owned()][..], None)
        );
        let ended = heard(&[&lines[..], &["end 1 7 ok"]].concat());
        assert_eq!((ended.ended("hackbench"), ended.failure()), (Some(Time(6)), None));
        assert!(!heard(&lines[..1]).is_at_gate());
    }

    #[test]
    fn an_order_that_failed_is_told_with_its_last_line() {
        let failed = heard(&["begin 0 tbench 2", "output 0 no server", "end 0 3 failed exit status: 1"]);
        let why = failed.failure().unwrap();
        assert_eq!(why, "failed at `tbench 2` with exit status: 1: no server");
    }

    #[test]
    fn what_is_no_report_or_of_no_order_changes_nothing() {
        let heard = heard(&["nonsense", "output 3 x", "end 3 1 ok"]);
        assert!(!heard.is_at_gate() && heard.failure().is_none() && heard.output("x").is_empty());
    }

    #[test]
    fn an_agent_ends_while_its_guest_has_not_connected() {
        let (agent, _socket) = Agent::new().unwrap();
        agent.open_gate().unwrap();
        drop(agent);
    }
}
