//! A cell of entry without a VM: threads that do, in a tight loop, the scheduler's part of an exit and the return.
//!
//! An exit through KVM takes a thousand times as long as that part and hides it. The operation follows from the policy.
//! A policy that asks at every exit takes a slot from the global list and puts it back. Other policies give their
//! slot's word up and take it back. Under `host` a thread that leaves calls the kernel, with the cheapest system call.

use super::context::Context;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::plan::CellPlan;
use crate::window::jitter::{jitter, rates};
use crate::window::metrics::{LATENCY, quantiles, shares};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::json;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;
use stile_abi::gauge::{BUCKETS, bucket_of, bucket_top};
use stile_assembly::{self, AssemblyError};
use stile_config::PolicyConfig;
use stile_host::{CpuList, topology};
use stile_sched::VcpuId;
use stile_sched::slot::{FreeList, SlotWord, Smp, Up, Word};
use stile_suites::Metric;

/// Operations that are timed together: reading the clock takes longer than one.
const AT_ONCE: u64 = 256;

/// The operation that is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    /// A system call.
    HostCall,
    /// A slot is taken from the global list and put back.
    List,
    /// A slot's word is given up and taken back.
    Word,
    /// A slot's word is given up and taken back among threads of one CPU.
    UpWord,
}

impl Operation {
    fn of(policy: &PolicyConfig, pcpus: &CpuList) -> Self {
        match stile_assembly::decides(policy, pcpus.len(), &topology(pcpus)) {
            Err(_) => Self::HostCall,
            Ok(decides) if !decides.policies[0].keeps_slot_over_exits() => Self::List,
            Ok(_) if pcpus.len() == 1 => Self::UpWord,
            Ok(_) => Self::Word,
        }
    }
}

/// The number of operations of a thread, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Done(AtomicU64);

/// The state that all threads of a cell share.
struct Shared {
    list: FreeList,
    over: AtomicBool,
}

pub(crate) fn measure(
    context: &Context<'_>,
    planned: &CellPlan,
    policy: &PolicyConfig,
) -> Result<Measured, CompareError> {
    let pcpus: CpuList = planned.case.pcpus(context.options).remove(0);
    let (threads, cpus) = (planned.case.size as usize, pcpus.iter().collect::<Vec<u32>>());
    let operation = Operation::of(policy, &pcpus);
    let shared = Shared { list: FreeList::new(threads as u16), over: AtomicBool::new(false) };
    let done: Vec<Done> = (0..threads).map(|_| Done::default()).collect();
    let count = || done.iter().map(|done| done.0.load(Relaxed)).collect::<Vec<u64>>();
    let measured = std::thread::scope(|scope| {
        let thread = |(n, done)| {
            let (shared, cpu) = (&shared, cpus[n % cpus.len()]);
            let work = move || bind(cpu).map(|()| work(operation, VcpuId(n as u32), shared, done));
            std::thread::Builder::new().spawn_scoped(scope, work)
        };
        let spawned = done.iter().enumerate().map(thread).collect::<Result<Vec<_>, _>>();
        let before = (Instant::now(), count());
        let rates = spawned.is_ok().then(|| rates(planned.window, |time| context.sleep(time), || count().iter().sum()));
        let after = (Instant::now(), count());
        // If a thread cannot be spawned, those spawned before it end as well.
        shared.over.store(true, Relaxed);
        let failed = |source| AssemblyError::new(&pcpus, source);
        let join = |thread: std::thread::ScopedJoinHandle<'_, rustix::io::Result<Vec<u32>>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let batches = spawned.map_err(failed)?.into_iter().map(join).collect::<Result<Vec<_>, _>>();
        let batches = batches.map_err(|errno| failed(errno.into()))?;
        Ok::<_, CompareError>(rates.flatten().map(|rates| (before, after, rates, batches)))
    })?;
    let Some((before, after, rates, batches)) = measured else { return Ok(None) };
    let ops: Vec<u64> = after.1.iter().zip(&before.1).map(|(after, before)| after - before).collect();
    let seconds = (after.0 - before.0).as_secs_f64();
    let detail = json!({ "seconds": seconds, "operation": format!("{operation:?}"), "ops": ops, "rates": rates });
    Ok(Measurement::only(values(&ops, seconds, &rates, &batches), detail))
}

