//! What the rescue of a starved vCPU has done to its thread.

use crate::domain::host_class;
use crate::kick;
use crate::sync::{AtomicBool, Mutex, Ordering::Relaxed};

/// What a rescue has done to a thread, and whether it can do more.
#[derive(Debug, Default)]
pub(super) struct Raised {
    /// It was made a normal one, and is to become again what its vCPU's attributes say.
    pub(super) raised: AtomicBool,
    /// It ends, so another thread may soon have its number.
    pub(super) ends: Mutex<bool>,
}

impl Raised {
    /// Takes the mark of a rescue.
    pub(super) fn take(&self) -> bool {
        self.raised.load(Relaxed) && self.raised.swap(false, Relaxed)
    }

    /// Makes this thread a normal one, unless it ends or the host refuses it.
    pub(super) fn raise(&self, thread: kick::ThreadId) {
        // A thread that has the lock may be starved as well: nobody waits for it.
        if let Some(ends) = self.ends.try_lock()
            && !*ends
        {
            let _ = host_class::raise(thread);
            self.raised.store(true, Relaxed);
        }
    }
}

/// Held by a thread for as long as it can be rescued.
pub(super) struct Rescuable<'record>(pub(super) &'record Raised);

impl Drop for Rescuable<'_> {
    fn drop(&mut self) {
        *self.0.ends.lock() = true;
    }
}
