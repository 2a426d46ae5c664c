//! What the rules come to: step by step, and on the machine of the simulator, which checks the invariants on the way.

use super::credit::RESET;
use super::*;
use crate::policy::Lease;
use crate::policy_tests::harness::{audited, of_nice, share};
use crate::sim::{Guest, SimMachine};
use crate::wait::{Wait, Yield};

const A: VcpuId = VcpuId(0);
const B: VcpuId = VcpuId(1);
const C: VcpuId = VcpuId(2);
const P0: Slot = Slot(0);
const P1: Slot = Slot(1);
const YIELD: Why = Why::Yield(Yield { wait: Wait::Unknown, again: false });

fn us(us: u64) -> Time {
    Time(us * 1_000)
}

fn of(class: Class) -> Attributes {
    Attributes { class, ..Attributes::default() }
}

fn machine(slots: usize) -> SimMachine<Credit2> {
    audited(Credit2::new(slots), slots, LONGEST_LEASE)
}

/// Two caches of two slots each.
fn two_caches() -> Credit2 {
    Credit2::new(4).with_topology(&Topology::new(&[0, 1, 2, 3], [], [&[0, 1][..], &[2, 3]]))
}

/// One slot with vCPUs of nice 0 that can run: the first of them runs, from time 0 on.
fn running(vcpus: u32) -> Credit2 {
    let mut policy = Credit2::new(1);
    for vcpu in (0..vcpus).map(VcpuId) {
        policy.add(vcpu, Attributes::default(), Time(0));
        let _ = policy.wake(vcpu, Time(0));
    }
    assert_eq!(runs(&mut policy, P0, Why::Free, Time(0)), A);
    policy
}

/// The vCPU that a slot runs which asks.
fn runs(policy: &mut Credit2, slot: Slot, why: Why, now: Time) -> VcpuId {
    policy.next(slot, why, now).run.expect("a vCPU can run").vcpu
}

#[test]
fn hogs_of_weights_1_2_and_4_get_cpu_time_in_that_ratio() {
    for (nices, vcpus) in [([6, 3, 0], 1), ([6, 3, 0], 2), ([3, 0, -3], 4)] {
        let mut machine = machine(vcpus);
        let vms = nices.map(|nice| (0..vcpus).map(|_| machine.start(of_nice(nice), Guest::Hog, 0)).collect());
        machine.run(Nanos::from_millis(10_000));
        let run = vms.map(|vm: Vec<usize>| vm.iter().map(|&v| machine.record(v).run.0 as f64).sum::<f64>());
        let unit = run.iter().sum::<f64>() / 7.0;
        for (run, weight) in run.iter().zip([1.0, 2.0, 4.0]) {
            let ratio = run / unit / weight;
            assert!((0.98..=1.02).contains(&ratio), "nice {nices:?}, {vcpus} each: {ratio} of a weight of {weight}");
        }
    }
}

#[test]
fn hogs_of_one_weight_get_the_same_on_more_slots_than_divide_them() {
    let mut machine = machine(3);
    let hogs: Vec<usize> = (0..7).map(|_| machine.start(of_nice(0), Guest::Hog, 0)).collect();
    machine.run(Nanos::from_millis(10_000));
    for &hog in &hogs {
        let share = share(&machine, hog);
        assert!((0.97..=1.03).contains(&share), "v{hog}: {share}");
    }
}

#[test]
fn a_woken_vcpu_with_more_credit_preempts_once_the_rate_limit_has_passed() {
    for (woken_at, preempts) in [(us(500), false), (us(949), false), (us(1_000), true), (us(7_000), true)] {
        let mut policy = running(1);
        policy.add(B, Attributes::default(), Time(0));
        let expected = if preempts { Placement::Preempt(P0) } else { Placement::Queue(None) };
        assert_eq!(policy.wake(B, woken_at), expected, "at {woken_at:?}");
        let runs = runs(&mut policy, P0, Why::Check, woken_at);
        assert_eq!(runs, if preempts { B } else { A }, "at {woken_at:?}");
    }
}

