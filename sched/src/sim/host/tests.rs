//! The rules of the model, one by one; [`queue`](super::queue)'s arithmetic on the way.

use super::*;
use crate::sim::costs::Costs;
use crate::sim::guest::{Guest, Patience};
use crate::sim::machine::SimMachine;
use crate::wait::{Wait, Yield};
use proptest::prelude::*;

const COSTS: Costs = Costs {
    exit: Nanos(1_000),
    leave: Nanos::ZERO,
    switch: Nanos(1_000),
    kick: Nanos(3_000),
    wake: Nanos(3_000),
    hop: Nanos(50),
    migration: Nanos::ZERO,
    lock: Nanos::ZERO,
};
const YIELD: Why = Why::Yield(Yield { wait: Wait::Unknown, again: false });
/// A slice, up to the next tick, which comes late.
const LONGEST_LEASE: Nanos = Nanos::from_millis(8);

fn machine(slots: usize) -> SimMachine<HostModel> {
    SimMachine::new(HostModel::new(HostConfig::default(), slots), slots, COSTS)
}

fn of_nice(nice: i8) -> Attributes {
    Attributes { nice: Nice::new(nice).unwrap(), ..Attributes::default() }
}

fn start(machine: &mut SimMachine<HostModel>, guest: Guest) -> usize {
    machine.start(Attributes::default(), guest, 0)
}

#[test]
fn hogs_share_by_weight() {
    let mut machine = machine(1);
    let [full, third] = [0, 5].map(|nice| machine.start(of_nice(nice), Guest::Hog, 0));
    machine.run(Nanos::from_millis(20_000));
    let ratio = machine.record(full).run.0 as f64 / machine.record(third).run.0 as f64;
    assert!((ratio / (1024.0 / 335.0) - 1.0).abs() < 0.02, "{ratio}");
}

#[test]
fn turns_end_at_ticks() {
    let mut machine = machine(1);
    let all = [(); 3].map(|()| start(&mut machine, Guest::Hog));
    machine.run(Nanos::from_millis(1200));
    for v in all {
        let turn = machine.record(v).run.0 / machine.record(v).turns;
        assert!((3_900_000..4_100_000).contains(&turn), "{turn}");
    }
}

/// A model of one slot with these running or queued, in this order.
fn with(vcpus: u32) -> HostModel {
    let mut model = HostModel::new(HostConfig { late: Nanos::ZERO, ..HostConfig::default() }, 1);
    for vcpu in (0..vcpus).map(VcpuId) {
        model.add(vcpu, Attributes::default(), Time(0));
        let _ = model.wake(vcpu, Time(0));
    }
    assert_eq!(model.next(Slot(0), Why::Free, Time(0)).run.map(|lease| lease.vcpu), Some(VcpuId(0)));
    model
}

fn who(decision: Decision) -> u32 {
    decision.run.unwrap().vcpu.0
}

#[test]
fn a_yield_lets_others_through_and_a_lone_one_changes_nothing() {
    let mut model = with(1);
    let before = model.next(Slot(0), Why::Check, Time(1_000));
    assert_eq!(model.next(Slot(0), YIELD, Time(1_000)), before);
    let mut model = with(3);
    let turns: Vec<u32> = (1..=90).map(|us| who(model.next(Slot(0), YIELD, Time(us * 1_000)))).collect();
    assert_eq!(turns[..3], [1, 2, 0]);
    let of = |vcpu| turns.iter().filter(|&&turn| turn == vcpu).count();
    // A thread that has run a little too much gives up nothing by its yield, and comes again sooner.
    assert!((0..3).all(|vcpu| of(vcpu) >= 90 / 6), "{turns:?}");
}

