//! The file of `stile sim`, which describes a simulated comparison.
//!
//! The file is checked as a configuration is: every mistake is reported at once, with its place and the accepted
//! values. The field comments here describe its keys. `docs/simulation-file.md` is generated from them.

mod check;
pub(super) mod schema;

use super::plan::options::{Hint, Options};
use schema::scenario_schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use stile_config::{ConfigError, FileKind, read, text_of};
use stile_host::{CostsError, HostCosts, MeasuredCosts, Neighbours};
use stile_results::distinct_labels;
use stile_suites::{Counted, Suite};

/// The range of simulated pCPUs.
pub const PCPUS: RangeInclusive<u32> = 1..=512;
/// The range of simulated vCPUs.
const VCPUS_MAX: u32 = 100_000;
/// The range of clients. Each has a server.
const CLIENTS_MAX: u32 = VCPUS_MAX / 2;
/// The range of rounds.
const REPS_MAX: u32 = 1000;
/// The range of a window's length (units: s).
const DURATION_MIN: f64 = 0.01;
const DURATION_MAX: f64 = 3600.0;

/// The size is `vcpus` or `vcpus_per_pcpu`, for netbench `clients` or `clients_per_pcpu`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The workload. Suites without a model are left out; volano, which has no window, is simulated by
    /// `stile compare volano --sim`.
    #[schemars(schema_with = "schema::suite")]
    pub suite: Suite,
    /// The policies to compare, named as for `stile compare --policies`.
    #[schemars(schema_with = "schema::policies")]
    pub policies: Vec<String>,
    /// Numbers of vCPUs, each a run of its own.
    #[serde(default)]
    #[schemars(inner(range(min = 1, max = VCPUS_MAX)), extend("x-default" = "none"))]
    pub vcpus: Vec<u32>,
    /// Numbers of client VMs, each a run of its own. For netbench.
    #[serde(default)]
    #[schemars(inner(range(min = 1, max = CLIENTS_MAX)), extend("x-default" = "none"))]
    pub clients: Vec<u32>,
    /// vCPUs for each pCPU, in place of `vcpus`; `pcpus` may then list several machines.
    #[serde(default)]
    #[schemars(with = "u32", range(min = 1, max = VCPUS_MAX), extend("x-default" = "none"))]
    pub vcpus_per_pcpu: Option<u32>,
    /// Client VMs for each pCPU, in place of `clients`. For netbench.
    #[serde(default)]
    #[schemars(with = "u32", range(min = 1, max = CLIENTS_MAX), extend("x-default" = "none"))]
    pub clients_per_pcpu: Option<u32>,
    /// The machine: its number of pCPUs, or its shape. A list names several machines with different numbers of pCPUs.
    #[schemars(schema_with = "schema::pcpus")]
    pub pcpus: Pcpus,
    /// Length of a window in simulated seconds.
    #[serde(default = "duration")]
    #[schemars(range(min = DURATION_MIN, max = DURATION_MAX))]
    pub duration: f64,
    /// Rounds, each with other random draws.
    #[serde(default = "reps")]
    #[schemars(range(min = 1, max = REPS_MAX))]
    pub reps: u32,
    /// Seed of all random draws: the same seed gives the same run.
    #[serde(default = "seed")]
    pub seed: u64,
    /// Whether yields say what they wait for.
    #[serde(default = "hints")]
    pub hints: bool,
    /// Costs of exits, switches, kicks and wake-ups: the path of a file written by `stile doctor --costs`, relative to
    /// this file, or the figures themselves.
    #[serde(default)]
    #[schemars(schema_with = "schema::costs")]
    costs: Costs,
    /// Parameters of the workload, such as `set = { hold_ns = 500 }`; as `stile compare --set`.
    #[serde(default)]
    #[schemars(extend("x-default" = "none", "x-range" = "names and whole numbers"))]
    pub set: BTreeMap<String, u64>,
}

/// The pCPUs of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Pcpus {
    /// This many, behind one cache, each a core of its own.
    Count(Counts),
    /// A number with caches and cores.
    Shaped(Shape),
}

/// The number of pCPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Counts {
    /// Of one machine.
    One(u32),
    /// Of several machines.
    Many(Vec<u32>),
}

/// The shape of a machine, in place of a number: `pcpus = { count = 64, llc = 16, smt = 2 }`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// The number of pCPUs, or a list of numbers for several machines.
    #[schemars(schema_with = "schema::counts")]
    pub count: Counts,
    /// Number of pCPUs that share a last-level cache.
    #[schemars(range(min = 1, max = 512))]
    pub llc: u32,
    /// Number of pCPUs that share a core.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 512))]
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

