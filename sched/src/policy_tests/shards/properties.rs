//! What holds of queues and shards whatever the guests do: no slot idles beside a waiting vCPU, CPU time is shared out
//! by weight over all of them, none falls behind, and no yield gains.

use super::{COSTS, LONGEST_LEASE, Nanos, Rsdl, RsdlConfig, SimMachine, any_guest, cases, of_nice, plan, start_all};
use crate::attributes::{Attributes, Cap, Class, Group, GroupId};
use crate::ids::{Nice, VcpuId};
use crate::policy::Capped;
use crate::policy::rsdl::limits::DRIFT;
use crate::policy::rsdl::matrix::{LEVELS, Row, Variant};
use crate::policy::rsdl::{PoliteSwitches, YieldRule};
use crate::sim::{Costs, Guest};
use crate::wait::Wait;
use proptest::prelude::*;

const RR: Nanos = Nanos::from_millis(6);

/// How a machine is divided: slots, most of them in a shard, and whether each has a queue.
#[derive(Debug, Clone, Copy)]
struct Division {
    slots: usize,
    most: usize,
    queues: bool,
}

/// Divisions into several queues or several shards.
fn any_division() -> impl Strategy<Value = Division> {
    let of = |slots, most, queues| Division { slots, most, queues };
    prop_oneof![
        (2..=4usize).prop_map(move |slots| of(slots, slots, true)),
        (2..=5usize).prop_map(move |slots| of(slots, 1, false)),
        (any::<bool>(), prop_oneof![Just(4), Just(5), Just(6)]).prop_map(move |(queues, slots)| of(slots, 2, queues)),
    ]
}

impl Division {
    fn config(self, yield_rule: YieldRule) -> RsdlConfig {
        RsdlConfig { shares: self.most < self.slots, per_pcpu_queues: self.queues, yield_rule, ..RsdlConfig::default() }
    }

    fn machine(self, yield_rule: YieldRule) -> SimMachine<Rsdl> {
        let (plan, config) = (plan(self.slots, self.most), self.config(yield_rule));
        let slots = plan.shards().map(|shard| plan.slots(shard));
        let policies: Vec<_> = slots.map(|slots| Rsdl::new(config, slots.end.index() - slots.start.index())).collect();
        SimMachine::in_shards(policies, plan, Costs { lock: Nanos(400), ..COSTS }).audited(LONGEST_LEASE)
    }
}

fn polite() -> YieldRule {
    YieldRule::Polite(PoliteSwitches::default())
}

fn weight(nice: i8) -> u64 {
    Row::new(Nice::new(nice).unwrap(), RR, Variant::Dithered).per_rotation().0
}

fn runs(machine: &SimMachine<Rsdl>) -> Vec<u64> {
    (0..machine.vcpus()).map(|v| machine.record(v).run.0).collect()
}

