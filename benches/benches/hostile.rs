//! What attackers take from others: CPU time beyond their share or their cap, and the time in which probes respond.
//! `scripts/hostile-soak` runs it.

use kvm_ioctls::Kvm;
use rustix::time::{ClockId, clock_gettime};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use stile_benches::{Limit, Promise, tell};
use stile_machine::devices::net::Switch;
use stile_sched::attributes::Cap;
use stile_sched::{Domain, Nanos};
use stile_tests::soak::{Beside, Responses, Soak};
use stile_tests::{Carrier, Guest, Recipe};
use stile_workloads::hostile::{ATTACKS, Needs};

/// Parts that can be run alone.
const PARTS: [&str; 3] = ["probes", "shares", "endurance"];
/// Limit of what attackers get beyond their share or cap (unit: percent).
const BEYOND: f64 = 5.0;
/// Limit of the probes' 99th percentile beside attackers, to that beside honest hogs.
const RATIO: f64 = 2.0;
const PERIOD: Nanos = Nanos::from_millis(100);
/// A fifth of a CPU for each of the attacker's vCPUs.
const BUDGET: Nanos = Nanos::from_millis(40);
/// The cap (unit: CPUs).
const CAP_CPUS: f64 = 0.4;
/// After a start, until the shares are what they should be.
const WARM_UP: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let Some(kvm) = stile_tests::kvm() else { return ExitCode::SUCCESS };
    let given: Vec<String> = std::env::args().collect();
    let is_given = |word: &str| given.iter().any(|argument| argument == word);
    let is_wanted = |part: &str| is_given(part) || !PARTS.iter().any(|part| is_given(part));
    let quick = is_given("--quick");
    let (rounds, window, inputs) = if quick { (3, 1, 100_000) } else { (9, 4, 10_000_000) };
    let window = Duration::from_secs(window);
    let [probes, share, endurance] = PARTS;
    let mut promises = Vec::new();
    if is_wanted(probes) {
        promises.extend(beside_probes(&kvm, rounds, window));
    }
    if is_wanted(share) {
        promises.extend(shares(&kvm, window));
    }
    if is_wanted(endurance) {
        endures(&kvm, inputs);
    }
    tell(&promises)
}

/// What one window showed.
struct Seen {
    responses: Responses,
    /// CPU time of the VMs beside the victims, in CPUs.
    cpus: f64,
    inputs: u64,
}

/// Probes and netbench pairs beside attackers, and beside as many hogs, in turn.
fn beside_probes(kvm: &Kvm, rounds: u64, window: Duration) -> Vec<Promise> {
    let (mut ratios, mut beyond) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let mut sides = [Beside::Attackers { seed: 1 + 100 * round }, Beside::Hogs];
        if round % 2 == 1 {
            sides.reverse();
        }
        let mut seen = sides.map(|beside| (beside, watch(kvm, beside, window)));
        seen.sort_by_key(|(beside, _)| *beside == Beside::Hogs);
        let [(_, attackers), (_, hogs)] = &seen;
        let us = |seen: &Seen, part| seen.responses.quantile(part).as_secs_f64() * 1e6;
        println!(
            "round {round}: {} inputs; probes' p99 {:.0} us beside attackers, {:.0} us beside hogs; longest {:.0} and \
             {:.0} us; they used {:.3} and {:.3} CPUs",
            attackers.inputs,
            us(attackers, 0.99),
            us(hogs, 0.99),
            us(attackers, 1.0),
            us(hogs, 1.0),
            attackers.cpus,
            hogs.cpus
        );
        ratios.push(us(attackers, 0.99) / us(hogs, 0.99));
        beyond.push(100.0 * (attackers.cpus / hogs.cpus - 1.0));
    }
    vec![
        Promise {
            what: "probes' p99 beside attackers to that beside hogs".into(),
            unit: "times",
            samples: ratios,
            limit: Limit::Below(RATIO),
        },
        Promise {
            what: "CPU time of random attackers beyond that of as many hogs".into(),
            unit: "%",
            samples: beyond,
            limit: Limit::Below(BEYOND),
        },
    ]
}

fn watch(kvm: &Kvm, beside: Beside, window: Duration) -> Seen {
    let domain = Carrier::default_policy().domain();
    let soak = Soak::start(kvm, &domain, beside);
    sleep(WARM_UP);
    let read = || (Responses::of(soak.probes()), run(soak.others()), soak.inputs(), Instant::now());
    let before = read();
    sleep(window);
    let after = read();
    soak.check();
    soak.end();
    Seen {
        responses: after.0.since(&before.0),
        cpus: (after.1 - before.1) / (after.3 - before.3).as_secs_f64(),
        inputs: after.2 - before.2,
    }
}

/// CPU time that VMs have used, with that of their devices (unit: s).
fn run(guests: &[Guest]) -> f64 {
    let usage = guests.iter().flat_map(|guest| guest.usage());
    usage.map(|usage| (usage.run_ns + usage.devices_ns) as f64 / 1e9).sum()
}

