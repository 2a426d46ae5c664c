//! The host's time that this process has used.
#![allow(unsafe_code, reason = "getrusage")]

use std::mem::MaybeUninit;
use std::time::Duration;

/// The time that this process was in the host's kernel, on all its threads.
pub fn system_time() -> Duration {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes a whole structure to the place given. The call cannot fail with this argument, and all
    // zeros would be a valid structure, too.
    let time = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init().ru_stime
    };
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_time_does_not_run_backwards() {
        let before = system_time();
        std::fs::read("/proc/self/stat").unwrap();
        assert!(system_time() >= before);
    }
}
