//! The first line of a recording.

use serde::{Deserialize, Serialize};
use stile_assembly::Decides;
use stile_config::PolicyConfig;
use stile_host::{CpuList, Neighbours};
use stile_results::model::Params;
use stile_sched::Time;

/// Version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 5;
/// Value of the field `format`.
pub(super) const FORMAT: &str = "stile recording";
/// Room for the numbers that are known at the end (units: bytes).
const ROOM: usize = 48;

/// The header of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub(super) format: String,
    pub(super) version: u32,
    /// The policy, as it was carried out.
    pub policy: PolicyConfig,
    /// Whether a VM has a cap.
    #[serde(default)]
    pub has_caps: bool,
    /// The host CPUs on which the slots are, in order.
    pub pcpus: CpuList,
    /// The topology of these CPUs.
    pub neighbours: Neighbours,
    /// What was run: a suite's name, or the configuration file.
    pub workload: String,
    /// The suite's parameters.
    #[serde(default)]
    pub params: Params,
    /// When the recording began (CLOCK_MONOTONIC; unit: ns).
    pub start: u64,
    /// Events that follow; unknown until the recording is finished.
    #[serde(default)]
    pub events: Option<u64>,
    /// Events that were overwritten before they were written here.
    #[serde(default)]
    pub lost: u64,
}

impl Header {
    /// The header of a recording that begins now, of this policy on these CPUs of this host.
    pub fn new(policy: &PolicyConfig, pcpus: &CpuList, workload: &str, params: Params) -> Self {
        Self {
            has_caps: false,
            format: FORMAT.to_owned(),
            version: VERSION,
            policy: stile_assembly::carried_out(policy),
            pcpus: pcpus.clone(),
            neighbours: Neighbours::of(pcpus),
            workload: workload.to_owned(),
            params,
            start: stile_sched::time::monotonic().0,
            events: None,
            lost: 0,
        }
    }

    /// Header of a simulated run. Its clock begins at 0.
    pub fn simulated(
        policy: &PolicyConfig,
        pcpus: &CpuList,
        neighbours: Neighbours,
        workload: &str,
        params: Params,
    ) -> Self {
        let policy = policy.clone();
        Self { policy, neighbours, start: 0, ..Self::new(&PolicyConfig::default(), pcpus, workload, params) }
    }

    /// That of a recording whose events begin at this time.
    pub fn beginning_at(self, start: Time) -> Self {
        Self { start: start.0, ..self }
    }

    /// This header, for a domain in which `caps` says whether a VM has a cap.
    pub fn with_caps(self, has_caps: bool) -> Self {
        Self { has_caps, ..self }
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.pcpus.len()
    }

    /// Makes policy objects like the recorded ones; `None` for policies without an object, of which nothing is
    /// recorded.
    pub fn decides(&self) -> Option<Decides> {
        let topology = self.neighbours.topology(&self.pcpus);
        let decides = stile_assembly::decides(&self.policy, self.slots(), &topology).ok()?;
        Some(if self.has_caps { decides.with_caps() } else { decides })
    }

    /// The line, padded so that it can be written anew with its numbers.
    pub(super) fn line(&self) -> serde_json::Result<String> {
        let unknown = serde_json::to_string(&Self { events: None, lost: 0, ..self.clone() })?;
        Ok(format!("{:width$}\n", serde_json::to_string(self)?, width = unknown.len() + ROOM))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_config::Algorithm;

    #[test]
    fn the_line_is_as_long_with_its_numbers_as_without() {
        let cpus = "0-1".parse().unwrap();
        let header = Header::new(&PolicyConfig::default(), &cpus, "ticket", Params::default().with("vcpus", 4));
        let finished = Header { events: Some(u64::MAX), lost: u64::MAX, ..header.clone() };
        assert_eq!(header.line().unwrap().len(), finished.line().unwrap().len());
        let back: Header = serde_json::from_str(&finished.line().unwrap()).unwrap();
        assert_eq!(back, finished);
    }

    #[test]
    fn every_policy_can_be_made_again_but_the_hosts() {
        let made = |name: &str| {
            let header = Header::new(&name.parse().unwrap(), &"0".parse().unwrap(), "", Params::default());
            header.decides().is_some()
        };
        for row in Algorithm::all() {
            assert_eq!(made(row.name), !row.algorithm.is_host(), "{}", row.name);
        }
    }
}
