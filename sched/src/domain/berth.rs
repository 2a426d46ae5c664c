//! Threads for vCPUs that another domain still has: started before it gives them up, so that a host without another
//! thread or timer refuses while nothing has changed.

use super::carrier_thread::STACK_BYTES;
use crate::kick;
use crate::sync::{
    mpsc,
    thread::{self, JoinHandle},
};
use std::io;

/// What a thread does once there is a vCPU for it.
pub(super) type Life = Box<dyn FnOnce(kick::Timer) + Send>;

/// A thread with a timer that waits for a vCPU, and ends if it gets none.
pub struct Berth {
    lives: mpsc::SyncSender<Life>,
    thread: JoinHandle<()>,
}

impl std::fmt::Debug for Berth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Berth")
    }
}

impl Berth {
    /// Starts the thread.
    pub(super) fn new() -> io::Result<Self> {
        let (lives, life) = mpsc::sync_channel::<Life>(1);
        let (ready, started) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("vcpu".to_owned()).stack_size(STACK_BYTES).spawn(move || {
            let timer = match kick::Timer::for_this_thread() {
                Ok(timer) => timer,
                Err(error) => return ready.send(Err(error)).unwrap_or(()),
            };
            // The starter waits for this.
            let _ = ready.send(Ok(()));
            if let Ok(life) = life.recv() {
                life(timer);
            }
        })?;
        started.recv().unwrap_or_else(|_| Err(io::Error::other("a vCPU's thread ended while it started")))?;
        Ok(Self { lives, thread })
    }

    /// So many of them.
    pub(super) fn some(count: usize) -> io::Result<Vec<Self>> {
        (0..count).map(|_| Self::new()).collect()
    }

    /// The thread leads this life from now on.
    pub(super) fn lead(self, life: Life) -> JoinHandle<()> {
        // It waits for that.
        let _ = self.lives.send(life);
        self.thread
    }
}
