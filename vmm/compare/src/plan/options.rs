//! The options of a comparison.

use super::linux::Linux;
use super::until::Until;
use clap::ValueEnum;
use stile_config::PolicyConfig;
use stile_host::CpuList;
use stile_results::aggregate::distinct_labels;
use stile_suites::{RunKind, Setup, Suite, VmShape};

/// A comparison as the user wants it.
#[derive(Debug, Clone)]
pub struct Options {
    /// The suite.
    pub suite: Suite,
    /// Label and configuration of each policy, in order.
    pub policies: Vec<(String, PolicyConfig)>,
    /// Numbers of vCPUs or clients; empty: the suite's own.
    pub sizes: Vec<u32>,
    /// The setups; empty: those of the kind of run.
    pub setups: Vec<Setup>,
    /// Rounds; `None`: the number of the kind of run.
    pub reps: Option<u32>,
    /// Length of a window (units: s); `None`: a length that fits the time budget.
    pub duration: Option<f64>,
    /// Sizes are counted for each pCPU, and machines are compared: reports go by the number of pCPUs.
    pub per_pcpu: Option<u32>,
    /// Host CPUs.
    pub pcpus: CpuList,
    /// The hints that guests give.
    pub hint: Hint,
    /// Parameters of the workload, for the guests' command line.
    pub settings: Vec<(String, u64)>,
    /// The files of Linux guests, in place of built-in guests.
    pub linux: Option<Linux>,
    /// The kind of run.
    pub kind: RunKind,
    /// The time budget (units: s); `None`: that of the kind of run.
    pub budget: Option<f64>,
    /// Whether more rounds are run until intervals are narrow.
    pub until: Option<Until>,
    /// Label of the policy that ratios refer to; `None`: the host's scheduler.
    pub reference: Option<String>,
    /// Seed of the order of cells, the guests' randomness and the intervals.
    pub seed: u64,
}

/// The hints that guests give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Hint {
    /// They yield, and say what they wait for and whether they ask again
    Full,
    /// They yield without a hint
    None,
    /// They spin and never yield
    Silent,
}

impl Hint {
    /// Its name on command lines, including those of guests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::None => "none",
            Self::Silent => "silent",
        }
    }
}

/// The policies that a suite compares if the user names none.
pub fn default_policies(suite: Suite, kind: RunKind) -> Vec<PolicyConfig> {
    let names = suite.descriptor().policies.of(kind);
    names.iter().map(|name| name.parse().expect("the default policies are known")).collect()
}

/// Policies with labels that are distinct.
pub fn labelled(policies: &[PolicyConfig]) -> Vec<(String, PolicyConfig)> {
    let names: Vec<String> = policies.iter().map(ToString::to_string).collect();
    distinct_labels(&names).into_iter().zip(policies.iter().cloned()).collect()
}

impl Options {
    /// The usual run of this suite under these policies on these pCPUs.
    pub fn new(suite: Suite, policies: Vec<(String, PolicyConfig)>, pcpus: CpuList) -> Self {
        Self {
            suite,
            policies,
            sizes: Vec::new(),
            setups: Vec::new(),
            reps: None,
            duration: None,
            per_pcpu: None,
            pcpus,
            hint: Hint::Full,
            settings: Vec::new(),
            linux: None,
            kind: RunKind::Usual,
            budget: None,
            until: None,
            reference: None,
            seed: 1,
        }
    }

    /// The policies' labels, in order.
    pub fn labels(&self) -> Vec<String> {
        self.policies.iter().map(|(label, _)| label.clone()).collect()
    }

    /// Whether its guests are Linux: the user asks for that, or the suite has no other guests.
    pub(crate) fn has_linux_guests(&self) -> bool {
        self.linux.is_some() || self.suite.is_of_linux()
    }

    /// The sizes to run.
    pub fn sizes(&self) -> Vec<u32> {
        if !self.sizes.is_empty() {
            return self.sizes.clone();
        }
        let descriptor = self.suite.descriptor();
        let sizes = match (self.has_linux_guests(), &descriptor.builtin, &descriptor.linux) {
            (false, Some(guests), _) => guests.sizes,
            (_, _, Some(guests)) => guests.sizes,
            (_, _, None) => return Vec::new(),
        };
        sizes.of(self.kind).to_vec()
    }

    /// The last value that the user has set for a parameter.
    pub(crate) fn setting(&self, key: &str) -> Option<u64> {
        self.settings.iter().rfind(|(name, _)| name == key).map(|(_, value)| *value)
    }

    /// The value of a parameter that has a default: the last one that the user has set, else the default.
    pub(crate) fn number(&self, key: &str) -> u64 {
        let all = if self.linux.is_some() { self.suite.linux_parameters() } else { self.suite.parameters() };
        let default = || all.iter().find(|parameter| parameter.key == key).and_then(|parameter| parameter.default);
        self.setting(key).or_else(default).expect("the suite has the parameter, and a default for it")
    }

    /// The setups to run.
    pub fn setups(&self) -> Vec<Setup> {
        match (&self.setups[..], &self.linux) {
            ([], Some(_)) => vec![Setup::Each(Self::LINUX_SHAPE)],
            ([], None) => self.suite.setups(self.kind).to_vec(),
            (chosen, _) => chosen.to_vec(),
        }
    }

    /// The default shape of Linux guests.
    pub(crate) const LINUX_SHAPE: VmShape = VmShape { vcpus: 2, mib: 256 };

    /// The rounds that the length of windows is computed for.
    pub fn rounds(&self) -> u32 {
        self.reps.unwrap_or(self.suite.descriptor().rounds.of(self.kind))
    }

    /// The largest number of rounds.
    pub fn most_rounds(&self) -> u32 {
        self.until.map_or(self.rounds(), |_| Until::MOST_ROUNDS)
    }
}
