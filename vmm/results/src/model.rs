//! The data of a comparison: samples as the runner takes them, and the report that they become.
//!
//! `report.json` is [`Report`] as serde writes it. The crate `stile-report` checks files against this definition. A
//! sample carries its round, because a ratio compares two samples of one round: the state of the machine at that time
//! affects both.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::disturbed::Disturbed;
use super::stats::Interval;
use stile_suites::{Better, Counted, Metric, Suite};

/// Version of the report format.
pub const SCHEMA: u32 = 2;
/// The oldest version that can be read. Files of version 1 have no `reference` (it was `host`), no `disturbed`, and
/// call `ratio` `ratio_to_host`.
pub const OLDEST_SCHEMA: u32 = 1;
/// The host's own scheduler: the reference of ratios if no other policy is chosen.
pub const BASELINE: &str = "host";

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ParamValue {
    /// A count.
    Integer(u64),
    /// A word.
    Text(String),
}

impl std::fmt::Display for ParamValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
        }
    }
}

impl From<u64> for ParamValue {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<&str> for ParamValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

/// The parameters of a run, ordered by name. One of them is its size: the unit that the suite counts ([`Counted`]), or
/// `pcpus`, or else `probe` or `load`, the part of the run that was measured. The others choose a variant of the suite.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(BTreeMap<String, ParamValue>);

impl Params {
    /// Parameters that can be a size, with their spelling for readers. The first that is present counts.
    fn sizes() -> impl Iterator<Item = (&'static str, &'static str)> {
        let counted = Counted::ALL.into_iter().map(|counted| (counted.name(), counted.words()));
        counted.chain([("pcpus", Self::PCPUS), ("probe", "probe"), ("load", "load")])
    }
    /// The unit of the sizes of compared machines.
    pub const PCPUS: &'static str = "pCPUs";

    /// Returns these parameters and one more.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<ParamValue>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Returns all of both parameters.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&ParamValue> {
        self.0.get(name)
    }

    /// The parameters by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ParamValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The unit of the size ("vCPUs") and the size.
    pub fn size(&self) -> Option<(&'static str, &ParamValue)> {
        Self::sizes().find_map(|(name, spelling)| Some((spelling, self.0.get(name)?)))
    }

    /// The parameters other than the size, in words: "yields with hints, hold_ns 500".
    pub fn variant(&self) -> String {
        let size = Self::sizes().map(|(name, _)| name).find(|name| self.0.contains_key(*name));
        let rest = self.0.iter().filter(|(name, _)| Some(name.as_str()) != size);
        rest.map(|(name, value)| in_words(name, value)).collect::<Vec<_>>().join(", ")
    }

    /// The size for readers: "16 vCPUs", "beryl"; the variant if there is no size.
    pub fn size_label(&self) -> String {
        match self.size() {
            Some((what, ParamValue::Integer(1))) => format!("1 {}", what.trim_end_matches('s')),
            Some((what, ParamValue::Integer(size))) => format!("{size} {what}"),
            Some((_, ParamValue::Text(part))) => part.clone(),
            None => self.variant(),
        }
    }
}

/// A parameter for readers.
fn in_words(name: &str, value: &ParamValue) -> String {
    let value = value.to_string();
    match (name, value.as_str()) {
        // A hint says what the vCPU waits for.
        ("hint", "full") => "yields with hints".to_owned(),
        ("hint", "none") => "yields without hints".to_owned(),
        ("hint", "silent") => "spinning without yields".to_owned(),
        ("machine", "up") => "one pCPU".to_owned(),
        ("machine", "smp") => "all pCPUs".to_owned(),
        ("vm", "none") => "without a VM".to_owned(),
        ("locks", "none") => "without locks".to_owned(),
        ("locks", "one") => "with a lock".to_owned(),
        ("split", "no") => "as one VM".to_owned(),
        ("split", "yes") => "as VMs of one vCPU".to_owned(),
        ("mib", mib) => format!("{mib} MiB each"),
        ("vcpus_each", "1") => "1 vCPU each".to_owned(),
        ("vcpus_each", vcpus) => format!("{vcpus} vCPUs each"),
        _ => format!("{name} {value}"),
    }
}

/// The values of one run of one suite under one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The suite that ran.
    pub suite: Suite,
    /// The policy's label; see [`super::aggregate::distinct_labels`] for a policy that is listed twice.
    pub policy: String,
    /// The parameters of the run.
    pub params: Params,
    /// The round it belongs to; ratios pair samples of the same round.
    pub round: u32,
    /// The values measured; a metric that the suite does not have is absent.
    pub values: BTreeMap<Metric, f64>,
    /// Figures that only the raw files keep: counts of each vCPU, yields by hint and outcome, histograms.
    pub detail: Value,
}

