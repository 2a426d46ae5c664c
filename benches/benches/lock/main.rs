//! The run-queue lock: its cost alone, and its stages under the contention of 200 threads.
//!
//! The stages of the RT patches' announcement, hackbench at 16.6 s, 8 s with lateral steal and 4.8 s with adaptive
//! spinning, are run here as interleaved rounds in one process; the table gives medians, and factors against the pure
//! hand-over.

mod hackbench;

use criterion::Criterion;
use hackbench::{Group, Lock};
use std::hint::black_box;
use std::time::Duration;
use stile_sched::lock::{LockRules, QueueLock};

/// Odd, so that the median is a round.
const ROUNDS: usize = 7;
/// Messages of each sender to each receiver: tenths of a second in the slowest stage.
const MESSAGES: usize = 10;

const HAND_OVER: LockRules = LockRules { lateral: false, adaptive: false };
const LATERAL: LockRules = LockRules { lateral: true, adaptive: false };
const ADAPTIVE: LockRules = LockRules { lateral: false, adaptive: true };
const BOTH: LockRules = LockRules { lateral: true, adaptive: true };

impl<T: Send> Lock<T> for QueueLock<T> {
    fn with<R>(&self, with: impl FnOnce(&mut T) -> R) -> R {
        with(&mut self.lock())
    }
}

impl<T: Send> Lock<T> for parking_lot::Mutex<T> {
    fn with<R>(&self, with: impl FnOnce(&mut T) -> R) -> R {
        with(&mut self.lock())
    }
}

impl<T: Send> Lock<T> for std::sync::Mutex<T> {
    fn with<R>(&self, with: impl FnOnce(&mut T) -> R) -> R {
        with(&mut self.lock().expect("nobody panics with the lock held"))
    }
}

fn queue_lock(rules: LockRules) -> Duration {
    hackbench::run(MESSAGES, || QueueLock::new(Group::new(), rules))
}

/// What is compared; the first is what factors refer to.
const STAGES: [(&str, fn() -> Duration); 6] = [
    ("hand-over", || queue_lock(HAND_OVER)),
    ("+ lateral", || queue_lock(LATERAL)),
    ("+ lateral + adaptive", || queue_lock(BOTH)),
    ("+ adaptive", || queue_lock(ADAPTIVE)),
    ("parking_lot", || hackbench::run(MESSAGES, || parking_lot::Mutex::new(Group::new()))),
    ("std", || hackbench::run(MESSAGES, || std::sync::Mutex::new(Group::new()))),
];

fn contended() {
    let mut times: [Vec<Duration>; STAGES.len()] = Default::default();
    for round in 0..=ROUNDS {
        for (stage, times) in STAGES.iter().zip(&mut times) {
            let time = stage.1();
            // The first round warms up.
            if round > 0 {
                times.push(time);
            }
        }
    }
    let medians = times.each_mut().map(|times| {
        times.sort();
        times[times.len() / 2]
    });
    println!("{:<22}{:>10}{:>10}{:>10}{:>9}", "200 threads", "median ms", "min", "max", "factor");
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    for ((stage, times), median) in STAGES.iter().zip(&times).zip(medians) {
        let factor = medians[0].as_secs_f64() / median.as_secs_f64();
        let (min, max) = (times[0], times[times.len() - 1]);
        println!("{:<22}{:>10.1}{:>10.1}{:>10.1}{:>9.2}", stage.0, ms(median), ms(min), ms(max), factor);
    }
}

fn alone(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lock alone");
    let queue = QueueLock::new(0_u64, BOTH);
    group.bench_function("queue lock", |bencher| bencher.iter(|| black_box(&queue).with(|n| *n += 1)));
    let parking = parking_lot::Mutex::new(0_u64);
    group.bench_function("parking_lot", |bencher| bencher.iter(|| black_box(&parking).with(|n| *n += 1)));
    let std = std::sync::Mutex::new(0_u64);
    group.bench_function("std", |bencher| bencher.iter(|| black_box(&std).with(|n| *n += 1)));
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    alone(&mut criterion);
    contended();
}
