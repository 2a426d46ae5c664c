//! A node that is made up: an HTTP server on loopback with the parts of the API that the page reads. It serves a second
//! page as well, which has the first one in a frame as wide as a phone, waits for what is expected there, and reports.

use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;
use stile_api::{
    DomainFigures, Event, Figures, Frame, Happened, NodeInfo, PcpuView, Spans, VcpuFigures, VmFigures, VmState,
};
use stile_page::{CONTENT_SECURITY_POLICY, PAGE};

/// A name that would be an element if it were read as HTML.
pub(crate) const HOSTILE: &str = "<img src=x>";
/// Much more than a browser takes for anything here.
const LIMIT: Duration = Duration::from_secs(120);
/// Time between two frames: the page takes a silence of some seconds for a lost connection.
const PERIOD: Duration = Duration::from_millis(200);
/// Longest body of a report (unit: bytes).
const REPORT_MAX: usize = 1 << 20;
/// Most lines of a request's head.
const HEAD_MAX: usize = 100;

/// Whether the node answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Up,
    Down,
    Over,
}

struct Shared {
    phase: Mutex<Phase>,
    changed: Condvar,
    reports: Mutex<Sender<Value>>,
}

/// The node. Its connections end when it is dropped.
pub(crate) struct Node {
    shared: Arc<Shared>,
    reports: Receiver<Value>,
    port: u16,
}

impl Node {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let (tell, reports) = channel();
        let shared = Shared { phase: Mutex::new(Phase::Up), changed: Condvar::new(), reports: Mutex::new(tell) };
        let node = Self { shared: Arc::new(shared), reports, port };
        let shared = Arc::clone(&node.shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.phase() == Phase::Over {
                    return;
                }
                let shared = Arc::clone(&shared);
                // A browser that closes a connection ends nothing else.
                thread::spawn(move || stream.and_then(|stream| shared.answer(&stream)).ok());
            }
        });
        node
    }

    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What the watching page found next.
    pub(crate) fn next_report(&self) -> Value {
        self.reports.recv_timeout(LIMIT).expect("the page shows in time what is expected")
    }

    pub(crate) fn enter(&self, phase: Phase) {
        *self.shared.lock() = phase;
        self.shared.changed.notify_all();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.enter(Phase::Over);
        // Wakes the thread that accepts connections.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().expect("no thread panics with it")
    }

    fn phase(&self) -> Phase {
        *self.lock()
    }

    fn answer(&self, mut stream: &TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut lines = reader.by_ref().lines();
        let request = lines.next().transpose()?.unwrap_or_default();
        let head: Vec<String> = lines
            .take(HEAD_MAX)
            .take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty()))
            .collect::<Result<_, _>>()?;
        let path = request.split(' ').nth(1).unwrap_or_default();
        match path {
            "/" => respond(stream, "200 OK", "text/html; charset=utf-8", PAGE),
            "/watch" => respond(stream, "200 OK", "text/html; charset=utf-8", include_str!("watch.html")),
            "/report" => {
                let length = head
                    .iter()
                    .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
                let mut body = vec![0; length.unwrap_or(0).min(REPORT_MAX)];
                reader.read_exact(&mut body)?;
                let report = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let _ = self.reports.lock().expect("no thread panics with it").send(report);
                respond(stream, "200 OK", "text/plain", "")
            }
            _ if self.phase() != Phase::Up => respond(stream, "503 Service Unavailable", "application/json", "{}"),
            "/v1" => respond(stream, "200 OK", "application/json", &json!(info()).to_string()),
            "/v1/events" => {
                begin_stream(stream)?;
                for event in events() {
                    write!(stream, "event: event\ndata: {}\n\n", json!(event))?;
                }
                while self.stays_up() {}
                Ok(())
            }
            "/v1/frames?interval=1s" => {
                begin_stream(stream)?;
                for second in 0.. {
                    write!(stream, "event: frame\ndata: {}\n\n", json!(frame(f64::from(second))))?;
                    if !self.stays_up() {
                        break;
                    }
                }
                Ok(())
            }
            _ => respond(stream, "404 Not Found", "text/plain", ""),
        }
    }

    /// Waits for a period; `false` if the phase has changed.
    fn stays_up(&self) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), PERIOD, |phase| *phase == Phase::Up);
        *waited.expect("no thread panics with it").0 == Phase::Up
    }
}

fn respond(mut stream: &TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    // The watching page has it in a frame, which nobody else may.
    let policy = CONTENT_SECURITY_POLICY.replace("frame-ancestors 'none'", "frame-ancestors 'self'");
    let policy = if body == PAGE { format!("Content-Security-Policy: {policy}\r\n") } else { String::new() };
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n")?;
    write!(stream, "{policy}Connection: close\r\n\r\n{body}")
}

fn begin_stream(mut stream: &TcpStream) -> io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
}

fn info() -> NodeInfo {
    NodeInfo {
        version: "1.2.3".to_owned(),
        pid: 1,
        started_at: 0.0,
        policy: "rsdl".to_owned(),
        mechanism: "executors".to_owned(),
        pcpus: vec![0, 3],
        vms: 2,
        vcpus: 3,
        awaiting: None,
        jail: Vec::new(),
    }
}

fn events() -> [Event; 2] {
    let vm = || "web".to_owned();
    let ended = Happened::Ended { vm: vm(), outcome: "exit code 3".to_owned(), well: false };
    [Event { at: 1.0, what: Happened::Started { vm: vm() } }, Event { at: 2.0, what: ended }]
}

fn times(run: f64, wait: f64, idle: f64) -> Figures {
    Figures { run_seconds: run, wait_seconds: wait, idle_seconds: idle, ..Figures::default() }
}

fn frame(at: f64) -> Frame {
    let waits = Spans { count: 9, p50: Some(1e-4), p99: Some(2e-3), max: Some(4e-3) };
    let web = Figures { waits: Some(waits), throttled_seconds: Some(0.0), exits: 12_345, ..times(1.0, 0.4, 0.6) };
    let vcpu = |(index, figures): (u32, Figures)| VcpuFigures { index, figures };
    let vm = |name: &str, figures: Figures, vcpus: &[Figures]| VmFigures {
        name: name.to_owned(),
        state: VmState::Running,
        nice: 0,
        class: "normal".to_owned(),
        cap: None,
        figures,
        vcpus: (0..).zip(vcpus.iter().copied()).map(vcpu).collect(),
    };
    let web = vm("web", web, &[times(0.6, 0.1, 0.3), times(0.4, 0.3, 0.3)]);
    let hostile = times(0.1, 0.1, 0.8);
    Frame {
        at,
        seconds: Some(1.0),
        policy: "rsdl".to_owned(),
        pcpus: vec![PcpuView { cpu: 0, vcpu: None }, PcpuView { cpu: 3, vcpu: Some("web/1".to_owned()) }],
        domain: DomainFigures { switches: 1500, kicks: Some(Spans { p99: Some(45.2e-6), ..waits }) },
        vms: vec![VmFigures { nice: -5, cap: Some(1.5), ..web }, vm(HOSTILE, hostile, &[hostile])],
    }
}
