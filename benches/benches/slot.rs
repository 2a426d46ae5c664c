//! The slot word: the cost of scheduling without competition, with two threads, and when a slot changes hands.
//!
//! `freelist` here is the scheme before slots had words: a list of free CPUs behind a lock. `stile compare entry`
//! reports both.

use criterion::{Criterion, criterion_group, criterion_main};
use rustix::thread::{CpuSet, futex, sched_setaffinity};
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use stile_sched::domain::parker::Parker;
#[cfg(target_arch = "x86_64")]
use stile_sched::slot::Up;
use stile_sched::slot::{FreeList, SlotWord, Smp, Word};
use stile_sched::{Time, VcpuId};

const A: VcpuId = VcpuId(1);
const B: VcpuId = VcpuId(2);

fn alone(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("slot");
    group.bench_function("acquire and release by the last owner", |bencher| {
        let word = released::<Smp>();
        bencher.iter(|| black_box(&word).acquire(A) && black_box(&word).release(A));
    });
    #[cfg(target_arch = "x86_64")]
    group.bench_function("acquire and release by the last owner, one pCPU", |bencher| {
        let word = released::<Up>();
        bencher.iter(|| black_box(&word).acquire(A) && black_box(&word).release(A));
    });
    group.bench_function("acquire and release, freelist", |bencher| {
        let list = FreeList::new(1);
        bencher.iter(|| from_list(black_box(&list)));
    });
    group.bench_function("check whether the slot is wanted", |bencher| {
        let word = released::<Smp>();
        assert!(word.acquire(A));
        bencher.iter(|| black_box(&word).is_wanted());
    });
    group.finish();
}

/// Two threads at once, each taking a slot and giving it back: a slot of its own, or one from the list.
fn contended(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("slot, two threads");
    group.bench_function("acquire and release by the last owner", |bencher| {
        let words = [released::<Smp>(), released()];
        bencher.iter_custom(|rounds| {
            at_once(rounds, |thread| {
                black_box(words[thread].acquire(A) && words[thread].release(A));
            })
        });
    });
    group.bench_function("acquire and release, freelist", |bencher| {
        let list = FreeList::new(2);
        bencher.iter_custom(|rounds| at_once(rounds, |_| from_list(&list)));
    });
    group.finish();
}

/// A slot goes to another thread on the same CPU and back.
fn handed(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("there and back on one pCPU");
    group.bench_function("slot and parker", |bencher| {
        bencher.iter_custom(there_and_back::<Smp>);
    });
    #[cfg(target_arch = "x86_64")]
    group.bench_function("slot and parker, one pCPU", |bencher| {
        bencher.iter_custom(there_and_back::<Up>);
    });
    group.bench_function("bare futex", |bencher| {
        bencher.iter_custom(|rounds| {
            let turn = AtomicU32::new(0);
            let take_turns = |me: u32| {
                for _ in 0..rounds {
                    while turn.load(Ordering::Acquire) != me {
                        let _ = futex::wait(&turn, futex::Flags::PRIVATE, 1 - me, None);
                    }
                    turn.store(1 - me, Ordering::Release);
                    let _ = futex::wake(&turn, futex::Flags::PRIVATE, 1);
                }
            };
            both_on_one_cpu(|| take_turns(0), || take_turns(1))
        });
    });
    group.finish();
}

fn released<W: Word>() -> SlotWord<W> {
    let word = SlotWord::default();
    word.occupy();
    word.release(A);
    word
}

fn from_list(list: &FreeList) {
    let slot = list.take();
    black_box(slot).into_iter().for_each(|slot| list.give(slot));
}

fn at_once(rounds: u64, work: impl Fn(usize) + Sync) -> Duration {
    let start = Barrier::new(2);
    let run = |thread| {
        start.wait();
        let began = Instant::now();
        (0..rounds).for_each(|_| work(thread));
        began.elapsed()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(1));
        run(0).max(other.join().expect("nobody panics"))
    })
}

fn there_and_back<W: Word>(rounds: u64) -> Duration {
    let word = SlotWord::<W>::default();
    word.occupy();
    let (a, b) = (Parker::default(), Parker::default());
    let pass_on = |to, parker: &Parker| {
        word.hand(to);
        parker.wake();
    };
    let until_handed = |me, parker: &Parker| {
        while !word.start(me) {
            parker.wait(Time::NEVER);
        }
    };
    both_on_one_cpu(
        || {
            for _ in 0..rounds {
                pass_on(B, &b);
                until_handed(A, &a);
            }
        },
        || {
            for _ in 0..rounds {
                until_handed(B, &b);
                pass_on(A, &a);
            }
        },
    )
}

/// The time of the first thread, both bound to the first CPU that this process may use.
fn both_on_one_cpu(first: impl Fn() + Sync, second: impl Fn() + Sync) -> Duration {
    let bind = || {
        let allowed = rustix::thread::sched_getaffinity(None).expect("the kernel tells");
        let cpu = (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).expect("at least one");
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only).expect("it is allowed");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            bind();
            second();
        });
        let timed = scope.spawn(|| {
            bind();
            let began = Instant::now();
            first();
            began.elapsed()
        });
        timed.join().expect("nobody panics")
    })
}

fn short() -> Criterion {
    Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1))
}

criterion_group! { name = benches; config = short(); targets = alone, contended, handed }
criterion_main!(benches);
