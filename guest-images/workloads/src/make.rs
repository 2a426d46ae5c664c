//! A build: jobs with dependencies ([`graph`]), done by all vCPUs of the VM, as by `make -j`. It begins with the start
//! of the VM. The vCPU that ends the last job writes the time (TSC) into its gauge's first spare word. One operation is
//! one job, and the job's time is recorded.
//!
//! A job waits for its source (`io_us`), compresses pieces of it and checks each result against the source ([`job`]).
//! Then it waits for its result to be written. Before a piece it takes a place in the books that all workers share, and
//! it gives the place back afterwards, as with an allocator. With `cached=PERCENT`, that part of the compilations find
//! their result stored: they only hash their source, and wait once more. No job is done twice, and none before the jobs
//! on which it depends. The result of a job depends on their results. Otherwise the VM ends.
//!
//! Two waits yield: for the lock of the books, and for a job that may begin. A jobserver's clients yield for a while
//! like this before they block.

pub mod graph;
pub mod job;

use crate::params::{Params, refuse};
use alloc::boxed::Box;
use core::mem;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use graph::{Graph, JOBS_MAX, State};
use job::{Piece, Workbench};
use stile_rt::abi::{Hint, HintKind};
use stile_rt::clock::{self, Ticks};
use stile_rt::sync::{Manners, YieldingLock};
use stile_rt::{Boot, Cpu, doorbell, heap};

/// Yields of a worker that finds no job, before it blocks.
const POLLS: u32 = 8;
/// Most vCPUs.
const WORKERS_MAX: usize = 64;

/// Set once the heap exists.
static SET_UP: AtomicBool = AtomicBool::new(false);
/// The state of each job.
static JOBS: YieldingLock<[State; JOBS_MAX]> = YieldingLock::new([State::Waiting; JOBS_MAX]);
/// The result of each job.
static RESULTS: [AtomicU64; JOBS_MAX] = [const { AtomicU64::new(0) }; JOBS_MAX];
/// The books of the allocator: bit n is set while place n is taken.
static BOOKS: YieldingLock<u64> = YieldingLock::new(0);

/// Every vCPU is a worker.
pub fn main(cpu: Cpu) -> u32 {
    let params = Params::of(cpu);
    let workers = Boot::page().vcpus() as usize;
    if workers > WORKERS_MAX {
        refuse(cpu, format_args!("a build has at most {WORKERS_MAX} workers, not {workers}"));
    }
    let compilations = params.number("jobs", 64) as usize;
    let graph = Graph::new(compilations)
        .unwrap_or_else(|| refuse(cpu, format_args!("jobs={compilations}: 1 to {} are possible", Graph::MOST)));
    let bench = set_up(cpu, &params);
    Worker { cpu, params, graph, bench, cached: params.number("cached", 0) }.work();
    // The monitor ends the VM when it has read the end.
    loop {
        doorbell::idle(cpu, None);
    }
}

/// The vCPU's tools. The heap has a plain lock, so one vCPU after the other makes its tools, and none allocates later.
fn set_up(cpu: Cpu, params: &Params) -> Box<Workbench> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    if cpu.index() == 0 {
        heap::init(Boot::page());
        SET_UP.store(true, Ordering::Release);
    }
    // Acquire pairs with the Release of the vCPU before.
    let my_turn = || SET_UP.load(Ordering::Acquire) && NEXT.load(Ordering::Acquire) == cpu.index();
    params.patience.wait(my_turn, || HintKind::Unknown);
    let bench = Box::new(Workbench::new());
    NEXT.store(cpu.index() + 1, Ordering::Release);
    bench
}

struct Worker {
    cpu: Cpu,
    params: Params,
    graph: Graph,
    bench: Box<Workbench>,
    cached: u64,
}

