//! Costs of exits, switches, kicks and wake-ups on a host, for the simulator: those that `stile doctor --costs`
//! measures, or the built-in ones of machine A in `docs/results.md`.

mod conditions;
mod file;

pub use conditions::Conditions;
pub use file::{CostsError, MeasuredCosts};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_sched::Nanos;
use stile_sched::sim::Costs;

/// No cost is longer than this (unit: ns).
const COST_MAX: u64 = 1_000_000_000;

/// What things cost on a host (units: ns).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostCosts {
    /// An exit from a guest and the return to it.
    #[schemars(range(min = 0, max = COST_MAX))]
    pub exit_ns: u64,
    /// The part of it until the monitor has the exit.
    #[schemars(range(min = 0, max = COST_MAX))]
    pub leave_ns: u64,
    /// What it takes more if the thread returns to another vCPU.
    #[schemars(range(min = 0, max = COST_MAX))]
    pub switch_ns: u64,
    /// What it takes more if another vCPU's thread runs next.
    #[schemars(range(min = 0, max = COST_MAX))]
    pub thread_switch_ns: u64,
    /// From a signal to a running vCPU until its thread is back from the guest.
    #[schemars(range(min = 0, max = COST_MAX))]
    pub kick_ns: u64,
    /// From waking a thread that sleeps on an idle CPU until it runs.
    #[schemars(range(min = 0, max = COST_MAX))]
    pub wake_ns: u64,
    /// From a store until another CPU that waits for it has seen it.
    #[schemars(range(min = 0, max = COST_MAX))]
    pub hop_ns: u64,
    /// A PAUSE with a look at what is waited for.
    #[schemars(range(min = 0, max = COST_MAX))]
    pub pause_ns: u64,
    /// What a switch takes more if the vCPU ran on another CPU last.
    #[serde(default)]
    #[schemars(range(min = 0, max = COST_MAX))]
    pub migration_ns: u64,
    /// A question to `rsdl` under the lock of the run queue while another CPU asks, too.
    #[schemars(range(min = 0, max = COST_MAX))]
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
            // Measured on machine C, whose exits take about as long.
            migration_ns: 600,
            lock_ns: 460,
        }
    }
}

impl HostCosts {
    /// For the simulator, where vCPUs have threads of their own or share those of the pCPUs, and pCPUs ask under the
    /// locks of shards or under those of the host.
    pub fn simulated(&self, threads: bool, locks: bool) -> Costs {
        Costs {
            exit: Nanos(self.exit_ns),
            leave: Nanos(self.leave_ns),
            switch: Nanos(if threads { self.thread_switch_ns } else { self.switch_ns }),
            kick: Nanos(self.kick_ns),
            wake: Nanos(self.wake_ns),
            hop: Nanos(self.hop_ns),
            migration: Nanos(self.migration_ns),
            lock: Nanos(if locks { self.lock_ns } else { 0 }),
        }
    }
}
