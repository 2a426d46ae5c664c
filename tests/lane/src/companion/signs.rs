//! Signs of life: a line for each CPU on the second serial line, every few seconds. A CPU that hangs gives none.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::time::Duration;

/// The second serial line.
const LINE: &str = "/dev/ttyS1";
/// Between two signs.
const PERIOD: Duration = Duration::from_secs(5);

/// Gives signs of life, for as long as the machine runs.
pub(crate) fn of_life() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for cpu in 0..cpus {
            scope.spawn(move || {
                if let Err(error) = of_cpu(cpu) {
                    eprintln!("companion: no more signs of life of CPU {cpu}: {error}");
                }
            });
        }
    });
}

fn of_cpu(cpu: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only)?;
    loop {
        // One write, so that no other line comes between.
        OpenOptions::new().write(true).open(LINE)?.write_all(format!("alive {cpu}\n").as_bytes())?;
        std::thread::sleep(PERIOD);
    }
}
