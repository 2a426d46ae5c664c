//! The one thread of this process that writes what guests print.
//!
//! A write may take as long as a reader likes: a pager, a terminal that was stopped, a full pipe, a disk that does not
//! answer. So no thread that runs a vCPU or serves devices ever writes. The way of a text:
//! 1. [`Outlet::put`](super::Outlet::put) appends it to the outlet's queue, and enlists the outlet here unless it is
//!    enlisted already.
//! 2. The thread takes the first outlet of the list and up to [`TURN`] bytes of its queue, and writes them. It holds no
//!    lock meanwhile.
//! 3. An outlet that has more goes to the end of the list. So a guest that prints without end delays the others by one
//!    turn each.
//!
//! The thread starts with the first outlet and lives as long as the process.

use super::outlet::Shared;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use stile_jail::Kind;
use stile_sched::time::{monotonic, thread_cpu_time};
use stile_sched::{Nanos, Time};

/// Bytes of one outlet that are written before the next outlet has its turn (units: bytes).
pub(super) const TURN: usize = 16 << 10;
/// A write that has not returned for so long counts as stalled. A reader that is merely slow takes something within
/// this time.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two looks at a write that may have stalled.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The writing thread, and the outlets that have something for it.
#[derive(Default)]
pub(super) struct Writer {
    list: Mutex<List>,
    enlisted: Condvar,
    idle: Condvar,
    /// When the write under way began (CLOCK_MONOTONIC, unit: ns); 0 between writes. Relaxed: it orders nothing.
    began: AtomicU64,
}

#[derive(Default)]
struct List {
    outlets: VecDeque<Arc<Shared>>,
    /// An outlet has its turn.
    busy: bool,
}

impl Writer {
    /// The writer of this process. If its thread cannot be made, nothing is written, and outlets lose what they are
    /// given once they are full.
    pub(super) fn get() -> &'static Self {
        static WRITER: OnceLock<&'static Writer> = OnceLock::new();
        WRITER.get_or_init(|| {
            let writer: &'static Self = Box::leak(Box::default());
            // A process that has no thread left for this cannot run VMs either, and says so there.
            let _ = std::thread::Builder::new().name("consoles".into()).spawn(|| {
                stile_jail::narrow(Kind::Output);
                writer.run();
            });
            writer
        })
    }

    /// Has the thread write what `outlet` holds. It must not be in the list.
    pub(super) fn enlist(&self, outlet: Arc<Shared>) {
        self.list().outlets.push_back(outlet);
        self.enlisted.notify_one();
    }

    /// Whether the write under way has lasted longer than [`PATIENCE`].
    pub(super) fn is_stalled(&self) -> bool {
        let began = Time(self.began.load(Ordering::Relaxed));
        began != Time(0) && monotonic().since(began) > Nanos::from(PATIENCE)
    }

    /// Waits until nothing is left to write, as long as no write stalls. Text may come meanwhile.
    pub(super) fn settle(&self) {
        let mut list = self.list();
        while (list.busy || !list.outlets.is_empty()) && !self.is_stalled() {
            list = self.idle.wait_timeout(list, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let outlet = self.next();
            let before = thread_cpu_time();
            for piece in outlet.take() {
                self.began.store(monotonic().0, Ordering::Relaxed);
                outlet.write(&piece);
                self.began.store(0, Ordering::Relaxed);
            }
            outlet.owes(thread_cpu_time() - before);
            if outlet.has_more() {
                self.enlist(outlet);
            }
        }
    }

    fn next(&self) -> Arc<Shared> {
        let mut list = self.list();
        list.busy = false;
        loop {
            if let Some(outlet) = list.outlets.pop_front() {
                list.busy = true;
                return outlet;
            }
            self.idle.notify_all();
            list = self.enlisted.wait(list).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
