//! The kick and the timer as a vCPU meets them: a flag of its thread that it looks at before every step, as KVM looks
//! for pending signals at every entry.
//!
//! A timer may fire at any look from its time on, never before.

use crate::model::random;
use crate::sync::held::assert_not_held;
use crate::time::{Time, monotonic};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use std::cell::Cell;
use std::io;
use std::sync::{Arc, Mutex};

/// A thread of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadId(pub i32);

#[derive(Debug)]
struct Signals {
    pending: AtomicBool,
    timer: Mutex<Time>,
}

shuttle::lazy_static! {
    static ref THREADS: Mutex<Vec<Arc<Signals>>> = Mutex::new(Vec::new());
}

shuttle::thread_local! {
    static ME: Cell<Option<ThreadId>> = const { Cell::new(None) };
}

fn signals(thread: ThreadId) -> Arc<Signals> {
    Arc::clone(&THREADS.lock().unwrap()[thread.0 as usize])
}

pub(crate) fn this_thread() -> ThreadId {
    ME.with(|me| {
        me.get().unwrap_or_else(|| {
            let mut threads = THREADS.lock().unwrap();
            let id = ThreadId(threads.len() as i32);
            threads.push(Arc::new(Signals { pending: AtomicBool::new(false), timer: Mutex::new(Time::NEVER) }));
            me.set(Some(id));
            id
        })
    })
}

pub(crate) fn block() {
    this_thread();
}

pub(crate) fn drain() -> bool {
    assert_not_held();
    signals(this_thread()).pending.store(false, Ordering::SeqCst);
    false
}

pub(crate) fn send(thread: ThreadId) {
    assert_not_held();
    signals(thread).pending.store(true, Ordering::SeqCst);
}

/// Whether KVM_RUN would return at once.
pub(crate) fn is_pending() -> bool {
    let signals = signals(this_thread());
    let due = monotonic() >= *signals.timer.lock().unwrap();
    if due && random(2) == 0 {
        *signals.timer.lock().unwrap() = Time::NEVER;
        signals.pending.store(true, Ordering::SeqCst);
    }
    signals.pending.load(Ordering::SeqCst)
}

/// A model's vCPU that halts is kicked at once.
#[derive(Debug)]
pub(crate) struct Departure;

impl Departure {
    pub(crate) fn for_this_thread() -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn arm(&self) {}
}

/// The timer of a thread.
#[derive(Debug)]
pub(crate) struct Timer(Arc<Signals>);

impl Timer {
    pub(crate) fn for_this_thread() -> io::Result<Self> {
        Ok(Self(signals(this_thread())))
    }

    pub(crate) fn set(&self, at: Time) {
        assert_not_held();
        *self.0.timer.lock().unwrap() = at;
    }
}
