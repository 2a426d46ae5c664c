//! Pausing: a VM whose vCPUs stay in their domain and run no guest code.
//!
//! # Protocol
//! 1. A vCPU says that it is inside, and then looks whether a pause is asked for. If so it is not inside, and idles.
//! 2. [`Pausing::pause`] asks, interrupts every vCPU, and waits until none is inside.
//! 3. Both sides write first and read then, in one order for all threads. So a vCPU that does not see the pause is seen
//!    inside, and the interrupt that follows ends its run.
//!
//! A vCPU that waits for a pCPU is not waited for: it looks before it runs. Events wake a paused vCPU for a moment and
//! are not lost, since the resumed vCPU runs and looks for itself.

use super::status::{HOLD, STARVES_AFTER};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stile_sched::ledger::Account;
use stile_sched::wait::Yield;
use stile_sched::{Domain, Nanos, Presence, Stop, Time, Vcpu, VcpuId};

/// Time between two looks at vCPUs that have not left their guests.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// A vCPU that a pause may have kept from running.
pub(crate) trait Pausable: Vcpu {
    /// Called before the first run after a pause.
    fn resumes(&mut self) {}
}

/// A VM did not pause in time: one of its vCPUs did not leave its guest. It goes on as if nothing had been asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("vCPU {vcpu} has not left its guest after {after:?}; the VM goes on")]
pub struct PauseError {
    /// The vCPU.
    pub vcpu: u32,
    /// How long it was waited for.
    pub after: Duration,
}

/// A vCPU may be in its guest. On a cache line of its own, since vCPUs write it at each run.
#[derive(Default)]
#[repr(align(64))]
struct Inside(AtomicBool);

/// Whether a VM is paused.
pub(super) struct Pausing {
    asked: Arc<AtomicBool>,
    inside: Box<[Arc<Inside>]>,
    /// Held while a pause begins or ends.
    changing: Mutex<()>,
}

impl Pausing {
    /// Of a VM with so many vCPUs.
    pub(super) fn new(vcpus: u32) -> Self {
        let inside = (0..vcpus).map(|_| Arc::default()).collect();
        Self { asked: Arc::default(), inside, changing: Mutex::default() }
    }

    /// This vCPU, so that it can be paused.
    pub(super) fn guard(&self, index: u32, vcpu: Box<dyn Pausable>) -> Box<dyn Vcpu> {
        let (asked, inside) = (Arc::clone(&self.asked), Arc::clone(&self.inside[index as usize]));
        Box::new(Guarded { asked, inside, was_paused: false, vcpu })
    }

