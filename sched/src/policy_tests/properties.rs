//! What holds of the policies whatever the guests do.
//!
//! [`events`] sends random events, sense or no sense; [`caps`] holds groups of guests to their caps; this file runs
//! random guests on the [`SimMachine`], which checks every step by itself.

mod caps;
mod events;

use super::harness::{COSTS, audited, cases, of_nice};
use crate::attributes::{Attributes, Class};
use crate::ids::{Nice, VcpuId};
use crate::policy::goodness::{self, YieldBugs};
use crate::policy::rsdl::matrix::Row;
use crate::policy::rsdl::{PoliteSwitches, RsdlConfig, Variant, YieldRule, rt, wait_bound};
use crate::policy::{BUILT_IN, BuiltIn, Credit2, Goodness, Policy, Rsdl, credit2};
use crate::sim::guest::Patience;
use crate::sim::{Costs, Guest, SimMachine};
use crate::time::Nanos;
use crate::topology::Topology;
use crate::wait::Wait;
use proptest::prelude::*;

const RR: Nanos = Nanos::from_millis(6);

fn rsdl(yield_rule: YieldRule, per_pcpu_queues: bool, slots: usize) -> Rsdl {
    Rsdl::new(RsdlConfig { yield_rule, per_pcpu_queues, ..RsdlConfig::default() }, slots)
}

fn any_policy() -> impl Strategy<Value = BuiltIn> {
    prop::sample::select(BUILT_IN)
}

fn row(nice: i8) -> Row {
    Row::new(Nice::new(nice).unwrap(), RR, Variant::Dithered)
}

fn any_switches() -> impl Strategy<Value = PoliteSwitches> {
    any::<[bool; 12]>().prop_map(|on| PoliteSwitches {
        directed: on[0],
        keep_place: on[1],
        prefer_computing: on[2],
        evict_for_peer: on[3],
        pair_lockers: on[4],
        stay_with_running_peer: on[5],
        forgive: on[6],
        order_by_progress: on[7],
        guess_peer: on[8],
        break_lockstep: on[9],
        strict: on[10],
        tell_presence: on[11],
    })
}

fn any_rule() -> impl Strategy<Value = YieldRule> {
    prop_oneof![Just(YieldRule::None), Just(YieldRule::Expire), any_switches().prop_map(YieldRule::Polite)]
}

fn any_bugs() -> impl Strategy<Value = YieldBugs> {
    any::<[bool; 2]>().prop_map(|[yield_recalculates, yield_bounces]| YieldBugs { yield_recalculates, yield_bounces })
}

fn polite() -> impl Strategy<Value = YieldRule> {
    prop_oneof![Just(PoliteSwitches::default()), any_switches()].prop_map(YieldRule::Polite)
}

/// The vCPU that a guest may name: a neighbour, itself, one that never lived.
fn any_wait() -> impl Strategy<Value = Wait> {
    let somebody = prop_oneof![8 => 0u32..12, 1 => Just(1 << 20)].prop_map(VcpuId);
    prop_oneof![
        Just(Wait::Unknown),
        Just(Wait::Spin),
        somebody.clone().prop_map(Wait::Lock),
        somebody.prop_map(Wait::Message)
    ]
}

fn any_guest() -> impl Strategy<Value = Guest> {
    let us = |range: std::ops::Range<u64>| range.prop_map(Nanos::from_micros);
    let patience = prop_oneof![Just(Patience::Hints), Just(Patience::Mute), Just(Patience::Seen)];
    let any_patience = prop_oneof![patience.clone(), Just(Patience::Blocks)];
    prop_oneof![
        Just(Guest::Hog),
        (us(20..3000), any_wait()).prop_map(|(stretch, says)| Guest::yielder(stretch, says)),
        (us(1..200), us(1..200), patience).prop_map(|(hold, gap, patience)| Guest::locker(hold, gap, patience)),
        (0usize..8, any_patience).prop_map(|(peer, patience)| Guest::pinger(peer, patience)),
        (us(300..9000), us(10..1500)).prop_map(|(period, work)| Guest::prober(period, work)),
    ]
}

/// Starts these guests, some time apart. A pinger's peer is the guest of that number.
fn start_all<P: Policy>(machine: &mut SimMachine<P>, guests: &[(i8, Guest, u64)]) {
    for (nice, guest, apart) in guests {
        let attributes = Attributes { nice: Nice::new(*nice).unwrap(), ..Attributes::default() };
        start_one(machine, guest, attributes, guests.len(), *apart);
    }
}

