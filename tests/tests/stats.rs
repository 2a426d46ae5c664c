//! The figures of vCPUs, VMs and the domain add up, under every carrier.

use kvm_ioctls::Kvm;
use std::sync::Arc;
use stile_machine::vm::Outcome;
use stile_metrics::{Reading, Sample, VmReading};
use stile_sched::time::monotonic;
use stile_sched::{Domain, Nanos, Time};
use stile_tests::{Carrier, Guest, Recipe, require_kvm};

/// Part by which times may differ.
const TOLERANCE: f64 = 0.01;
/// The time by which a thread's figures may be older than its policy's, or newer.
const ROUNDING: Nanos = Nanos::from_millis(1);
/// Operations of every vCPU, so that all of them waited, ran and went on.
const SOME: u64 = 20;

/// A guest that was made between two times.
struct Made {
    guest: Guest,
    between: [Time; 2],
}

impl Made {
    /// Returns the times between which it stopped.
    fn stop(&self) -> [Time; 2] {
        let before = monotonic();
        self.guest.stop();
        self.guest.wait();
        [before, monotonic()]
    }
}

/// VMs that compute, contend, sleep and, the last one, end.
fn guests(kvm: &Kvm, domain: &Arc<dyn Domain>) -> Vec<Made> {
    let recipes = [
        Recipe::builtin("hog").vcpus(3),
        Recipe::builtin("ticket").vcpus(3),
        Recipe::builtin("probe").vcpus(2),
        Recipe::builtin("hello"),
    ];
    let made = |recipe: &Recipe| {
        let begun = monotonic();
        let guest = recipe.create(kvm, domain);
        Made { guest, between: [begun, monotonic()] }
    };
    let all: Vec<_> = recipes.iter().map(made).collect();
    all.iter().for_each(|made| made.guest.start());
    all
}

/// Reads all VMs. Returns the times between which it did.
fn read(all: &[Made], domain: &dyn Domain) -> (Reading, [Time; 2]) {
    let before = monotonic();
    let reading = Reading::take(all.iter().map(|made| &*made.guest), domain, None);
    (reading, [before, monotonic()])
}

/// A vCPU's three times are the time since it was made.
#[track_caller]
fn times_are_the_time_that_passed(vm: &VmReading, made: [Time; 2], read: [Time; 2], carrier: Carrier) {
    let (least, most) = (read[0].since(made[1]).0 as f64, read[1].since(made[0]).0 as f64);
    for vcpu in &vm.vcpus {
        let total = vcpu.account.total().0 as f64;
        let fits = total >= least * (1.0 - TOLERANCE) && total <= most * (1.0 + TOLERANCE);
        assert!(fits, "{carrier}, {}: {total} ns of {least} to {most}", vm.name);
    }
}

/// The guest knows its wait up to its last turn.
#[track_caller]
fn steal_is_the_wait_before_the_last_turn(vcpu: &Sample, ended_by_itself: bool, carrier: Carrier) {
    let Some(steal) = vcpu.steal else {
        assert!(matches!(carrier, Carrier::Host(_)), "{carrier} tells its guests nothing");
        return;
    };
    let wait = vcpu.account.wait;
    assert!(steal <= wait + ROUNDING, "{carrier}: told {steal:?} of {wait:?}");
    assert!(!ended_by_itself || wait <= steal + ROUNDING, "{carrier}: told {steal:?} of {wait:?}");
}

/// The sums of the figures of all vCPUs that have ended are the domain's.
#[track_caller]
fn all_vcpus_are_the_domain(reading: &Reading, domain: &dyn Domain, carrier: Carrier) {
    let all = Sample::sum(reading.vms.iter().flat_map(|vm| &vm.vcpus)).account;
    let (totals, outcomes) = (domain.totals(), all.yields.outcomes());
    assert_eq!((all.exits, all.migrations), (totals.exits, totals.migrations), "{carrier}");
    let kinds = [all.yields.unknown, all.yields.lock, all.yields.message].map(|of| of.total());
    assert_eq!(kinds, [totals.yields.unknown, totals.yields.lock, totals.yields.message], "{carrier}");
    let told = [totals.yields.alone, totals.yields.switched, totals.yields.stayed];
    assert_eq!([outcomes.alone, outcomes.switched, outcomes.stayed], told, "{carrier}");
    // A vCPU that lent time may end before the vCPU that borrowed it.
    assert!(all.lent <= all.borrowed, "{carrier}: {:?} lent, {:?} borrowed", all.lent, all.borrowed);
}

#[test]
fn the_figures_of_vcpus_vms_and_the_domain_add_up_under_every_carrier() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        eprintln!("{carrier}");
        let domain = carrier.domain();
        let all = guests(&kvm, &domain);
        let [lasting @ .., ends] = &all[..] else { unreachable!("there are four") };
        lasting.iter().for_each(|made| made.guest.all_progress(SOME));
        assert_eq!(ends.guest.ends(), Outcome::Exit(0));
        let (running, when) = read(&all, &*domain);
        for (vm, made) in running.vms.iter().zip(lasting) {
            times_are_the_time_that_passed(vm, made.between, when, carrier);
            vm.vcpus.iter().for_each(|vcpu| steal_is_the_wait_before_the_last_turn(vcpu, false, carrier));
        }
        let stopped: Vec<_> = lasting.iter().map(Made::stop).collect();
        let (ended, _) = read(&all, &*domain);
        for ((vm, made), stopped) in ended.vms.iter().zip(lasting).zip(stopped) {
            times_are_the_time_that_passed(vm, made.between, stopped, carrier);
        }
        for (vm, by_itself) in ended.vms.iter().zip([false, false, false, true]) {
            assert!(vm.ended && vm.vcpus.iter().all(|vcpu| vcpu.account.exits > 0), "{carrier}, {}", vm.name);
            vm.vcpus.iter().for_each(|vcpu| steal_is_the_wait_before_the_last_turn(vcpu, by_itself, carrier));
        }
        all_vcpus_are_the_domain(&ended, &*domain, carrier);
    }
}