/// The circumstances of a comparison.
#[derive(Clone, Debug, Default)]
pub struct RunContext {
    /// The command line, to repeat it.
    pub command: Vec<String>,
    /// Host facts; the key `policies` maps each policy's label to its full configuration.
    pub host: Value,
    /// Policy labels in the order asked for.
    pub policies: Vec<String>,
    /// Seed of the run; also of the intervals.
    pub seed: u64,
    /// Whether the run was ended early.
    pub interrupted: bool,
    /// Whether no guest ran: everything comes from the simulator.
    pub simulated: bool,
    /// The label of the policy that ratios refer to; `None`: [`BASELINE`].
    pub reference: Option<String>,
    /// Remarks for the reader: what was left out, and errors.
    pub notes: Vec<String>,
    /// Runs that the host disturbed.
    pub disturbed: Disturbed,
}

/// One metric of one suite under one policy with one set of parameters, over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The suite.
    pub suite: Suite,
    /// The label of the policy.
    pub policy: String,
    /// The parameters.
    pub params: Params,
    /// The metric.
    pub metric: Metric,
    /// The unit of the values.
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
    /// The values, in the order of their rounds.
    pub samples: Vec<f64>,
    /// The round of each value; `None`: 0, 1, 2, ... without a gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<Vec<u32>>,
    /// Their median.
    pub median: f64,
    /// 95 % interval of the median; null with fewer than three samples.
    pub ci95: Option<Interval>,
    /// Median of the ratios to the reference's value of the same round; null if the reference did not run or was 0.
    #[serde(alias = "ratio_to_host")]
    pub ratio: Option<f64>,
    /// 95 % interval of that median; null with fewer than three pairs.
    pub ratio_ci95: Option<Interval>,
}

impl Cell {
    /// The cell in words: "rsdl, 4 vCPUs: throughput".
    pub fn words(&self) -> String {
        format!("{}, {}: {}", self.policy, self.params.size_label(), self.metric.label())
    }

    /// Why a ratio has no interval: "2 rounds, no interval"; `None` if it has one, or if there is no ratio.
    pub fn lacks_interval(&self) -> Option<String> {
        let lacks = self.ratio.is_some() && self.ratio_ci95.is_none();
        lacks.then(|| format!("{}, no interval", stile_text::count(self.samples.len(), "round")))
    }

    /// The length of the ratio's interval, relative to the ratio.
    pub fn relative_width(&self) -> Option<f64> {
        let Interval { lo, hi } = self.ratio_ci95?;
        if hi > lo { Some((hi - lo) / self.ratio?) } else { Some(0.0) }
    }
}

/// A finished comparison: the content of `report.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The command line.
    pub command: Vec<String>,
    /// Host facts and policies.
    pub host: Value,
    /// Seed of the run.
    pub seed: u64,
    /// Number of rounds with at least one sample.
    pub rounds: u32,
    /// Whether the run was ended early.
    pub interrupted: bool,
    /// Whether no guest ran: everything comes from the simulator.
    #[serde(default)]
    pub simulated: bool,
    /// The label of the policy that ratios refer to.
    #[serde(default = "baseline")]
    pub reference: String,
    /// Remarks for the reader.
    pub notes: Vec<String>,
    /// Runs that the host disturbed.
    #[serde(default)]
    pub disturbed: Disturbed,
    /// All cells, ordered by suite, parameters, policy, metric.
    pub cells: Vec<Cell>,
}

fn baseline() -> String {
    BASELINE.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_an_ordinary_object_in_files() {
        let params = Params::default().with("vcpus", 16).with("hint", "full");
        assert_eq!(serde_json::to_string(&params).unwrap(), r#"{"hint":"full","vcpus":16}"#);
        assert_eq!(serde_json::from_str::<Params>(r#"{"vcpus":16,"hint":"full"}"#).unwrap(), params);
    }

    #[test]
    fn params_sort_by_number_not_by_digit() {
        assert!(Params::default().with("vcpus", 8) < Params::default().with("vcpus", 16));
    }

    #[test]
    fn labels_tell_size_and_variant_apart() {
        let params = Params::default().with("vcpus", 16).with("hint", "full");
        assert_eq!((params.size_label().as_str(), params.variant().as_str()), ("16 vCPUs", "yields with hints"));
        let each = Params::default().with("vms", 1).with("mib", 8).with("vcpus_each", 4).with("machine", "up");
        assert_eq!(each.variant(), "one pCPU, 8 MiB each, 4 vCPUs each");
        let sizeless = Params::default().with("hint", "none");
        assert_eq!(sizeless.size_label(), "yields without hints");
        let part = Params::default().with("probe", "mouse").with("load", "none");
        assert_eq!((part.size_label().as_str(), part.variant().as_str()), ("mouse", "load none"));
        assert_eq!(Params::default().with("load", "none").with("hint", "full").size_label(), "none");
    }
}
