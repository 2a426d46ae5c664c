//! Caps: what a group runs in any span, how evenly, and that nobody is held back for long.

use super::{RR, any_guest, any_policy, rsdl, start_one};
use crate::attributes::{Attributes, Cap, Group, GroupId};
use crate::ids::{Slot, VcpuId};
use crate::policy::capped::LEAST;
use crate::policy::rsdl::{PoliteSwitches, YieldRule};
use crate::policy::{BUILT_IN, BuiltIn, Capped, Decision, Freelist, Policy, Why};
use crate::policy_tests::harness::{COSTS, audited, cases, of_nice};
use crate::sim::guest::{Manners, Patience};
use crate::sim::{Guest, SimMachine};
use crate::time::{Nanos, Time};
use proptest::prelude::*;

/// What a slice may be overrun by: a pause and the exit before it take no interrupt, and a vCPU that goes on has a
/// sliver at least.
const OVERRUN: Nanos = Nanos(Decision::PAUSE_MAX.0 + COSTS.exit.0 - LEAST.0);
const MS: u64 = 1_000_000;

fn polite(slots: usize) -> Box<dyn Policy> {
    Box::new(rsdl(YieldRule::Polite(PoliteSwitches::default()), false, slots))
}

/// Whether hogs under this policy have short turns.
fn has_short_turns(policy: &BuiltIn) -> bool {
    matches!(policy.name, "rsdl" | "freelist")
}

fn machine(policy: fn(usize) -> Box<dyn Policy>, slots: usize) -> SimMachine<Capped> {
    audited(Capped::new(policy(slots), slots), slots, Nanos::from_millis(1000))
}

/// A cap of so many thousandths of a CPU.
fn cap(per_mille: u64, period: Nanos) -> Cap {
    Cap::new(Nanos(period.0 * per_mille / 1000), period).unwrap()
}

/// Attributes of the vCPUs of a VM with this cap.
fn under(cap: Cap) -> Attributes {
    Attributes { group: Some(Group { id: GroupId(1), cap }), ..Attributes::default() }
}

fn run(machine: &SimMachine<Capped>, vcpus: &[usize]) -> u64 {
    vcpus.iter().map(|&v| machine.record(v).run.0).sum()
}

/// Watches for how long each vCPU is held back without a break.
struct Holds {
    streaks: Vec<u64>,
    longest: u64,
}

impl Holds {
    fn new() -> Self {
        Self { streaks: vec![0; 32], longest: 0 }
    }

    /// Lets a span pass, to this much of a period at a time.
    fn run(&mut self, machine: &mut SimMachine<Capped>, vcpus: &[usize], span: Nanos, step: Nanos) {
        for _ in 0..span.0 / step.0 {
            let before: Vec<_> = vcpus.iter().map(|&v| machine.throttled(v)).collect();
            machine.run(step);
            for (&v, before) in vcpus.iter().zip(before) {
                let held = machine.throttled(v).0 - before.0;
                // Held back through the whole step, or not: then a new streak may have begun.
                self.streaks[v] = if held == step.0 { self.streaks[v] + held } else { held };
                self.longest = self.longest.max(self.streaks[v]);
            }
        }
    }
}

