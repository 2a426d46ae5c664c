//! How much memory this process takes.

use super::HostRoot;

/// Resident memory of this process, guests' memory included (units: KiB), counted page by page by the kernel; `None` where
/// it does not tell.
pub fn resident_kib() -> Option<u64> {
    resident(&HostRoot::default().text("/proc/self/smaps_rollup")?)
}

fn resident(rollup: &str) -> Option<u64> {
    rollup.lines().find_map(|line| line.strip_prefix("Rss:"))?.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_the_sum_over_all_mappings() {
        let rollup = "55d8c0f4e000-7ffd3a9f4000 ---p 00000000 00:00 0   [rollup]\n\
                      Rss:               20132 kB\nPss:               18122 kB\nPss_Anon: 1 kB\n";
        assert_eq!(resident(rollup), Some(20_132));
        assert_eq!(resident("Pss: 1 kB\n"), None);
        assert_eq!(resident("Rss: many kB\n"), None);
    }

    #[test]
    fn this_process_takes_memory() {
        assert!(resident_kib().is_some_and(|kib| kib > 0));
    }
}
