//! Changes of how a node schedules, and the log of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use stile_text::time_us;

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

/// The change in a line: `change 3 by user 0: policy rsdl -> credit2; 24 vCPUs went on after 3.1 ms`.
impl Display for Change {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let what = what(&self.before, &self.after);
        let by = self.by.uid.map_or("stile itself".to_owned(), |uid| format!("user {uid}"));
        let (id, vcpus, took) = (self.id, self.vcpus, time_us(self.seconds * 1e6));
        match &self.state {
            ChangeState::Checked => write!(f, "would change: {what}"),
            ChangeState::Applied => write!(f, "change {id} by {by}: {what}; {vcpus} vCPUs went on after {took}"),
            ChangeState::Awaiting { .. } => write!(
                f,
                "change {id} by {by}: {what}; {vcpus} vCPUs went on after {took}. It goes back by itself unless `stile \
                 confirm {id}` keeps it"
            ),
            ChangeState::Reverted { why } => write!(f, "change {id} by {by} went back: {what}; {why}"),
        }
    }
}

/// The settings that differ, before and after.
fn what(before: &Settings, after: &Settings) -> String {
    let mut parts = Vec::new();
    let mut part = |name: &str, before: &Option<String>, after: &Option<String>| {
        if let (Some(before), Some(after)) = (before, after) {
            parts.push(format!("{name} {before} -> {after}"));
        }
    };
    part("policy", &before.policy, &after.policy);
    part("pCPUs", &before.pcpus, &after.pcpus);
    for (vm, new) in &after.vms {
        let Some(old) = before.vms.get(vm) else { continue };
        let keys = |request| serde_json::to_value(request).unwrap_or_default();
        let (old, new) = (keys(old), keys(new));
        let differs = |(key, value): &(&String, &Value)| old[key.as_str()] != **value;
        let told =
            |(key, value): (&String, &Value)| format!(" {key} {} -> {}", plain(&old[key.as_str()]), plain(value));
        let keys: String = new.as_object().into_iter().flatten().filter(differs).map(told).collect();
        if !keys.is_empty() {
            parts.push(format!("VM {vm}{keys}"));
        }
    }
    if parts.is_empty() { "nothing differs".to_owned() } else { parts.join(", ") }
}

/// A value as a user writes it.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_in_a_line_with_what_differs() {
        let vm = |nice| [("a".to_owned(), SchedulingRequest { nice: Some(nice), ..SchedulingRequest::default() })];
        let settings = |policy: &str, nice| Settings {
            policy: Some(policy.to_owned()),
            pcpus: None,
            vms: vm(nice).into_iter().collect(),
        };
        let mut change = Change {
            id: 3,
            at: 0.0,
            by: Author { uid: Some(0), pid: Some(1) },
            before: settings("rsdl", 0),
            after: settings("o1", 5),
            vcpus: 4,
            seconds: 0.002,
            state: ChangeState::Applied,
        };
        let told = "policy rsdl -> o1, VM a nice 0 -> 5; 4 vCPUs went on after 2.00 ms";
        assert_eq!(change.to_string(), format!("change 3 by user 0: {told}"));
        change.after = Settings { policy: None, ..settings("rsdl", 0) };
        assert_eq!(change.to_string(), "change 3 by user 0: nothing differs; 4 vCPUs went on after 2.00 ms");
        (change.before, change.after) = (settings("rsdl", 0), settings("o1", 5));
        change.by = Author { uid: None, pid: None };
        change.state = ChangeState::Reverted { why: "it was late".to_owned() };
        let told = "change 3 by stile itself went back: policy rsdl -> o1, VM a nice 0 -> 5; it was late";
        assert_eq!(change.to_string(), told);
    }
}