/// What each attack takes from a VM of hogs beside it. All CPU time of the process that the hogs were not charged for
/// counts as the attacker's, the monitor's threads included. Whether hogs are charged for what they did not do is seen
/// by the work that they do in a second of their CPU time.
fn shares(kvm: &Kvm, window: Duration) -> Vec<Promise> {
    let survivable = ATTACKS.iter().filter(|attack| attack.end.is_none());
    let (mut beyond_share, mut beyond_cap, mut lost) = (Vec::new(), Vec::new(), Vec::new());
    for name in survivable.map(|attack| attack.name).chain(["random"]) {
        // How much hogs do in a second of CPU time changes with the host, so it is measured again for each attack.
        let alone = hogs_beside(kvm, None, None, window);
        let free = hogs_beside(kvm, Some(name), None, window);
        let capped = hogs_beside(kvm, Some(name), Cap::new(BUDGET, PERIOD), window);
        let share = 100.0 * (free.cpu - free.run) / (free.cpu / 2.0);
        let cap = 100.0 * (capped.cpu - capped.run) / capped.wall / CAP_CPUS;
        // Alone the hogs hardly exit, and only then is it noticed what the host took. So the process's clock counts.
        let work = 100.0 * (free.ops / free.run) / (alone.ops / alone.cpu);
        println!("{name}: {share:.1} % of its share, {cap:.1} % of its cap; hogs do {work:.1} % of their work");
        beyond_share.push(share - 100.0);
        beyond_cap.push(cap - 100.0);
        lost.push(100.0 - work);
    }
    let worst = |samples: Vec<f64>| vec![samples.into_iter().fold(f64::NEG_INFINITY, f64::max)];
    let limit = Limit::Below(BEYOND);
    vec![
        Promise {
            what: "CPU time of an attacker beyond its share, worst attack".into(),
            unit: "%",
            samples: worst(beyond_share),
            limit,
        },
        Promise {
            what: "CPU time of an attacker beyond its cap, worst attack".into(),
            unit: "%",
            samples: worst(beyond_cap),
            limit,
        },
        Promise {
            what: "work that hogs lose in a second of their CPU time, median attack".into(),
            unit: "%",
            samples: lost,
            limit,
        },
    ]
}

/// A window of two hogs.
struct Hogs {
    /// Operations of the hogs.
    ops: f64,
    /// CPU time that they were charged for (unit: s).
    run: f64,
    /// CPU time of the whole process (unit: s).
    cpu: f64,
    /// Length of the window (unit: s).
    wall: f64,
}

/// Two hogs beside an attacker of two vCPUs with this cap.
fn hogs_beside(kvm: &Kvm, attack: Option<&str>, cap: Option<Cap>, window: Duration) -> Hogs {
    let domain: Arc<dyn Domain> = Carrier::default_policy().domain_with_caps();
    let switch = Switch::new();
    let hogs = Recipe::builtin("hog").vcpus(2).start(kvm, &domain);
    let attacker = attack.map(|name| {
        let recipe = Recipe::builtin("hostile").cmdline(&format!("mode={name} gate=open")).vcpus(2).without_console();
        let needs_network = ATTACKS.iter().all(|attack| attack.name != name || attack.needs == Needs::Network);
        let recipe = if needs_network { recipe.at_port(&switch, 1) } else { recipe };
        let guest = cap.map_or(recipe.clone(), |cap| recipe.cap(cap)).start(kvm, &domain);
        guest.open_gate();
        guest
    });
    sleep(WARM_UP);
    let hogs = std::slice::from_ref(&hogs);
    let ops = || (0..2).map(|vcpu| hogs[0].ops(vcpu)).sum::<u64>() as f64;
    let read = || (ops(), run(hogs), cpu_time(), Instant::now());
    let (ops, charged, cpu, begun) = read();
    sleep(window);
    let (ops_after, charged_after, cpu_after, ended) = read();
    if let Some(attacker) = attacker {
        assert_eq!(attacker.state().outcome(), None);
    }
    let wall = (ended - begun).as_secs_f64();
    Hogs { ops: ops_after - ops, run: charged_after - charged, cpu: cpu_after - cpu, wall }
}

/// CPU time of this process (unit: s).
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Random attacks for so many inputs, and the end of all VMs.
fn endures(kvm: &Kvm, inputs: u64) {
    let domain = Carrier::default_policy().domain();
    let soak = Soak::start(kvm, &domain, Beside::Attackers { seed: 1 });
    let begun = Instant::now();
    while soak.inputs() < inputs {
        sleep(Duration::from_millis(200));
        soak.check();
    }
    let (made, took) = (soak.inputs(), begun.elapsed());
    let end = soak.end();
    println!(
        "{made} inputs in {:.1} s; nobody else ended or erred; the end took {:.1} ms",
        took.as_secs_f64(),
        end.as_secs_f64() * 1e3
    );
}