/// Starts a guest, one of so many, and lets so many microseconds pass.
fn start_one<P: Policy>(machine: &mut SimMachine<P>, guest: &Guest, attributes: Attributes, of: usize, apart: u64) {
    let mut guest = guest.clone();
    if let Guest::Pinger { peer, .. } = &mut guest {
        *peer %= of;
    }
    let v = machine.start(attributes, guest, 0);
    machine.world.post(v);
    machine.run(Nanos::from_micros(apart));
}

fn any_guests(nice: &'static [i8]) -> impl Strategy<Value = Vec<(i8, Guest, u64)>> {
    prop::collection::vec((prop::sample::select(nice), any_guest(), 0u64..3000), 1..9)
}

/// What two vCPUs of equal weight may differ by at any moment: a quota, how far a named one may be let ahead, and the
/// lease under way.
const QUOTA_OR_SO: u64 = 7 * RR.0 / 2;

/// A lease is at most the rest of a quota, less than half, and another.
const LONGEST_LEASE: Nanos = Nanos(RR.0 / 2 * 3);

/// Kicks and switches that were under way.
const SLACK: Nanos = Nanos::from_micros(100);

/// The part of the time that switches take, which are charged to nobody: one in this many.
const SWITCHING: u64 = 50;

/// The bound of a vCPU beside these others, and what switches and kicks may add to it.
fn longest_wait(
    yield_rule: YieldRule,
    per_pcpu_queues: bool,
    me: Attributes,
    others: &[Attributes],
    slots: usize,
) -> Option<Nanos> {
    let config = RsdlConfig { yield_rule, per_pcpu_queues, ..RsdlConfig::default() };
    wait_bound(&config, me, others, slots).map(|bound| Nanos(bound.0 + bound.0 / SWITCHING) + SLACK)
}

fn any_class() -> impl Strategy<Value = Class> {
    prop_oneof![6 => Just(Class::Normal), 1 => Just(Class::Batch), 1 => Just(Class::Idle), 1 => Just(Class::Rt)]
}

/// Positive nice values weigh 20 less the value, so weights of 1:2:4 are nice 16, 12 and 4, or 18, 16 and 12.
#[test]
fn vms_of_weights_1_2_and_4_get_cpu_time_in_that_ratio() {
    let cases = [([16, 12, 4], 1), ([18, 16, 12], 1), ([16, 12, 4], 2)];
    for ((nices, vcpus), per_pcpu) in cases.iter().flat_map(|&case| [(case, false), (case, true)]) {
        let mut machine = audited(rsdl(YieldRule::Expire, per_pcpu, vcpus), vcpus, LONGEST_LEASE);
        let vms = nices.map(|nice| (0..vcpus).map(|_| machine.start(of_nice(nice), Guest::Hog, 0)).collect());
        machine.run(Nanos::from_millis(10_000));
        let run = vms.map(|vm: Vec<usize>| vm.iter().map(|&v| machine.record(v).run.0 as f64).sum::<f64>());
        let unit = run.iter().sum::<f64>() / 7.0;
        for (run, weight) in run.iter().zip([1.0, 2.0, 4.0]) {
            let ratio = run / unit / weight;
            assert!((0.98..=1.02).contains(&ratio), "nice {nices:?}: {ratio} of a weight of {weight}");
        }
    }
}

