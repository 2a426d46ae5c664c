//! VMs that have ended leave nothing behind: no thread, no file descriptor, no memory.
//!
//! The counts are those of the whole process, so this is the only test of its binary.

use kvm_ioctls::Kvm;
use std::sync::Arc;
use stile_machine::vm::Outcome;
use stile_sched::Domain;
use stile_tests::process::Holdings;
use stile_tests::{Carrier, Guest, Recipe, require_kvm, wait_for};

/// A leak grows in every stage. Memory that the allocator keeps grows in one or two stages only.
const STAGES: usize = 5;
/// VMs of each stage, a part of them under each mechanism.
const CYCLES: usize = 20;
/// After this many cycles the allocator, caches of thread stacks and lazily bound code have what they need. Each domain
/// gives ids of vCPUs that have ended for the second time: an id has its place in tables from the first time on.
const WARM_UP: usize = 180;
const VMS: u32 = 16;
/// Growth in a stage of 320 VMs. A leak of 1 KiB for each would be twice this.
const RESIDENT_SLACK_KIB: u64 = 160;
/// Growth in a stage. The stack of one thread would be more than this.
const DATA_SLACK_KIB: u64 = 1024;

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

/// Waits until threads and descriptors are down to these numbers. A thread ends after it has reported its end, and the
/// kernel gives a thread of its own to each VM.
fn settle(to: Holdings) {
    wait_for(&format!("back to {to:?}"), || {
        let now = Holdings::now();
        now.threads <= to.threads && now.descriptors <= to.descriptors
    });
}

/// The median of the growth of each stage.
fn typical_growth(held: &[Holdings], kib: impl Fn(&Holdings) -> u64) -> u64 {
    let mut growth: Vec<u64> = held.windows(2).map(|pair| kib(&pair[1]).saturating_sub(kib(&pair[0]))).collect();
    growth.sort_unstable();
    growth[growth.len() / 2]
}

#[test]
fn hundreds_of_cycles_of_sixteen_vms_leave_nothing_behind() {
    let kvm = require_kvm!();
    let before = Holdings::now();
    let domains = Carrier::mechanisms().map(Carrier::domain);
    let idle = Holdings::now();
    let cycles = |count| {
        domains.iter().cycle().take(count).for_each(|domain| cycle(&kvm, domain));
        settle(idle);
        Holdings::now()
    };
    let mut held = vec![cycles(WARM_UP)];
    held.extend((0..STAGES).map(|_| cycles(CYCLES)));
    assert!(typical_growth(&held, |now| now.resident_kib) <= RESIDENT_SLACK_KIB, "{held:#?}");
    assert!(typical_growth(&held, |now| now.data_kib) <= DATA_SLACK_KIB, "{held:#?}");
    for domain in domains {
        assert_eq!(Arc::strong_count(&domain), 1, "a vCPU still holds its domain");
    }
    settle(before);
}
