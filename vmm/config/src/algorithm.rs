//! The registry of scheduling algorithms: a variant of [`Algorithm`] and a row for each.
//!
//! A row says what the algorithm is called, which keys of `[policy]` it takes, how it is built, how it turns nice
//! values into weights, and how long it lets a vCPU wait. Command lines, the schema, the reference pages, help texts
//! and checks read the rows. To add a policy: export it from `stile_sched::policy`, then add a variant and its row
//! here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_sched::attributes::Attributes;
use stile_sched::domain::host::HostYield;
use stile_sched::policy::credit2;
use stile_sched::policy::goodness;
use stile_sched::policy::o1;
use stile_sched::policy::rsdl::{self, RsdlConfig, matrix, rt};
use stile_sched::policy::{Credit2, Freelist, Goodness, O1, Policy, Rsdl};
use stile_sched::{Nanos, Nice, Topology};

use super::types::{PolicyConfig, RunQueues, Variant, YieldRule};

// The first line of a variant's comment is the algorithm's description in the schema.
/// Scheduling algorithm of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// stile's own scheduler: rotating quotas, a bound on every wait, yields that name what they wait for.
    Rsdl,
    /// The host's scheduler: a thread per vCPU on the same CPUs; a yield is `sched_yield`.
    Host,
    /// As `host`, but a yield returns at once.
    HostNoyield,
    /// One global list of free pCPUs behind one lock, first come, first served: the baseline to beat.
    Freelist,
    /// Linux 2.6's O(1) scheduler: a run queue per pCPU, and a guess at which vCPUs are interactive.
    O1,
    /// Linux 2.4's scheduler: one list; the vCPU with the highest sum of counter and priority runs.
    Goodness,
    /// Xen's Credit2: a run queue per last-level cache; the vCPU with the most credit runs.
    Credit2,
    /// The rules of `rsdl` inside the host's kernel, as a scheduler of sched_ext; a thread per vCPU.
    #[cfg(feature = "sched-ext")]
    Ext,
}

/// What stile knows of an algorithm.
#[derive(Debug)]
pub struct Row {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Its name in files, on command lines and in reports.
    pub name: &'static str,
    /// Keys and tables of `[policy]` that this algorithm takes. One that no row names is for all algorithms that stile
    /// carries out.
    pub takes: &'static [&'static str],
    /// What carries it out.
    pub run_by: RunBy,
    /// CPU time of a vCPU of a nice value in any period in which all vCPUs compute, in a unit of its own. `None`: nice
    /// values do not count.
    pub weight: Option<fn(&PolicyConfig, Nice) -> f64>,
    /// The longest that a runnable vCPU waits for one of so many slots beside these others. `None`: it promises
    /// nothing.
    pub wait_bound: Option<WaitBound>,
    /// Part of each pCPU that class rt may use while other classes could run. `None`: classes do not count.
    pub rt_share: Option<f64>,
}

/// What carries an algorithm out.
#[derive(Debug, Clone, Copy)]
pub enum RunBy {
    /// The host's scheduler, which does this with a yield.
    Host(HostYield),
    /// stile: a policy for these slots.
    Stile(fn(&PolicyConfig, Slots) -> Box<dyn Policy>),
}

/// The slots of a policy object.
#[derive(Debug, Clone)]
pub struct Slots {
    /// How many.
    pub count: usize,
    /// How near they are to each other.
    pub topology: Topology,
    /// There are more slots in the domain, with objects of their own.
    pub is_shard: bool,
}

/// The longest wait of a vCPU beside others on so many slots; `None`: the policy promises nothing to such a vCPU.
pub type WaitBound = fn(&PolicyConfig, Attributes, &[Attributes], usize) -> Option<Nanos>;

/// What the kernel leaves to its real-time classes of each CPU: `sched_rt_runtime_us` of `sched_rt_period_us`, by
/// default.
const KERNEL_RT_SHARE: f64 = 0.95;

