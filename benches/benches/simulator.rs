//! The speed of the simulator: decisions in a second of CPU time, and the time for the largest machine. CPU time
//! counts, since a run has one thread and other programs may run meanwhile.

use rustix::time::{ClockId, clock_gettime};
use std::process::ExitCode;
use stile_benches::{Limit, Promise, tell};
use stile_sched::Nanos;
use stile_sched::attributes::Attributes;
use stile_sched::policy::Rsdl;
use stile_sched::policy::rsdl::RsdlConfig;
use stile_sched::sim::guest::Patience;
use stile_sched::sim::{Costs, Guest, SimMachine};

/// The costs of machine A in docs/results.md.
const COSTS: Costs = Costs {
    exit: Nanos(25_000),
    leave: Nanos(12_000),
    switch: Nanos(2_000),
    kick: Nanos(29_000),
    wake: Nanos(30_000),
    hop: Nanos(43),
    migration: Nanos(600),
    lock: Nanos::ZERO,
};
/// Decisions a second, in millions.
const RATE: f64 = 1.0;
const SAMPLES: usize = 11;
const QUICK_SAMPLES: usize = 3;
/// The largest machine, the simulated time, and the limits of CPU time and memory (units: s, GiB).
const SLOTS: usize = 512;
const VCPUS: usize = 100_000;
const SIMULATED: Nanos = Nanos::from_millis(10_000);
const SECONDS: f64 = 60.0;
const GIBIBYTES: f64 = 4.0;

/// Half lockers, half hogs: some decisions are yields, some the ends of leases.
fn machine(slots: usize, vcpus: usize) -> SimMachine<Rsdl> {
    let mut machine = SimMachine::new(Rsdl::new(RsdlConfig::default(), slots), slots, COSTS).with_noise(1, 50);
    for v in 0..vcpus {
        let lock = Guest::locker(Nanos::from_micros(2), Nanos::from_micros(5), Patience::Hints);
        machine.start(Attributes::default(), if v % 2 == 0 { lock } else { Guest::Hog }, 0);
    }
    machine
}

/// Millions of decisions a second.
fn rate(slots: usize, vcpus: usize, span: Nanos) -> f64 {
    let mut machine = machine(slots, vcpus);
    let begun = cpu_time();
    machine.run(span);
    machine.decisions() as f64 / (cpu_time() - begun) / 1e6
}

/// CPU time of this thread (units: s).
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The largest resident memory of this process so far (units: GiB).
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kibibytes.map_or(f64::NAN, |kibibytes| kibibytes / f64::from(1 << 20))
}

fn main() -> ExitCode {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let samples = if quick { QUICK_SAMPLES } else { SAMPLES };
    let mut promises: Vec<Promise> = [(2, 16, 2_000), (64, 512, 100)]
        .into_iter()
        .map(|(slots, vcpus, ms)| Promise {
            what: format!("decisions, {vcpus} vCPUs on {slots} pCPUs"),
            unit: "millions a second",
            samples: (0..samples).map(|_| rate(slots, vcpus, Nanos::from_millis(ms))).collect(),
            limit: Limit::AtLeast(RATE),
        })
        .collect();
    if !quick {
        let mut machine = machine(SLOTS, VCPUS);
        let begun = cpu_time();
        machine.run(SIMULATED);
        let took = cpu_time() - begun;
        let runs = (0..VCPUS).filter(|&v| machine.first_ran(v).is_some()).count();
        println!("{runs} of {VCPUS} vCPUs ran, {} decisions", machine.decisions());
        let what = format!("{VCPUS} vCPUs on {SLOTS} pCPUs for ten simulated seconds");
        promises.push(Promise { what, unit: "s", samples: vec![took], limit: Limit::Below(SECONDS) });
        let what = "memory for that".to_owned();
        promises.push(Promise { what, unit: "GiB", samples: vec![peak()], limit: Limit::Below(GIBIBYTES) });
    }
    tell(&promises)
}
