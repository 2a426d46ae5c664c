//! Chat rooms under several policies.

use crate::attributes::Attributes;
use crate::ledger::Event;
use crate::policy::goodness::{LONGEST_LEASE, YieldBugs};
use crate::policy::rsdl::RsdlConfig;
use crate::policy::{Freelist, Goodness, Policy, Rsdl};
use crate::sim::costs::Costs;
use crate::sim::guest::{Chatter, Guest, Manners, Patience};
use crate::sim::machine::SimMachine;
use crate::sim::message_queue::MessageQueue;
use crate::sim::room::{Room, THREADS};
use crate::time::{Nanos, Time};
use proptest::prelude::*;

const COSTS: Costs = Costs {
    exit: Nanos(25_000),
    leave: Nanos(12_000),
    switch: Nanos(150),
    kick: Nanos(25_000),
    wake: Nanos(28_000),
    hop: Nanos(42),
    migration: Nanos::ZERO,
    lock: Nanos(460),
};
const MANNERS: Manners = Manners { spin: Nanos(5_000), patience: Patience::Hints };
/// Longer than any of these rooms takes.
const LIMIT: Nanos = Nanos::from_millis(60_000);

/// A machine, new so far, whose rooms have begun.
fn began<P: Policy>(machine: SimMachine<P>, seed: u64, rooms: &[(u32, u32)]) -> SimMachine<P> {
    let mut machine = machine.with_noise(seed, 50);
    for (n, &(users, messages)) in rooms.iter().enumerate() {
        machine.world.rooms.push(Room::new(machine.vcpus(), users, messages));
        for number in 0..THREADS * users as usize {
            machine.start(Attributes::default(), Guest::chatter(Chatter::new(n, number, MANNERS)), 0);
        }
    }
    machine.run(Nanos::from_millis(100));
    machine.open_gates();
    machine
}

fn machine<P: Policy>(policy: P, slots: usize, seed: u64, rooms: &[(u32, u32)]) -> SimMachine<P> {
    began(SimMachine::new(policy, slots, COSTS), seed, rooms)
}

/// Lets the rooms come to their end; how long they took.
fn finish<P: Policy>(machine: &mut SimMachine<P>) -> Nanos {
    let begun = machine.now();
    while machine.world.ended().is_none() && machine.now().since(begun) < LIMIT {
        machine.run(Nanos::from_millis(1));
    }
    machine.world.ended().expect("nobody waits in vain").since(begun)
}

fn delivers_all<P: Policy>(mut machine: SimMachine<P>) -> Result<(), TestCaseError> {
    finish(&mut machine);
    for room in &machine.world.rooms {
        let vcpus: Vec<usize> = room.vcpus().collect();
        prop_assert_eq!(machine.world.ops_of(&vcpus), room.deliveries());
        for clients in vcpus.chunks(THREADS).map(|user| user[THREADS - 1]) {
            let due = u64::from(room.users - 1) * u64::from(room.messages);
            prop_assert_eq!(machine.world.gauges[clients].ops, due, "each client hears all others");
        }
        prop_assert!(room.queues.iter().all(MessageQueue::is_at_rest));
    }
    Ok(())
}

fn rsdl(slots: usize) -> Rsdl {
    Rsdl::new(RsdlConfig::default(), slots)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_message_is_delivered_once_and_in_order_whoever_runs(
        rooms in prop::collection::vec((2u32..6, 1u32..60), 1..3),
        slots in 1usize..6,
        seed: u64,
    ) {
        let bugs = YieldBugs { yield_recalculates: true, yield_bounces: true };
        delivers_all(machine(rsdl(slots), slots, seed, &rooms).audited(LONGEST_LEASE))?;
        delivers_all(machine(Freelist::new(LONGEST_LEASE, slots), slots, seed, &rooms).audited(LONGEST_LEASE))?;
        delivers_all(machine(Goodness::new(bugs, slots), slots, seed, &rooms).audited(LONGEST_LEASE))?;
    }
}

#[test]
fn lines_that_fill_up_lose_nothing() {
    for slots in [1, 2, 4] {
        delivers_all(machine(rsdl(slots), slots, 1, &[(3, 1_000)])).unwrap();
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let trace = |seed| -> Vec<Event> {
        let mut machine = began(SimMachine::new(rsdl(2), 2, COSTS).traced(), seed, &[(4, 20)]);
        finish(&mut machine);
        machine.trace().to_vec()
    };
    let first = trace(1);
    assert!(first.len() > 100 && first == trace(1));
    assert!(first != trace(2));
}

#[test]
fn with_the_yield_bugs_of_2_4_a_room_takes_many_times_as_long_as_under_rsdl() {
    let bugs = YieldBugs { yield_recalculates: true, yield_bounces: true };
    let bugs = finish(&mut machine(Goodness::new(bugs, 2), 2, 1, &[(8, 100)]));
    let rsdl = finish(&mut machine(rsdl(2), 2, 1, &[(8, 100)]));
    assert!(bugs.0 > 5 * rsdl.0, "{bugs:?} {rsdl:?}");
}

#[test]
fn nobody_begins_before_the_gate_opens() {
    let mut machine = SimMachine::new(rsdl(2), 2, COSTS);
    machine.world.rooms.push(Room::new(0, 2, 1));
    (0..2 * THREADS).for_each(|number| {
        _ = machine.start(Attributes::default(), Guest::chatter(Chatter::new(0, number, MANNERS)), 0);
    });
    machine.run(Nanos::from_millis(10));
    let exits = machine.totals().exits;
    machine.run(Nanos::from_millis(10));
    assert_eq!((machine.totals().exits, machine.world.ended()), (exits, None));
    machine.open_gates();
    assert!(finish(&mut machine) < Nanos::from_millis(10) && machine.now() > Time(0));
}
