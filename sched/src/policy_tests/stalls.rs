//! What the host takes from a pCPU is nobody's run: a stall costs no vCPU more than itself.

use super::harness::{audited, of_nice};
use crate::ids::{Slot, VcpuId};
use crate::policy::rsdl::{RsdlConfig, matrix::Row};
use crate::policy::{Policy, Rsdl, Why};
use crate::sim::{Guest, SimMachine};
use crate::time::{Nanos, Time};

const STALL: Nanos = Nanos::from_millis(30);
const EVERY: Nanos = Nanos::from_millis(200);

/// Five times a second for ten seconds, the host takes one slot after the other.
fn stalled<P: Policy>(machine: &mut SimMachine<P>, slots: usize) {
    for n in 0..50 {
        machine.run(Nanos(EVERY.0 - STALL.0));
        machine.stall(Slot((n % slots) as u16), STALL);
        machine.run(STALL);
    }
}

#[test]
fn a_stall_of_the_host_does_not_become_a_second_s_wait() {
    for (slots, hogs) in [(1, 16), (2, 48)] {
        let config = RsdlConfig::default();
        let mut machine = audited(Rsdl::new(config, slots), slots, Nanos::from_millis(1000));
        let all: Vec<usize> = (0..hogs).map(|_| machine.start(of_nice(0), Guest::Hog, 0)).collect();
        stalled(&mut machine, slots);
        let longest = all.iter().map(|&v| machine.record(v).longest_wait).max().unwrap();
        let turns = Nanos(config.least_quota.0 * (hogs / slots) as u64);
        assert!(longest <= turns + config.rr_interval + STALL, "{hogs} hogs on {slots} slots: {longest:?}");
        let runs = || all.iter().map(|&v| machine.record(v).run.0);
        let (least, most) = (runs().min().unwrap(), runs().max().unwrap());
        assert!(most * 50 <= least * 51, "{hogs} hogs on {slots} slots ran {least} to {most} ns");
    }
}

/// The host's scheduler gives another program its turns: each slot is taken for 3 to 5 ms, again and again.
fn shared_with_another_program<P: Policy>(machine: &mut SimMachine<P>, slots: usize, turns: u64) {
    for n in 0..turns {
        let stall = Nanos::from_micros(3_000 + n * 937 % 2_000);
        machine.stall(Slot((n % slots as u64) as u16), stall);
        machine.run(Nanos(2 * stall.0 / slots as u64));
    }
}

#[test]
fn weights_hold_while_another_program_has_half_of_each_pcpu() {
    for (slots, queues) in [(1, false), (2, false), (2, true)] {
        let config = RsdlConfig { per_pcpu_queues: queues, ..RsdlConfig::default() };
        let mut machine = audited(Rsdl::new(config, slots), slots, Nanos::from_millis(1000));
        let mut start =
            |nice: i8, n: usize| (0..n).map(|_| machine.start(of_nice(nice), Guest::Hog, 0)).collect::<Vec<_>>();
        let (high, usual, low) = (start(-5, 1), start(0, 2 * slots), start(5, 4 * slots));
        shared_with_another_program(&mut machine, slots, 5_000);
        let run = |all: &[usize]| all.iter().map(|&v| machine.record(v).run.0).sum::<u64>() as f64 / all.len() as f64;
        let weight =
            |nice: i8| Row::new(of_nice(nice).nice, config.rr_interval, config.variant).per_rotation().0 as f64;
        for (nice, all) in [(-5, &high), (5, &low)] {
            let (is, due) = (run(all) / run(&usual), weight(nice) / weight(0));
            assert!(
                (is / due - 1.0).abs() < 0.03,
                "{slots} slots, nice {nice}: {is:.3} of nice 0, where {due:.3} is due"
            );
        }
    }
}

#[test]
fn a_stall_that_the_host_does_not_tell_of_costs_the_vcpu_there_no_more_than_its_lease() {
    let mut policy = Rsdl::new(RsdlConfig::default(), 1);
    let (a, b) = (VcpuId(0), VcpuId(1));
    [a, b].into_iter().for_each(|vcpu| policy.add(vcpu, of_nice(0), Time(0)));
    let _ = (policy.wake(a, Time(0)), policy.wake(b, Time(0)));
    let mut now = policy.next(Slot(0), Why::Free, Time(0)).run.unwrap().until;
    let mut turn = |now: Time| policy.next(Slot(0), Why::Check, now).run.unwrap();
    for _ in 0..20 {
        now = turn(now).until;
    }
    // One of them asks 200 ms late. The other does not get all of that in turn.
    let late = now + Nanos::from_millis(200);
    let mut lease = turn(late);
    let other = lease.vcpu;
    let mut waited = Nanos::ZERO;
    for _ in 0..100 {
        if lease.vcpu != other {
            break;
        }
        waited = lease.until.since(late);
        lease = turn(lease.until);
    }
    assert!(waited < Nanos::from_millis(30), "{waited:?}");
}
