//! What a node makes of its clients: many at once, those that make no sense, and those that go.

use super::harness::{LONG, Node, hog};
use crate::program::output;
use hyper::Method;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use stile_api::{Frame, NodeInfo, VmInfo};
use stile_client::Client;
use stile_tests::require_kvm;

#[test]
fn a_second_node_on_the_same_socket_is_refused_and_the_first_goes_on() {
    let _ = require_kvm!();
    let node = Node::start(&[]);
    let (status, _, stderr) = output(node.command(&["serve"]));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("a node listens on"), "{stderr}");
    let _: NodeInfo = node.client.get("/v1").unwrap();
    std::fs::write(node.folder.path().join("file"), "kept").unwrap();
    let (status, _, stderr) = output(node.command(&["serve", "--socket", "file"]));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("is no socket"), "{stderr}");
}

/// Threads and descriptors of a process.
fn holdings(process: u32) -> (usize, usize) {
    let count = |what: &str| std::fs::read_dir(format!("/proc/{process}/{what}")).expect("it runs").count();
    (count("task"), count("fd"))
}

#[test]
fn many_clients_make_vms_come_and_go_and_nothing_is_left_of_them() {
    let _ = require_kvm!();
    const CLIENTS: usize = 8;
    let rounds = std::env::var("STILE_ROUNDS").map_or(2, |rounds| rounds.parse().unwrap());
    let node = Node::start(&[]);
    node.create(hog("stays"));
    let client = |n: usize| {
        let client = Client::new(&node.socket()).unwrap();
        for round in 0..rounds {
            let names: Vec<String> = (0..4).map(|vm| format!("vm-{n}-{round}-{vm}")).collect();
            for name in &names {
                let _: VmInfo = client.send(Method::POST, "/v1/vms", Some(&hog(name))).unwrap();
                for what in ["start", "pause", "resume"] {
                    let _: VmInfo = client.post(&format!("/v1/vms/{name}/{what}")).unwrap();
                }
            }
            let _: Frame = client.get("/v1/frame").unwrap();
            for name in &names {
                client.send_bytes(Method::DELETE, &format!("/v1/vms/{name}?force=true"), None).unwrap();
            }
        }
    };
    let all = || std::thread::scope(|scope| (0..CLIENTS).for_each(|n| drop(scope.spawn(move || client(n)))));
    all();
    let first = holdings(node.process.id());
    all();
    // Connections are closed a moment after their answers.
    node.wait_for(|node| {
        let now = holdings(node.process.id());
        now.0 <= first.0 && now.1 <= first.1
    });
    assert_eq!(node.client.get::<Vec<VmInfo>>("/v1/vms").unwrap().len(), 1);
}

/// Sends these bytes, and returns the first line of the answer.
fn raw(socket: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("it is a span");
    // The node may have hung up by then.
    let _ = stream.write_all(bytes);
    let mut line = String::new();
    let _ = BufReader::new(stream).read_line(&mut line);
    line
}

#[test]
fn requests_that_make_no_sense_are_refused_and_the_node_goes_on() {
    let _ = require_kvm!();
    let node = Node::start(&[]);
    let socket = node.socket();
    let head = |length: usize| {
        format!(
            "POST /v1/vms HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    for (bytes, status) in [
        (b"\0\0\0\0\r\n\r\n".to_vec(), "400"),
        (b"GET /nothing HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(), "404"),
        (b"BREW /v1/vms HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(), "405"),
        ([head(2).as_bytes(), b"{]"].concat(), "400"),
        ([head(5).as_bytes(), b"[1,2]"].concat(), "400"),
        (head(1 << 30).into_bytes(), "413"),
        (format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "x".repeat(1 << 20)).into_bytes(), "4"),
    ] {
        let answer = raw(&socket, &bytes);
        let told = answer.strip_prefix("HTTP/1.1 ").unwrap_or_default();
        assert!(told.starts_with(status), "{status} expected: {answer:?}");
    }
    // A body is read to its end, also where what is before it is wrong already.
    let wrong_query = head(20_000).replace("/v1/vms", "/v1/vms?dry_run=-1");
    let mut slow = UnixStream::connect(&socket).unwrap();
    slow.write_all(&[wrong_query.as_bytes(), &[b' '; 10_000]].concat()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    slow.write_all(&[b' '; 10_000]).expect("the node reads on");
    let mut line = String::new();
    BufReader::new(slow).read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 400"), "{line:?}");
    // Half a request, and a client that goes in the midst of a stream.
    let halves: Vec<UnixStream> = (0..50)
        .map(|n| {
            let mut stream = UnixStream::connect(&socket).unwrap();
            let text: &[u8] = if n % 2 == 0 { b"GET /v1/fra" } else { b"GET /v1/frames HTTP/1.1\r\nhost: a\r\n\r\n" };
            stream.write_all(text).unwrap();
            stream
        })
        .collect();
    drop(halves);
    let _: NodeInfo = node.client.get("/v1").unwrap();
    assert_eq!(node.end(), Some(0));
}

#[test]
fn ten_thousand_connections_are_taken_or_told_so_and_the_first_ones_go_on() {
    let _ = require_kvm!();
    const CONNECTIONS: u64 = 10_000;
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    if most < CONNECTIONS + 200 {
        return eprintln!(
            "skipped: this process may have {most} descriptors, and the test needs {CONNECTIONS} and more"
        );
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(CONNECTIONS + 200), ..limit }).unwrap();
    let node = Node::start(&[]);
    node.create(hog("a"));
    let (socket, before) = (node.socket(), holdings(node.process.id()));
    let mut all: Vec<UnixStream> = (0..CONNECTIONS).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    // The last ones are beyond the node's bound.
    for stream in all.iter_mut().rev().take(100) {
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 503");
    }
    assert!(holdings(node.process.id()).1 <= before.1 + 600, "{:?}, before {before:?}", holdings(node.process.id()));
    let first = &mut all[0];
    first.write_all(b"GET /v1 HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    first.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    drop(all);
    node.wait_for(|node| node.client.get::<NodeInfo>("/v1").is_ok());
    node.wait_for(|node| holdings(node.process.id()).1 <= before.1);
    assert_eq!(node.end(), Some(0));
}
