//! What `stile sim` is asked to do, as its file says it.
//!
//! ```toml
//! suite = "ticket"
//! policies = ["host", "rsdl"]
//! vcpus = [64, 256]                      # netbench: clients
//! pcpus = { count = 64, llc = 16, smt = 2 }    # or a number: one cache, one thread to a core
//! ```
//!
//! Or machines are compared, each with so many vCPUs (clients) for every pCPU:
//!
//! ```toml
//! vcpus_per_pcpu = 4
//! pcpus = { count = [1, 8, 64], llc = 16 }
//! ```

use super::{Hint, Options, has_model};
use crate::config::PolicyConfig;

use crate::host::{CostsError, HostCosts, Neighbours};
use crate::report::distinct_labels;
use crate::report::suite::Suite;
use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// How many pCPUs, and vCPUs or clients, can be simulated.
const PCPUS: RangeInclusive<u32> = 1..=512;
const SIZES: RangeInclusive<u32> = 1..=100_000;
/// Rounds.
const REPS: RangeInclusive<u32> = 1..=1000;
/// Length of a window (units: s).
const DURATION: RangeInclusive<f64> = 0.01..=3600.0;

/// One file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Which workload.
    pub suite: Suite,
    /// Policies, as on the command line of `stile compare`.
    pub policies: Vec<String>,
    /// Numbers of vCPUs, each a run of its own.
    #[serde(default)]
    pub vcpus: Vec<u32>,
    /// The same of clients, for netbench.
    #[serde(default)]
    pub clients: Vec<u32>,
    /// vCPUs for each pCPU, in place of their number; then `pcpus` may count several machines.
    #[serde(default)]
    pub vcpus_per_pcpu: Option<u32>,
    /// The same of clients, for netbench.
    #[serde(default)]
    pub clients_per_pcpu: Option<u32>,
    /// The machine, or machines that differ in the number of their pCPUs.
    pub pcpus: Pcpus,
    /// Length of a window in simulated seconds.
    #[serde(default = "duration")]
    pub duration: f64,
    /// Rounds, each with another chance.
    #[serde(default = "reps")]
    pub reps: u32,
    /// Seed.
    #[serde(default = "seed")]
    pub seed: u64,
    /// Whether yields say what they wait for.
    #[serde(default = "hints")]
    pub hints: bool,
    /// What things cost: a file of `stile doctor --costs`, or the figures themselves.
    #[serde(default)]
    costs: Costs,
    /// Parameters of the workload, such as hold_ns.
    #[serde(default)]
    pub set: BTreeMap<String, u64>,
}

/// The pCPUs of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Pcpus {
    /// So many, behind one cache, each a core.
    Count(Counts),
    /// With caches and cores.
    Shaped(Shape),
}

/// How many pCPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Counts {
    /// One machine's.
    One(u32),
    /// Those of several machines.
    Many(Vec<u32>),
}

/// A machine's shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// How many pCPUs.
    pub count: Counts,
    /// How many share a last-level cache.
    pub llc: u32,
    /// How many share a core.
    #[serde(default = "one")]
    pub smt: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(untagged)]
enum Costs {
    #[default]
    Usual,
    File(PathBuf),
    Figures(HostCosts),
}

fn duration() -> f64 {
    1.0
}

fn reps() -> u32 {
    5
}

fn seed() -> u64 {
    1
}

fn hints() -> bool {
    true
}

fn one() -> u32 {
    1
}

/// A scenario cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// It cannot be read.
    #[error("cannot read the scenario {}", file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is no TOML, or has keys or values of other kinds.
    #[error("{}: {message}", file.name())]
    Toml {
        /// Its name and text.
        file: Box<NamedSource<String>>,
        /// What is wrong.
        message: String,
        /// Where.
        span: std::ops::Range<usize>,
    },
    /// A value is out of range or does not fit the others.
    #[error("{}: {problem}", file.display())]
    Value {
        /// Which.
        file: PathBuf,
        /// What is wrong, with what is accepted.
        problem: String,
    },
}

impl Diagnostic for ScenarioError {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        if let Self::Toml { file, .. } = self { Some(&**file) } else { None }
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let Self::Toml { span, .. } = self else { return None };
        Some(Box::new(std::iter::once(LabeledSpan::at(span.clone(), "here"))))
    }
}

impl Scenario {
    /// Reads and checks a file.
    pub fn load(file: &Path) -> Result<Self, ScenarioError> {
        let text =
            std::fs::read_to_string(file).map_err(|source| ScenarioError::Read { file: file.to_owned(), source })?;
        let scenario: Self = toml::from_str(&text).map_err(|error| ScenarioError::Toml {
            message: error.message().trim().replace('\n', ", "),
            span: error.span().unwrap_or(0..0),
            file: Box::new(NamedSource::new(file.display().to_string(), text.clone()).with_language("toml")),
        })?;
        match scenario.problem() {
            None => Ok(scenario),
            Some(problem) => Err(ScenarioError::Value { file: file.to_owned(), problem }),
        }
    }