proptest! {
    #![proptest_config(cases(48))]

    /// The machine checks after each step that no slot idles for longer than it takes to wake it, while a vCPU waits
    /// that may run there.
    #[test]
    fn no_slot_idles_while_a_vcpu_waits_that_may_run_there(
        division in any_division(),
        guests in prop::collection::vec(any_guest(), 1..14),
        (exit, switch, kick) in (100u64..3000, 0u64..20_000, 0u64..30_000),
    ) {
        let costs = Costs { exit: Nanos(exit), switch: Nanos(switch), kick: Nanos(kick), wake: Nanos(kick), ..COSTS };
        let mut machine = division.machine(polite()).with_costs(costs);
        start_all(&mut machine, &guests);
        machine.run(Nanos::from_millis(200));
    }

    #[test]
    fn no_slot_idles_while_a_vcpu_waits_that_its_cap_lets_run(
        division in any_division(),
        guests in prop::collection::vec((any_guest(), prop::option::of(0u32..2), 0u8..8), 1..12),
        per_mille in 50u64..1500,
    ) {
        let (plan, config) = (plan(division.slots, division.most), division.config(polite()));
        let policies: Vec<Capped> = plan.shards().map(|shard| {
            let slots = plan.slots(shard).end.index() - plan.slots(shard).start.index();
            Capped::new(Box::new(Rsdl::new(config, slots)), slots)
        }).collect();
        let mut machine = SimMachine::in_shards(policies, plan, COSTS).audited(Nanos::from_millis(1000));
        let period = Nanos::from_millis(50);
        let cap = Cap::new(Nanos(period.0 * per_mille / 1000), period).unwrap();
        for (guest, group, class) in &guests {
            let mut guest = guest.clone();
            if let Guest::Pinger { peer, .. } = &mut guest {
                *peer %= guests.len();
            }
            let group = group.map(|id| Group { id: GroupId(id), cap });
            let class = [Class::Rt, Class::Idle, Class::Batch].get(usize::from(*class)).copied();
            let v = machine.start(Attributes { class: class.unwrap_or_default(), group, ..Attributes::default() }, guest, 0);
            machine.world.post(v);
            machine.run(Nanos::from_micros(300));
        }
        machine.run(Nanos::from_millis(200));
    }

    #[test]
    fn hogs_get_their_weight_over_all_queues_within_two_percent_or_what_queues_may_drift_over_ten_rotations(
        division in any_division(),
        nices in prop::collection::vec(prop::sample::select(&[0i8, 5, 10][..]), 1..4),
        apart in 0u64..20_000,
    ) {
        // Each nice value occurs as often as there are slots, and one more: no vCPU's weight is above a slot.
        let nices: Vec<i8> = nices.repeat(division.slots + 1);
        let mut machine = division.machine(polite());
        for &nice in &nices {
            machine.start(of_nice(nice), Guest::Hog, 0);
            machine.run(Nanos::from_micros(apart));
        }
        let weights: u64 = nices.iter().map(|&nice| weight(nice)).sum();
        let rotations = Nanos(10 * weights / division.slots as u64);
        // vCPUs that were there before the others have run ahead of them by a quota or so.
        machine.run(Nanos(rotations.0 / 10));
        let before = runs(&machine);
        machine.run(rotations);
        let ran: Vec<u64> = runs(&machine).iter().zip(before).map(|(after, before)| after - before).collect();
        let all: u64 = ran.iter().sum();
        for (v, &nice) in nices.iter().enumerate() {
            let due = all * weight(nice) / weights;
            // At each end: a quota under way; the stairs from which a slot takes a vCPU from elsewhere; and a lease
            // until a slot looks there.
            let stair = weight(nice) / LEVELS;
            let may_differ = (due / 50).max(2 * (2 * RR.0 + (DRIFT + 1) * stair));
            prop_assert!(ran[v].abs_diff(due) <= may_differ, "v{v} of nice {nice} got {} of {due}", ran[v]);
        }
    }

    #[test]
    fn no_queue_falls_behind_another(
        division in any_division(),
        hogs in 1usize..5,
        more in 0usize..5,
    ) {
        let mut machine = division.machine(polite());
        let hogs = hogs * division.slots + more + 1;
        (0..hogs).for_each(|_| _ = machine.start(of_nice(0), Guest::Hog, 0));
        machine.run(Nanos::from_millis(500));
        let start = runs(&machine);
        let (mut worst, mut at) = (0, 0);
        for ms in 0..1000 {
            machine.run(Nanos::from_millis(5));
            let ran: Vec<u64> = runs(&machine).iter().zip(&start).map(|(now, start)| now - start).collect();
            let apart = ran.iter().max().unwrap() - ran.iter().min().unwrap();
            if apart > worst {
                (worst, at) = (apart, ms);
            }
        }
        // How far a vCPU may stand from those that wake up, as it comes from another queue; and at both ends a lease
        // that is under way. Where shards have several queues, these drift apart as well.
        let quotas = 6 + 2 * u64::from(division.queues && division.most < division.slots);
        prop_assert!(worst <= quotas * RR.0, "{} us apart at {at}", worst / 1000);
    }

    #[test]
    fn no_yield_gains_over_hogs_of_any_queue(
        division in any_division(),
        yielders in prop::collection::vec((20u64..9000, any_wait()), 1..5),
        rule in prop_oneof![1 => Just(YieldRule::None), 1 => Just(YieldRule::Expire), 3 => Just(polite())],
    ) {
        let mut machine = division.machine(rule);
        for (stretch, says) in &yielders {
            machine.start(of_nice(0), Guest::yielder(Nanos::from_micros(*stretch), *says), 0);
        }
        let hogs = yielders.len() + division.slots;
        (0..hogs).for_each(|_| _ = machine.start(of_nice(0), Guest::Hog, 0));
        machine.run(Nanos::from_millis(3000));
        let ran = runs(&machine);
        let most = *ran[yielders.len()..].iter().max().unwrap();
        for (v, ran) in ran[..yielders.len()].iter().enumerate() {
            prop_assert!(*ran <= most + 7 * RR.0 / 2, "v{v} gained: {ran}, a hog {most}");
        }
    }
}

/// What a yielder may say: it names a neighbour, itself, or one that never lived.
fn any_wait() -> impl Strategy<Value = Wait> {
    let somebody = prop_oneof![8 => 0u32..12, 1 => Just(1 << 20)].prop_map(VcpuId);
    prop_oneof![Just(Wait::Unknown), somebody.clone().prop_map(Wait::Lock), somebody.prop_map(Wait::Message)]
}

#[test]
fn a_yield_to_one_that_hardly_runs_gains_no_slot_of_its_own() {
    // The last one names a vCPU that does not live.
    let yields = [(6286, Wait::Message(VcpuId(5))), (3801, Wait::Message(VcpuId(2))), (124, Wait::Lock(VcpuId(11)))];
    gains_nothing(Division { slots: 5, most: 1, queues: false }, &yields);
}

#[test]
fn a_vcpu_that_yields_often_gains_nothing_by_moving_others_about() {
    gains_nothing(Division { slots: 4, most: 2, queues: false }, &[(199, Wait::Unknown)]);
}

/// No yielder is ahead of the hogs at any time, of which there is one more for each slot.
fn gains_nothing(division: Division, yielders: &[(u64, Wait)]) {
    let mut machine = division.machine(polite());
    for &(stretch, says) in yielders {
        machine.start(of_nice(0), Guest::yielder(Nanos::from_micros(stretch), says), 0);
    }
    (0..yielders.len() + division.slots).for_each(|_| _ = machine.start(of_nice(0), Guest::Hog, 0));
    for _ in 0..500 {
        machine.run(Nanos::from_millis(20));
        let ran = runs(&machine);
        let (yielders, hogs) = ran.split_at(yielders.len());
        let (ahead, most) = (*yielders.iter().max().unwrap(), *hogs.iter().max().unwrap());
        assert!(ahead <= most + 7 * RR.0 / 2, "{} us ahead of the hogs", (ahead - most) / 1000);
    }
}
