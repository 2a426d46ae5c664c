//! The simulator on a large machine, as large as a debug build does in a moment; `cargo bench --bench simulator` has
//! the largest.

use stile_sched::Attributes;
use stile_sched::policy::Rsdl;
use stile_sched::policy::rsdl::{RsdlConfig, wait_bound};
use stile_sched::sim::{Costs, Guest, SimMachine};
use stile_sched::{Nanos, Topology};

const COSTS: Costs = Costs {
    exit: Nanos(1_500),
    leave: Nanos::ZERO,
    switch: Nanos(1_000),
    kick: Nanos(5_000),
    wake: Nanos(5_000),
    hop: Nanos(50),
    migration: Nanos::ZERO,
    lock: Nanos::ZERO,
};
const SLOTS: usize = 512;
const VCPUS: usize = 10_000;

#[test]
fn ten_thousand_vcpus_on_512_pcpus_all_run_within_the_wait_bound() {
    let config = RsdlConfig::default();
    let cpus: Vec<usize> = (0..SLOTS).collect();
    let policy = Rsdl::new(config, SLOTS).with_topology(Topology::new(&cpus, cpus.chunks(2), cpus.chunks(16)));
    let mut machine = SimMachine::new(policy, SLOTS, COSTS).with_noise(1, 50);
    let (me, others) = (Attributes::default(), vec![Attributes::default(); VCPUS - 1]);
    let bound = wait_bound(&config, me, &others, SLOTS).expect("normal vCPUs have a bound");
    for v in 0..VCPUS {
        let sleeper = Guest::client(Nanos::from_micros(200), Nanos::from_millis(5));
        let v = machine.start(me, if v % 4 == 0 { sleeper } else { Guest::Hog }, 0);
        machine.bound(v, bound + Nanos::from_millis(1));
    }
    machine.run(Nanos::from_millis(300));
    assert_eq!(machine.late().1, 0, "{:?}", machine.late().0);
    assert!((0..VCPUS).all(|v| machine.first_ran(v).is_some()));
}
