//! The most memory that this process has had at a time, guests' included.

use super::HostRoot;
use std::fs;

/// Forgets what was before: from now on the peak is that from now on. False where the kernel does not allow it, and the
/// peak stays that of the process's whole life.
pub fn forget_peak() -> bool {
    // 5: "reset the peak resident set size", of proc_pid_clear_refs(5).
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// The peak since then (units: bytes); `None` where the kernel does not tell it.
pub fn peak() -> Option<u64> {
    parse(&HostRoot::default().text("/proc/self/status")?)
}

fn parse(status: &str) -> Option<u64> {
    let words = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = words.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_found_among_the_other_lines_and_in_bytes() {
        assert_eq!(parse("VmPeak:\t 9000 kB\nVmHWM:\t    4100 kB\nVmRSS:\t  100 kB"), Some(4100 * 1024));
        assert_eq!(parse("VmPeak:\t 9000 kB"), None);
        assert_eq!(parse("VmHWM:\t many kB"), None);
    }

    #[test]
    fn a_peak_that_is_forgotten_comes_again_with_what_is_touched() {
        if !forget_peak() {
            return;
        }
        let before = peak().unwrap();
        let touched = vec![1u8; 64 << 20];
        assert!(peak().unwrap() >= before + touched.len() as u64 / 2);
    }
}
