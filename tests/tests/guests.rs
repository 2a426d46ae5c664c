//! The built-in guests under every carrier: they start, print what they should and make progress, vCPU by vCPU.

use kvm_ioctls::Kvm;
use stile_abi::exit;
use stile_machine::vm::Outcome;
use stile_tests::{Carrier, Recipe, program, require_kvm, wait_for};

/// Enough operations that every vCPU was scheduled out and in again in between, few enough for a slow host.
const SOME: u64 = 20;

fn greeting(vcpus: u32) -> String {
    format!("hello from {vcpus} vCPU{}\n", if vcpus == 1 { "" } else { "s" })
}

/// Runs a workload until each of these vCPUs has made progress twice.
fn gets_on(kvm: &Kvm, recipe: &Recipe, vcpus: &[u32], carrier: Carrier) {
    eprintln!("{carrier}");
    let guest = recipe.start(kvm, &carrier.domain());
    guest.progresses(vcpus.iter().copied(), SOME);
    guest.progresses(vcpus.iter().copied(), SOME);
    guest.stop();
    assert_eq!(guest.wait(), Outcome::Stopped);
}

#[test]
fn hello_of_any_size_greets_under_every_carrier() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        let domain = carrier.domain();
        for vcpus in [1, 2, 3, 8, 16] {
            let guest = Recipe::builtin("hello").vcpus(vcpus).start(&kvm, &domain);
            assert_eq!(guest.ends(), Outcome::Exit(exit::OK), "{carrier}, {vcpus} vCPUs");
            assert_eq!(guest.console(), greeting(vcpus), "{carrier}");
            assert!(guest.state().started().is_some_and(|at| at > guest.created()));
        }
    }
}

#[test]
fn the_command_line_reaches_the_guest_which_then_greets_on_the_serial_port() {
    let kvm = require_kvm!();
    for carrier in Carrier::mechanisms() {
        let guest = Recipe::builtin("hello").cmdline("quiet console=serial").start(&kvm, &carrier.domain());
        assert_eq!(guest.ends(), Outcome::Exit(exit::OK));
        assert_eq!(guest.console(), greeting(1), "{carrier}");
    }
}

#[test]
fn a_command_line_the_guest_does_not_understand_is_told_on_the_console_and_by_the_exit_code() {
    let kvm = require_kvm!();
    for (cmdline, told) in [("spins=many", "spins=many"), ("hint=some", "hint=some")] {
        let guest = Recipe::builtin("ticket").cmdline(cmdline).start(&kvm, &Carrier::default_policy().domain());
        assert_eq!(guest.ends(), Outcome::Exit(exit::BAD_CMDLINE));
        assert!(guest.console().contains(told), "{}", guest.console());
    }
}

#[test]
fn lockers_all_get_the_lock_under_every_carrier() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        for cmdline in ["", "hint=none"] {
            gets_on(&kvm, &Recipe::builtin("ticket").vcpus(6).cmdline(cmdline), &[0, 1, 2, 3, 4, 5], carrier);
        }
    }
}

#[test]
fn pairs_all_get_their_messages_and_the_odd_vcpu_idles_under_every_carrier() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        gets_on(&kvm, &Recipe::builtin("pingpong").vcpus(5), &[0, 1, 2, 3], carrier);
    }
}

#[test]
fn a_doorbell_that_asks_for_nothing_returns_under_every_carrier() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        gets_on(&kvm, &Recipe::builtin("doorbell").vcpus(3), &[0, 1, 2], carrier);
    }
}

#[test]
fn hogs_all_compute_under_every_carrier() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        gets_on(&kvm, &Recipe::builtin("hog").vcpus(5), &[0, 1, 2, 3, 4], carrier);
    }
}

#[test]
fn probes_wake_at_their_deadlines_among_hogs_under_every_carrier() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        let probes = Recipe::builtin("probe").vcpus(6).cmdline("period_us=2000 work_us=20");
        gets_on(&kvm, &probes, &[0, 1, 2, 3, 4, 5], carrier);
    }
}

#[test]
fn mixed_roles_all_get_on_under_every_carrier() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        let mix = Recipe::builtin("mix").vcpus(7).cmdline("roles=pair:2,locker:3,hog:2");
        gets_on(&kvm, &mix, &[0, 1, 2, 3, 4, 5, 6], carrier);
    }
}

#[test]
fn several_vms_share_a_domain_and_all_get_on() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        let domain = carrier.domain();
        let guests = ["ticket", "pingpong", "hog", "probe", "mix"]
            .map(|name| Recipe::builtin(name).vcpus(2).start(&kvm, &domain));
        for guest in &guests {
            guest.all_progress(SOME);
        }
    }
}

#[test]
fn events_that_vcpus_send_each_other_are_not_lost() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        for vcpus in [2, 5] {
            let guest = Recipe::program(&program::passes_turn_on()).vcpus(vcpus).start(&kvm, &carrier.domain());
            guest.all_progress(200);
        }
    }
}

#[test]
fn usage_is_charged_to_the_vcpus_that_compute() {
    let kvm = require_kvm!();
    for carrier in Carrier::mechanisms() {
        let guest = Recipe::builtin("mix").vcpus(2).cmdline("roles=hog:1,probe:1").start(&kvm, &carrier.domain());
        guest.all_progress(SOME);
        wait_for("both have used some CPU time", || guest.usage().iter().all(|usage| usage.run_ns > 0));
        let exits: Vec<_> = guest.usage().iter().map(|usage| usage.exits).collect();
        assert!(exits[1] > 0, "a probe exits to idle: {exits:?}");
    }
}
