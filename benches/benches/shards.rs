//! What shards are worth: two threads that ask two shards, beside one that asks one; and what it costs that a vCPU goes
//! from one shard to another. Time is a counter, and no guest runs.

use criterion::Criterion;
use parking_lot::Mutex;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use stile_benches::{Limit, Promise, tell};
use stile_sched::attributes::Attributes;
use stile_sched::ledger::Ledger;
use stile_sched::policy::rsdl::RsdlConfig;
use stile_sched::policy::{Placement, Rsdl, Why};
use stile_sched::{Nanos, Slot, Time, VcpuId, Wait, Yield};

/// vCPUs of each shard.
const VCPUS: u32 = 16;
/// A vCPU runs this long before it yields.
const STRETCH: Nanos = Nanos::from_micros(10);
const ROUND: Duration = Duration::from_millis(100);
const ROUNDS: usize = 25;
/// Two threads on two shards over one thread on one.
const GAIN: f64 = 1.8;
/// A vCPU from one shard to another (unit: ns).
const TAKE: f64 = 1_000.0;
const TAKES: u32 = 10_000;

/// A shard of one slot, and its time. It shares no cache line with another.
#[repr(align(128))]
struct Shard {
    ledger: Ledger<Rsdl>,
    now: Time,
}

impl Shard {
    /// With vCPUs of these ids, all of them runnable.
    fn new(first: u32, vcpus: u32) -> Self {
        let config = RsdlConfig { shares: true, ..RsdlConfig::default() };
        let mut shard = Self { ledger: Ledger::new(Rsdl::new(config, 1), 1, 64), now: Time(1) };
        for vcpu in (first..first + vcpus).map(VcpuId) {
            shard.ledger.add(vcpu, Attributes::default(), shard.now);
            if let Placement::Run(slot) = shard.ledger.wake(vcpu, None, shard.now) {
                let _ = shard.ledger.next(slot, Why::Free, shard.now);
            }
        }
        shard
    }

    /// The vCPU on the slot yields.
    fn step(&mut self) {
        self.now = self.now + STRETCH;
        let _ = self.ledger.next(Slot(0), Why::Yield(Yield { wait: Wait::Unknown, again: false }), self.now);
    }
}

/// Its next vCPU goes to another shard.
fn takes(from: &mut Shard, to: &mut Shard) {
    let spare = from.ledger.spare().expect("vCPUs wait there");
    let departed = from.ledger.departs(spare.vcpu, from.now).expect("it may leave");
    to.now = to.now.max(from.now) + Nanos(1);
    to.ledger.arrives(departed, Slot(0), to.now);
}

/// Decisions a second of threads with a shard each.
fn rate(shards: &[Mutex<Shard>]) -> f64 {
    let ends = AtomicBool::new(false);
    let asks = |shard: &Mutex<Shard>| {
        let mut asked = 0_u64;
        while !ends.load(Ordering::Relaxed) {
            shard.lock().step();
            asked += 1;
        }
        asked
    };
    thread::scope(|scope| {
        let begun = Instant::now();
        let threads: Vec<_> = shards.iter().map(|shard| scope.spawn(|| asks(shard))).collect();
        thread::sleep(ROUND);
        ends.store(true, Ordering::Relaxed);
        let asked: u64 = threads.into_iter().map(|thread| thread.join().expect("a thread asks to the end")).sum();
        asked as f64 / begun.elapsed().as_secs_f64()
    })
}

/// Nanoseconds that a vCPU takes to another shard, on average over a round.
fn take() -> f64 {
    let (mut here, mut there) = (Shard::new(0, VCPUS), Shard::new(VCPUS, 1));
    let begun = Instant::now();
    for _ in 0..TAKES / 2 {
        takes(&mut here, &mut there);
        takes(&mut there, &mut here);
    }
    begun.elapsed().as_nanos() as f64 / f64::from(TAKES)
}

fn main() -> ExitCode {
    let mut criterion = Criterion::default().measurement_time(Duration::from_secs(1)).configure_from_args();
    let mut shard = Shard::new(0, VCPUS);
    criterion.bench_function("shards: a question to one", |bencher| bencher.iter(|| shard.step()));
    criterion.final_summary();
    let shards = [0, VCPUS].map(|first| Mutex::new(Shard::new(first, VCPUS)));
    let gain = || {
        let one = rate(&shards[..1]);
        rate(&shards) / one
    };
    tell(&[
        Promise {
            what: "two threads that ask two shards, to one".into(),
            unit: "times",
            samples: (0..ROUNDS).map(|_| gain()).collect(),
            limit: Limit::AtLeast(GAIN),
        },
        Promise {
            what: "a vCPU goes to another shard".into(),
            unit: "ns",
            samples: (0..ROUNDS).map(|_| take()).collect(),
            limit: Limit::Below(TAKE),
        },
    ])
}
