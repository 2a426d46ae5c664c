//! The guests of `hackbench` and `volano`: every message arrives under every carrier, and a damaged one is found.

use kvm_ioctls::Kvm;
use std::sync::Arc;
use stile_machine::vm::Outcome;
use stile_sched::Domain;
use stile_tests::{Carrier, Guest, Recipe, require_kvm, wait_for};

/// Exit code of a guest that found a message to be wrong.
const CORRUPT: u32 = 1;

/// An image, its number of vCPUs, its command line, and the number of messages that are received in all.
type Case = (&'static str, u32, &'static str, u64);

/// Four senders with messages for four receivers; three users of a room.
const SMALL: [Case; 2] = [("hackbench", 8, "loops=50", 4 * 4 * 50), ("volano", 12, "messages=40", 3 * 2 * 40)];

/// A guest whose vCPUs have all come to the gate.
fn at_gate(kvm: &Kvm, domain: &Arc<dyn Domain>, (image, vcpus, cmdline, _): Case, more: &str) -> Guest {
    let recipe = Recipe::builtin(image).vcpus(vcpus).cmdline(&format!("{cmdline} {more}"));
    let guest = recipe.start(kvm, domain);
    wait_for("the workload is set up", || {
        assert_eq!(guest.state().outcome(), None, "{}", guest.console());
        guest.state().is_at_gate()
    });
    guest
}

fn received(guest: &Guest) -> u64 {
    (0..guest.state().vcpus()).map(|vcpu| guest.ops(vcpu)).sum()
}

#[test]
fn nothing_is_sent_before_the_gate_opens_and_all_comes_after_under_every_carrier() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        let domain = carrier.domain();
        for case in SMALL {
            let guests = [(); 2].map(|()| at_gate(&kvm, &domain, case, ""));
            for guest in &guests {
                // Other events do not open the gate.
                (0..case.1).for_each(|vcpu| guest.state().wake(vcpu));
                assert_eq!((received(guest), guest.state().done()), (0, None), "{carrier}");
            }
            guests.iter().for_each(|guest| guest.open_gate());
            for guest in &guests {
                wait_for("all is received", || guest.state().done().is_some() || guest.state().has_ended());
                let outcome = (received(guest), guest.state().outcome());
                assert_eq!(outcome, (case.3, None), "{carrier}, {}: {}", case.0, guest.console());
            }
        }
    }
}

#[test]
fn a_gate_that_was_opened_early_holds_nobody_up() {
    let kvm = require_kvm!();
    for carrier in Carrier::mechanisms() {
        let domain = carrier.domain();
        for (image, vcpus, cmdline, due) in SMALL {
            let guest = Recipe::builtin(image).vcpus(vcpus).cmdline(cmdline).create(&kvm, &domain);
            guest.open_gate();
            guest.start();
            wait_for("all is received", || guest.state().done().is_some());
            assert_eq!(received(&guest), due, "{carrier}");
        }
    }
}

#[test]
fn waiters_that_say_nothing_get_all_messages_too() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        let domain = carrier.domain();
        for case in SMALL {
            let guest = at_gate(&kvm, &domain, case, "hint=none spins=1");
            guest.open_gate();
            wait_for("all is received", || guest.state().done().is_some() || guest.state().has_ended());
            assert_eq!(received(&guest), case.3, "{carrier}, {}: {}", case.0, guest.console());
        }
    }
}

#[test]
fn a_damaged_message_ends_the_guest_with_an_error_that_names_it() {
    let kvm = require_kvm!();
    for carrier in Carrier::mechanisms() {
        let domain = carrier.domain();
        for (case, named) in SMALL.into_iter().zip(["message 49 of 0 is corrupt", "message 39 of 0 is corrupt"]) {
            let guest = at_gate(&kvm, &domain, case, "corrupt=1");
            guest.open_gate();
            assert_eq!(guest.ends(), Outcome::Exit(CORRUPT), "{carrier}");
            assert!(guest.console().contains(named), "{carrier}: {}", guest.console());
            assert_eq!(guest.state().done(), None, "{carrier}");
        }
    }
}

#[test]
fn vcpus_that_do_not_make_up_a_group_or_a_room_are_refused() {
    let kvm = require_kvm!();
    let domain = Carrier::default_policy().domain();
    for (image, vcpus) in [("hackbench", 3), ("hackbench", 130), ("volano", 6), ("volano", 4), ("volano", 260)] {
        let guest = Recipe::builtin(image).vcpus(vcpus).memory(128 << 20).start(&kvm, &domain);
        assert_eq!(guest.ends(), Outcome::Exit(stile_abi::exit::BAD_CMDLINE), "{image}, {vcpus} vCPUs");
        assert!(guest.console().contains(image), "{}", guest.console());
    }
}