    /// What does not fit.
    fn problem(&self) -> Option<String> {
        self.size_problem().or_else(|| self.machine_problem()).or_else(|| {
            if !REPS.contains(&self.reps) || !DURATION.contains(&self.duration) {
                return Some("accepted are 1 to 1000 `reps`, and a `duration` of 0.01 to 3600 s".to_owned());
            }
            if self.policies.is_empty() {
                return Some("`policies` names none".to_owned());
            }
            self.policies.iter().find_map(|name| name.parse::<PolicyConfig>().err().map(|error| error.to_string()))
        })
    }

    fn size_problem(&self) -> Option<String> {
        if !has_model(self.suite) {
            return Some(format!("there is no model of the guests of {}", self.suite));
        }
        let (vcpus, clients) = ((&self.vcpus, self.vcpus_per_pcpu), (&self.clients, self.clients_per_pcpu));
        let netbench = self.suite == Suite::Netbench;
        let (unit, (sizes, each), wrong) =
            if netbench { ("clients", clients, vcpus) } else { ("vcpus", vcpus, clients) };
        if !wrong.0.is_empty() || wrong.1.is_some() || sizes.is_empty() == each.is_none() {
            let suite = self.suite;
            return Some(format!("the size of {suite} is `{unit}`, a list of numbers, or `{unit}_per_pcpu`, a number"));
        }
        if each.is_none() && self.pcpus.counts().len() > 1 {
            return Some(format!("several machines go with `{unit}_per_pcpu`, not with `{unit}`"));
        }
        let (least, most) = (*SIZES.start(), *SIZES.end() / if netbench { 2 } else { 1 });
        let sizes = self.pcpus.counts().iter().flat_map(|&pcpus| self.sizes(pcpus)).collect::<Vec<_>>();
        let size = sizes.iter().find(|size| !(least..=most).contains(*size))?;
        Some(format!("{unit} = {size} is out of range; accepted: {least} to {most}"))
    }

    fn machine_problem(&self) -> Option<String> {
        let (_, llc, smt) = self.pcpus.shape();
        let counts = self.pcpus.counts();
        if counts.is_empty() || !counts.iter().all(|count| PCPUS.contains(count)) || llc == Some(0) || smt == 0 {
            let (least, most) = (PCPUS.start(), PCPUS.end());
            return Some(format!("pcpus: accepted are {least} to {most}, in caches and cores of at least 1"));
        }
        None
    }

    /// Numbers of vCPUs or clients on a machine of so many pCPUs.
    fn sizes(&self, pcpus: u32) -> Vec<u32> {
        let netbench = self.suite == Suite::Netbench;
        match self.per_pcpu() {
            Some(each) => vec![each.saturating_mul(pcpus)],
            None if netbench => self.clients.clone(),
            None => self.vcpus.clone(),
        }
    }

    fn per_pcpu(&self) -> Option<u32> {
        if self.suite == Suite::Netbench { self.clients_per_pcpu } else { self.vcpus_per_pcpu }
    }

    /// What to compare on each machine, and how near its pCPUs are to each other.
    pub fn machines(&self) -> Vec<(Options, Neighbours)> {
        let (counts, llc, smt) = self.pcpus.shape();
        let machine = |&count: &u32| (self.options(count), neighbours(count, llc.unwrap_or(count), smt));
        counts.iter().map(machine).collect()
    }

    fn options(&self, pcpus: u32) -> Options {
        let policies = self.policies.iter().filter_map(|name| name.parse().ok());
        Options {
            suite: self.suite,
            policies: distinct_labels(&self.policies).into_iter().zip(policies).collect(),
            sizes: self.sizes(pcpus),
            setups: Vec::new(),
            per_pcpu: self.per_pcpu(),
            reps: Some(self.reps),
            duration: Some(self.duration),
            pcpus: (0..pcpus).collect(),
            hint: if self.hints { Hint::Full } else { Hint::None },
            settings: self.set.iter().map(|(key, value)| (key.clone(), *value)).collect(),
            quick: false,
            full: false,
            budget: None,
            until: None,
            seed: self.seed,
        }
    }

    /// What things cost; a relative path begins beside the scenario.
    pub fn costs(&self, scenario: &Path) -> Result<HostCosts, CostsError> {
        match &self.costs {
            Costs::Usual => Ok(HostCosts::default()),
            Costs::Figures(costs) => Ok(*costs),
            Costs::File(file) => HostCosts::read(&scenario.parent().unwrap_or(Path::new("")).join(file)),
        }
    }
}

impl Pcpus {
    fn counts(&self) -> &[u32] {
        self.shape().0
    }

