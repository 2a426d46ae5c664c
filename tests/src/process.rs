//! Processes: the resources that one holds, as the kernel counts them, and nodes that begin to listen.

use std::fmt::{self, Display};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr};

/// Threads, file descriptors and memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Threads.
    pub threads: usize,
    /// Open file descriptors.
    pub descriptors: usize,
    /// Resident memory (units: KiB).
    pub resident_kib: u64,
    /// Private writable mappings, guest memory included (units: KiB).
    pub data_kib: u64,
}

impl Holdings {
    /// Reads the counts of this process.
    ///
    /// # Panics
    /// Without /proc.
    pub fn now() -> Self {
        Self::of("self")
    }

    /// Reads the counts of a process, by its id.
    ///
    /// # Panics
    /// If there is none, or without /proc.
    pub fn of(process: impl Display) -> Self {
        let path = |what| format!("/proc/{process}/{what}");
        let count =
            |what| fs::read_dir(path(what)).unwrap_or_else(|e| panic!("cannot list {}: {e}", path(what))).count();
        let status =
            fs::read_to_string(path("status")).unwrap_or_else(|e| panic!("cannot read {}: {e}", path("status")));
        let kib = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let number = line.and_then(|rest| rest.trim_end_matches("kB").trim().parse().ok());
            number.unwrap_or_else(|| panic!("no {key} in {status}"))
        };
        Self { threads: count("task"), descriptors: count("fd"), resident_kib: kib("VmRSS:"), data_kib: kib("VmData:") }
    }
}

impl Display for Holdings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { threads, descriptors, resident_kib, .. } = self;
        write!(f, "{threads} threads, {descriptors} descriptors, {:.1} MiB resident", *resident_kib as f64 / 1024.0)
    }
}

/// Waits until a node that was just started says that it listens. What it says later can be read.
///
/// # Panics
/// If its standard error is no pipe, or if it ends.
pub fn listening(node: &mut Child) -> BufReader<ChildStderr> {
    let mut told = BufReader::new(node.stderr.take().expect("it is a pipe"));
    let mut line = String::new();
    while !line.contains("listens on") {
        line.clear();
        assert_ne!(told.read_line(&mut line).expect("it is text"), 0, "the node ended");
    }
    told
}
