//! Guests that attack the monitor or other guests by what they are allowed to do. docs/security.md lists the attacks.

mod attacks;

use std::sync::{Arc, Mutex, PoisonError};
use stile_machine::devices::virtio::Progress;
use stile_machine::devices::{MmioDevice, Written};
use stile_machine::unikernel::image::forge::code;
use stile_machine::unikernel::{RESULTS_MAX, Spec, Vm};
use stile_machine::vm::console::Sink;
use stile_machine::vm::{Fault, FaultKind, Outcome, VirtualMachine};
use stile_sched::attributes::Attributes;
use stile_tests::{Carrier, Recipe, program, require_kvm, wait_for};

/// Only one of these tests runs at a time: the attackers and victims of another domain on the same pCPUs make each wait
/// many times as long.
fn alone() -> impl Drop {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_guest_that_reports_results_without_end_ends_with_a_bounded_number_of_harmless_names() {
    let kvm = require_kvm!();
    let _alone = alone();
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

#[test]
fn a_kick_of_all_others_goes_back_to_the_scheduler_again_and_again() {
    /// vCPUs, of which each kicks all others.
    const VCPUS: u32 = 97;
    let kvm = require_kvm!();
    let _alone = alone();
    for carrier in Carrier::mechanisms() {
        let guest = Recipe::program(&program::kicks_all_others()).vcpus(VCPUS).start(&kvm, &carrier.domain());
        let kicks = || (0..VCPUS).map(|vcpu| guest.ops(vcpu)).sum::<u64>();
        wait_for("kicks", || kicks() > 300);
        guest.stop();
        guest.wait();
        let exits: u64 = guest.usage().iter().map(|usage| usage.exits).sum();
        // A guest counts a kick before it makes it. 96 kicks are three portions.
        assert!(exits >= 3 * (kicks() - u64::from(VCPUS)), "{exits} exits for {} kicks, {carrier}", kicks());
    }
}

/// A device with a fault of the monitor's own.
struct Broken;

impl MmioDevice for Broken {
    fn read(&self, _offset: u64, _data: &mut [u8]) {
        panic!("planted");
    }

    fn write(&self, _offset: u64, _data: &[u8]) -> Written {
        Written::Done
    }

    fn notify(&self, _queue: u16) -> Progress {
        Progress::Done
    }
}

#[test]
fn a_panic_in_the_monitor_ends_the_vm_for_which_it_worked_and_its_pcpu_runs_on() {
    let kvm = require_kvm!();
    let _alone = alone();
    for carrier in Carrier::mechanisms() {
        let domain = carrier.domain();
        let neighbour = Recipe::builtin("mix").vcpus(2).cmdline("roles=hog:1,probe:1").start(&kvm, &domain);
        let spec = Spec {
            name: "culprit",
            image: &code(&program::reads_device().code),
            vcpus: 1,
            memory: 8 << 20,
            attributes: Attributes::default(),
            cmdline: "",
            console: Sink::Discard,
            device: Some(&|_| Ok(Arc::new(Broken))),
        };
        let culprit = Vm::create(&kvm, &spec, Arc::clone(&domain)).unwrap();
        culprit.start();
        wait_for("the VM ends", || culprit.state().has_ended());
        let outcome = culprit.wait();
        let Outcome::Fault(Fault { vcpu: 0, kind: FaultKind::Monitor(why), .. }) = &outcome else {
            panic!("{outcome}, {carrier}")
        };
        assert_eq!(why, "planted");
        neighbour.all_progress(3);
    }
}
