//! Caps under the host's scheduler, which knows of none: for vCPUs that came from a policy with caps.
//!
//! Each thread holds itself to its group's cap. Before its vCPU runs it draws a slice from the group's
//! [budget](Budget), or waits until one is ready, and it sets its timer to the slice's end. The timer's kick makes it
//! look at its CPU clock: what is left of the slice is run, and what was run beyond it is a debt of the group. So a cap
//! costs a kick for each slice, and other exits cost nothing.
//!
//! Slices are as large as under a policy. They are not handed round: the first thread that finds one ready takes it.

use crate::attributes::{Group, GroupId};
use crate::kick;
use crate::policy::Budget;
use crate::sync::Mutex;
use crate::time::{Nanos, Time, monotonic, thread_cpu_time};
use std::io;
use std::sync::{Arc, Weak};

/// A rest of a slice that is not worth a kick.
const LEAST: Nanos = Nanos::from_micros(50);

/// The groups of a domain's vCPUs.
#[derive(Debug, Default)]
pub(super) struct Groups(Mutex<Vec<(GroupId, Weak<GroupCap>)>>);

/// vCPUs that share a cap.
#[derive(Debug)]
pub(super) struct GroupCap(Mutex<Shared>);

#[derive(Debug)]
struct Shared {
    budget: Budget,
    members: u32,
}

impl Groups {
    /// The cap of a vCPU that joins this group.
    pub(super) fn join(&self, group: Group) -> Arc<GroupCap> {
        let mut groups = self.0.lock();
        groups.retain(|(_, cap)| cap.strong_count() > 0);
        let known = groups.iter().find(|(id, _)| *id == group.id).and_then(|(_, cap)| cap.upgrade());
        let cap = known.unwrap_or_else(|| {
            let budget = Budget::new(group.cap, monotonic());
            let cap = Arc::new(GroupCap(Mutex::new(Shared { budget, members: 0 })));
            groups.push((group.id, Arc::downgrade(&cap)));
            cap
        });
        cap.0.lock().members += 1;
        cap
    }
}

impl GroupCap {
    /// Other threads have used so much for the group. Returns when they may go on.
    pub(super) fn charge(&self, time: Nanos, now: Time) -> Time {
        let Shared { budget, members } = &mut *self.0.lock();
        budget.overdraw(time, now);
        budget.ready(*members)
    }
}

/// What the calling thread may run of its vCPU. Made and used by that thread.
pub(super) struct Slices {
    cap: Arc<GroupCap>,
    timer: kick::Timer,
    /// What is left of its slice, at `cpu` on its CPU clock.
    slice: Nanos,
    cpu: Nanos,
}

impl Slices {
    /// # Errors
    /// The host gives no timer.
    pub(super) fn new(cap: Arc<GroupCap>) -> io::Result<Self> {
        Ok(Self { cap, timer: kick::Timer::for_this_thread()?, slice: Nanos::ZERO, cpu: thread_cpu_time() })
    }

    /// Before the vCPU runs, and after a kick. `None`: it may run, and is kicked when it has to ask again. Else it has
    /// to wait until then, and ask again.
    pub(super) fn waits_until(&mut self, now: Time) -> Option<Time> {
        let cpu = thread_cpu_time();
        let ran = cpu - std::mem::replace(&mut self.cpu, cpu);
        let beyond = ran.saturating_sub(self.slice);
        self.slice = self.slice.saturating_sub(ran);
        let Shared { budget, members } = &mut *self.cap.0.lock();
        if beyond > Nanos::ZERO {
            budget.overdraw(beyond, now);
        }
        if self.slice < LEAST {
            let ready = budget.ready(*members);
            if ready > now {
                return Some(ready);
            }
            self.slice = budget.draw(*members, self.slice, now);
        }
        self.timer.set(now + self.slice);
        None
    }
}

impl Drop for Slices {
    fn drop(&mut self) {
        self.cap.0.lock().members -= 1;
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use crate::attributes::{Attributes, Cap, Group, GroupId};
    use crate::domain::contract::Domain;
    use crate::domain::executors::{Executors, Switches};
    use crate::domain::switchable::Switchable;
    use crate::ledger::Account;
    use crate::lock::LockRules;
    use crate::policy::rsdl::RsdlConfig;
    use crate::policy::{Capped, Rsdl};
    use crate::testing::{cpus, wait_for};
    use crate::time::{Nanos, monotonic};
    use crate::vcpu::{Stop, Vcpu};
    use crate::{VcpuId, kick};
    use std::sync::Arc;

    /// Computes until it is kicked, and makes no exit.
    struct Computes;

    impl Vcpu for Computes {
        fn run(&mut self) -> Stop {
            while !kick::is_pending() {}
            Stop::Kicked
        }

        fn retired(self: Box<Self>, _: &Account) {}
    }

    const PERIOD: Nanos = Nanos::from_millis(20);

    /// A domain that keeps caps and has fallen back, with a VM of so many vCPUs whose cap is a tenth of a CPU.
    fn fallen_back(vcpus: usize) -> (Switchable, Vec<VcpuId>) {
        let cpus = cpus();
        let inner = Box::new(Rsdl::new(RsdlConfig::default(), cpus.len()));
        let policy = Box::new(Capped::new(inner, cpus.len()));
        let executors = Executors::new(&cpus, policy, LockRules::default(), Switches::default()).unwrap();
        let domain = Switchable::new(Arc::new(executors), &cpus);
        let cap = Cap::new(Nanos(PERIOD.0 / 10), PERIOD).unwrap();
        let attributes = Attributes { group: Some(Group { id: GroupId(1), cap }), ..Attributes::default() };
        let ids: Vec<VcpuId> = (0..vcpus).map(|_| domain.add(Box::new(Computes), attributes).unwrap()).collect();
        ids.iter().for_each(|&id| domain.wake(id));
        domain.fall_back().unwrap();
        (domain, ids)
    }

    fn ran(domain: &Switchable, ids: &[VcpuId]) -> Nanos {
        ids.iter().fold(Nanos::ZERO, |sum, &id| sum + domain.account(id).unwrap().run)
    }

    #[test]
    fn a_cap_outlives_the_fallback() {
        for vcpus in [1, 3] {
            let (domain, ids) = fallen_back(vcpus);
            let (begun, before) = (monotonic(), ran(&domain, &ids));
            // As long as they are alone, they would run for as long as it takes; under their cap, for a tenth of it.
            wait_for(|| ran(&domain, &ids) - before >= Nanos::from_millis(20));
            let (took, used) = (monotonic().since(begun), ran(&domain, &ids) - before);
            let yields = Nanos(took.0 / 10);
            // A period's budget may be in hand, and a slice of each ends when its thread gets to know.
            let most = yields + PERIOD;
            assert!(used <= most, "{vcpus} vCPUs used {used:?} in {took:?}");
            ids.iter().for_each(|&id| domain.retire(id));
        }
    }

    #[test]
    fn a_vcpu_that_a_cap_holds_back_after_the_fallback_can_be_ended() {
        let (domain, ids) = fallen_back(1);
        // A minute's work of another thread: its cap takes ten minutes to pay for that.
        let until = domain.charge(ids[0], Nanos::from_millis(60_000));
        assert!(until > monotonic() + Nanos::from_millis(500_000));
        assert_eq!(domain.account(ids[0]).unwrap().devices, Nanos::from_millis(60_000));
        domain.retire(ids[0]);
        wait_for(|| domain.account(ids[0]).is_none());
    }
}
