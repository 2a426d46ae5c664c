//! Eight VMs that attack at random, beside six that must not suffer, again and again in one process. They leave nothing
//! behind. `scripts/hostile-soak` runs it for long and measures.
//!
//! The counts are those of the whole process, so this is the only test of its binary.
#![allow(unsafe_code, reason = "a global allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use stile_tests::process::Holdings;
use stile_tests::soak::{Beside, Soak};
use stile_tests::{Carrier, require_kvm, wait_for};

/// Bytes that are allocated now. What the system's allocator keeps beyond them is no leak.
static ALLOCATED: AtomicI64 = AtomicI64::new(0);

struct Counting;

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as i64, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size() as i64, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Rounds of the short form.
const ROUNDS: u64 = 4;
/// Inputs of a round of the short form.
const INPUTS: u64 = 50_000;

/// Growth after the first round, of what is made once (unit: bytes). parking_lot keeps a table for the most threads
/// that have waited for locks at the same time, and all smaller ones before it: 64 bytes for each of its places, of
/// which there are up to six times as many as threads.
const ALLOCATED_SLACK: i64 = 64 << 10;
/// Growth of private mappings after the first round. The allocator's arenas grow by 3 MiB in eight rounds and hardly
/// any more, with one arena (`MALLOC_ARENA_MAX=1`) by 2.4 MiB, while what is allocated from them does not grow. The
/// memory of one VM would be 32 MiB.
const DATA_SLACK_KIB: u64 = 16 << 10;

/// A number of the environment, for the long form.
fn number(key: &str, default: u64) -> u64 {
    std::env::var(key).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{key}={text} is no number")))
}

#[test]
fn rounds_of_random_attacks_end_nobody_else_and_leave_nothing_behind() {
    let kvm = require_kvm!();
    let (rounds, inputs) = (number("STILE_SOAK_ROUNDS", ROUNDS), number("STILE_SOAK_INPUTS", INPUTS));
    let seed = number("STILE_SOAK_SEED", 1);
    let before = Holdings::now();
    let mut held = Vec::with_capacity(rounds as usize);
    let mut out = std::io::stdout();
    for round in 0..rounds {
        let domain = Carrier::default_policy().domain();
        let soak = Soak::start(&kvm, &domain, Beside::Attackers { seed: seed + 100 * round });
        let mut made = 0;
        while made < inputs {
            let next = inputs.min(made + INPUTS / 2);
            wait_for("attacks go on", || soak.inputs() >= next);
            soak.check();
            made = soak.inputs();
        }
        let took = soak.end();
        drop(domain);
        wait_for("descriptors and threads are back at the start's level", || {
            let now = Holdings::now();
            now.threads <= before.threads && now.descriptors <= before.descriptors
        });
        let now = (ALLOCATED.load(Relaxed), Holdings::now());
        // Text of `println!` that the test program captures would be allocated.
        let _ =
            writeln!(out, "round {round}: {made} inputs, ended in {took:?}, {} bytes allocated, {:?}", now.0, now.1);
        held.push(now);
    }
    // What every round loses makes every round grow. The first one has made most of what is made once.
    let mut grown: Vec<_> = held.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    grown.sort_unstable();
    assert!(grown.get(grown.len() / 2).is_none_or(|median| *median <= 0), "{held:#?}");
    for (allocated, now) in &held {
        assert!(allocated - held[0].0 <= ALLOCATED_SLACK, "{held:#?}");
        assert!(now.data_kib.saturating_sub(held[0].1.data_kib) <= DATA_SLACK_KIB, "{held:#?}");
    }
}
