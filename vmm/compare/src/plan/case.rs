//! What a cell runs besides its policy: how large, and set up how.

use super::{Load, Options};
use stile_host::CpuList;
use stile_results::model::Params;
use stile_results::suite::Suite;

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
    /// It has none, or does not make it.
    Usual,
    /// On all pCPUs, or on one.
    On(Machine),
    /// On all pCPUs, with a domain for each: VMs that speak with each other, and the device work between them, stay on one
    /// pCPU.
    Affinity,
    /// Without a VM: threads do what a scheduler does about a slot when a vCPU leaves its guest and goes on.
    Bare(Machine),
    /// Work without locks, or with one.
    Locks(bool),
    /// VMs of this kind.
    Each(VmShape),
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

/// How large a VM is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VmShape {
    /// Number of vCPUs.
    pub vcpus: u32,
    /// Memory (units: MiB).
    pub mib: u32,
}

/// No setup has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no setup is called `{0}`; there are up, smp, affinity, bare-up, bare-smp, no-locks, locks, none, memload, execload, \
     forkload, make, make-ccache, and VCPUSxMEMORY such as 4x16M"
)]
pub struct UnknownSetup(String);

impl Machine {
    /// As reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Smp => "smp",
        }
    }
}

impl Setup {
    /// The setups of a suite that has a choice, as a run takes them that names none: a full one all, a quick one few.
    pub fn of(suite: Suite, full: bool, quick: bool) -> Vec<Self> {
        use Machine::{Smp, Up};
        let each = |vcpus, mib| Self::Each(VmShape { vcpus, mib });
        match suite {
            Suite::Netbench if full => vec![Self::On(Up), Self::On(Smp), Self::Affinity],
            Suite::Entry if quick => vec![Self::On(Smp), Self::Bare(Smp)],
            Suite::Entry => vec![Self::On(Smp), Self::On(Up), Self::Bare(Smp), Self::Bare(Up)],
            Suite::Partition => vec![Self::Locks(false), Self::Locks(true)],
            Suite::Volano if quick => vec![Self::On(Smp)],
            Suite::Volano => vec![Self::On(Smp), Self::On(Up)],
            Suite::Interactive => Load::ALL.map(Self::Load).to_vec(),
            Suite::Boot if quick => vec![each(1, 8)],
            Suite::Boot => vec![each(1, 8), each(4, 16), each(1, 256)],
            _ => vec![Self::Usual],
        }
    }

    /// Whether a suite can be set up like this.
    pub fn suits(self, suite: Suite) -> bool {
        match self {
            Self::Usual => true,
            Self::On(_) => matches!(suite, Suite::Netbench | Suite::Entry | Suite::Volano),
            Self::Affinity => suite == Suite::Netbench,
            Self::Bare(_) => suite == Suite::Entry,
            Self::Locks(_) => suite == Suite::Partition,
            Self::Each(_) => suite == Suite::Boot,
            Self::Load(_) => suite == Suite::Interactive,
        }
    }

    /// The size that goes with it, where suites leave that to it.
    fn usual_size(self) -> Option<u32> {
        if let Self::Load(load) = self { Some(load.usual_size()) } else { None }
    }

    /// As parameters of a report.
    fn params(self, params: Params) -> Params {
        match self {
            Self::Usual => params,
            Self::On(machine) => params.with("machine", machine.name()),
            Self::Affinity => params.with("machine", Machine::Smp.name()).with("affinity", "on"),
            Self::Bare(machine) => params.with("machine", machine.name()).with("vm", "none"),
            Self::Locks(locks) => params.with("locks", if locks { "one" } else { "none" }),
            Self::Load(load) => params.with("load", load.name()),
            Self::Each(VmShape { vcpus, mib }) => {
                params.with("mib", u64::from(mib)).with("vcpus_each", u64::from(vcpus))
            }
        }
    }
}

impl std::fmt::Display for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usual => f.write_str("usual"),
            Self::On(machine) => f.write_str(machine.name()),
            Self::Affinity => f.write_str("affinity"),
            Self::Bare(machine) => write!(f, "bare-{}", machine.name()),
            Self::Locks(false) => f.write_str("no-locks"),
            Self::Locks(true) => f.write_str("locks"),
            Self::Load(load) => f.write_str(load.name()),
            Self::Each(VmShape { vcpus, mib }) => write!(f, "{vcpus}x{mib}M"),
        }
    }
}

impl std::str::FromStr for Setup {
    type Err = UnknownSetup;

    fn from_str(name: &str) -> Result<Self, UnknownSetup> {
        use Machine::{Smp, Up};
        let named = [Self::On(Up), Self::On(Smp), Self::Affinity, Self::Bare(Up), Self::Bare(Smp)];
        let named = named.into_iter().chain([Self::Locks(false), Self::Locks(true)]).chain(Load::ALL.map(Self::Load));
        let shape = || {
            let (vcpus, mib) = name.strip_suffix('M')?.split_once('x')?;
            let (vcpus, mib) = (vcpus.parse().ok()?, mib.parse().ok()?);
            ((1..=1024).contains(&vcpus) && (1..=65_536).contains(&mib)).then_some(Self::Each(VmShape { vcpus, mib }))
        };
        let found = named.into_iter().find(|setup| setup.to_string() == name);
        found.or_else(shape).ok_or_else(|| UnknownSetup(name.to_owned()))
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
        if options.suite == Suite::Interactive && sizes.is_empty() {
            let usual = |setup: Setup| Self { size: setup.usual_size().unwrap_or(0), setup };
            return options.setups().into_iter().map(usual).collect();
        }
        options.setups().into_iter().flat_map(with).collect()
    }

    /// The host CPUs it runs on, a list for each domain.
    pub fn pcpus(self, options: &Options) -> Vec<CpuList> {
        let first = || options.pcpus.iter().take(1).collect();
        match self.setup {
            Setup::On(Machine::Up) | Setup::Bare(Machine::Up) => vec![first()],
            Setup::Affinity => options.pcpus.iter().map(|pcpu| std::iter::once(pcpu).collect()).collect(),
            _ => vec![options.pcpus.clone()],
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
        self.setup.params(params)
    }

    /// Whether its size follows from its set-up, so that reports need not tell it.
    pub fn has_usual_size(self) -> bool {
        self.setup.usual_size() == Some(self.size)
    }

    /// For who watches: "8 vCPUs", "2 vCPUs, machine up", "load make".
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setups_of_all_suites_parse_back_and_suit_them() {
        for suite in Suite::ALL {
            for setup in Setup::of(suite, true, false) {
                assert!(setup.suits(suite), "{suite}: {setup}");
                assert!(setup == Setup::Usual || setup.to_string().parse() == Ok(setup), "{suite}: {setup}");
            }
            assert_eq!(Setup::Bare(Machine::Up).suits(suite), suite == Suite::Entry);
        }
    }

    #[test]
    fn what_is_no_setup_is_refused_with_all_names() {
        for name in ["", "usual", "4x", "0x8M", "4x16", "x8M", "2000x8M"] {
            let refused = name.parse::<Setup>().unwrap_err().to_string();
            assert!(refused.contains("bare-up") && refused.contains("4x16M"), "{refused}");
        }
    }
}
