//! How a lock treats those that wait for it.

/// How pCPUs wait for the lock of their run queue. Each rule can be switched off alone, to measure what it is worth.
/// With neither, the lock goes to the first waiter and all others wait until that one is awake. For all but `host` and
/// `host-noyield`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename = "LockSwitches", default, deny_unknown_fields)
)]
pub struct LockRules {
    /// A pCPU that comes for the lock before its next owner is awake takes it, a limited number of times in a row.
    pub lateral: bool,
    /// The first waiter spins for some microseconds before it sleeps.
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
pub(crate) enum Caller {
    /// Steals and is robbed.
    Normal,
    /// Strictly in the order of arrival.
    Rt,
}
