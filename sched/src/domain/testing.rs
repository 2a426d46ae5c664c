//! A vCPU made of a script, for tests of mechanisms.

#[cfg(not(shuttle))]
pub(crate) mod halter;

use crate::vcpu::{Stop, Vcpu};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// What a scripted vCPU does, and what became of it. When the script is at its end, the vCPU idles.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    stops: Mutex<VecDeque<Stop>>,
    runs: AtomicUsize,
    retired: AtomicBool,
}

impl Script {
    pub(crate) fn new(stops: impl IntoIterator<Item = Stop>) -> Self {
        let script = Self::default();
        *script.0.stops.lock().unwrap() = stops.into_iter().collect();
        script
    }

    pub(crate) fn vcpu(&self) -> Box<dyn Vcpu> {
        Box::new(self.clone())
    }

    pub(crate) fn runs(&self) -> usize {
        self.0.runs.load(SeqCst)
    }

    pub(crate) fn retired(&self) -> bool {
        self.0.retired.load(SeqCst)
    }
}

impl Vcpu for Script {
    fn run(&mut self) -> Stop {
        let stop = self.0.stops.lock().unwrap().pop_front().unwrap_or(Stop::Idle(crate::time::Time::NEVER));
        self.0.runs.fetch_add(1, SeqCst);
        stop
    }

    fn retired(self: Box<Self>, _: &crate::ledger::Account) {
        self.0.retired.store(true, SeqCst);
    }
}
