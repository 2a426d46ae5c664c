//! Nothing is left of VMs that are gone: no thread, no file descriptor, no memory.
//!
//! What a process holds is counted for the whole of it, so this is the only test of its binary.

use kvm_ioctls::Kvm;
use std::sync::Arc;
use stile::vm::Outcome;
use stile_sched::Domain;
use stile_tests::process::Holdings;
use stile_tests::{Carrier, Guest, Recipe, require_kvm, wait_for};

/// Half of them under each mechanism.
const CYCLES: usize = 200;
/// After so many cycles allocator, caches of thread stacks and lazily bound code have what they need.
const WARM_UP: usize = 20;
const VMS: u32 = 16;
/// A leak of 1 KiB for each VM would be 3 times this.
const RESIDENT_SLACK_KIB: u64 = 1024;
/// One guest's memory, or the stacks of 64 threads, would be more than this.
const DATA_SLACK_KIB: u64 = 8 * 1024;

/// Makes, starts and stops VMs of which half compute on two vCPUs, and half mostly idle on one.
fn cycle(kvm: &Kvm, domain: &Arc<dyn Domain>) {
    let recipe = |n| if n % 2 == 0 { Recipe::builtin("mix").vcpus(2) } else { Recipe::builtin("probe") };
    let guests: Vec<Guest> = (0..VMS).map(|n| recipe(n).create(kvm, domain)).collect();
    guests.iter().for_each(|guest| guest.start());
    for guest in &guests {
        wait_for("guest code runs", || guest.state().started().is_some());
    }
    guests.iter().for_each(|guest| guest.stop());
    for guest in &guests {
        assert_eq!(guest.wait(), Outcome::Stopped, "{}", guest.console());
    }
}

/// Waits until threads and descriptors are down to these numbers: a thread goes after it has said so, and the kernel
/// gives a thread of its own to each VM.
fn settle(to: Holdings) {
    wait_for(&format!("back to {to:?}"), || {
        let now = Holdings::now();
        now.threads <= to.threads && now.descriptors <= to.descriptors
    });
}

#[test]
fn two_hundred_cycles_of_sixteen_vms_leave_nothing_behind() {
    let kvm = require_kvm!();
    let before = Holdings::now();
    let domains = Carrier::mechanisms().map(Carrier::domain);
    let idle = Holdings::now();
    let cycles = |count| {
        domains.iter().cycle().take(count).for_each(|domain| cycle(&kvm, domain));
        settle(idle);
        Holdings::now()
    };
    let warm = cycles(WARM_UP);
    let after = cycles(CYCLES);
    assert!(after.resident_kib <= warm.resident_kib + RESIDENT_SLACK_KIB, "{warm:?}, then {after:?}");
    assert!(after.data_kib <= warm.data_kib + DATA_SLACK_KIB, "{warm:?}, then {after:?}");
    for domain in domains {
        assert_eq!(Arc::strong_count(&domain), 1, "a vCPU still holds its domain");
    }
    settle(before);
}
