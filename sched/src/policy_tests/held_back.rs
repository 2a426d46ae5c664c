//! vCPUs that a cap holds back beside others: they give way as others do, and others keep their shares.

use super::harness::{audited, cases, of_nice};
use crate::attributes::{Attributes, Cap, Class, Group, GroupId};
use crate::ids::Nice;
use crate::policy::rsdl::RsdlConfig;
use crate::policy::rsdl::matrix::{Row, Variant};
use crate::policy::{Capped, Rsdl};
use crate::sim::{Guest, SimMachine};
use crate::time::Nanos;
use proptest::prelude::*;

const PERIOD: Nanos = Nanos::from_millis(100);

fn machine(slots: usize) -> SimMachine<Capped> {
    let rsdl = Rsdl::new(RsdlConfig::default(), slots);
    audited(Capped::new(Box::new(rsdl), slots), slots, Nanos::from_millis(1000))
}

fn half_a_cpu() -> Attributes {
    let cap = Cap::new(Nanos(PERIOD.0 / 2), PERIOD).unwrap();
    Attributes { group: Some(Group { id: GroupId(1), cap }), ..Attributes::default() }
}

fn probe() -> Guest {
    Guest::prober(Nanos::from_millis(5), Nanos::from_micros(200))
}

fn batch(nice: i8) -> Attributes {
    Attributes { nice: Nice::new(nice).unwrap(), class: Class::Batch, group: None }
}

fn weight(nice: Nice) -> f64 {
    Row::new(nice, RsdlConfig::default().rr_interval, Variant::Dithered).per_rotation().0 as f64
}

fn idle() -> Attributes {
    Attributes { class: Class::Idle, ..Attributes::default() }
}

#[test]
fn a_capped_hog_that_goes_on_does_not_keep_a_woken_vcpu_waiting() {
    for nice in [-5, 0] {
        let mut machine = machine(1);
        let sleeper = machine.start(of_nice(nice), probe(), 0);
        for _ in 0..2 {
            machine.start(half_a_cpu(), Guest::Hog, 1);
        }
        // At first all stand on the stair on which they were added.
        machine.run(Nanos::from_millis(1000));
        let before = machine.account(sleeper);
        machine.run(Nanos::from_millis(10_000));
        let waits = machine.account(sleeper).since(&before).waits;
        assert!(waits.count() > 1_900 && waits.max() < Nanos::from_micros(50), "nice {nice}: {waits:?}");
    }
}

#[test]
fn shares_hold_beside_class_batch_a_cap_and_a_sleeper() {
    for slots in 1..3 {
        let mut machine = machine(slots);
        machine.start(of_nice(-5), probe(), 0);
        let mut hogs = vec![machine.start(of_nice(-5), Guest::Hog, 0)];
        hogs.extend([0; 4].map(|_| machine.start(batch(5), Guest::Hog, 0)));
        [0; 2].into_iter().for_each(|_| _ = machine.start(half_a_cpu(), Guest::Hog, 0));
        machine.start(idle(), Guest::Hog, 0);
        assert_shares(&mut machine, &hogs, &[150.0, 45.0, 45.0, 45.0, 45.0]);
    }
}

#[test]
fn shares_hold_where_class_batch_runs_while_more_vcpus_can_than_otherwise() {
    let mut machine = machine(2);
    machine.start(of_nice(0), probe(), 0);
    let attributes = [batch(2), batch(2), of_nice(7), batch(2), of_nice(3), batch(-2)];
    let weights = attributes.map(|of| weight(of.nice));
    let hogs = attributes.map(|of| machine.start(of, Guest::Hog, 0));
    (0..2).for_each(|_| _ = machine.start(half_a_cpu(), Guest::Hog, 0));
    assert_shares(&mut machine, &hogs, &weights);
}

/// In 20 s hogs of these weights get their shares of what they get together, if none is due more than a slot.
fn assert_shares(machine: &mut SimMachine<Capped>, hogs: &[usize], weights: &[f64]) {
    let span = Nanos::from_millis(20_000);
    machine.run(span);
    let got: Vec<f64> = hogs.iter().map(|&v| machine.record(v).run.0 as f64 / span.0 as f64).collect();
    let of_all = got.iter().sum::<f64>() / weights.iter().sum::<f64>();
    let due: Vec<f64> = weights.iter().map(|weight| weight * of_all).collect();
    if due.iter().any(|&due| due > 0.95) {
        return;
    }
    for (got_one, due_one) in got.iter().zip(&due) {
        assert!((got_one - due_one).abs() < 0.02 * due_one + 0.003, "{got:?}, due {due:?}");
    }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn hogs_of_any_nice_value_and_class_get_their_shares_beside_caps_and_sleepers(
        slots in 1usize..4,
        hogs in prop::collection::vec((-10i8..=15, any::<bool>()), 4..12),
        tenants in 0usize..3,
        sleepers in prop::collection::vec(-10i8..=10, 0..3),
    ) {
        let mut machine = machine(slots);
        sleepers.iter().for_each(|&nice| _ = machine.start(of_nice(nice), probe(), 0));
        let attributes: Vec<_> = hogs.iter().map(|&(nice, b)| if b { batch(nice) } else { of_nice(nice) }).collect();
        let weights: Vec<f64> = attributes.iter().map(|of| weight(of.nice)).collect();
        let hogs: Vec<usize> = attributes.into_iter().map(|of| machine.start(of, Guest::Hog, 0)).collect();
        (0..tenants).for_each(|_| _ = machine.start(half_a_cpu(), Guest::Hog, 0));
        assert_shares(&mut machine, &hogs, &weights);
    }
}
