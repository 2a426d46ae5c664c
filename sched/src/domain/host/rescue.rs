//! The rescue: threads that get no CPU from the host are given one, so that their vCPUs can stop.
//!
//! A vCPU can only be ended or paused by its own thread. The host may let that wait for minutes, as one of SCHED_IDLE
//! beside many that compute. Two things are done at once:
//!
//! * A process with CAP_SYS_NICE, or with 20 and more as RLIMIT_NICE, makes it a normal thread (sched_setscheduler(2)).
//!   That alone took 6 s beside 60 vCPUs that compute.
//! * The *hold*: no thread begins a run of its vCPU for a moment. That alone was not enough beside other processes that
//!   compute.

use super::HostThreads;
use super::record::Record;
use crate::kick;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use crate::time::{Nanos, Time, monotonic};
use std::sync::Arc;

/// What threads of a domain have to know of rescues.
#[derive(Debug, Default)]
pub(super) struct Rescue {
    /// The end of the latest hold.
    held_until: AtomicU64,
}

impl Rescue {
    /// Until when threads stay outside, if that is to come.
    pub(super) fn holds_until(&self) -> Option<Time> {
        let until = Time(self.held_until.load(Relaxed));
        (until > Time(0) && until > monotonic()).then_some(until)
    }
}

impl HostThreads {
    /// Has every thread that may be starved run soon: it becomes a normal one for a moment, and all are held.
    pub(super) fn rescue_starved(&self, hold: Nanos) {
        let mut records = self.vcpus.all();
        let live = records.len();
        // A starved thread may have the lock, as it ends its own VM: nobody waits for it.
        records.extend(self.shared.ended.leaving());
        self.raise_all(&records);
        self.hold_all(&records[..live], hold);
    }

    /// Makes threads that may be starved normal ones, where the host permits it.
    pub(super) fn raise_all(&self, records: &[Arc<Record>]) {
        for record in records.iter().filter(|record| record.yields_to_most()) {
            let Some(thread) = record.thread.get() else { continue };
            record.raised.raise(*thread);
            // It looks at the mark after the kick.
            kick::send(*thread);
        }
    }

