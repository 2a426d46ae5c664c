//! The mechanism: threads, kicks and time. It tells what happened and does what was decided, and never decides who runs.
//!
//! A [`Domain`] carries vCPUs. Three kinds: [`HostThreads`](host::HostThreads) gives every vCPU a thread and leaves the
//! choice to the host's scheduler, the baseline; [`Executors`](executors::Executors) and [`Leases`](leases::Leases) ask a
//! policy, with a thread per pCPU or a thread per vCPU.

mod cap;
mod class;
mod counts;
pub mod evacuate;
mod events;
pub mod executors;
pub mod fallback;
pub mod host;
#[cfg(not(all(test, shuttle)))]
pub mod kick;
pub mod leases;
mod looks;
mod numbers;
pub mod parker;
mod pause;
#[cfg(test)]
#[cfg_attr(shuttle, allow(dead_code, reason = "most of those who use it are not modelled"))]
pub(crate) mod testing;
pub mod watchdog;
#[cfg(all(test, shuttle))]
mod whole;

#[cfg(all(test, shuttle))]
pub(crate) use crate::model::kick;

pub use cap::{Cap, Group, GroupId};
pub use class::Class;

use crate::histogram::Histogram;
use crate::ledger::{Account, Seen, Trace};
use crate::policy::goodness::YieldCounts;
use crate::{Nice, Vcpu, VcpuId};
use std::fmt;
use std::sync::Arc;

/// Carries vCPUs, from any thread's point of view.
///
/// Ordering: what a thread wrote before [`wake`](Self::wake) is seen by the woken vCPU when it runs.
pub trait Domain: Send + Sync {
    /// Takes a vCPU in. It does not run before its first [`wake`](Self::wake).
    fn add(&self, vcpu: Box<dyn Vcpu>, attributes: Attributes) -> Result<VcpuId, DomainError>;

    /// An event for a vCPU: it runs if it idles; if not, its next idle returns at once. Unknown ids are ignored, since
    /// an event may cross the vCPU's end.
    fn wake(&self, vcpu: VcpuId);

    /// Ends a vCPU: it stops running soon and is given to [`Vcpu::retired`]. Unknown ids are ignored.
    fn retire(&self, vcpu: VcpuId);

    /// What became of a vCPU's time, and how often what happened to it; `None` if it ended: [`Vcpu::retired`] was given the
    /// last account. The baseline without a policy knows the three times, exits, turns, migrations, and what kind of yields
    /// there were.
    fn account(&self, vcpu: VcpuId) -> Option<Account>;

    /// What a vCPU has used so far; `None` if it ended.
    fn usage(&self, vcpu: VcpuId) -> Option<Usage> {
        self.account(vcpu).map(|account| Usage::of(&account))
    }

    /// From the policy's wish that a slot asks, until it did. The baseline without a policy knows nothing of it.
    fn kicks(&self) -> Histogram {
        Histogram::default()
    }

    /// The latest questions to the policy and its answers; `None` without a policy.
    fn trace(&self) -> Option<Arc<Trace>> {
        None
    }

    /// Whether a policy decides who runs; else the host does, and does not tell all.
    fn has_policy(&self) -> bool {
        self.trace().is_some()
    }

    /// Sums over all vCPUs, ended ones too.
    fn totals(&self) -> Totals;

    /// Who waits since when: appends the vCPUs of a stretch that begins with this id, and gives the id with which the next
    /// one begins; `None` if there is none. The baseline without a policy knows nothing of it.
    fn look(&self, _from: VcpuId, _seen: &mut Vec<Seen>) -> Option<VcpuId> {
        None
    }

    /// The threads that carry vCPUs; none in the baseline, whose threads are the host's business.
    fn threads(&self) -> Vec<kick::ThreadId> {
        Vec::new()
    }
}

/// What the scheduler has to know of a vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Attributes {
    /// Static priority within its class.
    pub nice: Nice,
    /// What kind of work it does.
    pub class: Class,
    /// With whom it shares a cap; only a [capped](crate::policy::Capped) policy keeps to it.
    pub group: Option<Group>,
}

/// Why a vCPU could not be taken in.
#[derive(Debug, thiserror::Error)]
pub enum DomainError {
    /// No thread for it.
    #[error("cannot start a thread for the vCPU")]
    Thread(#[source] std::io::Error),
    /// The host refuses the thread's class.
    #[error(
        "the host does not permit class `{class}`, {} for the vCPU's thread; it takes CAP_SYS_NICE, or RLIMIT_RTPRIO of \
         at least 1, and real-time run time in the cgroup",
        class.host_name()
    )]
    Class {
        /// The class asked for.
        class: Class,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Too many vCPUs.
    #[error("a domain holds at most {0} vCPUs")]
    Full(usize),
}

