//! A domain whose vCPUs another domain can go on with at run time, without losing a vCPU or an event for one.
//!
//! Ids stay what they are, since guests' hints carry them, and accounts go on. What changes is up to the caller: the
//! policy and its parameters, the mechanism, the pCPUs, and attributes of vCPUs. A new policy knows nothing of what
//! vCPUs have used before.
//!
//! # Protocol
//! 1. *Refuse early.* The next domain's threads are started; if that fails, nothing has changed.
//! 2. *Halt.* The threads of the current domain put their vCPUs down and end. Meanwhile events and ends are taken as
//!    ever.
//! 3. *Move*, with `moving` held: every vCPU is given back with what its word of events said, and goes on in the next
//!    domain. Then that is the `current` one, to which all that comes later is turned.
//! 4. *Sweep.* An event may have been sent to the old domain after it gave the vCPU back, by a sender that did not see
//!    the new one yet. It lies in the vCPU's old word, and is sent again.
//!
//! A sender that has sent an event looks again which domain is current. If it is another one by then, it sends the
//! event there as well. Sending and sweeping are read-modify-writes of one word, so one comes first: an event that
//! comes first is found by the sweep, and a sender that comes second sees the new domain. An event may so be sent
//! twice. That only ends one wait too early, as events may.
//!
//! Wakes take no lock, for they are the scheduler's own path; `moving` is for the rest. It is not held while threads
//! are waited for, since a vCPU on one of them may end others.

use super::contract::Domain;
use super::error::DomainError;
use super::handover::Handover;
use super::host::{HostThreads, HostYield};
use crate::attributes::Attributes;
use crate::histogram::Histogram;
use crate::ids::VcpuId;
use crate::kick;
use crate::ledger::{Account, Seen, Totals, Trace};
use crate::sync::{Mutex, RwLock};
use crate::time::{Nanos, Time};
use crate::vcpu::Vcpu;
use arc_swap::ArcSwap;
use std::io;
use std::sync::Arc;

/// A domain with a successor, and that with its own.
pub struct Switchable {
    current: ArcSwap<Current>,
    /// Held while vCPUs are taken in, and over the whole change.
    adding: Mutex<()>,
    /// Read while the current domain is used, written while vCPUs move.
    moving: RwLock<()>,
    /// What the domains before the current one did.
    past: Mutex<Past>,
}

struct Current {
    domain: Arc<dyn Handover>,
    /// The host CPUs that it is on.
    cpus: Box<[usize]>,
}

#[derive(Default)]
struct Past {
    totals: Totals,
    kicks: Histogram,
}

/// The host gave no thread for each vCPU; nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("cannot start a thread for each vCPU; the domain stays as it is")]
pub struct HandoverError(#[from] io::Error);

impl std::fmt::Debug for Switchable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switchable").field("cpus", &self.current.load().cpus).finish_non_exhaustive()
    }
}

impl Switchable {
    /// A domain that begins with this one, which is on these host CPUs.
    pub fn new(first: Arc<dyn Handover>, cpus: &[usize]) -> Self {
        Self {
            current: ArcSwap::from_pointee(Current { domain: first, cpus: cpus.into() }),
            adding: Mutex::default(),
            moving: RwLock::default(),
            past: Mutex::default(),
        }
    }

    /// Goes over to the host's scheduler on the CPUs where the vCPUs are. Returns the number of vCPUs that did, 0 if
    /// that decides already. As [`hand_over`](Self::hand_over).
    pub fn fall_back(&self) -> Result<usize, HandoverError> {
        let _adding = self.adding.lock();
        if !self.current().has_policy() {
            return Ok(0);
        }
        let cpus = self.current.load().cpus.clone();
        self.hands_over(Arc::new(HostThreads::new(&cpus, HostYield::Sched)), &cpus, |_, _| ())
    }

    /// Another domain, on these host CPUs and without a vCPU yet, goes on with all vCPUs. `change` may change the
    /// attributes with which a vCPU does. Returns the number of vCPUs. Not to be called from a thread that runs a vCPU:
    /// it waits for these threads.
    ///
    /// No vCPU runs from when the first thread has put its vCPU down until the next domain has them all.
    ///
    /// # Errors
    /// The host gives no thread for a vCPU. Nothing has changed then.
    pub fn hand_over(
        &self,
        next: Arc<dyn Handover>,
        cpus: &[usize],
        change: impl Fn(VcpuId, &mut Attributes),
    ) -> Result<usize, HandoverError> {
        let _adding = self.adding.lock();
        self.hands_over(next, cpus, change)
    }

