//! The resources of this process, as the kernel counts them.

use std::fs;

/// Threads, file descriptors and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Reads the counts.
    ///
    /// # Panics
    /// Without /proc.
    pub fn now() -> Self {
        let count = |path| fs::read_dir(path).unwrap_or_else(|e| panic!("cannot list {path}: {e}")).count();
        let status = fs::read_to_string("/proc/self/status").expect("a process may read its own status");
        let kib = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let number = line.and_then(|rest| rest.trim_end_matches("kB").trim().parse().ok());
            number.unwrap_or_else(|| panic!("no {key} in {status}"))
        };
        Self {
            threads: count("/proc/self/task"),
            descriptors: count("/proc/self/fd"),
            resident_kib: kib("VmRSS:"),
            data_kib: kib("VmData:"),
        }
    }
}
