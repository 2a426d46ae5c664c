//! VMs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_config::{CapPeriod, CpuCap, VmClass, VmConfig};

use super::figures::{Figures, VcpuFigures};

/// What a VM does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VmState {
    /// It is known and has no memory and no vCPUs: it was not started, or has ended.
    Stopped,
    /// Its vCPUs are scheduled.
    Running,
    /// Its vCPUs keep their state and run no guest code.
    Paused,
}

impl VmState {
    /// Its name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Running => "running",
            Self::Paused => "paused",
        }
    }
}

/// What runs in a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VmKind {
    /// A unikernel.
    Unikernel,
    /// Linux.
    Linux,
}

/// A VM in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VmInfo {
    /// Its name.
    pub name: String,
    /// What it does.
    pub state: VmState,
    /// What runs in it.
    pub kind: VmKind,
    /// Number of vCPUs.
    pub vcpus: u32,
    /// Guest memory (unit: bytes).
    pub memory_bytes: u64,
    /// Weight of its vCPUs.
    pub nice: i8,
    /// Scheduling class of its vCPUs.
    pub class: VmClass,
    /// CPUs that it may use at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    pub cap: Option<CpuCap>,
    /// How often it was started.
    pub starts: u64,
    /// How it ended the last time, such as `exit code 0`; absent if it has never ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Whether it ended as intended, the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_well: Option<bool>,
}

/// A figure that the guest's workload has reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResultFigure {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: u64,
}

/// A VM in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VmDetails {
    /// As in the list.
    #[serde(flatten)]
    pub info: VmInfo,
    /// What it was made of. Live changes of its scheduling are in it.
    pub config: VmConfig,
    /// Its figures since its last start; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
    /// Those of its vCPUs, in order.
    pub vcpu_figures: Vec<VcpuFigures>,
    /// What its workload reported since its last start.
    pub results: Vec<ResultFigure>,
}

/// How a VM is stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopMode {
    /// A Linux guest has its power button pressed, and is off at the deadline at the latest. A unikernel has no such
    /// button, and is off at once.
    #[default]
    Soft,
    /// The VM is off at once.
    Hard,
}

/// A change of how a VM is scheduled. What is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SchedulingRequest {
    /// Weight of its vCPUs, from -20 to 19: the lower, the more CPU time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i8", range(min = -20, max = 19))]
    pub nice: Option<i8>,
    /// Scheduling class of its vCPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "VmClass")]
    pub class: Option<VmClass>,
    /// CPUs that all its vCPUs together may use at most; `none` for no cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CapSetting")]
    pub cap: Option<CapSetting>,
    /// Time over which the cap is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CapPeriod")]
    pub cap_period: Option<CapPeriod>,
}

/// A cap, or none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CapSetting {
    /// This many CPUs.
    Cpus(CpuCap),
    /// None.
    None(NoCap),
}

/// The word for no cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoCap {
    /// No cap.
    None,
}
