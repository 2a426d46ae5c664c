//! Changes of how a node schedules, and the log of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::vm::SchedulingRequest;

/// Who asked for a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Author {
    /// The user, by number; absent for what the node does by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ChangeState {
    /// It holds.
    Applied,
    /// It holds, and goes back by itself unless it is confirmed before this time.
    Awaiting {
        /// The time (unit: s since 1970).
        until: f64,
    },
    /// It went back.
    Reverted {
        /// Why.
        why: String,
    },
    /// It was only checked (`dry_run`).
    Checked,
}

/// What a change can set. What is absent is not part of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// The policy, as `--policy` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The host CPUs, such as `0-1,4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcpus: Option<String>,
    /// Of VMs, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vms: BTreeMap<String, SchedulingRequest>,
}

/// A change of how the node schedules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Its number, from 1; 0 for a change that was only checked.
    pub id: u64,
    /// When it was made (unit: s since 1970).
    pub at: f64,
    /// Who asked for it.
    pub by: Author,
    /// What there was before.
    pub before: Settings,
    /// What there is now.
    pub after: Settings,
    /// vCPUs that were handed over.
    pub vcpus: usize,
    /// For how long no vCPU ran, at most (unit: s).
    pub seconds: f64,
    /// What became of it.
    #[serde(flatten)]
    pub state: ChangeState,
}
