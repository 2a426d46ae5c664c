//! What a vCPU made a thread do beyond its leases goes with it from shard to shard. A VM with a cap is in one shard,
//! and a debt holds it back whatever the others have to spare.

use super::{COSTS, Nanos, SimMachine, machine, of_nice, plan, policies};
use crate::attributes::{Attributes, Cap, Group, GroupId};
use crate::policy::{Capped, Policy};
use crate::sim::{Costs, Guest};

const PERIOD: Nanos = Nanos::from_millis(100);
/// Divisions: slots, and most of them in a shard.
const DIVISIONS: [(usize, usize); 3] = [(2, 1), (3, 1), (4, 2)];

fn run<P: Policy>(machine: &SimMachine<P>, v: usize) -> u64 {
    machine.record(v).run.0
}

/// A machine in shards whose policies keep caps.
fn capped(slots: usize, most: usize) -> SimMachine<Capped> {
    let plan = plan(slots, most);
    let sizes = plan.shards().map(|shard| plan.slots(shard).end.index() - plan.slots(shard).start.index());
    let policies = policies(&plan, false).into_iter().zip(sizes);
    let policies: Vec<_> = policies.map(|(policy, slots)| Capped::new(Box::new(policy), slots)).collect();
    SimMachine::in_shards(policies, plan, Costs { lock: Nanos(400), ..COSTS }).audited(Nanos::from_millis(1000))
}

/// A VM with a cap of so many thousandths of a CPU.
fn under(per_mille: u64) -> Attributes {
    let cap = Cap::new(Nanos(PERIOD.0 * per_mille / 1000), PERIOD).unwrap();
    Attributes { group: Some(Group { id: GroupId(1), cap }), ..Attributes::default() }
}

#[test]
fn device_turns_of_any_length_cost_a_vcpu_as_much_as_they_take_in_whatever_shard_it_is() {
    for (slots, most) in DIVISIONS {
        for turn in [2, 60, 400].map(Nanos::from_millis) {
            let mut machine = machine(slots, most, false);
            let attacker = machine.start(of_nice(0), Guest::device(Nanos::from_micros(2_900), turn), 0);
            let hogs: Vec<usize> = (0..2 * slots).map(|_| machine.start(of_nice(0), Guest::Hog, 0)).collect();
            machine.run(Nanos::from_millis(30_000));
            let fair = hogs.iter().map(|&v| run(&machine, v)).sum::<u64>() / hogs.len() as u64;
            let most_allowed = fair + fair / 20 + turn.0;
            let got = run(&machine, attacker);
            assert!(got <= most_allowed, "{slots} slots, {most} in a shard, {turn:?}: {got} ns, hogs {fair} ns");
        }
    }
}

#[test]
fn a_capped_vcpu_in_debt_gets_no_sliver_though_other_shards_have_slots_to_spare() {
    for (slots, most) in DIVISIONS {
        for per_mille in [10, 200] {
            for turn in [1, 100].map(Nanos::from_millis) {
                let mut machine = capped(slots, most);
                let attacker = machine.start(under(per_mille), Guest::device(Nanos::from_micros(20), turn), 0);
                // While it is held back, a slot is to spare.
                (1..slots).for_each(|_| _ = machine.start(of_nice(0), Guest::Hog, 0));
                let span = Nanos::from_millis(20_000);
                machine.run(span);
                let (got, cap) = (run(&machine, attacker), span.0 * per_mille / 1000);
                // At the start half a budget is in hand.
                let allowed = cap + cap / 20 + PERIOD.0 * per_mille / 2000 + turn.0;
                let what = format!("{slots} slots, {most} in a shard, cap {per_mille}/1000, turns of {turn:?}");
                assert!(got <= allowed, "{what}: {got} ns, where {allowed} are allowed");
            }
        }
    }
}

#[test]
fn the_vcpus_of_a_capped_vm_in_a_domain_of_shards_pay_for_each_others_turns() {
    for (slots, most) in DIVISIONS {
        for turn in [5, 50].map(Nanos::from_millis) {
            let (per_mille, mut machine) = (300, capped(slots, most));
            let device = || Guest::device(Nanos::from_micros(500), turn);
            let vm: Vec<usize> = (0..slots).map(|_| machine.start(under(per_mille), device(), 0)).collect();
            (0..slots).for_each(|_| _ = machine.start(of_nice(0), Guest::Hog, 0));
            let span = Nanos::from_millis(20_000);
            machine.run(span);
            let got: u64 = vm.iter().map(|&v| run(&machine, v)).sum();
            let cap = span.0 * per_mille / 1000;
            // A turn of each may have begun before the others' were known.
            let allowed = cap + cap / 20 + PERIOD.0 * per_mille / 2000 + turn.0 * slots as u64;
            let what = format!("{slots} slots, {most} in a shard, turns of {turn:?}");
            assert!(got <= allowed, "{what}: {got} ns, where {allowed} are allowed");
        }
    }
}

#[test]
fn work_on_other_threads_is_paid_for_in_whatever_shard_the_vcpu_is() {
    for (slots, most) in DIVISIONS {
        let mut machine = machine(slots, most, false);
        let served = machine.start(of_nice(0), Guest::Hog, 0);
        let hogs: Vec<usize> = (0..2 * slots).map(|_| machine.start(of_nice(0), Guest::Hog, 0)).collect();
        machine.run(Nanos::from_millis(1_000));
        let before: Vec<u64> = hogs.iter().map(|&v| run(&machine, v)).collect();
        let own = run(&machine, served);
        // A tenth of the time.
        for _ in 0..1_000 {
            machine.run(Nanos::from_millis(20));
            let _ = machine.charge(served, Nanos::from_millis(2));
        }
        let (got, work) = (run(&machine, served) - own, 2_000_000_000);
        let fair =
            hogs.iter().zip(before).map(|(&v, before)| run(&machine, v) - before).sum::<u64>() / hogs.len() as u64;
        let due = fair - work;
        assert!(got <= due + due / 20, "{slots} slots, {most} in a shard: {got} ns beside {work} ns; hogs {fair} ns");
        assert!(got >= due - due / 10, "{slots} slots, {most} in a shard: {got} ns beside {work} ns; hogs {fair} ns");
    }
}

#[test]
fn a_debt_goes_with_a_vcpu_that_an_idle_shard_takes() {
    let mut machine = machine(2, 1, false);
    let debtor = machine.start(of_nice(0), Guest::Hog, 0);
    let hog = machine.start(of_nice(0), Guest::Hog, 0);
    // They leave a slot again and again to whoever waits elsewhere.
    for n in 0..2 {
        machine.start(of_nice(0), Guest::prober(Nanos::from_millis(40 + 7 * n), Nanos::from_millis(25)), 0);
    }
    machine.run(Nanos::from_millis(1_000));
    let before = [debtor, hog].map(|v| run(&machine, v));
    for _ in 0..15 {
        let _ = machine.charge(debtor, Nanos::from_millis(500));
        machine.run(Nanos::from_millis(2_500));
    }
    let [got, other] = [debtor, hog].map(|v| run(&machine, v) - before[usize::from(v == hog)]);
    // More than a run queue keeps account of at once.
    let work = 15 * 500_000_000;
    assert!(got + work <= other + other / 20, "{got} ns beside {work} ns of work; the hog {other} ns");
}