    /// Whether it is paused, or about to be.
    pub(super) fn is_paused(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Keeps the vCPUs, which have these ids, from running guest code. When this returns, none does.
    pub(super) fn pause(&self, domain: &dyn Domain, ids: &[VcpuId], limit: Duration) -> Result<(), PauseError> {
        let _changing = self.changing();
        self.asked.store(true, Ordering::SeqCst);
        ids.iter().for_each(|id| domain.interrupt(*id));
        let began = Instant::now();
        let mut rescues = began + STARVES_AFTER;
        while let Some(vcpu) = self.inside.iter().position(|inside| inside.0.load(Ordering::SeqCst)) {
            let now = Instant::now();
            if now >= began + limit {
                self.go_on(domain, ids);
                return Err(PauseError { vcpu: vcpu as u32, after: limit });
            }
            if now >= rescues {
                domain.rescue(HOLD);
                rescues = now + STARVES_AFTER;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Lets the vCPUs run again.
    pub(super) fn resume(&self, domain: &dyn Domain, ids: &[VcpuId]) {
        let _changing = self.changing();
        self.go_on(domain, ids);
    }

    fn go_on(&self, domain: &dyn Domain, ids: &[VcpuId]) {
        self.asked.store(false, Ordering::SeqCst);
        ids.iter().for_each(|id| domain.wake(*id));
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A vCPU that looks for a pause before it runs.
struct Guarded {
    asked: Arc<AtomicBool>,
    inside: Arc<Inside>,
    was_paused: bool,
    vcpu: Box<dyn Pausable>,
}

impl Vcpu for Guarded {
    fn run(&mut self) -> Stop {
        self.inside.0.store(true, Ordering::SeqCst);
        let stop = if self.asked.load(Ordering::SeqCst) {
            self.was_paused = true;
            Stop::Idle(Time::NEVER)
        } else {
            if std::mem::take(&mut self.was_paused) {
                self.vcpu.resumes();
            }
            self.vcpu.run()
        };
        self.inside.0.store(false, Ordering::Release);
        stop
    }

    fn halts_inside(&self) -> bool {
        self.vcpu.halts_inside()
    }

    fn doze(&mut self) -> bool {
        self.vcpu.doze()
    }

    fn spins(&mut self) -> Option<Yield> {
        self.vcpu.spins()
    }

    fn waited(&mut self, total: Nanos, taken: Nanos) {
        self.vcpu.waited(total, taken);
    }

    fn presence(&mut self, presence: Presence) {
        self.vcpu.presence(presence);
    }

    fn retired(self: Box<Self>, last: &Account) {
        self.vcpu.retired(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use stile_sched::attributes::Attributes;
    use stile_sched::domain::executors::{Executors, Switches};
    use stile_sched::domain::host::{HostThreads, HostYield};
    use stile_sched::domain::leases;
    use stile_sched::kick;
    use stile_sched::lock::LockRules;
    use stile_sched::policy::{Policy, Rsdl, rsdl::RsdlConfig};

    /// Computes until it is kicked, and counts.
    struct Counter {
        steps: Arc<AtomicU64>,
        resumed: Arc<AtomicU64>,
    }

    impl Vcpu for Counter {
        fn run(&mut self) -> Stop {
            while !kick::is_pending() {
                self.steps.fetch_add(1, Ordering::Relaxed);
            }
            Stop::Kicked
        }

        fn retired(self: Box<Self>, _: &Account) {}
    }

    impl Pausable for Counter {
        fn resumes(&mut self) {
            self.resumed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn policy() -> Box<dyn Policy> {
        Box::new(Rsdl::new(RsdlConfig::default(), 1))
    }

    fn domains() -> [Box<dyn Domain>; 2] {
        let executors = Executors::new(&[0], policy(), LockRules::default(), Switches::default()).unwrap();
        [Box::new(executors), Box::new(HostThreads::new(&[0], HostYield::Sched))]
    }

    const LONG: Duration = Duration::from_secs(20);

    fn pauses_and_goes_on(domain: &dyn Domain) {
        let pausing = Pausing::new(3);
        let steps: Vec<Arc<AtomicU64>> = (0..3).map(|_| Arc::default()).collect();
        let resumed = Arc::<AtomicU64>::default();
        let ids: Vec<VcpuId> = (0..)
            .zip(&steps)
            .map(|(index, steps)| {
                let counter = Counter { steps: Arc::clone(steps), resumed: Arc::clone(&resumed) };
                domain.add(pausing.guard(index, Box::new(counter)), Attributes::default()).unwrap()
            })
            .collect();
        ids.iter().for_each(|id| domain.wake(*id));
        let counts = || steps.iter().map(|steps| steps.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let all_go_on = |from: &[u64]| {
            let until = Instant::now() + LONG;
            while counts().iter().zip(from).any(|(now, then)| now == then) {
                assert!(Instant::now() < until, "{:?} after {from:?}", counts());
                std::thread::yield_now();
            }
        };
        all_go_on(&[0; 3]);
        for round in 0..5 {
            pausing.pause(domain, &ids, LONG).unwrap();
            let paused = counts();
            // Events wake paused vCPUs, which must not run for it.
            ids.iter().for_each(|id| domain.wake(*id));
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(counts(), paused, "round {round}");
            pausing.resume(domain, &ids);
            all_go_on(&paused);
        }
        assert!(resumed.load(Ordering::Relaxed) >= 5);
        ids.iter().for_each(|id| domain.retire(*id));
    }

    #[test]
    fn a_paused_vm_runs_no_guest_code_until_it_is_resumed() {
        domains().iter().for_each(|domain| pauses_and_goes_on(&**domain));
        let leases = leases::start(&[0], policy(), LockRules::default(), leases::Switches::default());
        pauses_and_goes_on(&*leases);
    }

    /// A vCPU that takes no kick until it is told to.
    struct Deaf {
        /// It is past the look for a pause.
        runs: Arc<AtomicBool>,
        hears: Arc<AtomicBool>,
    }

    impl Vcpu for Deaf {
        fn run(&mut self) -> Stop {
            self.runs.store(true, Ordering::SeqCst);
            while !self.hears.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            Stop::Kicked
        }

        fn retired(self: Box<Self>, _: &Account) {}
    }

    impl Pausable for Deaf {}

    #[test]
    fn a_vcpu_that_does_not_leave_is_named_and_its_vm_is_not_paused() {
        let [domain, _] = domains();
        let (pausing, runs, hears) = (Pausing::new(1), Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let deaf = Deaf { runs: Arc::clone(&runs), hears: Arc::clone(&hears) };
        let id = domain.add(pausing.guard(0, Box::new(deaf)), Attributes::default()).unwrap();
        domain.wake(id);
        let until = Instant::now() + LONG;
        while !runs.load(Ordering::SeqCst) {
            assert!(Instant::now() < until);
            std::thread::yield_now();
        }
        let limit = Duration::from_millis(5);
        assert_eq!(pausing.pause(&*domain, &[id], limit), Err(PauseError { vcpu: 0, after: limit }));
        assert!(!pausing.is_paused());
        hears.store(true, Ordering::SeqCst);
        domain.retire(id);
    }
}
