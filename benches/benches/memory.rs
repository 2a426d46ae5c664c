//! Resident memory of the process for each extra idle VM of one vCPU, without the pages of the guest's own memory.

use std::fs;
use std::ops::Range;
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

/// Resident memory of the process less that of the guests (units: KiB). Neighbouring guests may share one mapping, but
/// no guest shares one with anything else: theirs are the only ones that reserve no swap space.
fn own_kib(guests: &[Guest]) -> f64 {
    let of_guests: Vec<Range<u64>> = guests.iter().flat_map(memory).collect();
    let smaps = fs::read_to_string("/proc/self/smaps").expect("the kernel tells a process its mappings");
    let (mut own, mut is_guest) = (0, false);
    for line in smaps.lines() {
        if let Some(kib) = line.strip_prefix("Rss:") {
            let kib: u64 = kib.trim_end_matches("kB").trim().parse().expect("a number of KiB");
            own += if is_guest { 0 } else { kib };
        } else if let Some(mapping) = addresses(line) {
            let guest_at = |address| of_guests.iter().any(|range| range.contains(&address));
            is_guest = guest_at(mapping.start);
            assert_eq!(
                is_guest,
                guest_at(mapping.end - 1),
                "guest memory shares a mapping with something else: {line}"
            );
        }
    }
    own as f64
}

/// The addresses of a mapping, from the line that begins its description.
fn addresses(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

/// Where a guest's memory lies in this process.
fn memory(guest: &Guest) -> impl Iterator<Item = Range<u64>> {
    guest.state().memory().iter().map(|region| {
        let start = region.get_host_address(MemoryRegionAddress(0)).expect("guest memory is mapped") as u64;
        start..start + region.len()
    })
}