/// What one vCPU has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// On a pCPU (units: ns).
    pub run_ns: u64,
    /// Runnable without a pCPU (units: ns).
    pub wait_ns: u64,
    /// The part of `wait_ns` for which its group's cap held it back (units: ns).
    pub throttled_ns: u64,
    /// Blocked (units: ns).
    pub idle_ns: u64,
    /// Exits to the monitor.
    pub exits: u64,
}

impl Usage {
    /// The times of an account.
    pub fn of(account: &Account) -> Self {
        Self {
            run_ns: account.run.0,
            wait_ns: account.wait.0,
            throttled_ns: account.throttled.0,
            idle_ns: account.idle.0,
            exits: account.exits,
        }
    }

    /// What came since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            run_ns: self.run_ns.saturating_sub(earlier.run_ns),
            wait_ns: self.wait_ns.saturating_sub(earlier.wait_ns),
            throttled_ns: self.throttled_ns.saturating_sub(earlier.throttled_ns),
            idle_ns: self.idle_ns.saturating_sub(earlier.idle_ns),
            exits: self.exits.saturating_sub(earlier.exits),
        }
    }
}

/// Counts of a domain since it started. For the baseline without a policy, only what it can see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Exits to the monitor.
    pub exits: u64,
    /// A pCPU went from one vCPU to another.
    pub switches: u64,
    /// A vCPU went on, on another pCPU than it last ran on.
    pub migrations: u64,
    /// Yields by kind and outcome.
    pub yields: Yields,
    /// What the policy itself counts of them, if it does.
    pub told: YieldCounts,
}

/// Yields by what they said, and by what came of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Yields {
    /// Said nothing.
    pub unknown: u64,
    /// Named a lock's holder.
    pub lock: u64,
    /// Named a message's sender.
    pub message: u64,
    /// Nobody waited, so it changed nothing.
    pub alone: u64,
    /// Another vCPU got the pCPU.
    pub switched: u64,
    /// The vCPU went on although others waited.
    pub stayed: u64,
}

impl Totals {
    /// What came since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            exits: self.exits.saturating_sub(earlier.exits),
            switches: self.switches.saturating_sub(earlier.switches),
            migrations: self.migrations.saturating_sub(earlier.migrations),
            yields: self.yields.since(&earlier.yields),
            told: self.told.since(&earlier.told),
        }
    }
}

impl Totals {
    /// The sum of both.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            exits: self.exits + other.exits,
            switches: self.switches + other.switches,
            migrations: self.migrations + other.migrations,
            yields: self.yields.plus(&other.yields),
            told: self.told.plus(&other.told),
        }
    }
}

impl Yields {
    fn plus(&self, other: &Self) -> Self {
        Self {
            unknown: self.unknown + other.unknown,
            lock: self.lock + other.lock,
            message: self.message + other.message,
            alone: self.alone + other.alone,
            switched: self.switched + other.switched,
            stayed: self.stayed + other.stayed,
        }
    }

    /// What came since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            unknown: self.unknown.saturating_sub(earlier.unknown),
            lock: self.lock.saturating_sub(earlier.lock),
            message: self.message.saturating_sub(earlier.message),
            alone: self.alone.saturating_sub(earlier.alone),
            switched: self.switched.saturating_sub(earlier.switched),
            stayed: self.stayed.saturating_sub(earlier.stayed),
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.unknown + self.lock + self.message
    }
}

impl fmt::Debug for dyn Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Domain")
    }
}

/// vCPUs that [`Domain::look`] looks at in one go, so that the lock is held for microseconds.
const STRETCH: usize = 64;

/// Stack of a thread that runs vCPUs (unit: bytes): they only ever call into KVM and devices.
const STACK_BYTES: usize = 128 * 1024;

/// What every thread that runs vCPUs does first.
fn enter_thread(cpus: &rustix::thread::CpuSet) {
    kick::block();
    // A model's threads are all one thread of the host.
    if cfg!(all(test, shuttle)) {
        return;
    }
    // The default slack of 50 us would make every timed wait that much late.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    // The CPUs were checked when the domain was configured; one that went offline since leaves the old affinity.
    let _ = rustix::thread::sched_setaffinity(None, cpus);
}

/// Gives the calling thread a nice value; without the right to, a negative one stays 0.
fn set_nice(nice: Nice) {
    if nice.get() != 0 && !cfg!(all(test, shuttle)) {
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), nice.get().into());
    }
}