#[test]
fn a_vm_capped_at_half_a_cpu_gets_it_under_any_policy_and_no_vcpu_waits_two_periods() {
    let locker = |patience| Guest::locker(Nanos::from_micros(50), Nanos::from_micros(200), patience);
    let guests = [Guest::Hog, locker(Patience::Hints), locker(Patience::Mute)];
    let period = Nanos::from_millis(100);
    for policy in BUILT_IN {
        for (guest, vcpus, hogs) in every_vm(&guests) {
            // Beside hogs, a guest whose yields say nothing, or cost it its turn, may not get as far as its cap.
            let silent = matches!(guest, Guest::Locker { manners: Manners { patience: Patience::Mute, .. }, .. });
            if hogs > 0 && (silent || policy.name != "rsdl" && !matches!(guest, Guest::Hog)) {
                continue;
            }
            let mut machine = machine(policy.new, 2);
            let vm: Vec<usize> = (0..vcpus).map(|_| machine.start(under(cap(500, period)), guest.clone(), 0)).collect();
            (0..hogs).for_each(|_| _ = machine.start(of_nice(0), Guest::Hog, 0));
            machine.run(Nanos::from_millis(500));
            let before = run(&machine, &vm);
            machine.run(Nanos::from_millis(10_000));
            let got = (run(&machine, &vm) - before) as f64 / (10_000 * MS) as f64;
            assert!(
                (0.495..=0.505).contains(&got),
                "{}: {guest:?}, {vcpus} vCPUs beside {hogs} hogs: {got}",
                policy.name
            );
            let gap = vm.iter().map(|&v| machine.record(v).longest_wait).max().unwrap();
            assert!(
                gap <= Nanos(2 * period.0),
                "{}: {guest:?}, {vcpus} vCPUs beside {hogs} hogs: {gap:?}",
                policy.name
            );
        }
    }
}

/// Every guest in VMs of 1, 2 and 4 vCPUs, alone and beside two hogs.
fn every_vm(guests: &[Guest]) -> impl Iterator<Item = (Guest, usize, usize)> + '_ {
    guests
        .iter()
        .flat_map(|guest| [1, 2, 4].into_iter().flat_map(move |vcpus| [0, 2].map(|hogs| (guest.clone(), vcpus, hogs))))
}

#[test]
fn vcpus_under_a_cap_are_not_all_frozen_for_longer_than_a_turn_takes() {
    let period = Nanos::from_millis(100);
    for vcpus in [1, 2, 4, 8] {
        let mut machine = machine(polite, 8);
        let vm: Vec<usize> = (0..vcpus).map(|_| machine.start(under(cap(500, period)), Guest::Hog, 0)).collect();
        machine.run(Nanos::from_millis(500));
        let (mut still, mut longest) = (0, 0);
        for _ in 0..10_000 {
            let before = run(&machine, &vm);
            machine.run(Nanos::from_micros(100));
            still = if run(&machine, &vm) > before { 0 } else { still + MS / 10 };
            longest = longest.max(still);
        }
        assert!(longest <= period.0 / (2 * vcpus), "{vcpus} vCPUs all stood still for {longest}");
    }
}

#[test]
fn a_yield_to_a_frozen_holder_lets_it_go_on_in_the_yielders_stead() {
    let mut machine = machine(polite, 2);
    let attributes = under(cap(200, Nanos::from_millis(1000)));
    let lockers = |patience| Guest::locker(Nanos::from_millis(30), Nanos::from_micros(100), patience);
    let vm = [0; 4].map(|_| machine.start(attributes, lockers(Patience::Hints), 0));
    machine.run(Nanos::from_millis(20_000));
    let hints: u64 = vm.iter().map(|&v| machine.world.gauges[v].ops).sum();
    let mut mute = self::machine(polite, 2);
    let vm = [0; 4].map(|_| mute.start(attributes, lockers(Patience::Mute), 0));
    mute.run(Nanos::from_millis(20_000));
    let without: u64 = vm.iter().map(|&v| mute.world.gauges[v].ops).sum();
    assert!(hints as f64 >= 1.5 * without as f64, "locks taken: {hints} with names, {without} without");
}

