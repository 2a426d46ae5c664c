//! Autogroups: the host scheduler's habit of treating a whole session as one task.
//!
//! With `kernel.sched_autogroup_enabled` set, all vCPU threads of a session have one place among the kernel's own
//! threads. On Linux 6.18 a session with threads that wake each other tens of thousands of times a second then keeps
//! the kernel's RCU threads and workers off the CPU for seconds to minutes. Creating a VM waits for exactly those
//! threads (KVM_SET_USER_MEMORY_REGION waits for a grace period). Without autogroups, the guests of such a session
//! start in milliseconds. A comparison would measure this instead of a scheduler.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const SETTING: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// Autogroups, switched off for as long as this lives.
#[derive(Debug)]
pub struct AutogroupsOff {
    setting: PathBuf,
}

impl AutogroupsOff {
    /// Switches autogroups off; `None` if they are off already or this kernel has none.
    pub fn hold() -> io::Result<Option<Self>> {
        Self::at(Path::new(SETTING))
    }

    fn at(setting: &Path) -> io::Result<Option<Self>> {
        match fs::read_to_string(setting) {
            Ok(value) if value.trim() == "1" => {
                fs::write(setting, "0")?;
                Ok(Some(Self { setting: setting.to_owned() }))
            }
            _ => Ok(None),
        }
    }
}

impl Drop for AutogroupsOff {
    fn drop(&mut self) {
        if let Err(e) = fs::write(&self.setting, "1") {
            tracing::error!("cannot set {} back to 1: {e}", self.setting.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_is_off_while_held_and_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let setting = dir.path().join("autogroup");
        fs::write(&setting, "1\n").unwrap();
        let held = AutogroupsOff::at(&setting).unwrap();
        assert_eq!(fs::read_to_string(&setting).unwrap(), "0");
        drop(held);
        assert_eq!(fs::read_to_string(&setting).unwrap(), "1");
    }

    #[test]
    fn a_setting_that_is_off_or_missing_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let setting = dir.path().join("autogroup");
        assert!(AutogroupsOff::at(&setting).unwrap().is_none());
        fs::write(&setting, "0\n").unwrap();
        assert!(AutogroupsOff::at(&setting).unwrap().is_none());
        assert_eq!(fs::read_to_string(&setting).unwrap(), "0\n");
    }
}
