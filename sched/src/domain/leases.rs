//! Leases: a thread per vCPU, which runs only while it holds a slot.
//!
//! The rump kernel's own model: a thread schedules itself a CPU, and gives it up when it waits. It suits guests that
//! wait inside KVM_RUN, where an executor would wait with them, and kernels on which a vCPU should not go from thread
//! to thread. The price against [`Executors`](super::executors::Executors): a switch wakes a thread.
//!
//! # Protocol of a slot
//! 1. The holder runs its vCPU. An exit that leaves the vCPU runnable goes straight back while the slot is not wanted,
//!    and so does a yield while no vCPU waits: one load each, no lock.
//! 2. A vCPU that blocks while no vCPU waits *naps*: it releases its slot with one swap and waits on its parker. An
//!    event rouses the thread, which takes the slot back with one CAS. No lock is taken, and the policy is not told.
//!    `gate.rs` is the protocol by which no waiting vCPU overlooks such a slot.
//! 3. Else the holder *asks*: it takes the lock, settles what napped, tells the policy why the vCPU stopped, and does
//!    what it decides. If another vCPU is to run, the slot is handed to it: the word says so, its thread is bound to
//!    the slot's pCPU, then granted and woken. The giver waits on its parker.
//! 4. A thread that was granted a slot starts on it with one CAS, without the lock. The lease has begun when it was
//!    handed the slot. A vCPU whose lease has ended on the way runs for a moment all the same (`LEAST` in `thread.rs`):
//!    else it might never make progress where waking a thread takes as long as a lease.
//! 5. A thread that wakes a blocked vCPU asks the policy in its name, so that the vCPU's thread is woken only to run. A
//!    thread whose deadline comes does so itself.
//! 6. A thread that puts a vCPU into the queue stamps a slot under the lock, even one left for a nap, lest its vCPU
//!    come back to it before it is settled and run on. Then it kicks the slot's thread, if its stamp is the first. The
//!    holder takes the stamp off when it asks, under the lock as well, so a stamp set after the policy has answered
//!    makes it ask again.
//! 7. A vCPU that halts inside its run, where only it sees what ends the wait, gives its slot up as any that blocks,
//!    and its thread waits inside as well, without running it (`thread/doze.rs`). When there is an event the thread
//!    comes back and asks, as at a deadline.
//! 8. A vCPU that shares a cap is charged for what it ran. It does not nap, and says how late it began when it next
//!    asks. A thread of the domain's own tells the policy when it is time for the vCPUs that the policy holds back
//!    (`alarm.rs`).
//!
//! The time of a nap is charged when the policy hears of it, or never. No vCPU waited meanwhile, and policies charge
//! such time at most in part (`rsdl` a step).
//!
//! # One pCPU
//! A domain of one pCPU uses slot words without a bus lock. Then only threads bound to that CPU may touch them, so
//! wakes from other threads only signal the event and wake the vCPU's own thread, which does the rest.
//!
//! The lock is never held across a system call, nor while a vCPU is dropped.

mod acts;
mod alarm;
mod decisions;
mod gate;
mod handover;
mod locked_state;
mod lookout;
mod moves;
mod record;
mod rt_boost;
mod shared;
mod steal;
#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
mod thread;
mod thread_clock;
mod watcher;

use super::carried::carried;
use super::carrier_thread::STACK_BYTES;
use super::contract::Domain;
use super::counts::Tally;
use super::division::Division;
use super::error::DomainError;
use super::events::Found;
use super::executors::MAX_VCPUS;
use super::handover::{Before, Handover};
use super::ledger_lock::LedgerLock;
use super::moves::Moves;
use super::policy_traits::PolicyTraits;
use crate::attributes::Attributes;
use crate::histogram::Histogram;
use crate::ids::VcpuId;
use crate::kick;
use crate::ledger::{self, Account, Counts, Ledger, Seen, Totals, Trace};
use crate::lock::{Caller, LockRules};
use crate::policy::Policy;
use crate::shards::ShardPlan;
#[cfg(target_arch = "x86_64")]
use crate::slot::Up;
use crate::slot::{Smp, Word};
use crate::sync::{AtomicBool, Ordering, mpsc, thread as threads};
use crate::time::{Nanos, Time, monotonic};
use crate::vcpu::Vcpu;
use alarm::Alarm;
use gate::Gate;
use locked_state::LockedState;
use record::{Record, Records};
use rt_boost::RtBoost;
use shared::{Asker, ShardShared, Shared, SlotShared};
use std::sync::Arc;
use thread::{Missed, Rest, Start};
use watcher::Watcher;