    /// With `adding` held.
    fn hands_over(
        &self,
        next: Arc<dyn Handover>,
        cpus: &[usize],
        change: impl Fn(VcpuId, &mut Attributes),
    ) -> Result<usize, HandoverError> {
        let old = self.current();
        let berths = next.berths(old.population())?;
        old.halt();
        let adopted = {
            let _moving = self.moving.write();
            let mut evacuated = old.evacuate();
            evacuated.change(change);
            {
                let mut past = self.past.lock();
                past.totals = past.totals.plus(&old.totals());
                past.kicks.merge(&old.kicks());
            }
            let adopted = next.adopt(evacuated, berths);
            self.current.store(Arc::new(Current { domain: Arc::clone(&next), cpus: cpus.into() }));
            adopted.ids.iter().filter(|id| old.missed(**id)).for_each(|id| next.wake(*id));
            adopted
        };
        adopted.ended.into_iter().for_each(|(vcpu, last)| vcpu.retired(&last));
        Ok(adopted.ids.len())
    }

    fn with<R>(&self, what: impl FnOnce(&dyn Domain) -> R) -> R {
        let _moving = self.moving.read();
        what(&*self.current.load().domain)
    }

    fn current(&self) -> Arc<dyn Handover> {
        Arc::clone(&self.current.load().domain)
    }
}

impl Domain for Switchable {
    fn add(&self, vcpu: Box<dyn Vcpu>, attributes: Attributes) -> Result<VcpuId, DomainError> {
        let _adding = self.adding.lock();
        self.current().add(vcpu, attributes)
    }

    fn wake(&self, vcpu: VcpuId) {
        let mut current = self.current.load();
        loop {
            current.domain.wake(vcpu);
            let now = self.current.load();
            if Arc::ptr_eq(&current, &now) {
                return;
            }
            current = now;
        }
    }

    fn retire(&self, vcpu: VcpuId) {
        self.with(|domain| domain.retire(vcpu));
    }

    fn interrupt(&self, vcpu: VcpuId) {
        self.with(|domain| domain.interrupt(vcpu));
    }

    fn rescue(&self, hold: Nanos) {
        self.with(|domain| domain.rescue(hold));
    }

    fn charge(&self, vcpu: VcpuId, time: Nanos) -> Time {
        self.with(|domain| domain.charge(vcpu, time))
    }

    fn account(&self, vcpu: VcpuId) -> Option<Account> {
        self.with(|domain| domain.account(vcpu))
    }

    fn kicks(&self) -> Histogram {
        let _moving = self.moving.read();
        let mut kicks = self.past.lock().kicks.clone();
        kicks.merge(&self.current().kicks());
        kicks
    }

    fn trace(&self) -> Option<Arc<Trace>> {
        self.with(|domain| domain.trace())
    }

    fn totals(&self) -> Totals {
        let _moving = self.moving.read();
        let past = self.past.lock().totals;
        past.plus(&self.current().totals())
    }

    fn look(&self, from: VcpuId, seen: &mut Vec<Seen>) -> Option<VcpuId> {
        self.with(|domain| domain.look(from, seen))
    }

    fn placed(&self) -> Vec<Option<VcpuId>> {
        self.with(|domain| domain.placed())
    }