    /// Keeps vCPUs outside their guests for so long.
    fn hold_all(&self, records: &[Arc<Record>], time: Nanos) {
        // Relaxed: a thread that does not see it yet is kicked, and then looks.
        self.shared.rescue.held_until.store((monotonic() + time).0, Relaxed);
        records.iter().filter_map(|record| record.thread.get()).for_each(|thread| kick::send(*thread));
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use crate::attributes::{Attributes, Class};
    use crate::domain::contract::Domain;
    use crate::domain::host::{HostThreads, HostYield};
    use crate::domain::host_class;
    use crate::ids::VcpuId;
    use crate::kick;
    use crate::ledger::Account;
    use crate::testing::wait_for;
    use crate::time::{Nanos, Time, monotonic};
    use crate::vcpu::{Stop, Vcpu};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

    /// Computes until it is kicked.
    #[derive(Clone, Default)]
    struct Computes(Arc<Inner>);

    #[derive(Default)]
    struct Inner {
        inside: AtomicBool,
        runs: AtomicU64,
        idles: AtomicBool,
        retired: AtomicBool,
    }

    impl Computes {
        fn is_inside(&self) -> bool {
            self.0.inside.load(SeqCst)
        }

        fn is_retired(&self) -> bool {
            self.0.retired.load(SeqCst)
        }

        fn runs(&self) -> u64 {
            self.0.runs.load(SeqCst)
        }
    }

    impl Vcpu for Computes {
        fn run(&mut self) -> Stop {
            self.0.inside.store(true, SeqCst);
            self.0.runs.fetch_add(1, SeqCst);
            while !kick::is_pending() {}
            self.0.inside.store(false, SeqCst);
            match self.0.idles.load(SeqCst) {
                true => Stop::Idle(Time::NEVER),
                false => Stop::Kicked,
            }
        }

        fn retired(self: Box<Self>, _: &Account) {
            self.0.retired.store(true, SeqCst);
        }
    }

    fn waits_until(until: Time, done: &dyn Fn() -> bool) {
        while !done() && monotonic() < until {
            std::thread::yield_now();
        }
    }

    const LONG: Nanos = Nanos::from_millis(100);

    fn add(domain: &HostThreads, class: Class) -> (VcpuId, Computes) {
        let vcpu = Computes::default();
        let id = domain.add(Box::new(vcpu.clone()), Attributes { class, ..Attributes::default() }).unwrap();
        domain.wake(id);
        (id, vcpu)
    }

    /// A domain on one CPU, a vCPU that its host starves, and the others.
    fn starving() -> (HostThreads, (VcpuId, Computes), Vec<(VcpuId, Computes)>) {
        let domain = HostThreads::new(&crate::testing::cpus()[..1], HostYield::Sched);
        let starved = add(&domain, Class::Idle);
        wait_for(|| starved.1.is_inside());
        // Its thread gets 3 of 41,000 shares from now on.
        let others: Vec<_> = (0..40).map(|_| add(&domain, Class::Normal)).collect();
        (domain, starved, others)
    }

    fn all_end(domain: &HostThreads, vcpus: &[(VcpuId, Computes)]) {
        vcpus.iter().for_each(|(id, _)| domain.retire(*id));
        wait_for(|| vcpus.iter().all(|(_, vcpu)| vcpu.is_retired()));
    }

    #[test]
    fn a_vcpu_that_the_host_starves_ends_when_it_is_rescued() {
        let (domain, (id, vcpu), others) = starving();
        domain.retire(id);
        let ended = (0..300).any(|_| {
            domain.rescue(LONG);
            waits_until(monotonic() + LONG, &|| vcpu.is_retired());
            vcpu.is_retired()
        });
        assert!(ended, "300 rescues did not end it");
        all_end(&domain, &others);
    }

    #[test]
    fn a_rescued_thread_has_its_class_again_when_it_goes_on() {
        let domain = HostThreads::new(&crate::testing::cpus(), HostYield::Sched);
        let (id, vcpu) = add(&domain, Class::Idle);
        wait_for(|| vcpu.is_inside());
        let record = domain.vcpus.get(id).unwrap();
        let runs = vcpu.runs();
        domain.rescue(Nanos::ZERO);
        // It enters its class before it runs.
        wait_for(|| vcpu.runs() > runs && !record.raised.raised.load(SeqCst));
        assert_eq!(host_class::policy_of(*record.thread.get().unwrap()), libc::SCHED_IDLE);
        all_end(&domain, &[(id, vcpu)]);
    }

    #[test]
    fn a_rescue_does_not_wait_for_a_starved_thread_that_is_about_to_end() {
        let domain = HostThreads::new(&crate::testing::cpus(), HostYield::Sched);
        let (id, vcpu) = add(&domain, Class::Idle);
        wait_for(|| vcpu.is_inside());
        let record = domain.vcpus.get(id).unwrap();
        domain.retire(id);
        {
            let _its = record.raised.ends.lock();
            domain.rescue(Nanos::ZERO);
        }
        wait_for(|| vcpu.is_retired());
    }

    #[test]
    fn no_vcpu_runs_during_a_hold_and_a_starved_one_ends() {
        let (domain, (id, starved), others) = starving();
        domain.retire(id);
        let records = domain.vcpus.all();
        let is_quiet = || others.iter().all(|(_, vcpu)| !vcpu.is_inside());
        // On a machine that is busy otherwise it may take longer than a hold; then another one is tried.
        let ended = (0..300).any(|_| {
            let until = monotonic() + LONG;
            domain.hold_all(&records, LONG);
            waits_until(until, &is_quiet);
            let runs = || others.iter().map(|(_, vcpu)| vcpu.runs()).sum::<u64>();
            let before = runs();
            waits_until(until, &|| starved.is_retired());
            starved.is_retired() && is_quiet() && runs() == before && monotonic() < until
        });
        assert!(ended, "there was no hold in which no vCPU ran and the starved one was through");
        let before: Vec<u64> = others.iter().map(|(_, vcpu)| vcpu.runs()).collect();
        wait_for(|| others.iter().zip(&before).all(|((_, vcpu), before)| vcpu.runs() > *before));
        all_end(&domain, &others);
    }

    #[test]
    fn an_event_during_a_hold_ends_the_idleness_after_it() {
        let domain = HostThreads::new(&crate::testing::cpus(), HostYield::Sched);
        let vcpu = Computes::default();
        vcpu.0.idles.store(true, SeqCst);
        let id = domain.add(Box::new(vcpu.clone()), Attributes::default()).unwrap();
        domain.wake(id);
        wait_for(|| vcpu.is_inside());
        // The first run ends idle. The event comes while it is held, and is for the run after that.
        domain.hold_all(&[domain.vcpus.get(id).unwrap()], LONG);
        domain.wake(id);
        wait_for(|| vcpu.runs() == 2);
        domain.retire(id);
        wait_for(|| vcpu.is_retired());
    }
}
