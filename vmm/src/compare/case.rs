//! What a cell runs besides its policy: how large, and set up how.

use super::Options;
use crate::host::CpuList;
use crate::report::model::Params;
use crate::report::suite::Suite;

/// One setting of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// vCPUs, clients: whatever the suite counts.
    pub size: u32,
    /// What else there is to choose.
    pub setup: Setup,
}

/// How a suite is set up, where it has a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setup {
    /// It has none.
    Usual,
    /// On all pCPUs, or on one.
    On(Machine),
}

/// Which of the pCPUs are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// The first one: no operation has to be seen by another.
    Up,
    /// All.
    Smp,
}

impl Machine {
    /// As reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Smp => "smp",
        }
    }
}

impl Case {
    /// A case of a suite that has no choice.
    pub fn of_size(size: u32) -> Self {
        Self { size, setup: Setup::Usual }
    }

    /// All cases that these options ask for, in the order of a round.
    pub fn all(options: &Options) -> Vec<Self> {
        let sizes = options.sizes();
        let with = |setup: Setup| sizes.iter().map(move |&size| Self { size, setup });
        match options.suite {
            Suite::Volano if options.quick => with(Setup::On(Machine::Smp)).collect(),
            Suite::Entry | Suite::Volano => {
                [Machine::Smp, Machine::Up].into_iter().flat_map(|machine| with(Setup::On(machine))).collect()
            }
            _ => with(Setup::Usual).collect(),
        }
    }

    /// The host CPUs it runs on.
    pub fn pcpus(self, options: &Options) -> CpuList {
        match self.setup {
            Setup::On(Machine::Up) => options.pcpus.iter().take(1).collect(),
            Setup::On(Machine::Smp) | Setup::Usual => options.pcpus.clone(),
        }
    }

    /// Its parameters in the report, the size apart.
    pub fn setup_params(self, params: Params) -> Params {
        match self.setup {
            Setup::Usual => params,
            Setup::On(machine) => params.with("machine", machine.name()),
        }
    }

    /// For who watches: "8 vCPUs", "2 vCPUs, machine up".
    pub fn words(self, suite: Suite) -> String {
        let setup = self.setup_params(Params::default()).variant();
        let separator = if setup.is_empty() { "" } else { ", " };
        format!("{} {}{separator}{setup}", self.size, suite.counted().words())
    }
}