/// A row for each algorithm, in their order.
static ROWS: &[Row] = &[
    Row {
        algorithm: Algorithm::Rsdl,
        name: "rsdl",
        takes: &[
            "rr_interval",
            "target_latency",
            "least_quota",
            "run_queues",
            "shard_pcpus",
            "variant",
            "yield",
            "affinity",
            "grain",
            "polite",
        ],
        run_by: RunBy::Stile(|policy, slots| {
            let config = RsdlConfig { shares: slots.is_shard, ..rsdl_config(policy, slots.count) };
            Box::new(Rsdl::new(config, slots.count).with_topology(slots.topology))
        }),
        weight: Some(|policy, nice| policy.rotation(nice).0 as f64),
        wait_bound: Some(|policy, me, others, slots| {
            let divided = policy.is_divided(slots);
            let of_shard = if divided { policy.shard_pcpus.get().into() } else { slots };
            let config = RsdlConfig { shares: divided, ..rsdl_config(policy, of_shard) };
            rsdl::wait_bound(&config, me, others, slots)
        }),
        rt_share: Some(rt::SHARE as f64 / 100.0),
    },
    Row {
        algorithm: Algorithm::Host,
        name: "host",
        takes: &[],
        run_by: RunBy::Host(HostYield::Sched),
        weight: Some(|_, nice| kernel_weight(nice)),
        wait_bound: None,
        rt_share: Some(KERNEL_RT_SHARE),
    },
    Row {
        algorithm: Algorithm::HostNoyield,
        name: "host-noyield",
        takes: &[],
        run_by: RunBy::Host(HostYield::Ignore),
        weight: Some(|_, nice| kernel_weight(nice)),
        wait_bound: None,
        rt_share: Some(KERNEL_RT_SHARE),
    },
    Row {
        algorithm: Algorithm::Freelist,
        name: "freelist",
        takes: &["rr_interval", "affinity"],
        run_by: RunBy::Stile(|policy, slots| {
            let freelist = Freelist::new(interval(policy), slots.count);
            Box::new(if policy.affinity { freelist.with_affinity(slots.topology) } else { freelist })
        }),
        weight: None,
        wait_bound: None,
        rt_share: None,
    },
    Row {
        algorithm: Algorithm::O1,
        name: "o1",
        takes: &[],
        run_by: RunBy::Stile(|_, slots| Box::new(O1::new(slots.count).with_topology(slots.topology))),
        weight: Some(|_, nice| o1::slice(nice).0 as f64),
        wait_bound: None,
        rt_share: Some(1.0),
    },
    Row {
        algorithm: Algorithm::Goodness,
        name: "goodness",
        takes: &["goodness"],
        run_by: RunBy::Stile(|policy, slots| Box::new(Goodness::new(policy.goodness, slots.count))),
        weight: Some(|_, nice| goodness::refill(nice).0 as f64),
        wait_bound: None,
        rt_share: Some(1.0),
    },
    Row {
        algorithm: Algorithm::Credit2,
        name: "credit2",
        takes: &[],
        run_by: RunBy::Stile(|_, slots| Box::new(Credit2::new(slots.count).with_topology(&slots.topology))),
        weight: Some(|_, nice| f64::from(credit2::weight(nice))),
        wait_bound: None,
        rt_share: Some(1.0),
    },
    #[cfg(feature = "sched-ext")]
    Row {
        algorithm: Algorithm::Ext,
        name: "ext",
        takes: &[],
        run_by: RunBy::Host(HostYield::Ext),
        weight: Some(|policy, nice| policy.rotation(nice).0 as f64),
        wait_bound: None,
        rt_share: None,
    },
];

impl Algorithm {
    /// Every row.
    pub fn all() -> impl Iterator<Item = &'static Row> + Clone {
        ROWS.iter()
    }

    /// The algorithm of this name.
    pub fn named(name: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.name == name).map(|row| row.algorithm)
    }

    /// What stile knows of it.
    pub fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Whether the host's scheduler carries it out.
    pub fn is_host(self) -> bool {
        matches!(self.row().run_by, RunBy::Host(_))
    }

    /// Whether a scheduler of stile's inside the kernel carries it out, which has to be loaded before.
    pub fn is_in_kernel(self) -> bool {
        matches!(self.row().run_by, RunBy::Host(HostYield::Ext))
    }
}