#[test]
fn a_woken_vcpu_without_more_credit_waits() {
    let mut policy = running(2);
    assert_eq!(runs(&mut policy, P0, Why::Check, us(3_000)), B);
    assert_eq!(runs(&mut policy, P0, Why::Block, us(5_000)), A, "B has 8 ms of credit left, A 7");
    assert_eq!(policy.wake(B, us(5_500)), Placement::Queue(None), "the rate limit");
    let _ = policy.next(P0, Why::Block, us(5_600));
    assert_eq!(policy.wake(A, us(7_500)), Placement::Preempt(P0), "B has 6.1 ms, A 6.4");
    assert_eq!(runs(&mut policy, P0, Why::Check, us(7_500)), A);
    assert_eq!(runs(&mut policy, P0, Why::Block, us(7_600)), B);
    policy.add(C, of(Class::Batch), us(7_600));
    assert_eq!(policy.wake(C, us(9_000)), Placement::Queue(None), "class batch preempts only class idle");
}

#[test]
fn a_slice_lasts_until_the_credit_is_down_to_that_of_the_next() {
    let mut policy = running(3);
    assert_eq!(policy.next(P0, Why::Check, us(500)).run, Some(Lease { vcpu: A, until: us(1_000) }), "1 ms at least");
    // A has 4 ms less than both others.
    let lease = policy.next(P0, Why::Check, us(4_000)).run.unwrap();
    assert_eq!(lease, Lease { vcpu: B, until: us(5_000) }, "C has as much: the shortest slice");
    let lease = policy.next(P0, Why::Block, us(4_500)).run.unwrap();
    assert_eq!(lease, Lease { vcpu: C, until: us(8_500) }, "until it has as little as A");
    let lease = policy.next(P0, Why::Block, us(8_500)).run.unwrap();
    assert_eq!(lease, Lease { vcpu: A, until: us(14_500) }, "until its credit is burned");
}

#[test]
fn a_reset_leaves_a_sleeper_half_a_millisecond_of_what_it_had_and_a_hog_its_debt() {
    let mut policy = running(1);
    policy.add(B, Attributes::default(), Time(0));
    assert_eq!(policy.credit(B), RESET);
    assert_eq!(runs(&mut policy, P0, Why::Check, us(10_300)), A);
    assert_eq!(policy.credit(A), RESET - 300_000, "what it ran too long is paid for");
    for ms in 2..8 {
        assert_eq!(runs(&mut policy, P0, Why::Check, us(ms * 10_300)), A);
        assert_eq!(policy.credit(B), RESET + 500_000);
    }
    // An overrun beyond all measure is not paid for in full, and does not last beyond the next reset.
    assert_eq!(runs(&mut policy, P0, Why::Check, us(900_000)), A);
    assert_eq!(policy.credit(A), RESET);
}

#[test]
fn a_reset_waits_for_the_last_queued_credit() {
    let mut policy = running(2);
    assert_eq!(runs(&mut policy, P0, Why::Check, us(10_000)), B);
    assert_eq!((policy.credit(A), policy.credit(B)), (0, RESET), "B has credit, so there is no reset");
    assert_eq!(runs(&mut policy, P0, Why::Check, us(20_001)), A, "it has more than B");
    assert_eq!((policy.credit(A), policy.credit(B)), (RESET, RESET - 1_000));
}

#[test]
fn a_yield_lets_the_next_one_run_though_it_has_less_credit_and_within_the_rate_limit() {
    let mut policy = running(2);
    assert_eq!(runs(&mut policy, P0, Why::Check, us(3_000)), B, "A has 3 ms less");
    let lease = policy.next(P0, YIELD, us(3_100)).run.unwrap();
    assert_eq!(lease.vcpu, A);
    assert_eq!(runs(&mut policy, P0, Why::Check, us(3_200)), A, "the rate limit counts for it");
    assert_eq!(runs(&mut policy, P0, Why::Check, us(4_100)), B, "the yielder has kept its credit");
    assert_eq!(policy.credit(B), RESET - 100_000);
}

#[test]
fn a_yield_while_nobody_waits_changes_nothing() {
    let (mut yields, mut checks) = (running(1), running(1));
    for at in [300, 2_000, 9_999, 12_000] {
        assert_eq!(yields.next(P0, YIELD, us(at)), checks.next(P0, Why::Check, us(at)));
    }
}

/// Two slots: A runs on the first and B on the second, both from time 0 on; C is queued, at home on the first.
fn two_slots() -> Credit2 {
    let mut policy = Credit2::new(2);
    for vcpu in [A, B, C] {
        policy.add(vcpu, Attributes::default(), Time(0));
        let _ = policy.wake(vcpu, Time(0));
    }
    let first = [P0, P1].map(|slot| runs(&mut policy, slot, Why::Free, Time(0)));
    assert_eq!((first, policy.vcpu(C).home), ([A, B], P0));
    policy
}

