//! Executors: one thread per pCPU, bound to it, runs whichever vCPU the policy picks.
//!
//! A switch is a return from one vCPU and the start of another on the same thread: no hand-over between threads, no
//! change of affinity. It needs guests whose every wait is an exit, and a kernel that lets a vCPU go from thread to
//! thread freely (Linux 6.13 or newer).
//!
//! # Protocol of a slot
//! 1. The executor runs its vCPU. An exit that leaves the vCPU runnable goes straight back while the slot is not
//!    wanted, and so does a yield while no vCPU waits: one load each, no lock. This is rump's fast path: the vCPU that
//!    just left is the one to run.
//! 2. Else the executor *asks*: it acknowledges the stamp on its slot, then takes the lock, wakes what is due, tells
//!    the policy why the vCPU stopped, and does what it decides. In this order, a stamp set after the policy has
//!    answered makes it ask again.
//! 3. A thread that puts a vCPU in the queue stamps the slot and, if its stamp is the first, kicks the slot's thread.
//!    The executor itself, whose vCPU woke another by its exit, need not be kicked: it looks at the stamp next. An idle
//!    executor is woken instead.
//!
//! How a vCPU that blocks and an event for it meet: see `events.rs` beside this file. The lock is never held across a
//! system call, nor while a vCPU is dropped.
//!
//! Here is what all threads share, and what others ask of a domain; `executors/thread.rs` is the life of an executor.

mod alarm;
mod handover;
mod moves;
mod shared;
mod thread;
mod turn_length;

use super::carried::carried;
use super::carrier_thread::STACK_BYTES;
use super::contract::Domain;
use super::counts::Tally;
use super::division::Division;
pub use super::division::MAX_VCPUS;
use super::error::DomainError;
use super::events::{Events, Found};
use super::handover::{Before, Handover};
use super::ledger_lock::LedgerLock;
use super::moves::Moves;
use super::policy_traits::PolicyTraits;
use crate::attributes::Attributes;
use crate::histogram::Histogram;
use crate::ids::{Slot, VcpuId};
use crate::kick;
use crate::ledger::{self, Account, Counts, Ledger, Seen, Totals, Trace};
use crate::lock::LockRules;
use crate::policy::Policy;
use crate::shards::ShardPlan;
use crate::sync::{AtomicBool, Mutex, mpsc, thread::JoinHandle};
use crate::time::{Nanos, Time, monotonic};
use crate::vcpu::Vcpu;
use shared::{Act, Entry, Gone, LockedState, Newcomer, ShardShared, Shared, SlotShared};
use std::io;
use std::sync::Arc;

/// A domain with a policy and an executor for each pCPU.
#[derive(Debug)]
pub struct Executors {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What can be switched on and off, to measure what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches {
    /// A vCPU that is seen spinning at a kick yields, and is looked at earlier from then on.
    pub spin_detection: bool,
}

impl Default for Switches {
    fn default() -> Self {
        Self { spin_detection: true }
    }
}

impl Executors {
    /// A domain on these host CPUs: slot `i` is the `i`-th of them. The policy is for as many slots. The rules are
    /// those of the domain's one lock.
    ///
    /// # Errors
    /// The host gives no thread or no timer.
    pub fn new(cpus: &[usize], policy: Box<dyn Policy>, rules: LockRules, switches: Switches) -> io::Result<Self> {
        Self::in_shards(cpus, vec![policy], ShardPlan::one(cpus.len()), rules, switches)
    }

    /// As [`new`](Self::new), in shards: each has a policy, for its slots, and a lock.
    ///
    /// # Panics
    /// The plan is not for as many slots as there are CPUs, or for as many shards as there are policies.
    pub fn in_shards(
        cpus: &[usize],
        policies: Vec<Box<dyn Policy>>,
        plan: ShardPlan,
        rules: LockRules,
        switches: Switches,
    ) -> io::Result<Self> {
        assert_eq!((plan.all_slots(), plan.len()), (cpus.len(), policies.len()), "the plan is for these CPUs");
        let traits = PolicyTraits::of(&*policies[0]);
        let trace = Arc::new(Trace::new(cpus.len(), ledger::KEPT));
        let shard = |(shard, policy)| {
            let slots = plan.slots(shard);
            let ledger = Ledger::of_shard(policy, slots.clone(), Arc::clone(&trace));
            ShardShared {
                state: LedgerLock::new(LockedState::new(ledger, slots), rules),
                waiters: AtomicBool::new(false),
            }
        };
        let shared = Arc::new(Shared {
            shards: plan.shards().zip(policies).map(shard).collect(),
            division: Division::new(plan),
            slots: cpus.iter().map(|_| SlotShared::default()).collect(),
            events: (0..MAX_VCPUS).map(|_| Events::default()).collect(),
            policy: traits,
            detects_spinning: switches.spin_detection,
            ending: AtomicBool::new(false),
        });
        let domain = Self { shared, threads: Mutex::default() };
        for (slot, &cpu) in cpus.iter().enumerate() {
            domain.start(Slot(slot as u16), cpu)?;
        }
        Ok(domain)
    }

    fn start(&self, slot: Slot, cpu: usize) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let (ready, started) = mpsc::sync_channel(1);
        let thread = crate::sync::thread::Builder::new()
            .name(format!("pcpu {cpu}"))
            .stack_size(STACK_BYTES)
            .spawn(move || thread::execute(&shared, slot, cpu, &ready))?;
        self.threads.lock().push(thread);
        started.recv().unwrap_or_else(|_| Err(io::Error::other("an executor ended while it started")))
    }
}