impl Worker {
    /// Does jobs until there are none left.
    fn work(&mut self) {
        let mut polls = 0;
        loop {
            match self.take() {
                Some(job) => {
                    polls = 0;
                    let begun = clock::now();
                    self.cpu.gauge().begin(begun.0);
                    self.run(job);
                    self.cpu.gauge().record(self.params.clock.ns(clock::now().since(begun)));
                    self.cpu.op_done();
                    if self.finish(job) {
                        self.cpu.gauge().add_spare(0, clock::now().0);
                        return;
                    }
                }
                None if self.is_over() => return,
                None if polls < POLLS && self.params.patience.manners != Manners::Silent => {
                    polls += 1;
                    doorbell::yield_now(Hint { kind: HintKind::Unknown, again: polls > 1 });
                }
                None => doorbell::idle(self.cpu, None),
            }
        }
    }

    /// A job that may begin.
    fn take(&self) -> Option<usize> {
        let mut jobs = JOBS.lock(&self.cpu, self.params.patience);
        let job = self.graph.ready(|job| jobs[job])?;
        jobs[job] = State::Running;
        Some(job)
    }

    /// Ends a job. Returns whether it was the last one.
    fn finish(&self, job: usize) -> bool {
        let before = mem::replace(&mut JOBS.lock(&self.cpu, self.params.patience)[job], State::Done);
        assert!(before == State::Running, "job {job} was ended in state {before:?}");
        // Other workers may wait for it.
        doorbell::kick_others();
        job == self.graph.last()
    }

    fn is_over(&self) -> bool {
        JOBS.lock(&self.cpu, self.params.patience)[..=self.graph.last()].iter().all(|job| *job == State::Done)
    }

    fn run(&mut self, job: usize) {
        let seed = self.seed(job);
        let is_cached = self.graph.is_compilation(job) && job::chance(seed_of_cache(job)) < self.cached;
        self.wait_for_disk();
        let pieces = if is_cached { 0 } else { self.graph.pieces(job) };
        let mut result = seed;
        for number in 0..pieces {
            result = self.piece(Piece { seed, number }, result);
        }
        if is_cached {
            result = self.bench.hash_source(seed);
            self.wait_for_disk();
        }
        self.wait_for_disk();
        // A result of 0 was not made.
        let made = RESULTS[job].swap(result | 1, Ordering::Relaxed);
        assert!(made == 0, "job {job} was done twice");
    }

    /// The input of a job: its number, and the results on which it depends.
    fn seed(&self, job: usize) -> u64 {
        self.graph.needs(job).fold(job as u64 + 1, |seed, need| {
            let made = RESULTS[need].load(Ordering::Relaxed);
            assert!(made != 0, "job {job} began before job {need} was done");
            job::mixed(seed ^ made)
        })
    }

    /// Compresses a piece, at a place of the allocator's, and checks the result.
    fn piece(&mut self, piece: Piece, result: u64) -> u64 {
        let taken = self.allocate();
        let made = self.bench.compile(piece, result);
        self.free(taken);
        made.unwrap_or_else(|| panic!("piece {} of seed {:x} did not come back whole", piece.number, piece.seed))
    }

    /// Takes a place, of which there is one for each worker.
    fn allocate(&self) -> u32 {
        let mut taken = BOOKS.lock(&self.cpu, self.params.patience);
        let place = taken.trailing_ones();
        assert!(place < Boot::page().vcpus(), "the allocator has no place left: {:b}", *taken);
        *taken |= 1 << place;
        place
    }

    fn free(&self, place: u32) {
        *BOOKS.lock(&self.cpu, self.params.patience) &= !(1 << place);
    }

    fn wait_for_disk(&self) {
        let until = clock::now() + self.params.clock.ticks(self.params.number("io_us", 2_000) * 1000);
        self.sleep(until);
    }

    fn sleep(&self, until: Ticks) {
        while clock::now() < until {
            doorbell::idle(self.cpu, Some(until));
        }
    }
}

/// Decides whether a job's result is stored. It is the same in every build.
fn seed_of_cache(job: usize) -> u64 {
    job as u64 ^ 0xcac4_e000
}
