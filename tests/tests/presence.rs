//! Guests read which of their vCPUs run, under policies that tell them.

use stile_abi::Presence;
use stile_sched::policy::rsdl::{PoliteSwitches, YieldRule};
use stile_tests::{Carrier, Recipe, program, require_kvm};

/// Whether guests are told which vCPUs run.
fn tells(carrier: Carrier) -> bool {
    match carrier {
        Carrier::Rsdl(rule) | Carrier::RsdlLeases(rule) => matches!(rule, YieldRule::Polite(_)),
        Carrier::OnePcpuLeases => true,
        Carrier::Host(_) | Carrier::Freelist | Carrier::FreelistLeases => false,
    }
}

#[test]
fn each_vcpu_is_told_to_come_and_to_go_or_nothing_is_told() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        eprintln!("{carrier}");
        let domain = carrier.domain();
        let hogs = Recipe::builtin("hog").vcpus(4).start(&kvm, &domain);
        let idler = Recipe::program(&program::steps_at_events()).start(&kvm, &domain);
        hogs.all_progress(1);
        if tells(carrier) {
            hogs.are(0..4, Presence::Here);
            hogs.are(0..4, Presence::Away);
            idler.are([0], Presence::Away);
        } else {
            hogs.all_progress(20);
            hogs.are(0..4, Presence::Untold);
            idler.are([0], Presence::Untold);
        }
    }
}

#[test]
fn without_the_rule_nothing_is_told() {
    let kvm = require_kvm!();
    let rule = YieldRule::Polite(PoliteSwitches { tell_presence: false, ..PoliteSwitches::default() });
    for carrier in [Carrier::Rsdl(rule), Carrier::RsdlLeases(rule)] {
        let hogs = Recipe::builtin("hog").vcpus(3).start(&kvm, &carrier.domain());
        hogs.all_progress(20);
        hogs.are(0..3, Presence::Untold);
    }
}
