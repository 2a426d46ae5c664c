//! What holds of the policies whatever the guests do.

use super::rsdl::{PoliteSwitches, RsdlConfig, YieldRule};
use super::testing::Machine;
use super::testing::guest::{Guest, Patience};
use super::Rsdl;
use crate::Nanos;

fn rsdl(yield_rule: YieldRule, slots: usize) -> Rsdl {
    Rsdl::new(RsdlConfig { yield_rule, ..RsdlConfig::default() }, slots)
}
fn polite() -> YieldRule { YieldRule::Polite(PoliteSwitches::default()) }

#[test]
fn smoke() {
    for slots in 1..4 {
        for n in [2, 3, 4, 8, 16] {
            let mut m = Machine::new(rsdl(polite(), slots), slots, Nanos::from_millis(6));
            let all: Vec<usize> = (0..n).map(|_| m.start(0, Guest::Hog)).collect();
            m.run(Nanos::from_millis(4000));
            eprintln!("{slots} {n} hogs {:?}", all.iter().map(|&v| (m.share(v)*1000.0) as u32).collect::<Vec<_>>());
        }
    }
    for patience in [Patience::Hints, Patience::Mute] {
    for rule in [polite(), YieldRule::Expire, YieldRule::None] {
        for n in [4, 8, 16] {
            let mut m = Machine::new(rsdl(rule, 2), 2, Nanos::from_millis(6));
            m.world.locks.push(Default::default());
            let all: Vec<usize> = (0..n).map(|_| m.start(0, Guest::locker(Nanos::from_micros(2), Nanos::from_micros(5), patience))).collect();
            m.run(Nanos::from_millis(1000));
            eprintln!("{patience:?} {rule:?} {n} lockers {} {:?}", m.world.ops_of(&all), all.iter().map(|&v| (m.share(v)*1000.0) as u32).collect::<Vec<_>>());
            let mut m = Machine::new(rsdl(rule, 2), 2, Nanos::from_millis(6));
            let all: Vec<usize> = (0..n).map(|v| m.start(0, Guest::pinger(v ^ 1, patience))).collect();
            (0..n).step_by(2).for_each(|v| m.world.mail[v] = 1);
            m.run(Nanos::from_millis(1000));
            eprintln!("{n} pingers {} {:?}", m.world.ops_of(&all), all.iter().map(|&v| (m.share(v)*1000.0) as u32).collect::<Vec<_>>());
            let mut m = Machine::new(rsdl(rule, 2), 2, Nanos::from_millis(6));
            m.world.locks.push(Default::default());
            let lockers: Vec<usize> = (0..n/2).map(|_| m.start(0, Guest::locker(Nanos::from_micros(2), Nanos::from_micros(5), patience))).collect();
            let hogs: Vec<usize> = (0..n/2).map(|_| m.start(0, Guest::Hog)).collect();
            m.run(Nanos::from_millis(1000));
            eprintln!("{n} mixed {} {} {}", m.world.ops_of(&lockers), m.share_of(&lockers), m.share_of(&hogs));
        }
    }
    }
}
