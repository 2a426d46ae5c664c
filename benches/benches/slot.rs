//! The slot word: what scheduling costs when nobody competes.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Duration;
use stile_sched::VcpuId;
use stile_sched::slot::SlotWord;

fn slot(criterion: &mut Criterion) {
    let (word, owner) = (SlotWord::default(), VcpuId(1));
    assert!(word.take());
    word.release(owner);
    let mut group = criterion.benchmark_group("slot");
    group.bench_function("acquire and release by the last owner", |bencher| {
        bencher.iter(|| black_box(&word).acquire(owner) && black_box(&word).release(owner));
    });
    group.bench_function("take and release by anybody", |bencher| {
        bencher.iter(|| black_box(&word).take() && black_box(&word).release(owner));
    });
    assert!(word.take());
    group.bench_function("look whether somebody wants it", |bencher| bencher.iter(|| black_box(&word).is_wanted()));
    group.finish();
}

fn short() -> Criterion {
    Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1))
}

criterion_group! { name = benches; config = short(); targets = slot }
criterion_main!(benches);
