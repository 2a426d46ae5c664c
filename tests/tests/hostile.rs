//! Guests that attack the monitor or other guests by what they are allowed to do. docs/security.md lists the attacks.

use stile_machine::unikernel::RESULTS_MAX;
use stile_machine::vm::{Fault, FaultKind, Outcome, VirtualMachine};
use stile_tests::{Carrier, Recipe, program, require_kvm, wait_for};

#[test]
fn a_guest_that_reports_results_without_end_ends_with_a_bounded_number_of_harmless_names() {
    let kvm = require_kvm!();
    let domain = Carrier::mechanisms()[0].domain();
    let guest = Recipe::program(&program::reports_without_end()).start(&kvm, &domain);
    wait_for("the guest ends", || {
        let kept = guest.results().len();
        assert!(kept <= RESULTS_MAX, "{kept} results are kept");
        guest.state().has_ended()
    });
    let outcome = guest.wait();
    let Outcome::Fault(Fault { kind: FaultKind::Doorbell { name, why }, .. }) = &outcome else { panic!("{outcome}") };
    assert_eq!((*name, why.as_str()), ("result", "more than 4096 results"));
    for (name, value) in guest.results() {
        assert_eq!((name.as_str(), value), ("\u{fffd}[2J", 7));
    }
}