    fn threads(&self) -> Vec<kick::ThreadId> {
        self.with(|domain| domain.threads())
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::attributes::Class;
    use crate::domain::executors::{self, Executors};
    use crate::domain::leases;
    use crate::domain::testing::Script;
    use crate::domain::testing::halter::Halter;
    use crate::lock::LockRules;
    use crate::policy::rsdl::RsdlConfig;
    use crate::policy::{Policy, Rsdl};
    use crate::sync::{AtomicBool, Ordering};
    use crate::testing::{cpus, wait_for};
    use crate::time::{Nanos, Time, monotonic};
    use crate::vcpu::Stop;

    fn policy(slots: usize) -> Box<dyn Policy> {
        Box::new(Rsdl::new(RsdlConfig::default(), slots))
    }

    fn leases_on(cpus: &[usize]) -> Arc<dyn Handover> {
        leases::start(cpus, policy(cpus.len()), LockRules::default(), leases::Switches::default())
    }

    /// One of each mechanism, and of each kind of slot words. Those from the second on may hold vCPUs that halt inside.
    const KINDS: [fn() -> Arc<dyn Handover>; 4] = [
        || {
            let (cpus, switches) = (cpus(), executors::Switches::default());
            Arc::new(Executors::new(&cpus, policy(cpus.len()), LockRules::default(), switches).unwrap())
        },
        || leases_on(&cpus()),
        || leases_on(&cpus()[..1]),
        || Arc::new(HostThreads::new(&cpus(), HostYield::Sched)),
    ];

    /// A domain of each of some kinds, and its successor of each of them.
    fn pairs(
        kinds: &[fn() -> Arc<dyn Handover>],
    ) -> impl Iterator<Item = (Switchable, impl FnOnce(&Switchable) -> usize)> {
        kinds.iter().flat_map(move |from| {
            let goes_on = |to: &fn() -> Arc<dyn Handover>| {
                let to = *to;
                move |domain: &Switchable| domain.hand_over(to(), &cpus(), |_, _| ()).unwrap()
            };
            kinds.iter().map(move |to| (Switchable::new(from(), &cpus()), goes_on(to)))
        })
    }

    fn launch(domain: &Switchable, script: &Script) -> VcpuId {
        let id = domain.add(script.vcpu(), Attributes::default()).unwrap();
        domain.wake(id);
        id
    }

    /// The account of a vCPU that is about to idle, once it does. While it ran, time counts as run that may turn out to
    /// be something else.
    fn once_idle(domain: &Switchable, id: VcpuId) -> Account {
        let account = || domain.account(id).unwrap();
        wait_for(|| {
            let (first, second) = (account(), account());
            second.idle > first.idle && second.run == first.run
        });
        account()
    }

    /// Time on a slot. What of it was taken may be told later.
    fn ran_or_taken(account: &Account) -> Nanos {
        account.run + account.taken
    }

    #[test]
    fn a_vcpu_that_idles_goes_on_idling_with_its_account_until_an_event_comes() {
        for (domain, goes_on) in pairs(&KINDS) {
            let begun = monotonic();
            let script = Script::new([Stop::Exit, Stop::Exit]);
            let id = launch(&domain, &script);
            wait_for(|| script.runs() == 3);
            let (before, exits) = (once_idle(&domain, id), domain.totals().exits);
            assert_eq!(goes_on(&domain), 1);
            let after = domain.account(id).unwrap();
            assert!(ran_or_taken(&after) >= ran_or_taken(&before), "{before:?}, then {after:?}");
            assert!(after.idle >= before.idle && after.turns >= before.turns, "{before:?}, then {after:?}");
            assert!(after.total() <= monotonic().since(begun), "no time counts twice");
            assert_eq!((script.runs(), domain.totals().exits), (3, exits), "nobody woke it");
            domain.wake(id);
            wait_for(|| script.runs() == 4);
            wait_for(|| domain.usage(id).unwrap().exits == 4);
            domain.retire(id);
            wait_for(|| script.retired());
        }
    }

    #[test]
    fn a_deadline_goes_with_its_vcpu() {
        for (domain, goes_on) in pairs(&KINDS) {
            let soon = monotonic() + Nanos::from_millis(50);
            let script = Script::new([Stop::Idle(soon), Stop::Done]);
            launch(&domain, &script);
            goes_on(&domain);
            wait_for(|| script.retired());
            assert!(monotonic() >= soon);
        }
    }

    #[test]
    fn a_vcpu_that_halts_inside_waits_there_from_then_on() {
        for (domain, goes_on) in pairs(&KINDS[1..]) {
            let halter = Halter::default();
            let id = domain.add(halter.vcpu(), Attributes::default()).unwrap();
            domain.wake(id);
            halter.send();
            wait_for(|| halter.handled() == 1);
            assert_eq!(goes_on(&domain), 1);
            halter.send();
            wait_for(|| halter.handled() == 2);
            domain.retire(id);
            wait_for(|| halter.retired());
        }
    }

    #[test]
    fn ids_given_before_and_after_differ_and_a_vcpu_that_was_not_started_still_waits_for_it() {
        for (domain, goes_on) in pairs(&KINDS) {
            let (early, late) = (Script::new([Stop::Done]), Script::new([Stop::Idle(Time::NEVER)]));
            let first = domain.add(early.vcpu(), Attributes::default()).unwrap();
            assert_eq!(goes_on(&domain), 1);
            let second = launch(&domain, &late);
            assert_ne!(first, second);
            wait_for(|| late.runs() == 1);
            assert_eq!(early.runs(), 0);
            domain.wake(first);
            wait_for(|| early.retired());
            domain.retire(second);
            wait_for(|| late.retired());
        }
    }

    #[test]
    fn a_domain_that_halts_keeps_who_is_to_end_and_gives_it_back() {
        for (domain, goes_on) in pairs(&KINDS) {
            let scripts = [Script::new([]), Script::new([])];
            let ids = [0, 1].map(|n: usize| launch(&domain, &scripts[n]));
            wait_for(|| scripts.iter().all(|script| script.runs() == 1));
            domain.current().halt();
            domain.retire(ids[0]);
            assert_eq!(goes_on(&domain), 1);
            assert!(scripts[0].retired() && !scripts[1].retired());
            domain.retire(ids[1]);
            wait_for(|| scripts[1].retired());
        }
    }

    #[test]
    fn many_vcpus_that_ended_before_leave_a_domain_whose_figures_can_be_read() {
        // More than leases make records for at a time.
        const ENDED: usize = 70;
        for (domain, goes_on) in pairs(&KINDS) {
            let scripts: Vec<_> = (0..ENDED).map(|_| Script::new([])).collect();
            let ids: Vec<_> = scripts.iter().map(|script| launch(&domain, script)).collect();
            ids.iter().for_each(|id| domain.retire(*id));
            wait_for(|| scripts.iter().all(Script::retired));
            let exits = domain.totals().exits;
            assert_eq!(goes_on(&domain), 0);
            assert!(domain.totals().exits >= exits && domain.placed().iter().all(Option::is_none));
            let _ = (domain.threads(), domain.kicks());
        }
    }

    #[test]
    fn a_vcpu_that_ended_before_leaves_its_id_behind() {
        for (domain, goes_on) in pairs(&KINDS) {
            let script = Script::new([Stop::Done]);
            let id = launch(&domain, &script);
            wait_for(|| script.retired());
            assert_eq!(goes_on(&domain), 0);
            assert!(domain.account(id).is_none());
            domain.retire(id);
            let next = Script::new([]);
            let id = launch(&domain, &next);
            wait_for(|| next.runs() == 1);
            domain.retire(id);
            wait_for(|| next.retired());
        }
    }

    #[test]
    fn the_host_decides_once_it_was_fallen_back_to_and_attributes_that_were_changed_stay() {
        let domain = Switchable::new(KINDS[0](), &cpus());
        let script = Script::new([]);
        let id = launch(&domain, &script);
        wait_for(|| script.runs() == 1);
        let batch = |changed, attributes: &mut Attributes| {
            assert_eq!(changed, id);
            attributes.class = Class::Batch;
        };
        assert_eq!(domain.hand_over(KINDS[1](), &cpus(), batch).unwrap(), 1);
        assert_eq!((domain.fall_back().unwrap(), domain.fall_back().unwrap()), (1, 0));
        assert!(!domain.has_policy());
        let stays = |_, attributes: &mut Attributes| assert_eq!(attributes.class, Class::Batch);
        assert_eq!(domain.hand_over(KINDS[0](), &cpus(), stays).unwrap(), 1);
        assert!(domain.has_policy());
        domain.retire(id);
        wait_for(|| script.retired());
    }

    /// Each event of one vCPU makes the next one run, round and round.
    #[test]
    fn no_event_is_lost_over_many_changes() {
        const CHANGES: usize = 40;
        let domain = Arc::new(Switchable::new(KINDS[0](), &cpus()));
        let scripts: Vec<Script> = (0..4).map(|_| Script::new([])).collect();
        let ids: Vec<VcpuId> = scripts.iter().map(|script| launch(&domain, script)).collect();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let mut sent = 0;
                while !done.load(Ordering::Relaxed) {
                    for (id, script) in ids.iter().zip(&scripts) {
                        let before = script.runs();
                        domain.wake(*id);
                        wait_for(|| script.runs() > before);
                        sent += 1;
                    }
                }
                sent
            });
            for change in 0..CHANGES {
                assert_eq!(domain.hand_over(KINDS[change % KINDS.len()](), &cpus(), |_, _| ()).unwrap(), scripts.len());
            }
            done.store(true, Ordering::Relaxed);
            assert!(sender.join().unwrap() > 0);
        });
        ids.iter().for_each(|id| domain.retire(*id));
        wait_for(|| scripts.iter().all(Script::retired));
    }
}
