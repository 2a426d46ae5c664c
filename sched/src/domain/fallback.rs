//! A domain that can go over to the host's scheduler at run time, without losing a vCPU or an event for one.
//!
//! Ids stay what they are, since guests' hints carry them, and accounts go on. There is no way back.
//!
//! # Protocol
//! 1. *Refuse early.* The host's threads are started; if that fails, nothing has changed.
//! 2. *Halt.* The threads of the first mechanism put their vCPUs down and end. Meanwhile events and ends are taken as
//!    ever.
//! 3. *Move*, with `moving` held: every vCPU is given back with what its word of events said, and goes on in a thread
//!    of the host's. Then `host` is set, which turns all that comes later there.
//! 4. *Sweep.* An event may have been sent to the first mechanism after it gave the vCPU back, by a sender that did not
//!    see `host` yet. It lies in the vCPU's old word, and is sent again.
//!
//! A sender that sends an event while `host` is not set looks again afterwards. If `host` is set by then, it sends the
//! event there as well. Sending and sweeping are read-modify-writes of one word, so one comes first: an event that
//! comes first is found by the sweep, and a sender that comes second sees `host`. An event may so be sent twice. That
//! only ends one wait too early, as events may.
//!
//! Wakes take no lock, for they are the scheduler's own path; `moving` is for the rest. It is not held while threads
//! are waited for, since a vCPU on one of them may end others.

use super::contract::Domain;
use super::error::DomainError;
use super::evacuate::Evacuate;
use super::host::{HostThreads, HostYield};
use crate::attributes::Attributes;
use crate::histogram::Histogram;
use crate::ids::VcpuId;
use crate::kick;
use crate::ledger::{Account, Seen, Totals, Trace};
use crate::sync::{Mutex, RwLock};
use crate::time::{Nanos, Time};
use crate::vcpu::Vcpu;
use std::io;
use std::sync::{Arc, OnceLock};

/// A domain of another mechanism, until it falls back to the host's.
pub struct Switchable {
    first: Arc<dyn Evacuate>,
    cpus: Box<[usize]>,
    host: OnceLock<HostThreads>,
    /// Held while vCPUs are taken in, and over the whole change.
    adding: Mutex<()>,
    /// Read while the current mechanism is used, written while vCPUs move.
    moving: RwLock<()>,
}

/// The host gave no thread for each vCPU; nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("cannot start a thread for each vCPU; the domain stays under its policy")]
pub struct FallbackError(#[from] io::Error);

impl std::fmt::Debug for Switchable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switchable").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Switchable {
    /// A domain that begins with this one, which is on these host CPUs.
    pub fn new(first: Arc<dyn Evacuate>, cpus: &[usize]) -> Self {
        let (adding, moving) = (Mutex::default(), RwLock::default());
        Self { first, cpus: cpus.into(), host: OnceLock::new(), adding, moving }
    }

    /// Goes over to the host's scheduler. Returns the number of vCPUs that did, 0 if the domain has gone over before.
    /// Not to be called from a thread that runs a vCPU: it waits for these threads.
    ///
    /// # Errors
    /// The host gives no thread for a vCPU. Nothing has changed then.
    pub fn fall_back(&self) -> Result<usize, FallbackError> {
        let _adding = self.adding.lock();
        if self.host.get().is_some() {
            return Ok(0);
        }
        let host = HostThreads::new(&self.cpus, HostYield::Sched);
        let berths = host.berths(self.first.population())?;
        self.first.halt();
        let adopted = {
            let _moving = self.moving.write();
            let adopted = host.adopt(self.first.evacuate(), berths);
            let host = self.host.get_or_init(|| host);
            adopted.ids.iter().filter(|id| self.first.missed(**id)).for_each(|id| host.wake(*id));
            adopted
        };
        adopted.ended.into_iter().for_each(|(vcpu, last)| vcpu.retired(&last));
        Ok(adopted.ids.len())
    }

    fn with<R>(&self, what: impl FnOnce(&dyn Domain) -> R) -> R {
        let _moving = self.moving.read();
        what(self.current())
    }

    fn current(&self) -> &dyn Domain {
        match self.host.get() {
            Some(host) => host,
            None => &*self.first,
        }
    }
}

impl Domain for Switchable {
    fn add(&self, vcpu: Box<dyn Vcpu>, attributes: Attributes) -> Result<VcpuId, DomainError> {
        let _adding = self.adding.lock();
        self.current().add(vcpu, attributes)
    }

    fn wake(&self, vcpu: VcpuId) {
        if self.host.get().is_none() {
            self.first.wake(vcpu);
        }
        if let Some(host) = self.host.get() {
            host.wake(vcpu);
        }
    }

    fn retire(&self, vcpu: VcpuId) {
        self.with(|domain| domain.retire(vcpu));
    }

    fn charge(&self, vcpu: VcpuId, time: Nanos) -> Time {
        self.with(|domain| domain.charge(vcpu, time))
    }

    fn account(&self, vcpu: VcpuId) -> Option<Account> {
        self.with(|domain| domain.account(vcpu))
    }