#[test]
fn without_yields_nobody_is_let_through() {
    let mut model = HostModel::new(HostConfig { yields: false, ..HostConfig::default() }, 1);
    for vcpu in [VcpuId(0), VcpuId(1)] {
        model.add(vcpu, Attributes::default(), Time(0));
        let _ = model.wake(vcpu, Time(0));
    }
    let _ = model.next(Slot(0), Why::Free, Time(0));
    assert_eq!(who(model.next(Slot(0), YIELD, Time(1_000))), 0);
}

#[test]
fn who_wakes_does_not_take_the_pcpu_before_the_slice_is_over() {
    let mut model = with(2);
    assert_eq!(who(model.next(Slot(0), YIELD, Time(10_000))), 1);
    let _ = model.next(Slot(0), Why::Block, Time(20_000));
    assert_eq!(model.wake(VcpuId(1), Time(30_000)), Placement::Queue(None));
    assert_eq!(who(model.next(Slot(0), Why::Check, Time(40_000))), 0);
    // Between its deadline and the next tick, any thread that comes makes the kernel look.
    let _ = model.next(Slot(0), Why::Yield(Yield { wait: Wait::Unknown, again: false }), Time(50_000));
    let _ = model.next(Slot(0), Why::Block, Time(60_000));
    assert_eq!(model.wake(VcpuId(1), Time(3_500_000)), Placement::Preempt(Slot(0)));
}

#[test]
fn an_idle_pcpu_pulls_and_a_woken_thread_stays_behind_its_cache() {
    let caches: [&[usize]; 2] = [&[0, 1], &[2, 3]];
    let topology = Topology::new(&[0, 1, 2, 3], [], caches);
    let mut model = HostModel::new(HostConfig::default(), 4).with_topology(topology);
    let slots: Vec<Slot> = (0..6)
        .map(|v| {
            model.add(VcpuId(v), Attributes::default(), Time(0));
            let placement = model.wake(VcpuId(v), Time(0));
            let home = model.entity(VcpuId(v)).home.unwrap();
            if let Placement::Run(slot) = placement {
                let _ = model.next(slot, Why::Free, Time(0));
            }
            home
        })
        .collect();
    assert_eq!(model.waiting(), 2, "four run");
    let (sleeps, at) = (0, slots[0]);
    let pulled = model.next(at, Why::Block, Time(1_000));
    assert!(pulled.run.is_some() && model.waiting() == 1, "its own queue's or another's");
    // An idle pCPU behind another cache is none of its business.
    let far = (0..4).map(Slot).find(|slot| (slot.0 < 2) != (at.0 < 2)).unwrap();
    let _ = model.next(far, Why::Block, Time(2_000));
    let _ = model.next(far, Why::Block, Time(2_000));
    assert!(model.idle.contains(far));
    assert_eq!(model.wake(VcpuId(sleeps), Time(3_000)), Placement::Queue(None));
}

fn any_guest() -> impl Strategy<Value = Guest> {
    let us = |range: std::ops::Range<u64>| range.prop_map(Nanos::from_micros);
    prop_oneof![
        Just(Guest::Hog),
        us(20..3000).prop_map(|stretch| Guest::yielder(stretch, Wait::Unknown)),
        (us(1..200), us(1..200)).prop_map(|(hold, gap)| Guest::locker(hold, gap, Patience::Mute)),
        (0usize..6).prop_map(|peer| Guest::pinger(peer, Patience::Blocks)),
        (us(300..9000), us(10..1500)).prop_map(|(work, sleep)| Guest::client(work, sleep)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_guests_keep_every_invariant(
        slots in 1usize..=5,
        guests in prop::collection::vec((prop::sample::select(&[0i8, -20, -7, 3, 19][..]), any_guest(), 0u64..3000), 1..9),
    ) {
        let mut machine = machine(slots).audited(LONGEST_LEASE);
        for (nice, guest, apart) in guests {
            let v = machine.start(of_nice(nice), guest, 0);
            machine.world.post(v);
            machine.run(Nanos::from_micros(apart));
        }
        machine.run(Nanos::from_millis(100));
    }
}
