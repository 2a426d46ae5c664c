//! What a comparison is asked to do.

use super::{Setup, Until};
use crate::Linux;
use clap::ValueEnum;
use stile_config::PolicyConfig;
use stile_host::CpuList;
use stile_results::suite::Suite;

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
    /// A short run.
    pub quick: bool,
    /// The sizes of the report that the suite comes from, whatever time they take.
    pub full: bool,
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
pub fn default_policies(suite: Suite, full: bool) -> Vec<PolicyConfig> {
    let names: &[&str] = match suite {
        Suite::Netbench if full => &["host", "o1", "rsdl"],
        Suite::Entry => &["host", "freelist", "rsdl"],
        Suite::Interactive => &["host", "host-noyield", "rsdl+none", "rsdl+expire", "rsdl+polite"],
        // The stages of the source: neither, lateral steal, and adaptive spinning.
        Suite::Hackbench => &["host", "rsdl:no-lateral:no-adaptive", "rsdl:no-adaptive", "rsdl"],
        // The source's two schedulers, and two meanings of a yield.
        Suite::Volano => &["host", "goodness:yield_recalculates:yield_bounces", "goodness", "rsdl+expire", "rsdl"],
        _ => &["host", "rsdl"],
    };
    names.iter().map(|name| name.parse().expect("the default policies are known")).collect()
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
            quick: false,
            full: false,
            budget: None,
            until: None,
            reference: None,
            seed: 1,
        }
    }

    /// The sizes to run.
    pub fn sizes(&self) -> Vec<u32> {
        if !self.sizes.is_empty() {
            return self.sizes.clone();
        }
        if self.linux.is_some() || self.suite.is_of_linux() {
            return self.linux_sizes();
        }
        match (self.suite, self.quick) {
            (Suite::Netbench, _) if self.full => (4..=48).step_by(4).collect(),
            (Suite::Netbench, true) => vec![4, 48],
            (Suite::Netbench, false) => vec![4, 16, 32, 48],
            (Suite::Threeway, true) => vec![6, 12],
            (Suite::Threeway, false) => vec![6, 12, 24],
            (Suite::Weights, true) => vec![6],
            (Suite::Entry, _) => vec![2],
            // Each load has a usual size of its own.
            (Suite::Interactive, _) => Vec::new(),
            (Suite::Partition, true) => vec![8],
            (Suite::Boot, true) => vec![1, 100],
            (Suite::Boot, false) => vec![1, 10, 100],
            (Suite::Hackbench, _) if self.full => vec![50],
            (Suite::Volano, _) if self.full => vec![1, 2, 5, 10],
            (Suite::Hackbench, true) => vec![2],
            (Suite::Hackbench, false) => vec![1, 5],
            (Suite::Volano, true) => vec![1],
            (Suite::Volano, false) => vec![1, 2],
            (_, true) => vec![4, 8],
            (Suite::Hogs | Suite::Weights, false) => vec![2, 8, 16],
            (_, false) => vec![4, 8, 16],
        }
    }

    /// The sizes of suites with Linux guests.
    fn linux_sizes(&self) -> Vec<u32> {
        match (self.suite, self.quick) {
            (Suite::Boot, true) => vec![1],
            (_, true) => vec![2],
            (Suite::Boot, false) => vec![1, 4, 16],
            (_, false) => vec![1, 2, 4],
        }
    }

    /// The last value that the user has set for a parameter of the workload.
    pub(crate) fn setting(&self, key: &str) -> Option<u64> {
        self.settings.iter().rfind(|(name, _)| name == key).map(|(_, value)| *value)
    }

    /// The setups to run.
    pub fn setups(&self) -> Vec<Setup> {
        match (&self.setups[..], &self.linux) {
            ([], Some(_)) => vec![Setup::Each(Linux::USUAL)],
            ([], None) => Setup::of(self.suite, self.full, self.quick),
            (chosen, _) => chosen.to_vec(),
        }
    }

    /// The rounds that windows are made to fit: with five an interval can be given, and the quick run's time allows
    /// three; `interactive` has many cells, and time for fewer.
    pub fn rounds(&self) -> u32 {
        let usual = match (self.suite, self.quick, self.full) {
            (Suite::Interactive, true, _) => 1,
            // As many as the source lists.
            (Suite::Hackbench, false, true) => 10,
            (Suite::Interactive, false, _) | (_, true, _) | (_, _, true) => 3,
            _ => 5,
        };
        self.reps.unwrap_or(usual)
    }

    /// The rounds to run at most.
    pub fn most_rounds(&self) -> u32 {
        self.until.map_or(self.rounds(), |_| Until::MOST_ROUNDS)
    }
}
