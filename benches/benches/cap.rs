//! VMs with a cap of half a CPU: how far their run time is from the cap, and the longest wait of their vCPUs.

use kvm_ioctls::Kvm;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;
use stile_benches::{Limit, Promise, tell};
use stile_sched::Nanos;
use stile_sched::attributes::Cap;
use stile_sched::policy::rsdl::RsdlConfig;
use stile_tests::{Carrier, Recipe};

const PERIOD: Nanos = Nanos::from_millis(100);
const BUDGET: Nanos = Nanos::from_millis(50);
/// Limit of the distance from the cap (unit: percent).
const OFF: f64 = 1.0;
/// Limit of a wait (unit: periods).
const WAIT: f64 = 2.0;
/// A few periods before a window: the CPU time in hand at the start is not part of what the cap gives.
const WARM_UP: Duration = Duration::from_millis(500);

/// A VM with a cap, and the number of hogs without a cap beside it.
#[derive(Debug, Clone, Copy)]
struct Situation {
    image: &'static str,
    vcpus: u32,
    hogs: u32,
}

fn main() -> ExitCode {
    let Some(kvm) = stile_tests::kvm() else { return ExitCode::SUCCESS };
    let quick = std::env::args().any(|argument| argument == "--quick");
    let window = Duration::from_secs(if quick { 2 } else { 10 });
    let leases = Carrier::RsdlLeases(RsdlConfig::default().yield_rule);
    let promises = [Carrier::default_policy(), leases].map(|carrier| {
        let images: &'static [&'static str] = if carrier == leases { &["hog"] } else { &["hog", "ticket"] };
        let measured: Vec<(f64, f64)> =
            situations(images).map(|situation| measure(&kvm, carrier, situation, window)).collect();
        let worst = |of: fn(&(f64, f64)) -> f64| vec![measured.iter().map(of).fold(0.0, f64::max)];
        [
            Promise {
                what: format!("off a cap of 0.5 CPUs, at worst, {carrier}"),
                unit: "%",
                samples: worst(|measured| measured.0),
                limit: Limit::Below(OFF),
            },
            Promise {
                what: format!("longest wait of a vCPU under it, {carrier}"),
                unit: "periods",
                samples: worst(|measured| measured.1),
                limit: Limit::Below(WAIT),
            },
        ]
    });
    tell(promises.as_flattened())
}

/// One VM of hogs or lockers, as the sole VM and beside two hogs, on two pCPUs. The mechanism leases is not measured
/// with lockers: their CPU time beside hogs depends on how soon the host runs a woken thread (`docs/adr/0014-caps.md`).
fn situations(images: &'static [&'static str]) -> impl Iterator<Item = Situation> {
    images.iter().flat_map(|image| {
        [1, 2, 4].into_iter().flat_map(move |vcpus| [0, 2].map(|hogs| Situation { image, vcpus, hogs }))
    })
}

/// The distance from the cap (unit: percent), and the longest wait (unit: periods).
fn measure(kvm: &Kvm, carrier: Carrier, situation: Situation, window: Duration) -> (f64, f64) {
    let Situation { image, vcpus, hogs } = situation;
    let domain = carrier.domain_with_caps();
    let beside = (hogs > 0).then(|| Recipe::builtin("hog").vcpus(hogs).start(kvm, &domain));
    let cap = Cap::new(BUDGET, PERIOD).expect("a budget of 50 ms makes many turns");
    let guest = Recipe::builtin(image).vcpus(vcpus).cap(cap).start(kvm, &domain);
    guest.all_progress(1);
    sleep(WARM_UP);
    let before = guest.usage();
    sleep(window);
    let used: Vec<_> = guest.usage().iter().zip(&before).map(|(now, before)| now.since(before)).collect();
    drop(beside);
    let run: u64 = used.iter().map(|used| used.run_ns).sum();
    let lived = used[0].run_ns + used[0].wait_ns + used[0].idle_ns;
    let got = run as f64 / lived as f64;
    let waits = guest.ids().into_iter().filter_map(|id| domain.account(id)).map(|account| account.waits.max().0);
    let longest = waits.max().unwrap_or_default() as f64 / PERIOD.0 as f64;
    println!("{carrier}: {image}, {vcpus} vCPUs beside {hogs} hogs: {got:.4} CPUs, longest wait {longest:.2} periods");
    (100.0 * (got * PERIOD.0 as f64 / BUDGET.0 as f64 - 1.0).abs(), longest)
}
