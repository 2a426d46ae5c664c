//! Guests that spin and never yield: they are found, and guests that compute are not taken for them.

use kvm_ioctls::Kvm;
use std::time::Duration;
use stile_machine::linux::Interrupts;
use stile_machine::vm::Outcome;
use stile_sched::Nanos;
use stile_tests::{Carrier, Guest, Recipe, Ring0Run, require_kvm, wait_for};

/// Some ten leases on each of two pCPUs.
const SPAN: Nanos = Nanos::from_millis(150);
/// Locks of each locker. There are many, so that moments in which only two lockers compete do not matter.
const LOCKS: u64 = 10;
/// Most rounds of a comparison: other work on the host makes one longer, a lucky order of the lockers another shorter.
const ROUNDS: usize = 8;

/// The mechanisms that carry out a policy.
fn carriers() -> impl Iterator<Item = Carrier> {
    Carrier::mechanisms().into_iter().filter(|carrier| !matches!(carrier, Carrier::Host(_)))
}

/// Lockers that wait in a loop of PAUSE without a limit.
fn silent_lockers() -> Recipe {
    Recipe::builtin("ticket").vcpus(6).cmdline("hint=silent")
}

fn used(guest: &Guest) -> Nanos {
    Nanos(guest.usage().iter().map(|usage| usage.run_ns).sum())
}

/// Lets a guest use this much CPU time.
fn spend(guest: &Guest, span: Nanos) {
    let end = used(guest) + span;
    wait_for("the guest uses CPU time", || used(guest) >= end);
}

/// CPU time in which every locker takes this many locks.
fn cost_of_locks(kvm: &Kvm, carrier: Carrier, spin_detection: bool) -> Nanos {
    let guest = silent_lockers().start(kvm, &carrier.domain_that(spin_detection));
    guest.all_progress(1);
    let before = used(&guest);
    guest.all_progress(LOCKS);
    used(&guest).saturating_sub(before)
}

#[test]
fn lockers_that_only_spin_take_many_times_the_locks_if_their_spinning_is_seen() {
    let kvm = require_kvm!();
    for carrier in carriers() {
        let [mut unseen, mut seen] = [Nanos::ZERO; 2];
        let told_apart = (0..ROUNDS).any(|_| {
            unseen += cost_of_locks(&kvm, carrier, false);
            seen += cost_of_locks(&kvm, carrier, true);
            unseen.0 >= 4 * seen.0
        });
        assert!(told_apart, "{carrier}: {unseen:?} of CPU time, and {seen:?} with detection");
    }
}

#[test]
fn spinning_that_is_seen_counts_as_yields_that_say_nothing_and_none_is_seen_if_switched_off() {
    let kvm = require_kvm!();
    for carrier in carriers() {
        let [seen, unseen] = [true, false].map(|spin_detection| carrier.domain_that(spin_detection));
        let guests = [&seen, &unseen].map(|domain| silent_lockers().start(&kvm, domain));
        wait_for("spinning is seen", || seen.totals().yields.unknown > 0);
        spend(&guests[1], SPAN);
        assert_eq!(unseen.totals().yields.total(), 0, "{carrier}");
    }
}

#[test]
fn hogs_are_never_taken_for_spinning_and_make_no_exit_beyond_those_at_the_ends_of_leases() {
    let kvm = require_kvm!();
    for carrier in carriers() {
        let domain = carrier.domain();
        let guest = Recipe::builtin("hog").vcpus(4).start(&kvm, &domain);
        guest.all_progress(1);
        let before = domain.totals();
        let begun = used(&guest);
        spend(&guest, SPAN);
        let (made, leases) = (domain.totals().since(&before), (used(&guest).0 - begun.0) / 6_000_000);
        assert_eq!(made.yields.total(), 0, "{carrier}");
        // A lease has a question at its beginning and its end. Probes would come every 100 us.
        assert!(made.exits <= 4 * (leases + 8), "{carrier}: {} exits in {leases} leases", made.exits);
    }
}

#[test]
fn vcpus_at_cpl_0_that_wait_for_each_other_give_way_if_their_spinning_is_seen() {
    let kvm = require_kvm!();
    let carriers = carriers()
        .flat_map(|carrier| [Interrupts::User, Interrupts::Kernel].map(|interrupts| (carrier, interrupts)))
        // Executors cannot carry vCPUs that halt inside KVM.
        .filter(|pair| *pair != (Carrier::default_policy(), Interrupts::Kernel));
    for (carrier, interrupts) in carriers {
        let mut costs = [Duration::ZERO; 2];
        let told_apart = (0..ROUNDS).any(|_| {
            for (cost, spin_detection) in costs.iter_mut().zip([false, true]) {
                let domain = carrier.domain_that(spin_detection);
                let run = Ring0Run::of(&kvm, &domain, interrupts, 5, "token");
                assert_eq!(run.outcome, Some(Outcome::PoweredOff), "{carrier}: {}", run.text);
                assert_eq!(domain.totals().yields.unknown > 0, spin_detection, "{carrier}");
                *cost += run.cpu;
            }
            println!("{carrier}, {interrupts:?}: {costs:?}");
            costs[0] >= 4 * costs[1]
        });
        assert!(told_apart, "{carrier}, {interrupts:?}: {costs:?} of CPU time without and with detection");
    }
}
