//! The cost of a decision in a domain of ten vCPUs and in one of a hundred thousand. No threads: time is a counter.
//!
//! There are three kinds of decision: a lease is used up; a vCPU yields; a vCPU yields where only ten of all run and
//! the others are blocked. The first two go round all vCPUs, in an order unlike that of their ids, so that the state of
//! each vCPU is not in the cache. The third is the policy's own cost, whatever state it keeps.

use criterion::{BenchmarkId, Criterion};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use stile_benches::{Limit, Promise, tell};
use stile_sched::attributes::Attributes;
use stile_sched::policy::rsdl::RsdlConfig;
use stile_sched::policy::{Freelist, Placement, Policy, Rsdl, Why};
use stile_sched::{Nanos, Slot, Time, VcpuId, Wait, Yield};

/// vCPUs of a domain, and of a working set in it.
const SIZES: [u32; 3] = [10, 1_000, 100_000];
/// The cost in the largest domain over that in the smallest.
const FLAT: f64 = 1.5;
const SLOTS: usize = 2;
/// `rsdl` with a run queue for each pCPU.
const QUEUES: &str = "rsdl, a queue each";
const INTERVAL: Nanos = Nanos::from_millis(6);
/// Rounds for the ratios, and decisions in each: several times round all vCPUs.
const ROUNDS: usize = 15;
const PER_ROUND: u32 = 3 * SIZES[2];
/// A vCPU runs this long before it yields: too short to be forgiven.
const STRETCH: Nanos = Nanos::from_micros(10);

/// The decision that is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Lease,
    Yield,
    YieldAmongTen,
}

impl Turn {
    const ALL: [Self; 3] = [Self::Lease, Self::Yield, Self::YieldAmongTen];

    fn name(self) -> &'static str {
        match self {
            Self::Lease => "a lease is used up",
            Self::Yield => "a yield",
            Self::YieldAmongTen => "a yield, ten of all run",
        }
    }
}

/// A policy with its slots busy and time to move on.
struct Driver {
    policy: Box<dyn Policy>,
    now: Time,
    until: [Time; SLOTS],
    slot: usize,
}

impl Driver {
    /// A domain of this many vCPUs, of which this many run. Their ids and their order are scattered over all.
    fn new(mut policy: Box<dyn Policy>, vcpus: u32, running: u32) -> Self {
        (0..vcpus).for_each(|v| policy.add(VcpuId(v), Attributes::default(), Time(0)));
        let mut driver = Self { policy, now: Time(0), until: [Time::NEVER; SLOTS], slot: 0 };
        // A stride without a common divisor meets every vCPU once.
        (0..running).map(|v| (u64::from(v) * 7919 % u64::from(vcpus)) as u32).for_each(|v| driver.wake(VcpuId(v)));
        driver
    }

    fn wake(&mut self, vcpu: VcpuId) {
        match self.policy.wake(vcpu, self.now) {
            Placement::Run(slot) => self.ask(slot, Why::Free),
            Placement::Preempt(slot) | Placement::Queue(Some(slot)) => self.ask(slot, Why::Check),
            Placement::Queue(None) | Placement::Held => {}
        }
    }

    fn ask(&mut self, slot: Slot, why: Why) {
        let mut question = Some((slot, why));
        while let Some((slot, why)) = question {
            let decision = self.policy.next(slot, why, self.now);
            self.until[slot.index()] = decision.run.map_or(Time::NEVER, |lease| lease.until);
            question = decision.kick.map(|slot| (slot, Why::Check));
        }
    }

    /// Lets the time of the next slot's vCPU pass, and makes one decision.
    fn step(&mut self, turn: Turn) {
        self.slot = (self.slot + 1) % SLOTS;
        let why = match turn {
            Turn::Lease => {
                self.now = self.now.max(self.until[self.slot]);
                Why::Check
            }
            Turn::Yield | Turn::YieldAmongTen => {
                self.now = self.now + STRETCH;
                Why::Yield(Yield { wait: Wait::Unknown, again: false })
            }
        };
        self.ask(Slot(self.slot as u16), why);
    }
}

fn policy(name: &str) -> Box<dyn Policy> {
    match name {
        "freelist" => Box::new(Freelist::new(INTERVAL, SLOTS)),
        QUEUES => Box::new(Rsdl::new(RsdlConfig { per_pcpu_queues: true, ..RsdlConfig::default() }, SLOTS)),
        _ => Box::new(Rsdl::new(RsdlConfig::default(), SLOTS)),
    }
}

fn main() -> ExitCode {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    let mut promises = Vec::new();
    for name in ["rsdl", QUEUES, "freelist"] {
        for turn in Turn::ALL {
            let mut drivers = SIZES.map(|vcpus| {
                let running = if turn == Turn::YieldAmongTen { SIZES[0] } else { vcpus };
                Driver::new(policy(name), vcpus, running)
            });
            let mut group = criterion.benchmark_group(format!("pick_next, {name}: {}", turn.name()));
            for (vcpus, driver) in SIZES.iter().zip(&mut drivers) {
                group.bench_function(BenchmarkId::from_parameter(vcpus), |bencher| bencher.iter(|| driver.step(turn)));
            }
            group.finish();
            let what = format!("{name}, {}: 100,000 vCPUs to 10", turn.name());
            promises.push(Promise {
                what,
                unit: "times",
                samples: ratios(&mut drivers, turn),
                limit: Limit::Below(FLAT),
            });
        }
    }
    criterion.final_summary();
    tell(&promises)
}

/// The cost of a decision in the largest domain over that in the smallest. The two take turns in rounds, so that a
/// disturbance of the machine affects both.
fn ratios(drivers: &mut [Driver; SIZES.len()], turn: Turn) -> Vec<f64> {
    let mut time = |driver: usize| {
        let begun = Instant::now();
        (0..PER_ROUND).for_each(|_| drivers[driver].step(turn));
        begun.elapsed().as_secs_f64()
    };
    (0..ROUNDS)
        .map(|_| {
            let smallest = time(0);
            time(SIZES.len() - 1) / smallest
        })
        .collect()
}