/// What can be switched on and off, to measure what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches {
    /// A vCPU whose deadline comes asks for its slot in the host's real-time class, where that is permitted.
    pub rt_boost: bool,
    /// A vCPU whose thread finds it runnable takes a slot handed to another thread that has not begun to run.
    pub steal: bool,
    /// A vCPU that is seen spinning at a kick yields, and is looked at earlier from then on.
    pub spin_detection: bool,
    /// A thread whose vCPU halts inside is kicked by leaving its CPU, where that is permitted; else lookouts
    /// and a watcher look.
    pub departures: bool,
}

impl Default for Switches {
    fn default() -> Self {
        Self { rt_boost: true, steal: true, spin_detection: true, departures: true }
    }
}

/// A domain with a policy and a thread for each vCPU.
pub(crate) struct Leases<W: Word> {
    shared: Arc<Shared<W>>,
}

impl<W: Word> std::fmt::Debug for Leases<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leases").field("slots", &self.shared.slots).finish_non_exhaustive()
    }
}

/// A domain on these host CPUs: slot `i` is the `i`-th of them. The policy is for as many slots. With one CPU the slot
/// words need no bus lock. Threads start with their vCPUs.
pub fn start(cpus: &[usize], policy: Box<dyn Policy>, rules: LockRules, switches: Switches) -> Arc<dyn Handover> {
    start_in_shards(cpus, vec![policy], ShardPlan::one(cpus.len()), rules, switches)
}

/// As [`start`], in shards: each has a policy, for its slots, and a lock.
///
/// # Panics
/// The plan is not for as many slots as there are CPUs, or for as many shards as there are policies.
pub fn start_in_shards(
    cpus: &[usize],
    policies: Vec<Box<dyn Policy>>,
    plan: ShardPlan,
    rules: LockRules,
    switches: Switches,
) -> Arc<dyn Handover> {
    #[cfg(target_arch = "x86_64")]
    if let [_only] = cpus {
        return Arc::new(Leases::<Up>::new(cpus, policies, plan, rules, switches));
    }
    Arc::new(Leases::<Smp>::new(cpus, policies, plan, rules, switches))
}

impl<W: Word> Leases<W> {
    fn new(
        cpus: &[usize],
        policies: Vec<Box<dyn Policy>>,
        plan: ShardPlan,
        rules: LockRules,
        switches: Switches,
    ) -> Self {
        debug_assert!(W::ANY_CPU || cpus.len() == 1);
        assert_eq!((plan.all_slots(), plan.len()), (cpus.len(), policies.len()), "the plan is for these CPUs");
        let traits = PolicyTraits::of(&*policies[0]);
        let trace = Arc::new(Trace::new(cpus.len(), ledger::KEPT));
        let shard = |(shard, policy)| {
            let slots = plan.slots(shard);
            let ledger = Ledger::of_shard(policy, slots.clone(), Arc::clone(&trace));
            let state = LockedState::new(shard, ledger, slots.clone());
            ShardShared { state: LedgerLock::new(state, rules), gate: Gate::new(slots) }
        };
        let shared = Shared {
            policy: traits,
            shards: plan.shards().zip(policies).map(shard).collect(),
            division: Division::new(plan),
            slots: cpus.iter().map(|&cpu| SlotShared::on(cpu)).collect(),
            records: Records::default(),
            rt_boost: RtBoost::new(cpus.len(), switches.rt_boost),
            alarm: Alarm::default(),
            watcher: Watcher::default(),
            steals: switches.steal,
            detects_spinning: switches.spin_detection,
            departures: switches.departures,
            ending: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Takes a vCPU in, blocked. `None`: the domain is full.
    fn admit(&self, attributes: Attributes) -> Option<VcpuId> {
        let Shared { division, records, .. } = &*self.shared;
        let (id, shard) = {
            let mut admission = division.admission.lock();
            let (id, shard) = admission.admits(&division.board, attributes.group)?;
            admission.recycled = admission.recycled.plus(records.recycle(id));
            (id, shard)
        };
        self.shared.admit(id, shard, attributes, monotonic(), Before::default());
        Some(id)
    }

    /// Starts the thread of a vCPU that the locked state knows, and waits until it can be granted a slot.
    fn start_thread(&self, id: VcpuId, vcpu: Box<dyn Vcpu>, attributes: Attributes) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let (ready, started) = mpsc::sync_channel(1);
        let start = Start { id, attributes, rest: Rest::PLAIN, before: Missed::default() };
        let thread = threads::Builder::new().name(format!("vcpu {id}")).stack_size(STACK_BYTES).spawn(move || {
            match kick::Timer::for_this_thread() {
                Ok(timer) => thread::carry(shared, start, vcpu, timer, &ready),
                Err(error) => ready.send(Err((error, vcpu))).unwrap_or(()),
            }
        })?;
        let failed = || std::io::Error::other("a vCPU's thread ended while it started");
        started.recv().map_err(|_| failed())?.map_err(|(error, _)| error)?;
        self.keep_thread(id, thread);
        Ok(())
    }

    /// Should a late event for the id's last vCPU have ended this one already, its thread is on its own.
    fn keep_thread(&self, id: VcpuId, thread: threads::JoinHandle<()>) {
        let (_, mut state) = self.shared.lock_of(id);
        if state.is_alive(id) {
            state.entry(id).thread = Some(thread);
        }
    }
}

impl<W: Word> Leases<W> {
    /// Ends all threads, which leave their vCPUs in the locked state.
    fn stop(&self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        let mut threads = Vec::new();
        self.shared
            .with_each_vcpu(|state, id| threads.extend(state.entry(id).thread.take().map(|thread| (id, thread))));
        for (id, _) in &threads {
            let record = self.shared.records.of(*id);
            record.parker.wake();
            kick::send(record.thread());
        }
        let (alarm, watcher) = (self.shared.alarm.end(), self.shared.watcher.end());
        let lookouts = self.shared.slots.iter().filter_map(|slot| slot.lookout.end());
        for thread in threads.into_iter().map(|(_, thread)| thread).chain(alarm).chain(watcher).chain(lookouts) {
            // A panic there was reported by the panic hook; there is nothing left to do about it.
            let _ = thread.join();
        }
    }
}

impl<W: Word> Drop for Leases<W> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<W: Word> Domain for Leases<W> {
    fn add(&self, vcpu: Box<dyn Vcpu>, attributes: Attributes) -> Result<VcpuId, DomainError> {
        if attributes.group.is_some() {
            self.shared.start_alarm().map_err(DomainError::Thread)?;
        }
        let id = self.admit(attributes).ok_or(DomainError::Full(MAX_VCPUS))?;
        self.start_thread(id, vcpu, attributes).map_err(|e| {
            let (_, mut state) = self.shared.lock_of(id);
            let now = monotonic();
            state.ledger.remove(id, now);
            self.shared.forget(&mut state, id, now);
            DomainError::Thread(e)
        })?;
        Ok(id)
    }

