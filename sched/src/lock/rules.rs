//! How a lock treats those that wait for it.

/// What shortens the wait for a [`QueueLock`](super::QueueLock).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRules {
    /// Who arrives before the pending owner runs takes the lock, a bounded number of times.
    pub lateral: bool,
    /// The first waiter spins while the owner is likely to be on a CPU.
    pub adaptive: bool,
}

impl Default for LockRules {
    /// Both.
    fn default() -> Self {
        Self { lateral: true, adaptive: true }
    }
}

/// The class of a thread that asks for a [`QueueLock`](super::QueueLock).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// Steals and is robbed.
    Normal,
    /// Strictly in the order of arrival.
    Rt,
}
