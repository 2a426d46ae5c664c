//! The contract of a domain: what its users may ask of it.

use super::error::DomainError;
use crate::attributes::Attributes;
use crate::histogram::Histogram;
use crate::ids::VcpuId;
use crate::kick;
use crate::ledger::{Account, Seen, Totals, Trace, Usage};
use crate::time::{Nanos, Time};
use crate::vcpu::Vcpu;
use std::fmt;
use std::sync::Arc;

/// vCPUs that [`Domain::look`] looks at in one go, so that the lock is held for microseconds.
pub(super) const STRETCH: usize = 64;

/// Runs vCPUs. Every method may be called from any thread.
///
/// Ordering: what a thread wrote before [`wake`](Self::wake) is visible to the woken vCPU when it runs.
///
/// Dropping a domain that has a policy ends its threads. A vCPU that has not retired by then is dropped without
/// [`Vcpu::retired`].
///
/// ```
/// use std::sync::mpsc;
/// use stile_sched::domain::executors::{Executors, Switches};
/// use stile_sched::ledger::Account;
/// use stile_sched::lock::LockRules;
/// use stile_sched::policy::{Rsdl, rsdl::RsdlConfig};
/// use stile_sched::{Attributes, Domain, Stop, Time, Vcpu};
///
/// /// Counts the events that it is woken for, and idles in between.
/// struct Counter(u32, mpsc::Sender<u32>);
///
/// impl Vcpu for Counter {
///     fn run(&mut self) -> Stop {
///         self.0 += 1;
///         self.1.send(self.0).unwrap();
///         if self.0 < 3 { Stop::Idle(Time::NEVER) } else { Stop::Done }
///     }
///
///     fn retired(self: Box<Self>, _: &Account) {}
/// }
///
/// let policy = Box::new(Rsdl::new(RsdlConfig::default(), 1));
/// let domain = Executors::new(&[0], policy, LockRules::default(), Switches::default())?;
/// let (sender, events) = mpsc::channel();
/// let id = domain.add(Box::new(Counter(0, sender)), Attributes::default())?;
/// for event in 1..=3 {
///     domain.wake(id); // If the vCPU does not idle yet, its next idle returns at once.
///     assert_eq!(events.recv()?, event);
/// }
/// assert_eq!(events.recv(), Err(mpsc::RecvError), "the vCPU is done and was dropped");
/// assert!(domain.account(id).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Domain: Send + Sync {
    /// Takes a vCPU in. It does not run before its first [`wake`](Self::wake).
    ///
    /// # Errors
    /// The domain is full ([`MAX_VCPUS`](super::executors::MAX_VCPUS)), the host gives no thread, or the host refuses
    /// the thread's class. The vCPU is dropped then.
    fn add(&self, vcpu: Box<dyn Vcpu>, attributes: Attributes) -> Result<VcpuId, DomainError>;

    /// An event for a vCPU: it runs if it idles; if not, its next idle returns at once. Unknown ids are ignored, since
    /// an event may cross the vCPU's end.
    fn wake(&self, vcpu: VcpuId);

    /// Ends a vCPU: it stops running soon and is given to [`Vcpu::retired`]. Unknown ids are ignored.
    fn retire(&self, vcpu: VcpuId);

    /// If the vCPU runs, its run ends soon, as by a kick, and begins anew. Whoever has changed what the vCPU looks at
    /// before it enters its guest calls this. Unknown ids are ignored.
    fn interrupt(&self, vcpu: VcpuId);

    /// A vCPU that was interrupted or retired has not stopped for long: the host's scheduler may starve its thread. The
    /// baseline raises such threads, if the host permits it, and no vCPU begins a run for the time `hold`. A policy
    /// lets no vCPU starve, and a domain that has one does nothing.
    fn rescue(&self, _hold: Nanos) {}

    /// Another thread has used so much CPU time for a vCPU, as the one that serves its VM's devices does. The vCPU pays
    /// for it as its policy says, and its VM's cap counts it. Returns when the cap lets the thread go on; a time that
    /// has passed means at once. Unknown ids pay nothing.
    fn charge(&self, _vcpu: VcpuId, _time: Nanos) -> Time {
        Time(0)
    }

    /// What became of a vCPU's time, and how often what happened to it; `None` if it ended: [`Vcpu::retired`] was given
    /// the last account. The baseline without a policy knows the three times, exits, turns, migrations, and what kind
    /// of yields there were.
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

    /// Whether a policy decides which vCPU runs. If not, the host's scheduler does, and not all of it is known.
    fn has_policy(&self) -> bool {
        self.trace().is_some()
    }

    /// Sums over all vCPUs, ended ones too.
    fn totals(&self) -> Totals;

    /// Which vCPUs wait, and since when: appends the vCPUs of a stretch of ids that begins with this one. Returns the
    /// id with which the next stretch begins; `None` if there is none. The baseline without a policy knows nothing of
    /// it.
    fn look(&self, _from: VcpuId, _seen: &mut Vec<Seen>) -> Option<VcpuId> {
        None
    }

    /// Which vCPU each pCPU has at this moment, in the order of the domain's CPUs. The baseline without a policy does
    /// not know, and says nothing of any.
    fn placed(&self) -> Vec<Option<VcpuId>> {
        Vec::new()
    }

    /// The threads that carry vCPUs; none in the baseline, whose threads are the host's business.
    fn threads(&self) -> Vec<kick::ThreadId> {
        Vec::new()
    }
}

impl fmt::Debug for dyn Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Domain")
    }
}
