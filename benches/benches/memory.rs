//! Resident memory of the process for each extra idle VM of one vCPU, without the pages of the guest's own memory.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use stile_benches::{Limit, Promise, tell};
use stile_tests::{Carrier, Guest, Recipe, wait_for};
use vm_memory::{GuestMemoryBackend, GuestMemoryRegion, MemoryRegionAddress};

/// Units: KiB.
const LIMIT: f64 = 1024.0;
/// VMs added between two readings.
const BATCH: usize = 16;
/// The first batch includes memory that is allocated once.
const BATCHES: usize = 5;
const PAGE: u64 = 4096;
/// In an entry of the page map: the page is in memory.
const PRESENT: u64 = 1 << 63;

fn main() -> ExitCode {
    let Some(kvm) = stile_tests::kvm() else { return ExitCode::SUCCESS };
    let promises = Carrier::mechanisms().map(|carrier| {
        let domain = carrier.domain();
        // Without a partner, a ping-pong vCPU only idles.
        let idle = Recipe::builtin("pingpong").memory(8 << 20);
        let mut guests = Vec::new();
        let mut samples = Vec::new();
        for batch in 0..BATCHES {
            let before = own_kib(&guests);
            guests.extend((0..BATCH).map(|_| idle.start(&kvm, &domain)));
            // One exit reports the start, the next one is the idle doorbell.
            guests.iter().for_each(|guest| wait_for("it idles", || guest.usage()[0].exits >= 2));
            if batch > 0 {
                samples.push((own_kib(&guests) - before) / BATCH as f64);
            }
        }
        let what = format!("resident memory per idle 1-vCPU VM besides its pages, {carrier}");
        Promise { what, unit: "KiB", samples, limit: Limit::Below(LIMIT) }
    });
    tell(&promises)
}

/// Resident memory of the process without that of the guests (units: KiB). Both are counted page by page: a guest's
/// memory may share a mapping with that of another guest or of the allocator, and smaps has no figures below a mapping.
fn own_kib(guests: &[Guest]) -> f64 {
    let maps = fs::read_to_string("/proc/self/maps").expect("a process may read its own mappings");
    let all: u64 = maps.lines().filter_map(addresses).map(present).sum();
    let of_guests: u64 = guests.iter().flat_map(memory).map(present).sum();
    ((all - of_guests) * PAGE / 1024) as f64
}

/// The addresses of a mapping, from its line.
fn addresses(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

/// The addresses of a guest's memory in this process.
fn memory(guest: &Guest) -> impl Iterator<Item = Range<u64>> {
    guest.state().memory().iter().map(|region| {
        let start = region.get_host_address(MemoryRegionAddress(0)).expect("guest memory is mapped") as u64;
        start..start + region.len()
    })
}

/// Pages in memory within these addresses.
fn present(addresses: Range<u64>) -> u64 {
    let pagemap = File::open("/proc/self/pagemap").expect("a process may read its own page map");
    let mut entries = vec![0; ((addresses.end - addresses.start) / PAGE * 8) as usize];
    // The page map has no entry for the kernel's page among the mappings: the count stays at 0.
    let _ = pagemap.read_exact_at(&mut entries, addresses.start / PAGE * 8);
    let entries = entries.as_chunks::<8>().0.iter();
    entries.filter(|entry| u64::from_le_bytes(**entry) & PRESENT != 0).count() as u64
}