    fn kicks(&self) -> Histogram {
        self.first.kicks()
    }

    fn trace(&self) -> Option<Arc<Trace>> {
        self.first.trace()
    }

    fn totals(&self) -> Totals {
        let _moving = self.moving.read();
        let first = self.first.totals();
        self.host.get().map_or(first, |host| first.plus(&host.totals()))
    }

    fn look(&self, from: VcpuId, seen: &mut Vec<Seen>) -> Option<VcpuId> {
        self.with(|domain| domain.look(from, seen))
    }

    fn threads(&self) -> Vec<kick::ThreadId> {
        self.with(|domain| domain.threads())
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::domain::executors::{self, Executors};
    use crate::domain::leases;
    use crate::domain::testing::Script;
    use crate::domain::testing::halter::Halter;
    use crate::lock::LockRules;
    use crate::policy::rsdl::RsdlConfig;
    use crate::policy::{Policy, Rsdl};
    use crate::testing::{cpus, wait_for};
    use crate::time::{Nanos, Time, monotonic};
    use crate::vcpu::Stop;

    /// One of each mechanism, and of each kind of slot words.
    fn domains() -> Vec<Switchable> {
        let cpus = cpus();
        let policy = |slots| -> Box<dyn Policy> { Box::new(Rsdl::new(RsdlConfig::default(), slots)) };
        let rules = LockRules::default();
        let leases = |cpus: &[usize]| leases::start(cpus, policy(cpus.len()), rules, leases::Switches::default());
        let executors = Executors::new(&cpus, policy(cpus.len()), rules, executors::Switches::default()).unwrap();
        let firsts: [Arc<dyn Evacuate>; 3] = [Arc::new(executors), leases(&cpus), leases(&cpus[..1])];
        firsts.into_iter().map(|first| Switchable::new(first, &cpus)).collect()
    }

    fn launch(domain: &Switchable, script: &Script) -> VcpuId {
        let id = domain.add(script.vcpu(), Attributes::default()).unwrap();
        domain.wake(id);
        id
    }

    #[test]
    fn a_vcpu_that_idles_goes_on_idling_with_its_account_until_an_event_comes() {
        for domain in domains() {
            let begun = monotonic();
            let script = Script::new([Stop::Exit, Stop::Exit]);
            let id = launch(&domain, &script);
            wait_for(|| script.runs() == 3);
            let (before, exits) = (domain.account(id).unwrap(), domain.totals().exits);
            assert_eq!(domain.fall_back().unwrap(), 1);
            let after = domain.account(id).unwrap();
            assert!(after.run >= before.run && after.idle > before.idle && after.turns >= before.turns);
            assert!(after.total() <= monotonic().since(begun), "no time counts twice");
            assert_eq!((script.runs(), domain.totals().exits), (3, exits), "nobody woke it");
            domain.wake(id);
            wait_for(|| script.runs() == 4);
            assert_eq!(domain.usage(id).unwrap().exits, 4);
            domain.retire(id);
            wait_for(|| script.retired());
        }
    }

    #[test]
    fn a_deadline_goes_with_its_vcpu() {
        for domain in domains() {
            let soon = monotonic() + Nanos::from_millis(50);
            let script = Script::new([Stop::Idle(soon), Stop::Done]);
            launch(&domain, &script);
            domain.fall_back().unwrap();
            wait_for(|| script.retired());
            assert!(monotonic() >= soon);
        }
    }

    #[test]
    fn a_vcpu_that_halts_inside_waits_there_from_then_on() {
        for domain in domains().into_iter().skip(1) {
            let halter = Halter::default();
            let id = domain.add(halter.vcpu(), Attributes::default()).unwrap();
            domain.wake(id);
            wait_for(|| halter.dozes() > 0);
            assert_eq!(domain.fall_back().unwrap(), 1);
            let dozes = halter.dozes();
            halter.send();
            wait_for(|| halter.handled() == 1);
            assert_eq!(halter.dozes(), dozes);
            domain.retire(id);
            wait_for(|| halter.retired());
        }
    }

    #[test]
    fn ids_given_before_and_after_differ_and_a_vcpu_that_was_not_started_still_waits_for_it() {
        for domain in domains() {
            let (early, late) = (Script::new([Stop::Done]), Script::new([Stop::Idle(Time::NEVER)]));
            let first = domain.add(early.vcpu(), Attributes::default()).unwrap();
            assert_eq!((domain.fall_back().unwrap(), domain.fall_back().unwrap()), (1, 0));
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
        for domain in domains() {
            let scripts = [Script::new([]), Script::new([])];
            let ids = [0, 1].map(|n: usize| launch(&domain, &scripts[n]));
            wait_for(|| scripts.iter().all(|script| script.runs() == 1));
            domain.first.halt();
            domain.retire(ids[0]);
            assert_eq!(domain.fall_back().unwrap(), 1);
            assert!(scripts[0].retired() && !scripts[1].retired());
            domain.retire(ids[1]);
            wait_for(|| scripts[1].retired());
        }
    }
}