proptest! {
    #![proptest_config(cases(48 * BUILT_IN.len() as u32))]

    #[test]
    fn any_guests_keep_every_invariant_under_any_policy(
        policy in any_policy(),
        slots in 1usize..=5,
        guests in any_guests(&[0, -20, -7, 3, 19]),
    ) {
        let mut machine = audited((policy.new)(slots), slots, policy.longest_lease);
        start_all(&mut machine, &guests);
        machine.run(Nanos::from_millis(400));
    }
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn any_guests_keep_every_invariant_under_any_rule(
        per_pcpu: bool,
        slots in 1usize..=5,
        guests in any_guests(&[0, -20, -7, 3, 19]),
        rule in any_rule(),
        (exit, switch, kick) in (100u64..3000, 0u64..20_000, 0u64..30_000),
    ) {
        let costs = Costs { exit: Nanos(exit), switch: Nanos(switch), kick: Nanos(kick), wake: Nanos(kick), ..COSTS };
        let mut machine = audited(rsdl(rule, per_pcpu, slots), slots, Nanos(row(-20).quota.0 / 2 * 3)).with_costs(costs);
        start_all(&mut machine, &guests);
        machine.run(Nanos::from_millis(100));
    }

    #[test]
    fn any_guests_keep_every_invariant_under_credit2(
        slots in 1usize..=5,
        guests in any_guests(&[0, -20, -7, 3, 19]),
    ) {
        let cpus: Vec<usize> = (0..slots).collect();
        let topology = Topology::new(&cpus, [], [&cpus[..slots / 2], &cpus]);
        let mut machine = audited(Credit2::new(slots).with_topology(&topology), slots, credit2::LONGEST_LEASE);
        start_all(&mut machine, &guests);
        machine.run(Nanos::from_millis(200));
    }

    #[test]
    fn any_guests_keep_every_invariant_under_goodness(
        slots in 1usize..=5,
        guests in any_guests(&[0, -20, -7, 3, 19]),
        bugs in any_bugs(),
    ) {
        let mut machine = audited(Goodness::new(bugs, slots), slots, goodness::LONGEST_LEASE);
        start_all(&mut machine, &guests);
        machine.run(Nanos::from_millis(100));
    }

    #[test]
    fn nobody_waits_longer_than_the_bound(
        per_pcpu: bool,
        slots in 1usize..=4,
        guests in prop::collection::vec((any_guest(), prop::sample::select(&[0i8, 0, 0, 5, 10, 19][..]), any_class()), 1..9),
        apart in 0u64..3000,
        rule in prop_oneof![1 => Just(YieldRule::None), 1 => Just(YieldRule::Expire), 3 => polite()],
    ) {
        let mut machine = audited(rsdl(rule, per_pcpu, slots), slots, rt::FULL);
        let all: Vec<Attributes> = guests
            .iter()
            .map(|&(_, nice, class)| Attributes { nice: Nice::new(nice).unwrap(), class, group: None })
            .collect();
        for ((guest, ..), &attributes) in guests.iter().zip(&all) {
            start_one(&mut machine, guest, attributes, guests.len(), apart);
        }
        machine.run(Nanos::from_millis(2000));
        for (v, &me) in all.iter().enumerate() {
            let others: Vec<Attributes> = [&all[..v], &all[v + 1..]].concat();
            let wait = machine.record(v).longest_wait;
            if let Some(bound) = longest_wait(rule, per_pcpu, me, &others, slots) {
                prop_assert!(wait <= bound, "v{v}, {me:?}, waited {wait:?}, the bound is {bound:?}");
            }
        }
    }

    #[test]
    fn hogs_get_their_weight_within_two_percent_over_ten_rotations(
        per_pcpu: bool,
        slots in 1usize..=3,
        nices in prop::collection::vec(prop::sample::select(&[0i8, 5, 10][..]), 1..5),
        apart in 0u64..20_000,
        kick in 0u64..60_000,
    ) {
        // Each nice value occurs as often as there are slots, and one more: no vCPU's weight is above a slot.
        let nices: Vec<i8> = nices.repeat(slots + 1);
        let mut machine = audited(rsdl(YieldRule::Expire, per_pcpu, slots), slots, LONGEST_LEASE)
            .with_costs(Costs { kick: Nanos(kick), ..COSTS });
        for &nice in &nices {
            machine.start(of_nice(nice), Guest::Hog, 0);
            machine.run(Nanos::from_micros(apart));
        }
        let weights: u64 = nices.iter().map(|&nice| row(nice).per_rotation().0).sum();
        let rotations = Nanos(10 * weights / slots as u64);
        // vCPUs that were there before the others have run ahead of them by a quota or so.
        machine.run(Nanos(rotations.0 / 10));
        let before: Vec<u64> = (0..nices.len()).map(|v| machine.record(v).run.0).collect();
        machine.run(rotations);
        for (v, &nice) in nices.iter().enumerate() {
            let due = 10.0 * row(nice).per_rotation().0 as f64;
            let ratio = (machine.record(v).run.0 - before[v]) as f64 / due;
            prop_assert!((0.98..=1.02).contains(&ratio), "v{v} of nice {nice} got {ratio} of its weight");
        }
    }

    #[test]
    fn what_a_vcpu_ran_is_the_quotas_of_the_stairs_it_left(
        per_pcpu: bool,
        slots in 1usize..=3,
        nices in prop::collection::vec(prop::sample::select(&[-7i8, 0, 5, 10][..]), 1..5),
        variant in prop::sample::select(vec![Variant::Dithered, Variant::LevelQuota]),
        spans in prop::collection::vec(1u64..40_000, 1..30),
    ) {
        let nices: Vec<i8> = nices.repeat(slots + 1);
        let config = RsdlConfig { variant, least_quota: RR, per_pcpu_queues: per_pcpu, ..RsdlConfig::default() };
        let mut machine = audited(Rsdl::new(config, slots), slots, Nanos(row(-7).quota.0 / 2 * 3));
        nices.iter().for_each(|&nice| _ = machine.start(of_nice(nice), Guest::Hog, 0));
        let at = |machine: &SimMachine<Rsdl>, v: usize| {
            let (stair, used) = machine.policy().position(VcpuId(v as u32));
            (stair, used.0, machine.record(v).run.0)
        };
        let before: Vec<_> = (0..nices.len()).map(|v| at(&machine, v)).collect();
        for span in spans {
            machine.run(Nanos::from_micros(span));
            for v in (0..nices.len()).filter(|&v| machine.is_queued(v)) {
                let (row, (from, used, run)) = (Row::new(Nice::new(nices[v]).unwrap(), RR, variant), before[v]);
                let (to, used_now, run_now) = at(&machine, v);
                let left = (from..to).filter(|&stair| row.at_or_after(stair) == stair).count() as u64;
                prop_assert_eq!(run_now - run + used, left * row.quota.0 + used_now, "v{} from {} to {}", v, from, to);
            }
        }
    }

    #[test]
    fn a_polite_yielder_gets_turn_for_turn_with_hogs_and_not_more(
        per_pcpu: bool,
        slots in 1usize..=3,
        yielders in prop::collection::vec((20u64..9000, any_wait()), 1..5),
        rule in polite(),
    ) {
        let mut machine = audited(rsdl(rule, per_pcpu, slots), slots, LONGEST_LEASE);
        for (stretch, says) in &yielders {
            machine.start(of_nice(0), Guest::yielder(Nanos::from_micros(*stretch), *says), 0);
        }
        let hogs: Vec<usize> = (0..yielders.len() + slots).map(|_| machine.start(of_nice(0), Guest::Hog, 0)).collect();
        machine.run(Nanos::from_millis(3000));
        let run = |v: usize| machine.record(v).run.0;
        let (least, most) = (hogs.iter().map(|&v| run(v)).min().unwrap(), hogs.iter().map(|&v| run(v)).max().unwrap());
        // A lease that follows a yield late in another is at least half a quota: of three turns two may be such halves.
        // With a queue for each slot, and a rule other than the default, hogs on other slots gain from that: 0.60 of a
        // hog's time was seen, beside four hogs on three slots with all switches off.
        let is_default = rule == YieldRule::Polite(PoliteSwitches::default());
        let part = if is_default || !per_pcpu { 0.66 } else { 0.5 };
        for (v, (stretch, _)) in yielders.iter().enumerate() {
            let turn = (Nanos::from_micros(*stretch).0 as f64 / RR.0 as f64).min(1.0);
            prop_assert!(run(v) <= most + QUOTA_OR_SO, "v{v} gained: {}, a hog {most}", run(v));
            prop_assert!(run(v) as f64 >= part * turn * least as f64, "v{v} lost turns: {}, a hog {least}", run(v));
        }
    }

    #[test]
    fn no_yield_gains_under_any_rule(
        per_pcpu: bool,
        slots in 1usize..=3,
        (stretch, says) in (20u64..4000, any_wait()),
        rule in any_rule(),
    ) {
        let mut machine = audited(rsdl(rule, per_pcpu, slots), slots, LONGEST_LEASE);
        machine.start(of_nice(0), Guest::yielder(Nanos::from_micros(stretch), says), 0);
        let hogs: Vec<usize> = (0..2 * slots).map(|_| machine.start(of_nice(0), Guest::Hog, 0)).collect();
        machine.run(Nanos::from_millis(1500));
        let most = hogs.iter().map(|&v| machine.record(v).run.0).max().unwrap();
        prop_assert!(machine.record(0).run.0 <= most + QUOTA_OR_SO, "{:?} beside {most}", machine.record(0));
    }
}
