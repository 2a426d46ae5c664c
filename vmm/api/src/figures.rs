//! Figures of vCPUs, VMs and the domain, for people who look at a node. docs/metrics.md explains each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_metrics::metric::{self, Metric, Sampled, Value};
use stile_metrics::{DomainSample, Reading, Sample, VmReading};
use stile_sched::Nanos;
use stile_sched::histogram::Histogram;

use super::vm::VmState;

/// The lengths of single spans of time. Quantiles are at most an eighth too long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spans {
    /// How many there were.
    pub count: u64,
    /// Median (unit: s); absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// 99th percentile (unit: s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// The longest (unit: s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

/// Figures of a vCPU, or the sums of several. Absent: the host's scheduler decides, and does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Time on a pCPU (unit: s).
    pub run_seconds: f64,
    /// Time in which it could run and had no pCPU (unit: s).
    pub wait_seconds: f64,
    /// Time in which it waited for an event (unit: s).
    pub idle_seconds: f64,
    /// Time that the host took while it had a pCPU (unit: s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_seconds: Option<f64>,
    /// Time for which a cap held it back (unit: s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_seconds: Option<f64>,
    /// CPU time that threads used which serve its VM's devices (unit: s).
    pub devices_seconds: f64,
    /// Steal time that its guest can read (unit: s); absent where guests are told nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_seconds: Option<f64>,
    /// Its waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Spans>,
    /// Times that it was put on a pCPU.
    pub turns: u64,
    /// Turns on another pCPU than the last one.
    pub migrations: u64,
    /// Exits from the guest to the monitor.
    pub exits: u64,
}

/// Figures of a vCPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VcpuFigures {
    /// Its number in its VM.
    pub index: u32,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Figures of a VM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VmFigures {
    /// Its name.
    pub name: String,
    /// What it does.
    pub state: VmState,
    /// Weight of its vCPUs.
    pub nice: i8,
    /// Scheduling class of its vCPUs.
    pub class: String,
    /// CPUs that it may use at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<f64>,
    /// Sums over its vCPUs.
    #[serde(flatten)]
    pub figures: Figures,
    /// Its vCPUs, in order.
    pub vcpus: Vec<VcpuFigures>,
}

/// Figures of the domain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DomainFigures {
    /// Times that a pCPU went from one vCPU to another.
    pub switches: u64,
    /// From the policy's wish that a pCPU asks it until it did; absent without a policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kicks: Option<Spans>,
}

/// A pCPU at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PcpuView {
    /// Its number.
    pub cpu: u32,
    /// The vCPU that has it, such as `web/0`; absent if none has, or the host's scheduler decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcpu: Option<String>,
}

/// All figures of a node, since the start of each VM or over an interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Frame {
    /// When it was taken (unit: s since 1970).
    pub at: f64,
    /// The length of the interval (unit: s); absent if the figures are since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The policy, as `--policy` takes it.
    pub policy: String,
    /// The pCPUs, in order.
    pub pcpus: Vec<PcpuView>,
    /// The domain.
    pub domain: DomainFigures,
    /// The VMs, by name.
    pub vms: Vec<VmFigures>,
}

impl Spans {
    fn of(all: &Histogram) -> Self {
        let known = |span: Nanos| (all.count() > 0).then(|| seconds(span));
        Self {
            count: all.count(),
            p50: known(all.quantile(0.5)),
            p99: known(all.quantile(0.99)),
            max: known(all.max()),
        }
    }
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

fn time<S: Sampled>(metric: &Metric<S>, sample: &S) -> Option<f64> {
    match metric.value(sample)? {
        Value::Time(time) => Some(seconds(time)),
        _ => None,
    }
}

fn count<S: Sampled>(metric: &Metric<S>, sample: &S) -> u64 {
    match metric.value(sample) {
        Some(Value::Count(count)) => count,
        _ => 0,
    }
}

fn spans<S: Sampled>(metric: &Metric<S>, sample: &S) -> Option<Spans> {
    match metric.value(sample)? {
        Value::Spans(all) => Some(Spans::of(all)),
        _ => None,
    }
}

impl Figures {
    /// Those of a sample.
    pub fn of(sample: &Sample) -> Self {
        Self {
            run_seconds: time(&metric::RUN, sample).unwrap_or_default(),
            wait_seconds: time(&metric::WAIT, sample).unwrap_or_default(),
            idle_seconds: time(&metric::IDLE, sample).unwrap_or_default(),
            taken_seconds: time(&metric::TAKEN, sample),
            throttled_seconds: time(&metric::THROTTLED, sample),
            devices_seconds: time(&metric::DEVICES, sample).unwrap_or_default(),
            steal_seconds: time(&metric::STEAL, sample),
            waits: spans(&metric::WAITS, sample),
            turns: count(&metric::TURNS, sample),
            migrations: count(&metric::MIGRATIONS, sample),
            exits: count(&metric::EXITS, sample),
        }
    }

    /// Those of a VM, and of each of its vCPUs.
    pub fn of_vm(vm: &VmReading) -> (Self, Vec<VcpuFigures>) {
        let vcpus = (0..).zip(&vm.vcpus).map(|(index, sample)| VcpuFigures { index, figures: Self::of(sample) });
        (Self::of(&vm.sum()), vcpus.collect())
    }
}

impl DomainFigures {
    /// Those of a reading.
    pub fn of(reading: &Reading) -> Self {
        let sample: &DomainSample = &reading.domain;
        Self { switches: count(&metric::SWITCHES, sample), kicks: spans(&metric::KICKS, sample) }
    }
}