    /// Numbers of pCPUs, of those that share a cache (`None`: all), and of those that share a core.
    fn shape(&self) -> (&[u32], Option<u32>, u32) {
        match self {
            Self::Count(counts) => (counts.list(), None, 1),
            Self::Shaped(Shape { count, llc, smt }) => (count.list(), Some(*llc), *smt),
        }
    }
}

impl Counts {
    fn list(&self) -> &[u32] {
        match self {
            Self::One(count) => std::slice::from_ref(count),
            Self::Many(counts) => counts,
        }
    }
}

/// Which of a machine's pCPUs are near each other.
fn neighbours(count: u32, llc: u32, smt: u32) -> Neighbours {
    let cpus: Vec<u32> = (0..count).collect();
    let groups = |size: u32| cpus.chunks(size as usize).map(|group| group.iter().copied().collect()).collect();
    Neighbours { cores: groups(smt), caches: groups(llc) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        let scenario: Scenario = toml::from_str(text).unwrap();
        scenario.problem().unwrap_or_default()
    }

    #[test]
    fn a_short_file_is_enough_and_every_key_is_read() {
        let short = "suite = \"ticket\"\npolicies = [\"rsdl\"]\nvcpus = [4]\npcpus = 2\n";
        assert_eq!(problem(short), "");
        let long = format!(
            "{short}duration = 2.5\nreps = 3\nseed = 9\nhints = false\ncosts = \"costs.json\"\nset = {{ hold_ns = 500 }}\n"
        );
        let scenario: Scenario = toml::from_str(&long).unwrap();
        let [(options, _)] = &scenario.machines()[..] else { panic!() };
        assert_eq!((options.reps, options.duration, options.seed, options.hint), (Some(3), Some(2.5), 9, Hint::None));
        assert_eq!(options.settings, [("hold_ns".to_owned(), 500)]);
        assert_eq!((options.pcpus.len(), options.policies.len()), (2, 1));
        assert!(toml::from_str::<Scenario>(&format!("{short}rep = 3\n")).is_err());
    }

    #[test]
    fn what_does_not_fit_is_told_with_what_is_accepted() {
        let with = |keys: &str| problem(&format!("policies = [\"rsdl\"]\n{keys}\n"));
        assert!(with("suite = \"ticket\"\nclients = [4]\npcpus = 2").contains("`vcpus`"));
        assert!(with("suite = \"netbench\"\nvcpus = [4]\npcpus = 2").contains("`clients`"));
        assert!(with("suite = \"ticket\"\nvcpus = [100001]\npcpus = 2").contains("1 to 100000"));
        assert!(with("suite = \"ticket\"\nvcpus = [4]\npcpus = 513").contains("1 to 512"));
        assert!(with("suite = \"ticket\"\nvcpus = [4]\npcpus = [2, 4]").contains("`vcpus_per_pcpu`"));
        assert!(with("suite = \"ticket\"\nvcpus_per_pcpu = 4\npcpus = []").contains("1 to 512"));
        assert!(with("suite = \"ticket\"\nvcpus = [4]\nvcpus_per_pcpu = 4\npcpus = 2").contains("`vcpus`"));
        assert!(with("suite = \"ticket\"\nvcpus_per_pcpu = 300\npcpus = [1, 512]").contains("153600"));
        assert!(with("suite = \"ticket\"\nvcpus = [4]\npcpus = { count = 4, llc = 0 }").contains("at least 1"));
        assert!(with("suite = \"ticket\"\nvcpus = [4]\npcpus = 2\nreps = 0").contains("1 to 1000"));
        let unknown = "suite = \"ticket\"\npolicies = [\"rsld\"]\nvcpus = [4]\npcpus = 2";
        assert!(problem(unknown).contains("there is no policy `rsld`"));
    }

    #[test]
    fn a_shape_says_who_shares_a_core_and_who_a_cache() {
        let shaped: Scenario = toml::from_str(
            "suite = \"ticket\"\npolicies = [\"rsdl\"]\nvcpus = [4]\npcpus = { count = 8, llc = 4, smt = 2 }\n",
        )
        .unwrap();
        let lists = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let expected = Neighbours { cores: lists(&["0-1", "2-3", "4-5", "6-7"]), caches: lists(&["0-3", "4-7"]) };
        assert_eq!(shaped.machines()[0].1, expected);
    }

    #[test]
    fn machines_have_so_many_vcpus_for_each_pcpu() {
        let scenario: Scenario = toml::from_str(
            "suite = \"netbench\"\npolicies = [\"rsdl\"]\nclients_per_pcpu = 3\npcpus = { count = [1, 8], llc = 4 }\n",
        )
        .unwrap();
        assert_eq!(scenario.problem(), None);
        let machines = scenario.machines();
        let sizes: Vec<_> = machines.iter().map(|(options, near)| (options.sizes(), near.caches.len())).collect();
        assert_eq!(sizes, [(vec![3], 1), (vec![24], 2)]);
    }
}
