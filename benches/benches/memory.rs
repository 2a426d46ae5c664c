//! Resident memory of the process for each extra idle VM of one vCPU, without the pages of the guest's own memory.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use stile_benches::{Promise, tell};
use stile_tests::{Carrier, Guest, Recipe, wait_for};
use vm_memory::{GuestMemoryBackend, GuestMemoryRegion, MemoryRegionAddress};

/// Units: KiB.
const LIMIT: f64 = 1024.0;
/// VMs added between two looks.
const BATCH: usize = 16;
/// The first batch pays for what is made once.
const BATCHES: usize = 5;
const PAGE: u64 = 4096;
/// In an entry of /proc/self/pagemap: the page is in memory.
const PRESENT: u64 = 1 << 63;

fn main() -> ExitCode {
    let Some(kvm) = stile_tests::kvm() else { return ExitCode::SUCCESS };
    let promises = Carrier::mechanisms().map(|carrier| {
        let domain = carrier.domain();
        // Alone, a ping-pong player has nothing to do but idle.
        let idle = Recipe::builtin("pingpong").memory(8 << 20);
        let mut guests = Vec::new();
        let mut samples = Vec::new();
        for batch in 0..BATCHES {
            let before = own_kib(&guests);
            guests.extend((0..BATCH).map(|_| idle.start(&kvm, &domain)));
            // One exit tells the start, the next one is the idle doorbell.
            guests.iter().for_each(|guest| wait_for("it idles", || guest.usage()[0].exits >= 2));
            if batch > 0 {
                samples.push((own_kib(&guests) - before) / BATCH as f64);
            }
        }
        let what = format!("resident memory per idle 1-vCPU VM besides its pages, {carrier}");
        Promise { what, unit: "KiB", samples, limit: LIMIT }
    });
    tell(&promises)
}

/// Resident memory of the process less that of the guests (units: KiB).
fn own_kib(guests: &[Guest]) -> f64 {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").expect("the kernel tells a process its memory");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:")).expect("resident memory is told");
    let resident: u64 = line.trim_end_matches("kB").trim().parse().expect("a number of KiB");
    resident as f64 - guests.iter().map(guest_kib).sum::<u64>() as f64
}

/// Resident memory of a guest (units: KiB).
fn guest_kib(guest: &Guest) -> u64 {
    let pagemap = File::open("/proc/self/pagemap").expect("a process may read its own page map");
    let resident = |start: u64, bytes: u64| {
        let mut entries = vec![0; (bytes / PAGE * 8) as usize];
        pagemap.read_exact_at(&mut entries, start / PAGE * 8).expect("the range is mapped");
        let entries = entries.as_chunks::<8>().0.iter();
        entries.filter(|entry| u64::from_le_bytes(**entry) & PRESENT != 0).count() as u64 * PAGE / 1024
    };
    let regions = guest.state().memory().iter();
    let of_region = regions.map(|region| {
        let start = region.get_host_address(MemoryRegionAddress(0)).expect("guest memory is mapped");
        resident(start as u64, region.len())
    });
    of_region.sum()
}
