//! What things cost on a host, for the simulator: as `stile doctor --costs` measures them, or the built-in figures of the
//! machine on which the README's tables were measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use stile_sched::Nanos;
use stile_sched::sim::Costs;

/// What things cost on a host (units: ns).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostCosts {
    /// An exit from a guest and the return to it.
    pub exit_ns: u64,
    /// The part of it until the monitor has the exit.
    pub leave_ns: u64,
    /// What it takes more if the thread returns to another vCPU.
    pub switch_ns: u64,
    /// What it takes more if another vCPU's thread runs next.
    pub thread_switch_ns: u64,
    /// From a signal to a running vCPU until its thread is back from the guest.
    pub kick_ns: u64,
    /// From waking a thread that sleeps on an idle CPU until it runs.
    pub wake_ns: u64,
    /// From a store until another CPU that waits for it has seen it.
    pub hop_ns: u64,
    /// A PAUSE with a look at what is waited for.
    pub pause_ns: u64,
    /// A question to `rsdl` under the lock of the run queue while another CPU asks, too.
    pub lock_ns: u64,
}

impl Default for HostCosts {
    /// Two CPUs of a cloud VM, AMD EPYC, under KVM's PVM backend.
    fn default() -> Self {
        Self {
            exit_ns: 25_000,
            leave_ns: 12_000,
            switch_ns: 150,
            thread_switch_ns: 2_100,
            kick_ns: 25_000,
            wake_ns: 28_000,
            hop_ns: 42,
            pause_ns: 25,
            lock_ns: 460,
        }
    }
}

impl HostCosts {
    /// Reads what `stile doctor --costs` printed.
    pub fn read(file: &Path) -> Result<Self, CostsError> {
        let text =
            std::fs::read_to_string(file).map_err(|source| CostsError::Read { file: file.to_owned(), source })?;
        serde_json::from_str(&text).map_err(|source| CostsError::Json { file: file.to_owned(), source })
    }

    /// For the simulator, where vCPUs have threads of their own or share those of the pCPUs, and are all in one run queue
    /// under one lock or in those of the host.
    pub fn simulated(&self, threads: bool, one_lock: bool) -> Costs {
        Costs {
            exit: Nanos(self.exit_ns),
            leave: Nanos(self.leave_ns),
            switch: Nanos(if threads { self.thread_switch_ns } else { self.switch_ns }),
            kick: Nanos(self.kick_ns),
            wake: Nanos(self.wake_ns),
            hop: Nanos(self.hop_ns),
            lock: Nanos(if one_lock { self.lock_ns } else { 0 }),
        }
    }
}

/// A file of costs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CostsError {
    /// It cannot be read.
    #[error("cannot read {}", file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is something else.
    #[error("{} does not hold costs as `stile doctor --costs` prints them", file.display())]
    Json {
        /// Which.
        file: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}
