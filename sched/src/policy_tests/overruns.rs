//! What a vCPU made a thread do beyond its leases, it pays for: device work that no kick reaches, work of the thread
//! that serves its VM's devices, and kicks of others.

use super::harness::{COSTS, audited, cases, of_nice};
use crate::attributes::{Attributes, Cap, Group, GroupId};
use crate::ids::{Slot, VcpuId};
use crate::policy::rsdl::{RsdlConfig, wait_bound};
use crate::policy::{Capped, Policy, Rsdl};
use crate::sim::{Guest, SimMachine};
use crate::time::{Nanos, Time};
use crate::wait::Wait;
use proptest::prelude::*;

const PERIOD: Nanos = Nanos::from_millis(100);
const LONGEST_LEASE: Nanos = Nanos::from_millis(1000);

fn rsdl(slots: usize, per_pcpu_queues: bool) -> Rsdl {
    Rsdl::new(RsdlConfig { per_pcpu_queues, ..RsdlConfig::default() }, slots)
}

fn capped(slots: usize) -> SimMachine<Capped> {
    audited(Capped::new(Box::new(rsdl(slots, false)), slots), slots, LONGEST_LEASE)
}

/// A VM with a cap of so many thousandths of a CPU.
fn under(per_mille: u64) -> Attributes {
    let cap = Cap::new(Nanos(PERIOD.0 * per_mille / 1000), PERIOD).unwrap();
    Attributes { group: Some(Group { id: GroupId(1), cap }), ..Attributes::default() }
}

fn run<P: Policy>(machine: &SimMachine<P>, v: usize) -> u64 {
    machine.record(v).run.0
}

#[test]
fn device_turns_of_any_length_cost_a_vcpu_as_much_as_they_take() {
    for (slots, queues) in [(1, false), (2, false), (2, true)] {
        for turn in [2, 10, 60, 400].map(Nanos::from_millis) {
            let mut machine = audited(rsdl(slots, queues), slots, LONGEST_LEASE);
            let attacker = machine.start(of_nice(0), Guest::device(Nanos::from_micros(2_900), turn), 0);
            let hogs: Vec<usize> = (0..2 * slots).map(|_| machine.start(of_nice(0), Guest::Hog, 0)).collect();
            machine.run(Nanos::from_millis(30_000));
            let fair = hogs.iter().map(|&v| run(&machine, v)).sum::<u64>() / hogs.len() as u64;
            let most = fair + fair / 20 + turn.0;
            let got = run(&machine, attacker);
            assert!(got <= most, "{slots} slots, turns of {turn:?}: {got} ns, hogs {fair} ns on average");
        }
    }
}

#[test]
fn a_vcpu_that_overruns_its_leases_makes_no_other_wait_longer_than_its_bound_and_a_turn() {
    let (config, turn) = (RsdlConfig::default(), Nanos::from_millis(60));
    let mut machine = audited(rsdl(1, false), 1, LONGEST_LEASE);
    machine.start(of_nice(0), Guest::device(Nanos::from_millis(3), turn), 0);
    let hogs: Vec<usize> = (0..3).map(|_| machine.start(of_nice(0), Guest::Hog, 0)).collect();
    let prober = machine.start(of_nice(0), Guest::prober(Nanos::from_millis(7), Nanos::from_micros(300)), 0);
    machine.run(Nanos::from_millis(30_000));
    let bound = wait_bound(&config, of_nice(0), &[of_nice(0); 4], 1).unwrap();
    for v in hogs.into_iter().chain([prober]) {
        let waited = machine.record(v).longest_wait;
        assert!(waited <= bound + turn, "v{v} waited {waited:?}, the bound is {bound:?}");
    }
}

#[test]
fn a_capped_vcpu_that_overruns_each_lease_gets_its_cap_and_one_overrun() {
    for per_mille in [10, 50, 200] {
        for turn in [1, 5, 20, 100].map(Nanos::from_millis) {
            for hogs in [0, 2] {
                let mut machine = capped(1);
                let attacker = machine.start(under(per_mille), Guest::device(Nanos::from_micros(20), turn), 0);
                (0..hogs).for_each(|_| _ = machine.start(of_nice(0), Guest::Hog, 0));
                let span = Nanos::from_millis(20_000);
                machine.run(span);
                let (got, cap) = (run(&machine, attacker), span.0 * per_mille / 1000);
                // At the start half a budget is in hand.
                let most = cap + cap / 20 + PERIOD.0 * per_mille / 2000 + turn.0;
                let msg = format!("cap {per_mille}/1000, turns of {turn:?}, {hogs} hogs");
                assert!(got <= most, "{msg}: {got} ns, where {most} are allowed");
            }
        }
    }
}

