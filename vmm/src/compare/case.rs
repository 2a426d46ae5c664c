//! What a cell runs besides its policy: how large, and set up how.

use super::{Load, Options};
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
    /// Beside this load.
    Load(Load),
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
            Suite::Entry => {
                [Machine::Smp, Machine::Up].into_iter().flat_map(|machine| with(Setup::On(machine))).collect()
            }
            Suite::Interactive if sizes.is_empty() => {
                let usual = |&load: &Load| Self { size: load.usual_size(), setup: Setup::Load(load) };
                options.loads().iter().map(usual).collect()
            }
            Suite::Interactive => options.loads().iter().flat_map(|&load| with(Setup::Load(load))).collect(),
            _ => with(Setup::Usual).collect(),
        }
    }

    /// The host CPUs it runs on.
    pub fn pcpus(self, options: &Options) -> CpuList {
        match self.setup {
            Setup::On(Machine::Up) => options.pcpus.iter().take(1).collect(),
            Setup::On(Machine::Smp) | Setup::Usual | Setup::Load(_) => options.pcpus.clone(),
        }
    }

    /// Its parameters in the report.
    pub fn params(self, options: &Options) -> Params {
        let Some(each) = options.per_pcpu else { return self.params_with_size(options) };
        let pcpus = Params::default().with("pcpus", options.pcpus.len() as u64);
        described(options, pcpus.with(&format!("{}_per_pcpu", options.suite.counted().name()), u64::from(each)))
    }

    /// The same, by its size, whatever the report goes by.
    pub fn params_with_size(self, options: &Options) -> Params {
        let size = match self.has_usual_size() {
            true => Params::default(),
            false => Params::default().with(options.suite.counted().name(), u64::from(self.size)),
        };
        described(options, self.setup_params(size))
    }

    /// Its parameters in the report, the size apart.
    pub fn setup_params(self, params: Params) -> Params {
        match self.setup {
            Setup::Usual => params,
            Setup::On(machine) => params.with("machine", machine.name()),
            Setup::Load(load) => params.with("load", load.name()),
        }
    }

    /// Whether its size follows from its set-up, so that reports need not tell it.
    pub fn has_usual_size(self) -> bool {
        matches!(self.setup, Setup::Load(load) if load.usual_size() == self.size)
    }

    /// For who watches: "8 vCPUs", "2 vCPUs, machine up", "load make".
    pub fn words(self, suite: Suite) -> String {
        let setup = self.setup_params(Params::default());
        let size = (!self.has_usual_size()).then(|| format!("{} {}", self.size, suite.counted().words()));
        let setup = setup.iter().map(|(name, value)| format!("{name} {value}"));
        size.into_iter().chain(setup).collect::<Vec<_>>().join(", ")
    }
}

/// These parameters, and those that all cells have.
fn described(options: &Options, mut params: Params) -> Params {
    if options.suite.waits() {
        params = params.with("hint", options.hint.name());
    }
    for (key, value) in &options.settings {
        params = params.with(key, *value);
    }
    params
}
