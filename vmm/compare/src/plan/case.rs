//! A case: the size and setup of a cell.

use super::options::Options;
use stile_host::CpuList;
use stile_results::model::Params;
use stile_suites::{Processors, Setup, Suite, VmShape};

/// One size and setup of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// The size: vCPUs, clients or another unit of the suite.
    pub size: u32,
    /// The setup.
    pub setup: Setup,
}

impl Case {
    /// A case of a suite that has one setup only.
    pub fn of_size(size: u32) -> Self {
        Self { size, setup: Setup::Usual }
    }

    /// All cases of these options, in the order of a round.
    pub fn all(options: &Options) -> Vec<Self> {
        let sizes = options.sizes();
        let with = |setup: Setup| sizes.iter().map(move |&size| Self { size, setup });
        if sizes.is_empty() {
            let usual = |setup: Setup| Some(Self { size: setup.usual_size()?, setup });
            return options.setups().into_iter().filter_map(usual).collect();
        }
        options.setups().into_iter().flat_map(with).collect()
    }

    /// The host CPUs that it runs on, a list for each domain.
    pub fn pcpus(self, options: &Options) -> Vec<CpuList> {
        let first = || options.pcpus.iter().take(1).collect();
        match self.setup {
            Setup::On(Processors::Up) | Setup::Bare(Processors::Up) => vec![first()],
            Setup::Affinity => options.pcpus.iter().map(|pcpu| std::iter::once(pcpu).collect()).collect(),
            Setup::On(Processors::Smp)
            | Setup::Bare(Processors::Smp)
            | Setup::Usual
            | Setup::Locks(_)
            | Setup::Each(_)
            | Setup::Load(_) => vec![options.pcpus.clone()],
        }
    }

    /// Its parameters in the report.
    pub fn params(self, options: &Options) -> Params {
        let Some(each) = options.per_pcpu else { return self.params_with_size(options) };
        let pcpus = Params::default().with("pcpus", options.pcpus.len() as u64);
        described(options, pcpus.with(&format!("{}_per_pcpu", options.suite.counted().name()), u64::from(each)))
    }

    /// Its parameters in the report, by its size even if the report goes by pCPUs.
    pub fn params_with_size(self, options: &Options) -> Params {
        let size = match self.has_usual_size() {
            true => Params::default(),
            false => Params::default().with(options.suite.counted().name(), u64::from(self.size)),
        };
        described(options, self.setup_params(size))
    }

    /// Its parameters in the report without the size.
    pub fn setup_params(self, params: Params) -> Params {
        match self.setup {
            Setup::Usual => params,
            Setup::On(processors) => params.with("machine", processors.name()),
            Setup::Affinity => params.with("machine", Processors::Smp.name()).with("affinity", "on"),
            Setup::Bare(processors) => params.with("machine", processors.name()).with("vm", "none"),
            Setup::Locks(locks) => params.with("locks", if locks { "one" } else { "none" }),
            Setup::Load(load) => params.with("load", load.name()),
            Setup::Each(VmShape { vcpus, mib }) => {
                params.with("mib", u64::from(mib)).with("vcpus_each", u64::from(vcpus))
            }
        }
    }

    /// Whether its size follows from its setup, so that reports leave it out.
    pub fn has_usual_size(self) -> bool {
        self.setup.usual_size() == Some(self.size)
    }

    /// In words, for progress: "8 vCPUs", "2 vCPUs, machine up", "load make".
    pub fn words(self, suite: Suite) -> String {
        let setup = self.setup_params(Params::default());
        let counted = suite.counted().words().trim_end_matches('s');
        let size = (!self.has_usual_size()).then(|| stile_text::count(self.size as usize, counted));
        let setup = setup.iter().map(|(name, value)| format!("{name} {value}"));
        size.into_iter().chain(setup).collect::<Vec<_>>().join(", ")
    }
}

/// These parameters, and those that all cells have.
fn described(options: &Options, mut params: Params) -> Params {
    if options.linux.is_some() {
        params = params.with("guest", "linux");
    } else if options.suite.waits() {
        params = params.with("hint", options.hint.name());
    }
    for (key, value) in &options.settings {
        params = params.with(key, *value);
    }
    params
}
