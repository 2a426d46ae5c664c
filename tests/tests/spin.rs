//! Guests that wait by spinning and never say so: they are seen to, and those that compute are not taken for them.

use kvm_ioctls::Kvm;
use stile_sched::Nanos;
use stile_tests::{Carrier, Guest, Recipe, require_kvm, wait_for};

/// CPU time of a comparison: some ten leases on each of two pCPUs.
const SPAN: Nanos = Nanos::from_millis(150);

/// The mechanisms that carry out a policy.
fn carriers() -> impl Iterator<Item = Carrier> {
    Carrier::mechanisms().into_iter().filter(|carrier| !matches!(carrier, Carrier::Host(_)))
}

/// Lockers that wait in a loop of PAUSE for as long as it takes.
fn silent_lockers() -> Recipe {
    Recipe::builtin("ticket").vcpus(4).cmdline("hint=silent")
}

fn used(guest: &Guest) -> Nanos {
    Nanos(guest.usage().iter().map(|usage| usage.run_ns).sum())
}

/// Operations of all vCPUs in so much CPU time.
fn ops_in(guest: &Guest, span: Nanos) -> u64 {
    let ops = || (0..guest.state().vcpus()).map(|vcpu| guest.ops(vcpu)).sum::<u64>();
    let (end, before) = (used(guest) + span, ops());
    wait_for("the guest uses CPU time", || used(guest) >= end);
    ops() - before
}

fn locks_taken(kvm: &Kvm, carrier: Carrier, spin_detection: bool) -> u64 {
    let guest = silent_lockers().start(kvm, &carrier.domain_that(spin_detection));
    guest.all_progress(1);
    ops_in(&guest, SPAN)
}

#[test]
fn lockers_that_only_spin_take_many_times_the_locks_if_their_spinning_is_seen() {
    let kvm = require_kvm!();
    for carrier in carriers() {
        let (unseen, seen) = (locks_taken(&kvm, carrier, false), locks_taken(&kvm, carrier, true));
        eprintln!("{carrier}: {unseen}, and {seen} with detection");
        assert!(seen >= 4 * unseen, "{carrier}: {unseen} locks taken, and {seen} with detection");
    }
}

#[test]
fn spinning_that_is_seen_counts_as_yields_that_say_nothing_and_none_is_seen_if_switched_off() {
    let kvm = require_kvm!();
    for carrier in carriers() {
        let unknown = [true, false].map(|spin_detection| {
            let domain = carrier.domain_that(spin_detection);
            let guest = silent_lockers().start(&kvm, &domain);
            ops_in(&guest, SPAN);
            domain.totals().yields.unknown
        });
        assert!(unknown[0] > 0 && unknown[1] == 0, "{carrier}: {unknown:?}");
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
        ops_in(&guest, SPAN);
        let (made, leases) = (domain.totals().since(&before), (used(&guest).0 - begun.0) / 6_000_000);
        assert_eq!(made.yields.total(), 0, "{carrier}");
        // A lease is asked about at its begin and its end; looks would come every 100 us.
        assert!(made.exits <= 4 * (leases + 8), "{carrier}: {} exits in {leases} leases", made.exits);
    }
}
