//! What a comparison is asked to do.

use super::linux::Linux;
use super::until::Until;
use clap::ValueEnum;
use stile_config::PolicyConfig;
use stile_host::CpuList;
use stile_results::aggregate::distinct_labels;
use stile_suites::{RunKind, Setup, Suite, VmShape};

/// A comparison, as the user wants it.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which workload.
    pub suite: Suite,
    /// Label and configuration of each policy, in order.
    pub policies: Vec<(String, PolicyConfig)>,
    /// Numbers of vCPUs or clients; empty: the suite's own.
    pub sizes: Vec<u32>,
    /// How the suite is set up; empty: as the kind of run does it.
    pub setups: Vec<Setup>,
    /// Rounds; `None`: as many as the kind of run has.
    pub reps: Option<u32>,
    /// Length of a window (units: s); `None`: what fits the time of the run.
    pub duration: Option<f64>,
    /// The sizes are so many for each pCPU, and it is machines that are compared: reports go by the number of pCPUs.
    pub per_pcpu: Option<u32>,
    /// Host CPUs.
    pub pcpus: CpuList,
    /// What the guests tell of their waiting.
    pub hint: Hint,
    /// Parameters of the workload, for the guests' command line.
    pub settings: Vec<(String, u64)>,
    /// Linux in place of the built-in guests.
    pub linux: Option<Linux>,
    /// What kind of run it is.
    pub kind: RunKind,
    /// What the run may take, about (units: s); `None`: what its kind may.
    pub budget: Option<f64>,
    /// More rounds than usual, until intervals are narrow.
    pub until: Option<Until>,
    /// Label of the policy that ratios refer to; `None`: the host's scheduler.
    pub reference: Option<String>,
    /// Seed.
    pub seed: u64,
}

/// What the guests tell of their waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Hint {
    /// They yield, and say what they wait for and whether they ask again
    Full,
    /// They yield and say nothing
    None,
    /// They spin and never yield
    Silent,
}

impl Hint {
    /// As command lines write it, the guests' too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::None => "none",
            Self::Silent => "silent",
        }
    }
}

/// What a suite compares unless it is told.
pub fn default_policies(suite: Suite, kind: RunKind) -> Vec<PolicyConfig> {
    let names = suite.descriptor().policies.of(kind);
    names.iter().map(|name| name.parse().expect("the default policies are known")).collect()
}

/// Policies with labels that tell them apart.
pub fn labelled(policies: &[PolicyConfig]) -> Vec<(String, PolicyConfig)> {
    let names: Vec<String> = policies.iter().map(ToString::to_string).collect();
    distinct_labels(&names).into_iter().zip(policies.iter().cloned()).collect()
}

impl Options {
    /// This suite under these policies on these pCPUs, and otherwise as it is usually run.
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

    /// Whether its guests are Linux: because the user wants that, or because the suite has no others.
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

    /// The last value that the user has set for a parameter of the workload.
    pub(crate) fn setting(&self, key: &str) -> Option<u64> {
        self.settings.iter().rfind(|(name, _)| name == key).map(|(_, value)| *value)
    }

    /// The value of a parameter that has a default: the last one that the user has set, or else the suite's.
    pub(crate) fn number(&self, key: &str) -> u64 {
        let default = || self.suite.parameter(key).and_then(|parameter| parameter.default);
        self.setting(key).or_else(default).expect("the suite has the parameter, and a default for it")
    }

    /// The set-ups to run.
    pub fn setups(&self) -> Vec<Setup> {
        match (&self.setups[..], &self.linux) {
            ([], Some(_)) => vec![Setup::Each(Self::LINUX_SHAPE)],
            ([], None) => self.suite.setups(self.kind).to_vec(),
            (chosen, _) => chosen.to_vec(),
        }
    }

    /// The shape of Linux guests unless it is chosen.
    pub(crate) const LINUX_SHAPE: VmShape = VmShape { vcpus: 2, mib: 256 };

    /// The rounds that windows are made to fit.
    pub fn rounds(&self) -> u32 {
        self.reps.unwrap_or(self.suite.descriptor().rounds.of(self.kind))
    }

    /// The rounds to run at most.
    pub fn most_rounds(&self) -> u32 {
        self.until.map_or(self.rounds(), |_| Until::MOST_ROUNDS)
    }
}
