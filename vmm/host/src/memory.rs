//! The memory that this process takes, including that of its guests.

use super::HostRoot;
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// Size of a page's entry in proc_pid_pagemap(5) (units: bytes).
const PAGE_ENTRY: usize = 8;

/// Files of this process that only its user may open.
struct Own {
    /// proc_pid_pagemap(5), which is read.
    pages: Option<fs::File>,
    /// proc_pid_clear_refs(5), which is written.
    peak: Option<fs::File>,
}

/// The files, opened at the first call.
fn own() -> &'static Own {
    static OWN: OnceLock<Own> = OnceLock::new();
    OWN.get_or_init(|| Own {
        pages: fs::File::open("/proc/self/pagemap").ok(),
        peak: fs::OpenOptions::new().write(true).open("/proc/self/clear_refs").ok(),
    })
}

/// Opens the files of this process from which its memory is read. To be called before the process becomes
/// non-dumpable, since these files are root's from then on.
pub fn open_files() {
    own();
}

/// Resets the peak: from now on it is the peak since this call. Returns false where the kernel does not allow that; the
/// peak is then that of the process's whole life.
pub fn forget_peak() -> bool {
    // 5: "reset the peak resident set size", of proc_pid_clear_refs(5).
    own().peak.as_ref().is_some_and(|mut file| file.write_all(b"5").is_ok())
}

/// The most memory that was resident at a time since [`forget_peak`] (units: bytes); `None` where the kernel does not
/// tell.
pub fn peak() -> Option<u64> {
    bytes(&HostRoot::default().text("/proc/self/status")?, "VmHWM:")
}

/// The memory that is resident now (units: bytes), counted page by page by the kernel; `None` where it does not tell.
pub fn resident() -> Option<u64> {
    bytes(&HostRoot::default().text("/proc/self/smaps_rollup")?, "Rss:")
}

/// The resident memory of another process without its largest mapping: of a monitor, without its guest's memory.
pub fn resident_beside_largest(process: u32) -> Option<u64> {
    let mappings = HostRoot::default().text(&format!("/proc/{process}/smaps"))?;
    beside_largest(&mappings)
}

/// The resident memory of all mappings but the largest, from the text of /proc/PID/smaps (units: bytes).
fn beside_largest(mappings: &str) -> Option<u64> {
    let sizes = mappings.lines().filter_map(|line| bytes(line, "Size:"));
    let all: Vec<(u64, u64)> = sizes.zip(mappings.lines().filter_map(|line| bytes(line, "Rss:"))).collect();
    let (_, largest) = all.iter().max()?;
    Some(all.iter().map(|(_, resident)| resident).sum::<u64>() - largest)
}

/// How much of a part of this process's memory is resident (units: bytes); `None` where the kernel does not tell.
pub fn resident_within(range: Range<usize>) -> Option<u64> {
    let page = rustix::param::page_size();
    let pages = range.start / page..range.end.div_ceil(page);
    let mut map = vec![0; pages.len() * PAGE_ENTRY];
    let file = own().pages.as_ref()?;
    file.read_exact_at(&mut map, (pages.start * PAGE_ENTRY) as u64).ok()?;
    // The highest bit of an entry is set if the page is resident.
    let there = map.chunks_exact(PAGE_ENTRY).filter(|entry| entry[PAGE_ENTRY - 1] & 0x80 != 0).count();
    Some((there * page) as u64)
}

/// The number of a line such as "Rss:   20132 kB".
fn bytes(text: &str, key: &str) -> Option<u64> {
    let number = text.lines().find_map(|line| line.strip_prefix(key))?.trim().strip_suffix("kB")?;
    Some(number.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_among_the_others_and_told_in_bytes() {
        assert_eq!(bytes("VmPeak:\t 9000 kB\nVmHWM:\t    4100 kB\nVmRSS:\t  100 kB", "VmHWM:"), Some(4100 * 1024));
        let rollup = "55d8c0f4e000-7ffd3a9f4000 ---p 00000000 00:00 0   [rollup]\n\
                      Rss:               20132 kB\nPss:               18122 kB\nPss_Anon: 1 kB\n";
        assert_eq!(bytes(rollup, "Rss:"), Some(20_132 * 1024));
        assert_eq!(bytes("VmPeak:\t 9000 kB", "VmHWM:"), None);
        assert_eq!(bytes("Rss: many kB", "Rss:"), None);
    }

    #[test]
    fn the_largest_mapping_is_left_out_however_much_of_it_is_there() {
        let mappings = "7f00-7f01 rw-p 0 00:00 0\nSize:    2048 kB\nRss:     1000 kB\nPss: 1 kB\n\
                        7f02-7f03 rw-p 0 00:00 0\nSize:  262144 kB\nRss:      900 kB\n\
                        7f04-7f05 r--p 0 00:00 0\nSize:       4 kB\nRss:        4 kB\n";
        assert_eq!(beside_largest(mappings), Some(1004 * 1024));
        assert_eq!(beside_largest(""), None);
        assert!(resident_beside_largest(std::process::id()).is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn pages_that_were_touched_are_there() {
        let memory = vec![1u8; 1 << 20];
        let start = memory.as_ptr() as usize;
        assert!(resident_within(start..start + memory.len()).is_some_and(|bytes| bytes >= memory.len() as u64));
    }

    #[test]
    fn this_process_takes_memory() {
        assert!(resident().is_some_and(|bytes| bytes > 0));
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
