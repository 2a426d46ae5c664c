//! What one vCPU has used, in plain numbers.

use super::account::Account;

/// What one vCPU has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// On a pCPU (units: ns).
    pub run_ns: u64,
    /// Runnable without a pCPU (units: ns).
    pub wait_ns: u64,
    /// The part of `wait_ns` for which its group's cap held it back (units: ns).
    pub throttled_ns: u64,
    /// Blocked (units: ns).
    pub idle_ns: u64,
    /// On a pCPU, while the host ran something else there (units: ns).
    pub taken_ns: u64,
    /// CPU time that threads which serve its VM's devices used for it (units: ns).
    pub devices_ns: u64,
    /// Exits to the monitor.
    pub exits: u64,
}

impl Usage {
    /// The times of an account.
    pub fn of(account: &Account) -> Self {
        Self {
            run_ns: account.run.0,
            wait_ns: account.wait.0,
            throttled_ns: account.throttled.0,
            idle_ns: account.idle.0,
            taken_ns: account.taken.0,
            devices_ns: account.devices.0,
            exits: account.exits,
        }
    }

    /// What came since an earlier reading. That may have counted as run what turned out to be taken; it is left out.
    pub fn since(&self, earlier: &Self) -> Self {
        let back = earlier.run_ns.saturating_sub(self.run_ns);
        Self {
            run_ns: self.run_ns.saturating_sub(earlier.run_ns),
            wait_ns: self.wait_ns.saturating_sub(earlier.wait_ns),
            throttled_ns: self.throttled_ns.saturating_sub(earlier.throttled_ns),
            idle_ns: self.idle_ns.saturating_sub(earlier.idle_ns),
            taken_ns: self.taken_ns.saturating_sub(earlier.taken_ns + back),
            devices_ns: self.devices_ns.saturating_sub(earlier.devices_ns),
            exits: self.exits.saturating_sub(earlier.exits),
        }
    }
}