impl Scenario {
    /// Reads and checks a file.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let text = text_of(FileKind::Simulation, file)?;
        Self::parse(&file.display().to_string(), &text)
    }

    /// Checks `text`, the content of the file `file`. The name is for messages, and a relative path of costs starts at
    /// its directory.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        let base = Path::new(file).parent().unwrap_or(Path::new(""));
        let cross = |document: &toml::de::DeTable<'_>| check::check(document, base);
        read(FileKind::Simulation, (file, text), scenario_schema().as_value(), cross)
    }

    /// Numbers of vCPUs or clients on a machine with this number of pCPUs.
    fn sizes(&self, pcpus: u32) -> Vec<u32> {
        match (self.per_pcpu(), self.suite.counted()) {
            (Some(each), _) => vec![each.saturating_mul(pcpus)],
            (None, Counted::Clients) => self.clients.clone(),
            (None, Counted::Vcpus) => self.vcpus.clone(),
            // The file has no key for these sizes, and is refused.
            (None, Counted::Vms | Counted::Groups | Counted::Rooms) => Vec::new(),
        }
    }

    fn per_pcpu(&self) -> Option<u32> {
        match self.suite.counted() {
            Counted::Clients => self.clients_per_pcpu,
            Counted::Vcpus => self.vcpus_per_pcpu,
            Counted::Vms | Counted::Groups | Counted::Rooms => None,
        }
    }

    /// The comparison on each machine, with the machine's topology.
    pub fn machines(&self) -> Vec<(Options, Neighbours)> {
        let (counts, llc, smt) = self.pcpus.shape();
        let machine = |&count: &u32| (self.options(count), neighbours(count, llc.unwrap_or(count), smt));
        counts.iter().map(machine).collect()
    }

    fn options(&self, pcpus: u32) -> Options {
        let policies = self.policies.iter().filter_map(|name| name.parse().ok());
        let policies = distinct_labels(&self.policies).into_iter().zip(policies).collect();
        Options {
            sizes: self.sizes(pcpus),
            per_pcpu: self.per_pcpu(),
            reps: Some(self.reps),
            duration: Some(self.duration),
            hint: if self.hints { Hint::Full } else { Hint::None },
            settings: self.set.iter().map(|(key, value)| (key.clone(), *value)).collect(),
            seed: self.seed,
            ..Options::new(self.suite, policies, (0..pcpus).collect())
        }
    }

    /// Reads the costs. A relative path starts at the directory of the file.
    pub fn costs(&self, scenario: &Path) -> Result<MeasuredCosts, CostsError> {
        match &self.costs {
            Costs::Usual => Ok(HostCosts::default().into()),
            Costs::Figures(costs) => Ok((*costs).into()),
            Costs::File(file) => MeasuredCosts::read(&scenario.parent().unwrap_or(Path::new("")).join(file)),
        }
    }
}

impl Pcpus {
    /// Numbers of pCPUs, of pCPUs that share a cache (`None`: all), and of pCPUs that share a core.
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

/// The topology of a machine.
fn neighbours(count: u32, llc: u32, smt: u32) -> Neighbours {
    Neighbours::regular(&(0..count).collect(), llc, smt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(text: &str) -> Scenario {
        Scenario::parse("scenario.toml", text).unwrap()
    }

    #[test]
    fn a_short_file_is_enough_and_every_key_is_read() {
        let short = "suite = \"ticket\"\npolicies = [\"rsdl\"]\nvcpus = [4]\npcpus = 2\n";
        assert_eq!(scenario(short).machines().len(), 1);
        let long = format!("{short}duration = 2.5\nreps = 3\nseed = 9\nhints = false\nset = {{ hold_ns = 500 }}\n");
        let scenario = scenario(&long);
        let [(options, _)] = &scenario.machines()[..] else { panic!() };
        assert_eq!((options.reps, options.duration, options.seed, options.hint), (Some(3), Some(2.5), 9, Hint::None));
        assert_eq!(options.settings, [("hold_ns".to_owned(), 500)]);
        assert_eq!((options.pcpus.len(), options.policies.len()), (2, 1));
    }

    #[test]
    fn a_shape_says_who_shares_a_core_and_who_a_cache() {
        let shaped = scenario(
            "suite = \"ticket\"\npolicies = [\"rsdl\"]\nvcpus = [4]\npcpus = { count = 8, llc = 4, smt = 2 }\n",
        );
        let lists = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let expected = Neighbours { cores: lists(&["0-1", "2-3", "4-5", "6-7"]), caches: lists(&["0-3", "4-7"]) };
        assert_eq!(shaped.machines()[0].1, expected);
    }

    #[test]
    fn machines_have_so_many_vcpus_for_each_pcpu() {
        let scenario = scenario(
            "suite = \"netbench\"\npolicies = [\"rsdl\"]\nclients_per_pcpu = 3\npcpus = { count = [1, 8], llc = 4 }\n",
        );
        let machines = scenario.machines();
        let sizes: Vec<_> = machines.iter().map(|(options, near)| (options.sizes(), near.caches.len())).collect();
        assert_eq!(sizes, [(vec![3], 1), (vec![24], 2)]);
    }

    #[test]
    fn costs_may_stand_in_the_file_itself() {
        let costs = toml::to_string(&HostCosts { exit_ns: 31_000, ..HostCosts::default() }).unwrap();
        let scenario =
            scenario(&format!("suite = \"ticket\"\npolicies = [\"rsdl\"]\nvcpus = [4]\npcpus = 2\n[costs]\n{costs}"));
        assert_eq!(scenario.costs(Path::new("")).unwrap().costs.exit_ns, 31_000);
    }
}