    fn wake(&self, vcpu: VcpuId) {
        let Some(record) = self.shared.records.get(vcpu) else { return };
        match record.events.signal() {
            Found::Nothing => {}
            Found::Blocked if self.shared.may_touch_slots() => {
                let me = Asker { caller: Caller::Normal, rechecks: Some(kick::this_thread()) };
                let waker = carried(&*self.shared);
                if let Some((waker, slot)) = waker {
                    self.shared.follows_waker(vcpu, waker, slot, me);
                }
                self.shared.turn_of(vcpu, me, |state, now, acts| {
                    self.shared.unblock(state, vcpu, waker.map(|(waker, _)| waker), now, acts);
                });
            }
            Found::Blocked | Found::Napping => record.rouse(),
        }
    }

    fn retire(&self, vcpu: VcpuId) {
        if self.shared.records.get(vcpu).is_none() {
            return;
        }
        let record = {
            let (_, state) = self.shared.lock_of(vcpu);
            if !state.is_alive(vcpu) {
                return;
            }
            let record = self.shared.records.of(vcpu);
            record.retiring.store(true, Ordering::Relaxed);
            record
        };
        record.parker.wake();
        kick::send(record.thread());
    }

    fn interrupt(&self, vcpu: VcpuId) {
        if self.shared.records.get(vcpu).is_none() {
            return;
        }
        let record = {
            let (_, state) = self.shared.lock_of(vcpu);
            if !state.is_alive(vcpu) {
                return;
            }
            self.shared.records.of(vcpu)
        };
        kick::send(record.thread());
    }

    fn charge(&self, vcpu: VcpuId, time: Nanos) -> Time {
        if self.shared.records.get(vcpu).is_none() {
            return Time(0);
        }
        // No vCPU gets or loses a slot by it, and none that is held back goes on earlier.
        let (_, mut state) = self.shared.lock_of(vcpu);
        state.ledger.charge(vcpu, time, monotonic());
        state.ledger.lets_work(vcpu)
    }

    fn account(&self, vcpu: VcpuId) -> Option<Account> {
        self.shared.records.get(vcpu)?;
        let (_, state) = self.shared.lock_of(vcpu);
        let now = monotonic();
        self.shared.account_of(&state, vcpu, now)
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
        let ids = self.shared.division.admission.lock().ids.given_out();
        // Ids of vCPUs that ended in another domain may have no record here.
        let records = (0..ids).filter_map(|id| self.shared.records.get(VcpuId(id)));
        records.filter(|record| record.events.lives()).map(Record::thread).collect()
    }

    fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for shard in &self.shared.shards {
            totals = totals.plus(&shard.state.totals(|_| Tally::default()));
        }
        // By id, and not those of all shards: a vCPU may be between two of them.
        let admission = self.shared.division.admission.lock();
        let counted = self.shared.counted(&admission);
        totals.plus(&counted.totals(&Counts::default(), None))
    }
}
