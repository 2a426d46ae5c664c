//! The machine itself, under policies whose answers are known.

mod room;

use super::costs::Costs;
use super::guest::{Guest, Patience};
use super::machine::SimMachine;
use crate::attributes::Attributes;
use crate::ledger::Event;
use crate::policy::rsdl::RsdlConfig;
use crate::policy::{Freelist, Policy, Rsdl};
use crate::time::Nanos;
use crate::wait::Wait;

const RR: Nanos = Nanos::from_millis(6);
const COSTS: Costs = Costs {
    exit: Nanos(1_000),
    leave: Nanos::ZERO,
    switch: Nanos(500),
    kick: Nanos(3_000),
    wake: Nanos(4_000),
    hop: Nanos(100),
    migration: Nanos::ZERO,
    lock: Nanos::ZERO,
};

fn rsdl(slots: usize) -> SimMachine<Rsdl> {
    SimMachine::new(Rsdl::new(RsdlConfig::default(), slots), slots, COSTS)
}

fn start<P: Policy>(machine: &mut SimMachine<P>, guest: Guest) -> usize {
    machine.start(Attributes::default(), guest, 0)
}

fn locker() -> Guest {
    Guest::locker(Nanos::from_micros(2), Nanos::from_micros(5), Patience::Hints)
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let trace = |seed: u64| -> Vec<Event> {
        let mut machine = rsdl(3).with_noise(seed, 50).traced();
        (0..7).for_each(|_| _ = start(&mut machine, locker()));
        start(&mut machine, Guest::prober(Nanos::from_micros(700), Nanos::from_micros(50)));
        machine.run(Nanos::from_millis(30));
        machine.trace().to_vec()
    };
    let first = trace(1);
    assert!(first.len() > 100 && first == trace(1));
    assert!(first != trace(2));
}

#[test]
fn a_lone_vcpu_pays_for_its_start_and_then_only_works() {
    let mut machine = rsdl(1);
    let hog = start(&mut machine, Guest::Hog);
    machine.run(Nanos::from_millis(10));
    let record = machine.record(hog);
    assert_eq!(record.longest_wait, COSTS.wake);
    assert_eq!(record.run, Nanos::from_millis(10) - COSTS.wake);
    assert_eq!(record.worked, record.run - COSTS.exit - COSTS.switch);
    assert_eq!((record.turns, record.exits), (1, 0));
}

#[test]
fn what_another_pcpu_wrote_is_seen_a_hop_later() {
    let mut machine = rsdl(2);
    let work = Nanos::from_micros(2);
    let [a, b] = [1, 0].map(|peer| start(&mut machine, Guest::pinger(peer, Patience::Hints)));
    machine.world.post(a);
    machine.run(Nanos::from_millis(10));
    machine.forget_waits();
    let before = machine.world.ops_of(&[a, b]);
    machine.run(Nanos::from_millis(10));
    let per_letter = Nanos::from_millis(10).0 / (machine.world.ops_of(&[a, b]) - before);
    assert!(per_letter.abs_diff(work.0 + COSTS.hop.0) <= 1, "{per_letter}");
    let (wait, _) = machine.world.waits_of(0).max().unwrap();
    assert!(wait.0.abs_diff(work.0 + 2 * COSTS.hop.0) <= wait.0 / 50, "{wait:?}");
}

#[test]
fn a_wait_beyond_its_bound_is_noticed_when_it_ends_and_while_it_lasts() {
    for (span, least) in [(Nanos::from_millis(5), 1), (Nanos::from_millis(40), 3)] {
        let mut machine = SimMachine::new(Freelist::new(RR, 1), 1, COSTS);
        let all = [(); 2].map(|()| start(&mut machine, Guest::Hog));
        all.into_iter().for_each(|v| machine.bound(v, Nanos::from_millis(2)));
        machine.run(span);
        let (late, count) = machine.late();
        assert!(count >= least && late.iter().all(|late| late.waited > late.bound), "{count}: {late:?}");
        all.into_iter().for_each(|v| machine.bound(v, RR + RR));
    }
}

#[test]
fn a_request_is_answered_and_counted_with_its_bytes() {
    let exchange = super::Exchange {
        asks: Nanos::from_micros(3),
        serves: Nanos::from_micros(10),
        takes: Nanos::from_micros(2),
        bytes: 512,
    };
    let mut machine = rsdl(1).with_traffic([exchange].into());
    let server = start(&mut machine, Guest::server());
    let client = start(&mut machine, Guest::requester(server, 0));
    machine.run(Nanos::from_millis(10));
    let (asked, answered) = (machine.world.gauges[client], machine.world.gauges[server].ops);
    assert!(asked.ops > 100 && answered.abs_diff(asked.ops) <= 1);
    assert_eq!(asked.bytes, 512 * asked.ops);
    let (least, _) = machine.world.waits_of(0).min().unwrap();
    assert!(least >= Nanos::from_micros(15), "{least:?}");
}

#[test]
fn a_late_probe_hides_none_of_the_next_ones() {
    let (period, work) = (Nanos::from_millis(5), Nanos::from_micros(200));
    let mut machine = rsdl(1);
    let probe = start(&mut machine, Guest::prober(period, work));
    let begun = machine.now();
    machine.run(Nanos::from_millis(502));
    assert_eq!(machine.world.gauges[probe].ops, 100);
    assert_eq!(machine.now(), begun + Nanos::from_millis(502));
}

#[test]
fn any_number_of_slots_up_to_512_can_be_driven() {
    for slots in [1, 2, 4, 8, 16, 64, 512] {
        let mut machine = rsdl(slots);
        (0..2 * slots).for_each(|_| _ = start(&mut machine, Guest::Hog));
        machine.run(Nanos::from_millis(50));
        let ran: u64 = (0..2 * slots).map(|v| machine.record(v).run.0).sum();
        assert!(ran as f64 > 0.99 * 50e6 * slots as f64, "{slots}");
    }
}

#[test]
fn no_more_is_decided_than_the_lock_lets_through() {
    let (slots, section) = (16, Nanos::from_micros(10));
    let costs = Costs { lock: section, leave: Nanos(400), ..COSTS };
    let mut machine = rsdl(slots).with_costs(costs).audited(Nanos::from_millis(20));
    for _ in 0..4 * slots {
        start(&mut machine, Guest::yielder(Nanos::from_micros(20), Wait::Unknown));
    }
    let before = machine.decisions();
    machine.run(Nanos::from_millis(100));
    let decided = machine.decisions() - before;
    assert!((9_000..=10_001).contains(&decided), "{decided}");
}

#[test]
fn an_event_that_comes_while_its_vcpu_is_on_the_way_out_is_not_lost() {
    let costs = Costs { leave: Nanos(900), lock: Nanos::from_micros(3), ..COSTS };
    let mut machine = rsdl(2).with_costs(costs).audited(Nanos::from_millis(20));
    let pair = [1, 0].map(|peer| start(&mut machine, Guest::pinger(peer, Patience::Blocks)));
    machine.world.post(pair[0]);
    machine.run(Nanos::from_millis(100));
    assert!(machine.world.ops_of(&pair) > 2_000, "{}", machine.world.ops_of(&pair));
}
