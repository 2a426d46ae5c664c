//! From the request for a VM (before KVM_CREATE_VM, reading the image included) to the first doorbell of its program.

use criterion::Criterion;
use std::process::ExitCode;
use std::time::Duration;
use stile_benches::{Limit, Promise, tell};
use stile_tests::{Carrier, Recipe};

/// Units: ms.
const LIMIT: f64 = 5.0;

fn main() -> ExitCode {
    let Some(kvm) = stile_tests::kvm() else { return ExitCode::SUCCESS };
    let mut criterion =
        Criterion::default().warm_up_time(Duration::from_millis(500)).sample_size(50).configure_from_args();
    let mut promises = Vec::new();
    for carrier in Carrier::mechanisms() {
        let domain = carrier.domain();
        let hello = Recipe::builtin("hello").cmdline("console=none").memory(8 << 20);
        let mut samples = Vec::new();
        let mut group = criterion.benchmark_group("boot");
        group.bench_function(carrier.to_string(), |bencher| {
            bencher.iter_custom(|count| {
                let boot = |_| {
                    let guest = hello.start(&kvm, &domain);
                    guest.wait();
                    let started = guest.state().started().expect("hello tells its start before its end");
                    Duration::from_nanos(started.since(guest.created()).0)
                };
                let times: Vec<Duration> = (0..count).map(boot).collect();
                samples.extend(times.iter().map(|time| time.as_secs_f64() * 1e3));
                times.iter().sum()
            });
        });
        group.finish();
        let what = format!("KVM_CREATE_VM to the first doorbell of hello, {carrier}");
        // There is no figure if a filter left this out.
        promises.extend((!samples.is_empty()).then_some(Promise {
            what,
            unit: "ms",
            samples,
            limit: Limit::Below(LIMIT),
        }));
    }
    criterion.final_summary();
    tell(&promises)
}
