//! A domain with a watchdog, which fails the test if a vCPU waits longer than its policy promises.

use crate::is_emulated;
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use stile_sched::attributes::Attributes;
use stile_sched::domain::watchdog::{BoundOf, Cause, Rules, Starvation, Watchdog};
use stile_sched::domain::{Domain, DomainError};
use stile_sched::histogram::Histogram;
use stile_sched::kick::ThreadId;
use stile_sched::ledger::Totals;
use stile_sched::ledger::{Account, Seen, Trace};
use stile_sched::{Nanos, Time, Vcpu, VcpuId};

/// A domain in which no vCPU may starve, as long as this exists.
pub struct Watched {
    domain: Arc<dyn Domain>,
    watchdog: Option<Watchdog>,
    found: Mutex<Receiver<Starvation>>,
}

impl Watched {
    /// The domain with its watchdog.
    pub fn new(domain: Arc<dyn Domain>, bound: BoundOf) -> Self {
        let (watchdog, found) = watch(&domain, bound);
        Self { domain, watchdog: Some(watchdog), found: Mutex::new(found) }
    }
}

/// A watchdog for a domain, and the starved vCPUs that it finds.
///
/// # Panics
/// If its thread cannot be made.
pub fn watch(domain: &Arc<dyn Domain>, bound: BoundOf) -> (Watchdog, Receiver<Starvation>) {
    let (finds, found) = mpsc::channel();
    let tell = move |starvation| match finds.send(starvation) {
        Ok(()) => ControlFlow::Continue(()),
        // The test is over.
        Err(_) => ControlFlow::Break(()),
    };
    let watchdog = Watchdog::start(Arc::clone(domain), Rules { bound, tell: Box::new(tell) });
    (watchdog.expect("this process may start threads"), found)
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watchdog = None;
        let found = self.found.get_mut().unwrap_or_else(PoisonError::into_inner);
        for starvation in found.try_iter() {
            let text = starvation.text(&|vcpu| vcpu.to_string());
            let excused = starvation.cause == Cause::Host || is_emulated();
            assert!(excused || std::thread::panicking(), "{text}");
            eprintln!("{text}");
        }
    }
}

impl Domain for Watched {
    fn add(&self, vcpu: Box<dyn Vcpu>, attributes: Attributes) -> Result<VcpuId, DomainError> {
        self.domain.add(vcpu, attributes)
    }

    fn wake(&self, vcpu: VcpuId) {
        self.domain.wake(vcpu);
    }

    fn retire(&self, vcpu: VcpuId) {
        self.domain.retire(vcpu);
    }

    fn interrupt(&self, vcpu: VcpuId) {
        self.domain.interrupt(vcpu);
    }

    fn rescue(&self, hold: Nanos) {
        self.domain.rescue(hold);
    }

    fn charge(&self, vcpu: VcpuId, time: Nanos) -> Time {
        self.domain.charge(vcpu, time)
    }

    fn account(&self, vcpu: VcpuId) -> Option<Account> {
        self.domain.account(vcpu)
    }

    fn kicks(&self) -> Histogram {
        self.domain.kicks()
    }

    fn trace(&self) -> Option<Arc<Trace>> {
        self.domain.trace()
    }

    fn totals(&self) -> Totals {
        self.domain.totals()
    }

    fn look(&self, from: VcpuId, seen: &mut Vec<Seen>) -> Option<VcpuId> {
        self.domain.look(from, seen)
    }

    fn threads(&self) -> Vec<ThreadId> {
        self.domain.threads()
    }
}