#[test]
fn an_event_for_a_frozen_vcpu_neither_starts_it_nor_is_lost() {
    let (slot, now) = (Slot(0), Time(1000 * MS));
    let mut policy = Capped::new(polite(1), 1);
    let attributes = under(cap(100, Nanos::from_millis(100)));
    (0..2).for_each(|v| policy.add(VcpuId(v), attributes, now));
    // What was saved lasts for a slice of each, and two more.
    let mut at = now;
    let _ = policy.wake(VcpuId(0), at);
    let _ = policy.next(slot, Why::Free, at);
    while !policy.throttled(VcpuId(0), at).is_held {
        at = at + Nanos::from_millis(5);
        let _ = policy.next(slot, Why::Check, at);
    }
    assert_eq!(policy.wake(VcpuId(1), at), crate::policy::Placement::Held, "nothing is left to start on");
    assert_eq!(policy.waiting(), 0);
    assert_eq!(policy.next(slot, Why::Free, at).run, None);
    let resumed = policy.tick(policy.alarm()).unwrap();
    assert_eq!(resumed.vcpu, VcpuId(0), "first come");
    let resumed = policy.tick(policy.alarm()).unwrap();
    assert_eq!(resumed.vcpu, VcpuId(1));
}

#[test]
fn a_vcpu_frozen_as_it_wakes_goes_on_in_time_although_the_first_slot_idles() {
    let period = Nanos::from_millis(18);
    let us = Nanos::from_micros;
    let vm = [Guest::pinger(1, Patience::Blocks), Guest::prober(us(4500), us(101)), Guest::Hog];
    for policy in BUILT_IN {
        let mut machine = machine(policy.new, 3);
        vm.iter().for_each(|guest| start_one(&mut machine, guest, under(cap(476, period)), vm.len(), 0));
        let mut holds = Holds::new();
        holds.run(&mut machine, &[0, 1, 2], Nanos(30 * period.0), Nanos(period.0 / 10));
        assert!(
            holds.longest > 0 && holds.longest <= 2 * period.0,
            "{}: held back for {} of {period:?}",
            policy.name,
            holds.longest
        );
    }
}

#[test]
fn vcpus_that_drew_slices_before_others_joined_run_no_more_than_half_a_budget_of_them() {
    let (slot, mut now) = (Slot(0), Time(1000 * MS));
    let mut policy = Capped::new(Box::new(Freelist::new(RR, 1)), 1);
    let hog = VcpuId(3);
    policy.add(hog, Attributes::default(), now);
    let _ = policy.wake(hog, now);
    let _ = policy.next(slot, Why::Free, now);
    let (cap, vm) = (cap(50, Nanos::from_millis(15)), [0, 1, 2].map(VcpuId));
    for vcpu in vm {
        policy.add(vcpu, under(cap), now);
        let _ = policy.wake(vcpu, now);
        now = now + Nanos(cap.period().0 / 4);
    }
    // They have waited for their turn, with their slices in hand and nothing drawn ahead.
    now = now + cap.period();
    let start = now;
    for vcpu in vm {
        let lease = policy.next(slot, Why::Block, now).run.unwrap();
        assert_eq!(lease.vcpu, vcpu);
        now = lease.until;
    }
    assert_eq!(now.since(start), Nanos(cap.budget().0 / 2));
}

