//! The run-queue lock: its cost without contention, and its stages under contention.
//!
//! The stages of the RT patches' announcement, hackbench at 16.6 s, 8 s with lateral steal and 4.8 s with adaptive
//! spinning as well, are run here as interleaved rounds in one process, and two mutexes beside them. A table for each
//! load gives medians, and factors against the pure hand-over.

mod hackbench;
mod kinds;
mod pair;

use criterion::Criterion;
use kinds::{Kind, Lock, ParkingLot, Queue, Std};
use std::hint::black_box;
use std::time::Duration;

/// Odd, so that the median is a round.
const ROUNDS: usize = 9;

/// Runs a load once.
type Run = fn() -> Duration;

/// The compared locks. Factors refer to the first.
const STAGES: [(&str, [Run; 2]); 6] = [
    ("hand-over", loads::<Queue<false, false>>()),
    ("+ lateral", loads::<Queue<true, false>>()),
    ("+ lateral + adaptive", loads::<Queue<true, true>>()),
    ("+ adaptive", loads::<Queue<false, true>>()),
    ("parking_lot", loads::<ParkingLot>()),
    ("std", loads::<Std>()),
];

const fn loads<K: Kind>() -> [Run; 2] {
    [hackbench::run::<K>, pair::run::<K>]
}

fn contended(title: &str, load: usize) {
    let mut times: [Vec<Duration>; STAGES.len()] = Default::default();
    for round in 0..=ROUNDS {
        for (stage, times) in STAGES.iter().zip(&mut times) {
            let time = stage.1[load]();
            // The first round warms up.
            if round > 0 {
                times.push(time);
            }
        }
    }
    times.iter_mut().for_each(|times| times.sort());
    let median = |times: &[Duration]| times[times.len() / 2];
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("\n{title:<34}{:>10}{:>10}{:>10}{:>9}", "median ms", "min", "max", "factor");
    for (stage, own) in STAGES.iter().zip(&times) {
        let factor = median(&times[0]).as_secs_f64() / median(own).as_secs_f64();
        let (least, most) = (own[0], own[own.len() - 1]);
        println!("{:<34}{:>10.1}{:>10.1}{:>10.1}{factor:>9.2}", stage.0, ms(median(own)), ms(least), ms(most));
    }
}

fn alone<K: Kind>(group: &mut criterion::BenchmarkGroup<criterion::measurement::WallTime>, name: &str) {
    let lock = K::lock(0_u64);
    group.bench_function(name, |bencher| bencher.iter(|| black_box(&lock).with(|n| *n += 1)));
}

fn main() {
    let short = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    let mut criterion = short.configure_from_args();
    let mut group = criterion.benchmark_group("lock alone");
    alone::<Queue<true, true>>(&mut group, "queue lock");
    alone::<ParkingLot>(&mut group, "parking_lot");
    alone::<Std>(&mut group, "std");
    group.finish();
    contended("200 threads pass messages", 0);
    contended("2 threads, as executors ask", 1);
}
