//! The node as a whole.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use stile_config::PolicyConfig;

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeInfo {
    /// Version of the program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// When it was started (unit: s since 1970).
    pub started_at: f64,
    /// The policy, as `--policy` takes it.
    pub policy: String,
    /// The threads that carry vCPUs: `executors`, `leases` or `host`.
    pub mechanism: String,
    /// The host CPUs that vCPUs run on.
    pub pcpus: Vec<u32>,
    /// Number of VMs.
    pub vms: usize,
    /// Number of vCPUs of VMs that are running or paused.
    pub vcpus: usize,
    /// The change that waits to be confirmed, by its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaiting: Option<u64>,
    /// What the kernel does not offer of the jail, or that there is none.
    pub jail: Vec<String>,
}

/// The policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyView {
    /// As `--policy` takes it.
    pub policy: String,
    /// All its keys.
    pub keys: PolicyConfig,
}

/// Another policy, or other parameters. One of both.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["policy"] }, { "required": ["keys"] }]))]
pub struct PolicyRequest {
    /// A policy as `--policy` takes it, such as `rsdl:rr_interval=3ms`. Keys that it does not name have their defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub policy: Option<String>,
    /// Keys of `[policy]` in the configuration file. Those that are absent stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PolicyConfig")]
    pub keys: Option<Map<String, Value>>,
}

/// The host CPUs that vCPUs run on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PcpusView {
    /// The numbers of the host CPUs that vCPUs run on.
    pub pcpus: Vec<u32>,
    /// The numbers of the host CPUs that the process may use.
    pub available: Vec<u32>,
}

/// Other host CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PcpusRequest {
    /// Numbers of host CPUs: at least one, all from `available`.
    #[schemars(length(min = 1), inner(range(max = u32::MAX)))]
    pub pcpus: Vec<u32>,
}

/// A recording to begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordingRequest {
    /// Name of the file in the node's folder of recordings: letters, digits, `.`, `_` and `-`, not beginning with `.`.
    #[schemars(length(min = 1, max = 64), regex(pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]*$"))]
    pub name: String,
}

/// A recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordingView {
    /// Its file.
    pub path: String,
    /// Events that were written; known at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Events that came too fast to be written; known at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
}
