//! A run queue for each slot: vCPUs stay where they are, and no slot falls behind.

mod faults;

use super::harness::{audited, of_nice};
use crate::attributes::{Attributes, Class};
use crate::ids::Slot;
use crate::policy::Rsdl;
use crate::policy::rsdl::RsdlConfig;
use crate::sim::{Exchange, Guest, SimMachine};
use crate::time::Nanos;

fn machine(per_pcpu_queues: bool, slots: usize) -> SimMachine<Rsdl> {
    let config = RsdlConfig { per_pcpu_queues, ..RsdlConfig::default() };
    audited(Rsdl::new(config, slots), slots, Nanos::from_millis(1000))
}

/// Migrations in a second, after half a one, of sixteen servers and their clients.
fn migrations(per_pcpu_queues: bool) -> u64 {
    let micros = Nanos::from_micros;
    let exchange = |serves| Exchange { asks: micros(5), serves: micros(serves), takes: micros(15), bytes: 1_000 };
    let mut machine = machine(per_pcpu_queues, 2).with_traffic([7, 20, 31, 13, 40].map(exchange).into());
    let pairs: Vec<usize> = (0..32)
        .map(|v| {
            machine.start(of_nice(0), if v % 2 == 0 { Guest::server() } else { Guest::requester(v - 1, v as u32) }, 0)
        })
        .collect();
    machine.run(Nanos::from_millis(500));
    let moved = |machine: &SimMachine<Rsdl>| pairs.iter().map(|&v| machine.account(v).migrations).sum::<u64>();
    let before = moved(&machine);
    machine.run(Nanos::from_millis(1000));
    moved(&machine) - before
}

#[test]
fn pairs_that_wake_each_other_come_to_wait_for_one_slot_and_stay() {
    let (own, shared) = (migrations(true), migrations(false));
    assert!(own < 500 && 20 * own < shared, "{own} migrations, {shared} with one queue");
}

#[test]
fn a_slot_that_the_host_takes_again_and_again_keeps_no_hog_behind() {
    let mut machine = machine(true, 2);
    let hogs: Vec<usize> = (0..6).map(|_| machine.start(of_nice(0), Guest::Hog, 0)).collect();
    for _ in 0..200 {
        machine.run(Nanos::from_millis(25));
        machine.stall(Slot(1), Nanos::from_millis(25));
        machine.run(Nanos::from_millis(25));
    }
    let runs = || hogs.iter().map(|&v| machine.record(v).run.0);
    let (least, most) = (runs().min().unwrap(), runs().max().unwrap());
    assert!(most * 100 <= least * 103, "of slots of one CPU and of half a one, hogs had {least} to {most} ns");
}

#[test]
fn hogs_that_cannot_be_shared_out_evenly_have_equal_time() {
    for (hogs, slots) in [(3, 2), (5, 4), (10, 3), (13, 8)] {
        let mut machine = machine(true, slots);
        let all: Vec<usize> = (0..hogs).map(|_| machine.start(of_nice(0), Guest::Hog, 0)).collect();
        machine.run(Nanos::from_millis(10_000));
        let runs = || all.iter().map(|&v| machine.record(v).run.0);
        let (least, most) = (runs().min().unwrap(), runs().max().unwrap());
        assert!(most * 100 <= least * 103, "{hogs} hogs on {slots} slots: {least} to {most} ns");
    }
}

#[test]
fn two_of_class_idle_share_the_slot_that_the_others_leave_wherever_they_wait() {
    let idle = Attributes { class: Class::Idle, ..Attributes::default() };
    let normal = of_nice(0);
    for attributes in [[normal, idle, idle, normal, normal], [idle, normal, idle, normal, normal]] {
        let mut machine = machine(true, 4);
        let all = attributes.map(|attributes| (attributes.class, machine.start(attributes, Guest::Hog, 0)));
        machine.run(Nanos::from_millis(2000));
        let of_class = all.iter().filter(|(class, _)| *class == Class::Idle);
        let runs: Vec<u64> = of_class.map(|&(_, v)| machine.record(v).run.0).collect();
        let (least, most) = (runs[0].min(runs[1]), runs[0].max(runs[1]));
        assert!(least * 10 >= most * 9, "{runs:?}");
    }
}