impl PolicyConfig {
    /// CPU time of a vCPU of this nice value in a rotation of `rsdl`.
    pub fn rotation(&self, nice: Nice) -> Nanos {
        matrix::Row::new(nice, interval(self), variant(self)).per_rotation()
    }

    /// Whether this many slots are divided into shards.
    pub fn is_divided(&self, slots: usize) -> bool {
        self.algorithm == Algorithm::Rsdl && slots > usize::from(self.shard_pcpus.get())
    }
}

/// The kernel's weight of a nice value, 1.0 at nice 0: its table holds 1024 times this in whole numbers.
fn kernel_weight(nice: Nice) -> f64 {
    1.25_f64.powi(-i32::from(nice.get()))
}

fn interval(policy: &PolicyConfig) -> Nanos {
    policy.rr_interval.duration().into()
}

fn variant(policy: &PolicyConfig) -> rsdl::Variant {
    match policy.variant {
        Variant::Dithered => rsdl::Variant::Dithered,
        Variant::LevelQuota => rsdl::Variant::LevelQuota,
    }
}

/// Up to so many slots have a run queue each by default. Each looks at one other queue at a time, and so sees all
/// queues only where there are two (docs/adr/0024).
const SLOTS_WITH_QUEUES: usize = 2;

/// For this many slots that share a lock.
fn rsdl_config(policy: &PolicyConfig, slots: usize) -> RsdlConfig {
    let yield_rule = match policy.yield_rule {
        YieldRule::None => rsdl::YieldRule::None,
        YieldRule::Expire => rsdl::YieldRule::Expire,
        YieldRule::Polite => rsdl::YieldRule::Polite(policy.polite),
    };
    let variant = variant(policy);
    RsdlConfig {
        rr_interval: interval(policy),
        target_latency: policy.target_latency.duration().into(),
        least_quota: policy.least_quota.duration().into(),
        variant,
        yield_rule,
        affinity: policy.affinity,
        grain: policy.grain,
        per_pcpu_queues: match policy.run_queues {
            RunQueues::Auto => slots <= SLOTS_WITH_QUEUES,
            RunQueues::Shared => false,
            RunQueues::PerPcpu => true,
        },
        shares: false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{check, policy_keys};
    use super::*;

    #[test]
    fn every_algorithm_of_the_schema_has_a_row_in_its_place_under_the_same_name() {
        let schema = schemars::schema_for!(Algorithm);
        let names: Vec<&str> = Algorithm::all().map(|row| row.name).collect();
        assert_eq!(check::choices(schema.as_value()), names);
        for row in Algorithm::all() {
            assert_eq!(row.algorithm.row().name, row.name);
            assert_eq!(serde_json::to_value(row.algorithm).unwrap(), row.name);
            assert_eq!(Algorithm::named(row.name), Some(row.algorithm));
        }
        assert_eq!(Algorithm::named("cfs"), None);
    }

    #[test]
    fn rows_take_keys_and_tables_that_there_are() {
        let keys = policy_keys::keys();
        for (row, taken) in Algorithm::all().flat_map(|row| row.takes.iter().map(move |key| (row, key))) {
            let is_there = |key: &String| key == taken || key.starts_with(&format!("{taken}."));
            assert!(keys.iter().any(is_there), "{} takes `{taken}`, which is no key of [policy]", row.name);
        }
    }

    #[test]
    fn a_lower_nice_value_never_has_a_lower_weight() {
        for row in Algorithm::all() {
            let Some(weight) = row.weight else { continue };
            let policy: PolicyConfig = row.name.parse().unwrap();
            for nice in -19..=19 {
                let [stronger, weaker] = [nice - 1, nice].map(|nice| weight(&policy, Nice::new(nice).unwrap()));
                assert!(stronger >= weaker && weaker > 0.0, "{} at nice {nice}", row.name);
            }
        }
    }
}