#[test]
fn a_debt_that_a_stall_of_the_host_made_does_not_stop_a_vcpu() {
    let mut machine = capped(1);
    let vcpu = machine.start(under(10), Guest::Hog, 0);
    // Half a budget lasts for a moment, and the timer's question comes late.
    let until = machine.charge(vcpu, Nanos::ZERO);
    assert!(until < machine.now() + PERIOD);
    machine.run(Nanos::from_millis(1_000));
    let before = machine.record(vcpu).turns;
    machine.run(Nanos::from_millis(1_000));
    assert!(machine.record(vcpu).turns > before);
}

/// A thread serves the devices of these vCPUs' VM, as long as it may, in turns of this length with so much between.
/// Returns what it used.
fn serves(machine: &mut SimMachine<Capped>, vm: &[usize], turn: Nanos, gap: Nanos, span: Nanos) -> Nanos {
    let (end, mut used) = (machine.now() + span, Nanos::ZERO);
    for &v in vm.iter().cycle() {
        machine.run(turn + gap);
        used += turn;
        let until = machine.charge(v, turn);
        let now = machine.now();
        if now >= end {
            break;
        }
        machine.run(until.since(now).min(end.since(now)));
    }
    used
}

#[test]
fn a_thread_that_serves_a_vm_s_devices_counts_against_its_cap_and_lets_the_vcpu_run() {
    let mut machine = capped(2);
    let vcpu = machine.start(under(200), Guest::Hog, 0);
    let span = Nanos::from_millis(20_000);
    let served = serves(&mut machine, &[vcpu], Nanos::from_millis(2), Nanos::ZERO, span);
    let (ran, cap) = (run(&machine, vcpu), span.0 / 5);
    assert!(ran + served.0 <= cap + cap / 20, "ran {ran} ns, served for {served:?}, cap {cap} ns");
    assert!(ran + served.0 >= cap - cap / 20, "ran {ran} ns, served for {served:?}, cap {cap} ns");
    assert!(ran >= cap / 10 && served.0 >= cap / 20, "neither starves: ran {ran} ns, served for {served:?}");
    assert_eq!(machine.account(vcpu).devices, served);
}

#[test]
fn a_thread_that_serves_a_vm_s_devices_counts_against_its_share() {
    for (slots, queues) in [(1, false), (2, true)] {
        let mut machine = audited(rsdl(slots, queues), slots, LONGEST_LEASE);
        let served = machine.start(of_nice(0), Guest::Hog, 0);
        let hogs: Vec<usize> = (0..2 * slots).map(|_| machine.start(of_nice(0), Guest::Hog, 0)).collect();
        machine.run(Nanos::from_millis(1_000));
        let before = run(&machine, served);
        // A tenth of the time.
        for _ in 0..1_000 {
            machine.run(Nanos::from_millis(20));
            let _ = machine.charge(served, Nanos::from_millis(2));
        }
        let (got, work) = (run(&machine, served) - before, 2_000_000_000);
        let fair = hogs.iter().map(|&v| run(&machine, v)).sum::<u64>() / hogs.len() as u64;
        let due = fair * 20 / 21 - work;
        assert!(got <= due + due / 20, "{slots} slots: ran {got} ns beside {work} ns of work; hogs {fair} ns");
        assert!(got >= due - due / 20, "{slots} slots: ran {got} ns beside {work} ns of work; hogs {fair} ns");
    }
}

#[test]
fn who_wakes_a_vcpu_every_few_microseconds_pays_for_the_exits_of_those_that_are_kicked() {
    let mut machine = SimMachine::new(rsdl(3, false), 3, COSTS);
    machine.start(of_nice(0), Guest::waker(1..2, Nanos::from_micros(3)), 0);
    machine.start(of_nice(0), Guest::server(), 0);
    let hogs: Vec<usize> = (0..4).map(|_| machine.start(of_nice(0), Guest::Hog, 0)).collect();
    let span = Nanos::from_millis(2_000);
    machine.run(span);
    let worked = hogs.iter().map(|&v| machine.record(v).worked.0).sum::<u64>();
    let exits = hogs.iter().map(|&v| machine.record(v).exits).sum::<u64>();
    // What the woken vCPU ran is its own. The waker and the hogs have equal shares of the rest.
    let due = (3 * span.0 - run(&machine, 1)) * 4 / 5;
    let part = worked as f64 / due as f64;
    assert!(exits > 10_000, "the attack is one: {exits} exits");
    assert!(part >= 0.98, "hogs got {part:.3} of their share done; the waker ran {} ns", run(&machine, 0));
}