#[test]
fn a_slot_resists_a_queued_vcpu_from_another_until_that_has_half_a_millisecond_more() {
    let mut policy = two_slots();
    assert_eq!(runs(&mut policy, P0, Why::Check, us(3_000)), C, "at home it needs only more than A");
    assert_eq!(runs(&mut policy, P1, Why::Check, us(3_400)), B, "A has 0.4 ms more than B, but ran elsewhere");
    assert_eq!(runs(&mut policy, P1, Why::Check, us(3_500)), A, "0.5 ms more");
    assert_eq!(policy.vcpu(A).home, P1);
    assert_eq!(policy.credit(A), RESET - 3_000_000 + COMPENSATION);
}

#[test]
fn a_displaced_vcpu_preempts_elsewhere_if_it_has_more_credit_than_there() {
    let mut policy = two_slots();
    assert_eq!(runs(&mut policy, P0, Why::Block, us(1_000)), C, "A has 9 ms of credit left");
    assert_eq!(policy.wake(A, us(4_000)), Placement::Preempt(P0), "C has burned 3 ms at home");
    let decision = policy.next(P0, Why::Check, us(4_000));
    assert_eq!(decision.run.map(|lease| lease.vcpu), Some(A));
    assert_eq!(decision.kick, Some(P1), "C has 7 ms, and B 6");
    assert_eq!(runs(&mut policy, P1, Why::Check, us(4_000)), C);
}

#[test]
fn a_woken_vcpu_runs_where_it_last_ran_then_behind_that_cache_then_anywhere() {
    let mut policy = two_caches();
    let vcpus = [0, 1, 2, 3].map(VcpuId);
    for vcpu in vcpus {
        policy.add(vcpu, Attributes::default(), Time(0));
    }
    assert_eq!(vcpus.map(|vcpu| policy.vcpu(vcpu).queue), [0, 1, 0, 1], "by load");
    let homes = vcpus.map(|vcpu| policy.vcpu(vcpu).home);
    assert_eq!(homes, [0, 2, 1, 3].map(Slot));
    assert_eq!(policy.wake(vcpus[3], Time(0)), Placement::Run(Slot(3)), "its home");
    policy.vcpu_mut(vcpus[1]).home = Slot(3);
    assert_eq!(policy.wake(vcpus[1], Time(0)), Placement::Run(Slot(2)), "beside its home");
    policy.add(VcpuId(4), Attributes::default(), Time(0));
    let other = VcpuId(4);
    policy.migrate(other, 1, Time(0));
    policy.vcpu_mut(other).home = Slot(3);
    assert_eq!(policy.wake(other, Time(0)), Placement::Run(Slot(0)), "behind the other cache");
    assert_eq!(policy.vcpu(other).queue, 0);
}

#[test]
fn vcpus_stay_in_their_run_queue_while_loads_are_equal() {
    let mut machine = audited(two_caches(), 4, LONGEST_LEASE);
    (0..8).for_each(|_| _ = machine.start(of_nice(0), Guest::Hog, 0));
    let queues =
        |machine: &SimMachine<Credit2>| [0, 1, 2, 3, 4, 5, 6, 7].map(|v| machine.policy().vcpu(VcpuId(v)).queue);
    let first = queues(&machine);
    assert_eq!(first.iter().sum::<usize>(), 4, "four behind each cache: {first:?}");
    for _ in 0..300 {
        machine.run(Nanos::from_millis(10));
        assert_eq!(queues(&machine), first);
    }
}

#[test]
fn a_run_queue_of_more_load_hands_vcpus_over_at_a_reset_until_loads_are_equal() {
    let mut policy = two_caches();
    for vcpu in (0..12).map(VcpuId) {
        let (queue, home) = if vcpu.0 < 10 { (0, P0) } else { (1, Slot(2)) };
        policy.add(vcpu, Attributes::default(), Time(0));
        policy.migrate(vcpu, queue, Time(0));
        policy.vcpu_mut(vcpu).home = home;
        let _ = policy.wake(vcpu, Time(0));
    }
    let count = |policy: &Credit2| (0..12).filter(|&v| policy.vcpu(VcpuId(v)).queue == 0).count();
    assert_eq!(count(&policy), 8, "two have taken idle slots behind the other cache");
    let ask_all = |policy: &mut Credit2, why, at| (0..4).for_each(|slot| _ = policy.next(Slot(slot), why, at));
    ask_all(&mut policy, Why::Free, Time(0));
    (1..20).for_each(|step| ask_all(&mut policy, Why::Check, us(500 * step)));
    assert_eq!(count(&policy), 8, "all have credit left");
    (20..4_000).for_each(|step| ask_all(&mut policy, Why::Check, us(500 * step)));
    assert_eq!(count(&policy), 6);
}