/// The metrics. Latency is the mean over operations that were timed together.
fn values(ops: &[u64], seconds: f64, rates: &[f64], batches: &[Vec<u32>]) -> BTreeMap<Metric, f64> {
    let rate = ops.iter().sum::<u64>() as f64 / seconds;
    let mut values = BTreeMap::from([(Metric::Throughput, rate), (Metric::OpsPerS, rate)]);
    values.extend(jitter(rates).map(|jitter| (Metric::Jitter, jitter)));
    let buckets: Vec<(u64, u64)> =
        (0..BUCKETS).map(|b| (bucket_top(b), batches.iter().map(|batch| u64::from(batch[b])).sum())).collect();
    values.extend(quantiles(&buckets, LATENCY).map(|(metric, us)| (metric, us / AT_ONCE as f64)));
    shares(&ops.iter().map(|&ops| ops as f64).collect::<Vec<_>>(), &mut values);
    values
}

fn bind(cpu: u32) -> rustix::io::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu as usize);
    sched_setaffinity(None, &only)
}

/// Repeats the operation until the cell is over. Returns the times of its batches as a histogram.
fn work(operation: Operation, me: VcpuId, shared: &Shared, done: &Done) -> Vec<u32> {
    match operation {
        Operation::HostCall => repeat(shared, done, || {
            black_box(getrlimit(Resource::Nofile));
        }),
        Operation::List => repeat(shared, done, || {
            let slot = shared.list.take();
            black_box(slot).into_iter().for_each(|slot| shared.list.give(slot));
        }),
        Operation::Word => on_word::<Smp>(me, shared, done),
        Operation::UpWord => on_word::<Up>(me, shared, done),
    }
}

fn on_word<W: Word>(me: VcpuId, shared: &Shared, done: &Done) -> Vec<u32> {
    let word = SlotWord::<W>::default();
    word.occupy();
    repeat(shared, done, || {
        black_box(word.release(me));
        black_box(word.acquire(me));
    })
}

fn repeat(shared: &Shared, done: &Done, operation: impl Fn()) -> Vec<u32> {
    let mut batches = vec![0u32; BUCKETS];
    let mut begun = Instant::now();
    while !shared.over.load(Relaxed) {
        (0..AT_ONCE).for_each(|_| operation());
        done.0.store(done.0.load(Relaxed) + AT_ONCE, Relaxed);
        let now = Instant::now();
        let bucket = &mut batches[bucket_of((now - begun).as_nanos() as u64)];
        *bucket = bucket.saturating_add(1);
        begun = now;
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_follows_from_the_policy_and_the_pcpus() {
        let of = |policy: &str, pcpus: &str| Operation::of(&policy.parse().unwrap(), &pcpus.parse().unwrap());
        assert_eq!(of("host", "0-1"), Operation::HostCall);
        assert_eq!(of("freelist", "0-1"), Operation::List);
        assert_eq!((of("rsdl", "0-1"), of("o1", "0-1")), (Operation::Word, Operation::Word));
        assert_eq!(of("rsdl", "0"), Operation::UpWord);
    }

    #[test]
    fn times_are_those_of_one_operation_and_shares_those_of_the_threads() {
        let mut batch = vec![0; BUCKETS];
        batch[bucket_of(2_560)] = 100;
        let values = values(&[300, 100], 2.0, &[200.0; 20], &[batch.clone(), batch]);
        assert_eq!((values[&Metric::Throughput], values[&Metric::Jitter]), (200.0, 0.0));
        assert!((0.0100..0.0104).contains(&values[&Metric::LatencyP50]), "{values:?}");
        assert_eq!(values[&Metric::MinShare], 0.5);
    }

    #[test]
    fn every_operation_is_counted_and_timed_until_it_is_over() {
        for operation in [Operation::HostCall, Operation::List, Operation::Word, Operation::UpWord] {
            let (shared, done) = (Shared { list: FreeList::new(1), over: AtomicBool::new(false) }, Done::default());
            let batches = std::thread::scope(|scope| {
                let worker = scope.spawn(|| work(operation, VcpuId(3), &shared, &done));
                while done.0.load(Relaxed) < 10 * AT_ONCE {
                    std::thread::yield_now();
                }
                shared.over.store(true, Relaxed);
                worker.join().unwrap()
            });
            let timed: u64 = batches.iter().map(|&n| u64::from(n)).sum();
            assert_eq!(timed * AT_ONCE, done.0.load(Relaxed), "{operation:?}");
        }
    }
}
