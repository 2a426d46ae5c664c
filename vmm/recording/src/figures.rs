//! The time of all vCPUs of a recording, in figures.

use super::reader::{ReadError, Recording};
use serde::Serialize;
use stile_results::stats::jain;
use stile_sched::histogram::Histogram;
use stile_sched::ledger::{self, Outcomes, VcpuFigures, Yielded};

/// Figures of a recording. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// From the first event to the last one that counts.
    pub span_ns: u64,
    /// Switches: how often pCPUs went from one vCPU to another (units: 1/s).
    pub switches_per_s: f64,
    /// Migrations: turns on another pCPU than the one before (units: 1/s).
    pub migrations_per_s: f64,
    /// Median time from the policy's wish that a pCPU asks until it asked.
    pub kick_p50_ns: u64,
    /// 99th percentile of that time.
    pub kick_p99_ns: u64,
    /// Median of all vCPUs' waits.
    pub wait_p50_ns: u64,
    /// 99th percentile of all vCPUs' waits.
    pub wait_p99_ns: u64,
    /// The longest wait.
    pub wait_max_ns: u64,
    /// Jain's index of the vCPUs' time on pCPUs: 1 is fair.
    pub jain: f64,
    /// Yields while others waited.
    pub yields: Yields,
    /// Each vCPU, in the order in which they came.
    pub vcpus: Vec<Vcpu>,
    /// Whether all events count. If some were lost, only those before the loss do.
    pub complete: bool,
}

/// Yields by hint and by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Yields {
    /// Without a hint.
    pub unknown: YieldCounts,
    /// With a hint that names a lock's holder.
    pub lock: YieldCounts,
    /// With a hint that names a message's sender.
    pub message: YieldCounts,
}

/// The outcomes of yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct YieldCounts {
    /// Another vCPU got the pCPU.
    pub switched: u64,
    /// The vCPU went on.
    pub stayed: u64,
}

/// A vCPU's figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Vcpu {
    /// Its name.
    pub vcpu: String,
    /// On a pCPU.
    pub run_ns: u64,
    /// Runnable without one.
    pub wait_ns: u64,
    /// Blocked.
    pub idle_ns: u64,
    /// On a pCPU that the host had taken.
    pub taken_ns: u64,
    /// Median of its waits.
    pub wait_p50_ns: u64,
    /// 99th percentile of its waits.
    pub wait_p99_ns: u64,
    /// Its longest wait.
    pub wait_max_ns: u64,
    /// Turns on a pCPU.
    pub turns: u64,
    /// Its yields while other vCPUs waited.
    pub yields: Yields,
}

impl From<&Yielded> for Yields {
    fn from(yields: &Yielded) -> Self {
        let counts = |of: Outcomes| YieldCounts { switched: of.switched, stayed: of.stayed };
        Self { unknown: counts(yields.unknown), lock: counts(yields.lock), message: counts(yields.message) }
    }
}

impl Figures {
    /// Figures by which two runs of different lengths can be compared: a name, whether it is a time (unit: ns), and the
    /// value.
    pub fn overall(&self) -> Vec<(&'static str, bool, f64)> {
        let seconds = self.span_ns.max(1) as f64 / 1e9;
        let rate = |counts: YieldCounts| (counts.switched + counts.stayed) as f64 / seconds;
        let run = self.vcpus.iter().map(|vcpu| vcpu.run_ns).sum::<u64>() as f64 / seconds / 1e9;
        vec![
            ("pCPUs busy", false, run),
            ("Jain index of CPU time", false, self.jain),
            ("switches/s", false, self.switches_per_s),
            ("migrations/s", false, self.migrations_per_s),
            ("yields for locks/s", false, rate(self.yields.lock)),
            ("yields for messages/s", false, rate(self.yields.message)),
            ("yields without a word/s", false, rate(self.yields.unknown)),
            ("wait p50", true, self.wait_p50_ns as f64),
            ("wait p99", true, self.wait_p99_ns as f64),
            ("wait max", true, self.wait_max_ns as f64),
            ("kick p50", true, self.kick_p50_ns as f64),
            ("kick p99", true, self.kick_p99_ns as f64),
        ]
    }
}

/// Computes a recording's figures.
pub fn figures(recording: &Recording) -> Result<Figures, ReadError> {
    let mut figures = ledger::Figures::new(recording.header().slots());
    let mut complete = true;
    for event in recording.events()? {
        complete = figures.tell(&event?);
        if !complete {
            break;
        }
    }
    let span = figures.span();
    let counts = figures.counts();
    let lives = figures.vcpus();
    let mut waits = Histogram::default();
    lives.iter().for_each(|life| waits.merge(&life.account.waits));
    let runs: Vec<f64> = lives.iter().map(|life| life.account.run.0 as f64).collect();
    let per_s = |count: u64| count as f64 * 1e9 / span.0.max(1) as f64;
    Ok(Figures {
        span_ns: span.0,
        switches_per_s: per_s(counts.switches),
        migrations_per_s: per_s(counts.migrations),
        kick_p50_ns: counts.kicks.quantile(0.5).0,
        kick_p99_ns: counts.kicks.quantile(0.99).0,
        wait_p50_ns: waits.quantile(0.5).0,
        wait_p99_ns: waits.quantile(0.99).0,
        wait_max_ns: waits.max().0,
        jain: jain(&runs).unwrap_or(1.0),
        yields: Yields::from(&counts.yields),
        vcpus: lives.iter().map(|life| vcpu(recording, life)).collect(),
        complete,
    })
}

fn vcpu(recording: &Recording, life: &VcpuFigures) -> Vcpu {
    let account = &life.account;
    Vcpu {
        vcpu: recording.names().of(life.vcpu, life.since),
        run_ns: account.run.0,
        wait_ns: account.wait.0,
        idle_ns: account.idle.0,
        taken_ns: account.taken.0,
        wait_p50_ns: account.waits.quantile(0.5).0,
        wait_p99_ns: account.waits.quantile(0.99).0,
        wait_max_ns: account.waits.max().0,
        turns: account.turns,
        yields: Yields::from(&account.yields),
    }
}