#[test]
fn a_slot_that_runs_out_of_work_takes_some_from_another_run_queue() {
    let mut policy = two_caches();
    for vcpu in (0..6).map(VcpuId) {
        policy.add(vcpu, Attributes::default(), Time(0));
        let _ = policy.wake(vcpu, Time(0));
    }
    (0..4).for_each(|slot| _ = policy.next(Slot(slot), Why::Free, Time(0)));
    let blocks = |policy: &mut Credit2, slot| policy.next(Slot(slot), Why::Block, us(100)).run.is_some();
    assert!(blocks(&mut policy, 0), "one is queued here");
    assert!(blocks(&mut policy, 0), "one is queued behind the other cache");
    assert!(!blocks(&mut policy, 0) && policy.waiting() == 0);
}

#[test]
fn rt_runs_before_all_and_idle_after_all_wherever_they_started() {
    let mut machine = machine(2);
    let idle: Vec<usize> = (0..2).map(|_| machine.start(of(Class::Idle), Guest::Hog, 0)).collect();
    machine.run(Nanos::from_millis(50));
    let hogs: Vec<usize> = (0..2).map(|_| machine.start(of_nice(0), Guest::Hog, 0)).collect();
    machine.run(Nanos::from_millis(50));
    let rt: Vec<usize> = (0..2).map(|_| machine.start(of(Class::Rt), Guest::Hog, 0)).collect();
    machine.run(Nanos::from_millis(400));
    let least_of = |group: &[usize]| group.iter().map(|&v| machine.record(v).run).min().unwrap();
    let most_of = |group: &[usize]| group.iter().map(|&v| machine.record(v).run).max().unwrap();
    assert!(least_of(&rt) > Nanos::from_millis(395));
    assert!(least_of(&hogs) > Nanos::from_millis(45) && most_of(&hogs) < Nanos::from_millis(55));
    assert!(most_of(&idle) < Nanos::from_millis(55));
}

#[test]
fn a_client_that_sleeps_is_served_at_once_beside_hogs() {
    let mut machine = machine(2);
    (0..6).for_each(|_| _ = machine.start(of_nice(0), Guest::Hog, 0));
    let client = machine.start(of_nice(0), Guest::client(Nanos::from_micros(200), Nanos::from_millis(5)), 0);
    machine.run(Nanos::from_millis(2_000));
    let ops = machine.world.gauges[client].ops;
    assert!(ops > 330, "{ops} of 385");
}

#[test]
fn a_thief_with_as_much_credit_takes_a_slot_that_was_just_given_and_one_with_less_does_not() {
    let mut policy = running(3);
    assert_eq!(runs(&mut policy, P0, Why::Check, us(3_000)), B);
    assert!(!policy.steals(P0, A, us(3_001)), "it has 3 ms less");
    assert!(policy.steals(P0, C, us(3_001)));
    assert_eq!(runs(&mut policy, P0, Why::Free, us(3_002)), C);
    assert_eq!(policy.waiting(), 2);
    assert_eq!(policy.credit(B), RESET, "it has not run");
}

#[test]
fn a_vcpu_pays_for_what_it_ran_and_not_for_what_the_host_took() {
    let mut policy = running(2);
    policy.taken(P0, Nanos::from_micros(400));
    assert_eq!(runs(&mut policy, P0, Why::Check, us(1_300)), A, "0.9 ms are within the rate limit");
    assert_eq!(policy.credit(A), RESET - 900_000);
}

#[test]
fn the_same_guests_make_the_same_events() {
    let events = || {
        let mut machine = audited(two_caches(), 4, LONGEST_LEASE).traced().with_noise(7, 100);
        for nice in [0, 3, 0, 10, 0, -5, 0, 0, 0] {
            machine.start(of_nice(nice), Guest::yielder(Nanos::from_micros(700), Wait::Unknown), 0);
            machine.start(of_nice(nice), Guest::client(Nanos::from_micros(300), Nanos::from_millis(2)), 0);
        }
        machine.run(Nanos::from_millis(300));
        format!("{:?}", machine.trace())
    };
    let first = events();
    assert!(first.len() > 10_000);
    assert!(first == events(), "two runs differ");
}