#[test]
fn who_kicks_all_others_again_and_again_pays_for_the_exits_of_those_that_make_room() {
    const OTHERS: usize = 96;
    let mut machine = SimMachine::new(rsdl(3, false), 3, COSTS);
    machine.start(of_nice(0), Guest::waker(1..OTHERS + 1, Nanos::from_micros(3)), 0);
    (0..OTHERS).for_each(|_| _ = machine.start(of_nice(0), Guest::server(), 0));
    let hogs: Vec<usize> = (0..4).map(|_| machine.start(of_nice(0), Guest::Hog, 0)).collect();
    let span = Nanos::from_millis(500);
    machine.run(span);
    let worked = hogs.iter().map(|&v| machine.record(v).worked.0).sum::<u64>();
    let exits = hogs.iter().map(|&v| machine.record(v).exits).sum::<u64>();
    let woken: u64 = (1..=OTHERS).map(|v| run(&machine, v)).sum();
    let due = (3 * span.0 - woken) * 4 / 5;
    let part = worked as f64 / due as f64;
    assert!(exits > 1_000, "the attack is one: {exits} exits");
    assert!(part >= 0.98, "hogs got {part:.3} of their share done; the waker ran {} ns", run(&machine, 0));
}

fn any_guest() -> impl Strategy<Value = Guest> {
    let us = |range: std::ops::Range<u64>| range.prop_map(Nanos::from_micros);
    prop_oneof![
        Just(Guest::Hog),
        (us(10..5_000), us(100..80_000)).prop_map(|(stretch, turn)| Guest::device(stretch, turn)),
        (us(20..3000), Just(Wait::Unknown)).prop_map(|(stretch, says)| Guest::yielder(stretch, says)),
        (us(300..9000), us(10..1500)).prop_map(|(period, work)| Guest::prober(period, work)),
    ]
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn a_vm_with_its_devices_stays_within_five_percent_of_its_cap_whatever_it_does(
        slots in 1usize..=3,
        per_mille in 20u64..600,
        vm in prop::collection::vec(any_guest(), 1..4),
        hogs in 0usize..3,
        turn in 200u64..8_000,
        gap in 0u64..5_000,
        stalls in prop::collection::vec(1u64..40, 0..4),
    ) {
        let mut machine = capped(slots);
        let vcpus: Vec<usize> = vm.iter().map(|guest| machine.start(under(per_mille), guest.clone(), 0)).collect();
        (0..hogs).for_each(|_| _ = machine.start(of_nice(0), Guest::Hog, 0));
        stalls.iter().enumerate().for_each(|(n, &ms)| {
            machine.stall(Slot((n % slots) as u16), Nanos::from_millis(ms));
            machine.run(Nanos::from_millis(50));
        });
        let (turn, gap) = (Nanos::from_micros(turn), Nanos::from_micros(gap));
        let served = serves(&mut machine, &vcpus, turn, gap, Nanos::from_millis(5_000));
        // From the start: a count taken in the midst of a turn still holds a stall that its end takes back.
        let used = vcpus.iter().map(|&v| run(&machine, v)).sum::<u64>() + served.0;
        let cap = machine.now().0 * per_mille / 1000;
        // A budget may be in hand, and a turn of each may be under way, as it began before the others' were known.
        let turns: u64 = vm.iter().map(|guest| if let Guest::Device { turn, .. } = guest { turn.0 } else { 0 }).sum();
        let most = cap + cap / 20 + PERIOD.0 * per_mille / 1000 + turns + turn.0 * vcpus.len() as u64;
        prop_assert!(used <= most, "used {used} ns, served {served:?}, cap {cap} ns");
    }
}

#[test]
fn a_vcpu_owes_until_it_has_paid_for_work_on_other_threads() {
    let mut machine = capped(1);
    let v = machine.start(under(200), Guest::Hog, 0);
    machine.start(of_nice(0), Guest::Hog, 0);
    machine.run(Nanos::from_millis(1_000));
    let owes = |machine: &SimMachine<Capped>| machine.policy().owes(VcpuId(v as u32), machine.now());
    assert!(!owes(&machine));
    let until = machine.charge(v, Nanos::from_millis(200));
    assert!(owes(&machine) && until >= machine.now() + Nanos::from_millis(900));
    let before = run(&machine, v);
    machine.run(until.since(machine.now()) - Nanos::from_millis(1));
    assert!(owes(&machine) && run(&machine, v) < before + 30_000_000, "what was left of its slice");
    machine.run(Nanos::from_millis(2_000));
    assert!(!owes(&machine) && run(&machine, v) > before + 300_000_000);
}

#[test]
fn without_a_cap_work_on_other_threads_is_never_held_up() {
    let mut machine = audited(rsdl(1, false), 1, LONGEST_LEASE);
    let v = machine.start(of_nice(0), Guest::Hog, 0);
    assert_eq!(machine.charge(v, Nanos::from_millis(100)), Time(0));
}
