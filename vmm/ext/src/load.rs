//! The scheduler's object file, and what it is told before it is loaded.

use libbpf_rs::{Link, MapCore, MapFlags, MapMut, Object, ObjectBuilder};
use std::fs::File;
use std::os::unix::fs::FileExt;
use stile_sched::policy::rsdl::matrix::Row;
use stile_sched::policy::rsdl::{RsdlConfig, matrix};
use stile_sched::{Nanos, Nice};

/// The scheduler, compiled by `build.rs`.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stile.bpf.o"));
/// What it reads.
const CONFIG: &str = ".rodata.config";
/// What it counts.
const COUNTS: &str = ".bss.counts";
/// Its table of functions.
const OPERATIONS: &str = "stile";
/// Says `enabled` while the kernel uses a scheduler of sched_ext.
const STATE: &str = "/sys/kernel/sched_ext/state";

/// The scheduler cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The object file has no such map.
    #[error("the scheduler of sched_ext has no map {0}")]
    NoMap(&'static str),
    /// The kernel has no sched_ext.
    #[error("the kernel has no sched_ext: there is no {STATE}")]
    NoSchedExt(#[source] std::io::Error),
    /// The kernel does not take it.
    #[error("the kernel does not take the scheduler of sched_ext; it needs Linux 7.1 with sched_ext, and root")]
    Kernel(#[from] libbpf_rs::Error),
}

/// The loaded scheduler.
pub struct Loaded {
    object: Object,
    /// Opened before the process is in its jail.
    state: File,
    // Dropping it takes the scheduler out of the kernel.
    _link: Link,
}

/// What the scheduler has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// vCPUs that woke and found an idle CPU.
    pub wakes_idle: u64,
    /// vCPUs that woke and went ahead of one that ran.
    pub wakes_ahead: u64,
    /// vCPUs that woke and waited.
    pub wakes_queued: u64,
    /// vCPUs that were taken out of the queue.
    pub leases: u64,
    /// vCPUs that went on at the end of their lease.
    pub goes_on: u64,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl Loaded {
    /// Whether the kernel still uses it. It throws a scheduler out that errs, or lets a thread wait for 30 s.
    pub fn is_in_use(&self) -> bool {
        let mut state = [0; 16];
        let read = self.state.read_at(&mut state, 0).unwrap_or_default();
        state[..read].starts_with(b"enabled")
    }

    /// What it has counted so far; a process in a jail may not ask.
    pub fn counts(&self) -> Option<Counts> {
        let map = self.object.maps().find(|map| map.name() == COUNTS)?;
        let bytes = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        let mut words = bytes.chunks_exact(8).map(|word| word.try_into().map(u64::from_ne_bytes).unwrap_or_default());
        let mut next = || words.next().unwrap_or_default();
        Some(Counts { wakes_idle: next(), wakes_ahead: next(), wakes_queued: next(), leases: next(), goes_on: next() })
    }
}

/// Loads the scheduler for vCPUs on so many of the host's CPUs.
pub fn load(slots: usize) -> Result<Loaded, LoadError> {
    let state = File::open(STATE).map_err(LoadError::NoSchedExt)?;
    let mut open = ObjectBuilder::default().open_memory(OBJECT)?;
    let mut config = open.maps_mut().find(|map| map.name() == CONFIG).ok_or(LoadError::NoMap(CONFIG))?;
    config.set_initial_value(&bytes_of(&RsdlConfig::default(), slots))?;
    let mut object = open.load()?;
    let link = operations(&mut object)?.attach_struct_ops()?;
    Ok(Loaded { object, state, _link: link })
}

fn operations(object: &mut Object) -> Result<MapMut<'_>, LoadError> {
    object.maps_mut().find(|map| map.name() == OPERATIONS).ok_or(LoadError::NoMap(OPERATIONS))
}

/// `struct config` of `bpf/stile.bpf.c`.
fn bytes_of(config: &RsdlConfig, slots: usize) -> Vec<u8> {
    let rows: Vec<Row> = (-20..=19).filter_map(Nice::new).map(|nice| row(config, nice)).collect();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut bytes = Vec::new();
    let times = rows.iter().map(|row| row.quota).chain([config.least_quota, config.target_latency]);
    times.for_each(|Nanos(time)| bytes.extend(time.to_ne_bytes()));
    bytes.extend((cpus as u32).to_ne_bytes());
    bytes.extend((slots as u32).to_ne_bytes());
    // Of the second rotation, so that there are stairs before.
    let stairs = matrix::LEVELS..2 * matrix::LEVELS;
    bytes.extend(rows.iter().flat_map(|row| stairs.clone().map(|stair| (row.after(stair) - stair) as u8)));
    bytes.extend(rows.iter().flat_map(|row| stairs.clone().map(|stair| (stair - row.before(stair)) as u8)));
    bytes
}

fn row(config: &RsdlConfig, nice: Nice) -> Row {
    Row::new(nice, config.rr_interval, config.variant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_is_told_every_nice_value_s_quota_and_steps() {
        let bytes = bytes_of(&RsdlConfig::default(), 2);
        assert_eq!(bytes.len(), 40 * 8 + 2 * 8 + 2 * 4 + 2 * 40 * 40);
        let quota = |nice: usize| u64::from_ne_bytes(bytes[nice * 8..][..8].try_into().unwrap());
        assert_eq!((quota(20), quota(39)), (6_000_000, 3_000_000));
        let steps =
            |nice: usize| bytes[40 * 8 + 24 + nice * 40..][..40].iter().map(|&step| u32::from(step)).sum::<u32>();
        assert_eq!(steps(0), 40);
    }
}
