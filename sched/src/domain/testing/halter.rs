//! A vCPU that halts inside its run as one with an interrupt controller in the kernel does: it waits there, off its
//! CPU, until a kick, or until an event that nothing else is told of.

use crate::kick;
use crate::vcpu::{Stop, Vcpu};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// One such vCPU.
#[derive(Debug, Clone)]
pub(crate) struct Halter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    sent: AtomicUsize,
    /// Readable while there is an event that is not handled. The thread sleeps on it: one that looked from time to time
    /// would use CPU time, and so not look halted.
    events: OwnedFd,
    handled: AtomicUsize,
    dozes: AtomicUsize,
    retired: AtomicBool,
}

impl Default for Halter {
    fn default() -> Self {
        Self(Arc::new(Inner {
            sent: AtomicUsize::new(0),
            events: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE).unwrap(),
            handled: AtomicUsize::new(0),
            dozes: AtomicUsize::new(0),
            retired: AtomicBool::new(false),
        }))
    }
}

impl Halter {
    pub(crate) fn vcpu(&self) -> Box<dyn Vcpu> {
        Box::new(self.clone())
    }

    /// An event.
    pub(crate) fn send(&self) {
        self.0.sent.fetch_add(1, SeqCst);
        rustix::io::write(&self.0.events, &1u64.to_ne_bytes()).unwrap();
    }

    /// Events it has handled.
    pub(crate) fn handled(&self) -> usize {
        self.0.handled.load(SeqCst)
    }

    /// How often it has dozed.
    pub(crate) fn dozes(&self) -> usize {
        self.0.dozes.load(SeqCst)
    }

    pub(crate) fn retired(&self) -> bool {
        self.0.retired.load(SeqCst)
    }

    /// Whether its vCPU was dropped.
    pub(crate) fn is_gone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    fn has_event(&self) -> bool {
        self.0.sent.load(SeqCst) > self.handled()
    }

    /// True: there is an event; false: there is a kick.
    fn wait(&self) -> bool {
        let kicks = kick::pending_kicks().unwrap();
        let mut both = [PollFd::new(&kicks, PollFlags::IN), PollFd::new(&self.0.events, PollFlags::IN)];
        poll(&mut both, None).unwrap();
        both[0].revents().is_empty()
    }
}

impl Vcpu for Halter {
    fn run(&mut self) -> Stop {
        if !self.wait() {
            return if self.has_event() { Stop::Kicked } else { Stop::Halted };
        }
        rustix::io::read(&self.0.events, &mut [0; 8]).unwrap();
        self.0.handled.fetch_add(1, SeqCst);
        Stop::Exit
    }

    fn halts_inside(&self) -> bool {
        true
    }

    fn doze(&mut self) -> bool {
        self.0.dozes.fetch_add(1, SeqCst);
        self.wait()
    }

    fn retired(self: Box<Self>, _: &crate::ledger::Account) {
        self.0.retired.store(true, SeqCst);
    }
}