#[test]
fn a_vm_that_uses_less_than_its_cap_is_held_back_only_for_bursts_of_more_than_half_a_budget() {
    let held_and_ran = |vcpus: u64, work: Nanos, sleep: Nanos| {
        let mut machine = machine(polite, 2);
        let attributes = under(cap(500, Nanos::from_millis(100)));
        let vm: Vec<usize> = (0..vcpus).map(|_| machine.start(attributes, Guest::client(work, sleep), 0)).collect();
        // Here they come one by one, so that the first take the slices of a smaller VM.
        machine.run(Nanos::from_millis(500));
        let sum =
            |machine: &SimMachine<Capped>| (vm.iter().map(|&v| machine.throttled(v).0).sum::<u64>(), run(machine, &vm));
        let before = sum(&machine);
        machine.run(Nanos::from_millis(5_000));
        let after = sum(&machine);
        (after.0 - before.0, after.1 - before.1)
    };
    let yields = 2_500 * MS;
    for vcpus in [1, 2, 4] {
        let (held, ran) = held_and_ran(vcpus, Nanos::from_millis(3), Nanos::from_millis(9 * vcpus));
        assert!(held == 0 && ran < yields, "{vcpus} vCPUs: held back for {held}, ran {ran}");
        // The cap yields half of a burst while it lasts, and half a budget is in hand.
        let (held, ran) = held_and_ran(vcpus, Nanos::from_millis(60), Nanos::from_millis(240 * vcpus));
        assert!(held > 0 && ran < yields, "{vcpus} vCPUs: held back for {held}, ran {ran}");
    }
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn in_no_span_does_a_group_run_more_than_its_cap_half_a_budget_and_a_slice_each(
        slots in 1usize..=4,
        policy in any_policy(),
        per_mille in 50u64..3000,
        period in 10u64..100,
        vm in prop::collection::vec(any_guest(), 1..6),
        others in prop::collection::vec(any_guest(), 0..4),
    ) {
        let mut machine = machine(policy.new, slots);
        let period = Nanos::from_millis(period);
        let (attributes, of) = (under(cap(per_mille, period)), vm.len() + others.len());
        vm.iter().for_each(|guest| start_one(&mut machine, guest, attributes, of, 0));
        others.iter().for_each(|guest| start_one(&mut machine, guest, Attributes::default(), of, 0));
        let vcpus: Vec<usize> = (0..vm.len()).collect();
        let (mut holds, mut least) = (Holds::new(), 0i128);
        let (budget, members) = (period.0 * per_mille / 1000, vm.len() as u64);
        // Half a budget is drawn ahead. A slice is in hand of each, which may have slept, or waited for its turn; its
        // last one may be overrun. Earlier overruns are paid for before another slice is drawn.
        let slice = budget / (2 * members).max(4).min(budget / Cap::SHORTEST_TURN.0);
        let bound = budget / 2 + members * (slice + OVERRUN.0);
        for step in 0i128..300 {
            // How far what was run is ahead of what the cap has yielded, held against the least since the start.
            let ahead = i128::from(run(&machine, &vcpus)) - step * i128::from(budget / 10);
            least = least.min(ahead);
            let over = ahead - least - i128::from(bound);
            prop_assert!(over <= 0, "{over} ns beyond {per_mille} per mille");
            holds.run(&mut machine, &vcpus, Nanos(period.0 / 10), Nanos(period.0 / 10));
        }
        prop_assert!(holds.longest <= period.0 * 16 / 10, "held back for {} of {period:?}", holds.longest);
    }

    #[test]
    fn a_group_that_computes_runs_no_less_than_its_cap(
        slots in 1u64..=4,
        vcpus in 1u64..8,
        (policy, hogs, part, period) in prop_oneof![
            (any_policy(), Just(0u64), 5u64..90, 10u64..200),
            // Beside hogs it first waits for its turn; what the cap yields beyond half a period meanwhile is lost. So
            // that is long enough for policies of short turns.
            (any_policy().prop_filter("long turns", has_short_turns), 1u64..3, 5u64..=50, 100u64..200),
        ],
    ) {
        // So many hundredths of what the group gets anyway, beside these hogs.
        let most = 1000 * vcpus.min(slots) * slots.min(vcpus + hogs) / (vcpus.min(slots) + hogs).max(slots);
        let (per_mille, period) = (most * part / 100, Nanos::from_millis(period));
        let mut machine = machine(policy.new, slots as usize);
        let vm: Vec<usize> =
            (0..vcpus).map(|_| machine.start(under(cap(per_mille, period)), Guest::Hog, 0)).collect();
        (0..hogs).for_each(|_| _ = machine.start(of_nice(0), Guest::Hog, 0));
        machine.run(Nanos(2 * period.0));
        let before = run(&machine, &vm);
        machine.run(Nanos(30 * period.0));
        let got = run(&machine, &vm) - before;
        // One slice each may be under way at the beginning.
        let due = 29 * period.0 / 1000 * per_mille;
        prop_assert!(got as f64 >= 0.99 * due as f64, "{} of {per_mille}", got * 1000 / (30 * period.0));
    }
}