impl Drop for Executors {
    fn drop(&mut self) {
        self.halt();
    }
}

impl Domain for Executors {
    fn add(&self, vcpu: Box<dyn Vcpu>, attributes: Attributes) -> Result<VcpuId, DomainError> {
        let (id, shard) = {
            let division = &self.shared.division;
            let admitted = division.admission.lock().admits(&division.board, attributes.group);
            admitted.ok_or(DomainError::Full(MAX_VCPUS))?
        };
        self.shared.admit(
            &mut self.shared.shards[shard.index()].state.lock(),
            Newcomer { id, shard, attributes, at: monotonic(), entry: Entry::new(vcpu, attributes, Before::default()) },
        );
        Ok(id)
    }

    fn wake(&self, vcpu: VcpuId) {
        if self.shared.events.get(vcpu.index()).map(Events::signal) != Some(Found::Blocked) {
            return;
        }
        let waker = carried(&*self.shared);
        if let Some((waker, slot)) = waker {
            self.shared.follows_waker(vcpu, waker, slot, ());
        }
        let acts = {
            let (shard, mut state) = self.shared.lock_of(vcpu);
            let act = self.shared.unblock(&mut state, vcpu, waker.map(|(waker, _)| waker), monotonic());
            self.shared.publish(shard, &mut state);
            [act, self.shared.tell_watcher(&mut state), self.shared.relief(shard, &state)]
        };
        acts.into_iter().flatten().for_each(|act| self.shared.perform(act, Some(kick::this_thread())));
    }

    fn retire(&self, vcpu: VcpuId) {
        if self.shared.events.len() <= vcpu.index() {
            return;
        }
        let gone = {
            let (shard, mut state) = self.shared.lock_of(vcpu);
            let Some(Some(entry)) = state.vcpus.get_mut(vcpu.index()) else { return };
            match entry.on {
                Some(slot) => {
                    entry.retiring = true;
                    Err(slot)
                }
                None => {
                    state.ledger.remove(vcpu, monotonic());
                    let gone = self.shared.forget(shard, &mut state, vcpu);
                    self.shared.publish(shard, &mut state);
                    Ok(gone)
                }
            }
        };
        match gone {
            Ok(gone) => gone.into_iter().for_each(Gone::give_back),
            Err(slot) => self.shared.perform(Act::Ask(slot), Some(kick::this_thread())),
        }
    }

    fn interrupt(&self, vcpu: VcpuId) {
        if self.shared.events.len() <= vcpu.index() {
            return;
        }
        let slot = {
            let (_, state) = self.shared.lock_of(vcpu);
            state.vcpus.get(vcpu.index()).and_then(|entry| entry.as_ref()?.on)
        };
        slot.into_iter().for_each(|slot| self.shared.perform(Act::Ask(slot), Some(kick::this_thread())));
    }

    fn charge(&self, vcpu: VcpuId, time: Nanos) -> Time {
        if self.shared.events.len() <= vcpu.index() {
            return Time(0);
        }
        let (until, act) = {
            let (_, mut state) = self.shared.lock_of(vcpu);
            state.ledger.charge(vcpu, time, monotonic());
            (state.ledger.lets_work(vcpu), self.shared.tell_watcher(&mut state))
        };
        act.into_iter().for_each(|act| self.shared.perform(act, None));
        until
    }

    fn account(&self, vcpu: VcpuId) -> Option<Account> {
        if self.shared.events.len() <= vcpu.index() {
            return None;
        }
        let (_, state) = self.shared.lock_of(vcpu);
        let entry = state.vcpus.get(vcpu.index())?.as_ref()?;
        let mut account = state.ledger.account_of(vcpu, monotonic())?;
        let on_slot = entry.on.map(|slot| self.shared.slots[slot.index()].counts.read().since(entry.counts_before));
        entry.counted.plus(on_slot.unwrap_or_default()).enter(&mut account, |outcomes| &mut outcomes.alone);
        Some(entry.before.plus(account))
    }

    fn kicks(&self) -> Histogram {
        let mut all = Histogram::default();
        self.shared.shards.iter().for_each(|shard| all.merge(&shard.state.kicks()));
        all
    }

    fn trace(&self) -> Option<Arc<Trace>> {
        Some(self.shared.shards[0].state.trace())
    }

    fn look(&self, from: VcpuId, seen: &mut Vec<Seen>) -> Option<VcpuId> {
        let next = self.shared.shards.iter().map(|shard| shard.state.look(from, seen));
        next.fold(None, |next, more| next.or(more))
    }

    fn placed(&self) -> Vec<Option<VcpuId>> {
        self.shared.shards.iter().flat_map(|shard| shard.state.placed()).collect()
    }

    fn threads(&self) -> Vec<kick::ThreadId> {
        self.shared.slots.iter().filter_map(|slot| slot.thread.get().copied()).collect()
    }

    fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for shard in &self.shared.shards {
            totals = totals.plus(&shard.state.totals(|_| Tally::default()));
        }
        let counted = self.shared.slots.iter().map(|slot| slot.counts.read());
        totals.plus(&counted.fold(Tally::default(), Tally::plus).totals(&Counts::default(), None))
    }
}
