//! vCPUs that halt with their LAPIC in the kernel: they hold no pCPU, and every event reaches them.

use std::sync::Arc;
use std::time::Duration;
use stile_sched::attributes::{Cap, Class, Group, GroupId};
use stile_sched::domain::handover::Handover;
use stile_sched::domain::host::{HostThreads, HostYield};
use stile_sched::domain::leases::{self, Switches};
use stile_sched::domain::switchable::Switchable;
use stile_sched::lock::LockRules;
use stile_sched::policy::Rsdl;
use stile_sched::policy::rsdl::RsdlConfig;
use stile_sched::time::monotonic;
use stile_sched::{Attributes, Domain, Nanos, Nice};
use stile_tests::halting::{HaltingGuest, HaltingRecipe};
use stile_tests::{carrier, require_kvm, wait_for};

const PERIOD: Nanos = Nanos::from_millis(2);

fn leases_on(pcpus: usize, departures: bool) -> Arc<dyn Handover> {
    let cpus = &carrier::pcpus()[..pcpus];
    let policy = Rsdl::new(RsdlConfig::default(), pcpus);
    leases::start(cpus, Box::new(policy), LockRules::default(), Switches { departures, ..Switches::default() })
}

/// With a watcher and without, on one pCPU and on all; and the host's scheduler.
fn domains() -> Vec<Arc<dyn Domain>> {
    let all = carrier::pcpus().len();
    let host = HostThreads::new(&carrier::pcpus(), HostYield::Sched);
    vec![leases_on(1, true), leases_on(1, false), leases_on(all, true), leases_on(all, false), Arc::new(host)]
}

#[test]
fn every_interrupt_reaches_a_vcpu_that_halts() {
    let kvm = require_kvm!();
    for domain in domains() {
        let guest = HaltingRecipe::vcpus(3).start(&kvm, &domain);
        wait_for("all vCPUs have begun", || (0..3).all(|vcpu| guest.progress(vcpu) > 0));
        for round in 1..60 {
            (0..3).for_each(|vcpu| guest.interrupt(vcpu));
            wait_for("all are interrupted", || (0..3).all(|vcpu| guest.interrupts(vcpu) == round));
        }
        let before = guest.account(0);
        wait_for("a halted vCPU idles", || guest.account(0).idle > before.idle + PERIOD);
        guest.stop();
    }
}

/// Exits for each of the next fifty interrupts of both vCPUs.
fn exits_per_interrupt(guest: &HaltingGuest) -> f64 {
    let count = || {
        let interrupts = (0..2).map(|vcpu| guest.interrupts(vcpu)).sum::<u32>();
        (interrupts, (0..2).map(|vcpu| guest.account(vcpu).exits).sum::<u64>())
    };
    let before = count();
    wait_for("timers fire", || (0..2).all(|vcpu| guest.interrupts(vcpu) > 0) && count().0 >= before.0 + 50);
    let after = count();
    (after.1 - before.1) as f64 / f64::from(after.0 - before.0)
}

#[test]
fn lapic_timers_wake_their_vcpus_whoever_keeps_their_time_for_an_exit_each() {
    let kvm = require_kvm!();
    for recipe in [HaltingRecipe::vcpus(2), HaltingRecipe::vcpus(2).keeping_time()] {
        for domain in domains() {
            let guest = recipe.timer(PERIOD).start(&kvm, &domain);
            // A thread that the host preempts makes exits as well. A kick that is left pending makes one each time.
            let mut all = Vec::new();
            while all.last().is_none_or(|exits| *exits >= 1.5) {
                assert!(all.len() < 20, "more exits than halts: {all:.2?} for each interrupt");
                all.push(exits_per_interrupt(&guest));
            }
            guest.stop();
        }
    }
}

/// Prints the time from interrupts until their vCPU ran.
fn tell(what: &str, mut spans: Vec<Nanos>) {
    spans.sort_unstable();
    let part = |part: f64| spans[((spans.len() - 1) as f64 * part) as usize].0 as f64 / 1e3;
    let [p50, p90, p99, max] = [0.5, 0.9, 0.99, 1.0].map(part);
    println!("{what}: p50 {p50:.0} us, p90 {p90:.0}, p99 {p99:.0}, max {max:.0}, n = {}", spans.len());
}

#[test]
fn a_vcpu_that_is_woken_runs_alone_and_beside_one_that_computes_on_the_same_pcpu() {
    let kvm = require_kvm!();
    for (departures, computes) in [(true, false), (true, true), (false, true)] {
        let domain: Arc<dyn Domain> = leases_on(1, departures);
        let guest = HaltingRecipe::vcpus(2).start(&kvm, &domain);
        guest.halts(1, !computes);
        guest.interrupt(1);
        let gets_on = || {
            let goal = guest.progress(1) + 100;
            wait_for("the other computes", || guest.progress(1) > goal || !computes);
        };
        let wakes = |round| {
            gets_on();
            let (sent, interrupts) = (monotonic(), guest.interrupts(0));
            guest.interrupt(0);
            wait_for("it is interrupted", || guest.interrupts(0) > interrupts);
            assert!(guest.account(0).turns >= u64::from(computes) * round);
            let (woken, ran) = guest.woken(0);
            (woken.since(sent), ran.since(sent))
        };
        let (known, leased) = (1..200).map(wakes).unzip();
        let how = format!("departures {departures}, beside one that computes {computes}");
        tell(&format!("awake, {how}"), known);
        tell(&format!("leased, {how}"), leased);
        gets_on();
        guest.stop();
    }
}

#[test]
fn two_guests_share_a_pcpu_of_which_one_sleeps_and_wakes() {
    let kvm = require_kvm!();
    let domain: Arc<dyn Domain> = leases_on(1, true);
    let (hog, sleeper) = (HaltingRecipe::vcpus(1).start(&kvm, &domain), HaltingRecipe::vcpus(1).start(&kvm, &domain));
    hog.halts(0, false);
    hog.interrupt(0);
    // The host may take this thread's CPU between a look at the clock and one at an account.
    let look = || (monotonic(), [hog.account(0), sleeper.account(0)], monotonic());
    let (began, before, begun) = look();
    for _ in 0..60 {
        sleeper.halts(0, false);
        sleeper.interrupt(0);
        std::thread::sleep(Duration::from_millis(18));
        sleeper.halts(0, true);
        std::thread::sleep(Duration::from_millis(2));
    }
    let (ends, after, ended) = look();
    let (least, most) = (ends.since(begun), ended.since(began));
    let run = [0, 1].map(|n: usize| (after[n].run - before[n].run).0 as f64);
    let share = run[1] / (run[0] + run[1]);
    println!("the vCPU that sleeps a tenth of the time ran {:.0} %, of {most:?}", 100.0 * share);
    assert!((0.38..0.55).contains(&share), "{share}: {before:?} {after:?}");
    for (before, after) in before.iter().zip(&after) {
        let accounted = after.total() - before.total();
        let of = |time: Nanos| accounted.0 as f64 / time.0 as f64;
        assert!(of(least) > 0.98 && of(most) < 1.02, "{accounted:?} of {least:?} to {most:?} is accounted for");
    }
    hog.stop();
    sleeper.stop();
}

#[test]
fn vcpus_that_doze_go_over_to_the_hosts_scheduler_and_are_woken_there() {
    let kvm = require_kvm!();
    let switchable = Arc::new(Switchable::new(leases_on(carrier::pcpus().len(), true), &carrier::pcpus()));
    let domain: Arc<dyn Domain> = Arc::clone(&switchable) as _;
    let guest = HaltingRecipe::vcpus(3).start(&kvm, &domain);
    (0..3).for_each(|vcpu| guest.interrupt(vcpu));
    wait_for("all are interrupted", || (0..3).all(|vcpu| guest.interrupts(vcpu) == 1));
    assert_eq!(switchable.fall_back().expect("threads for three vCPUs"), 3);
    for round in 2..20 {
        (0..3).for_each(|vcpu| guest.interrupt(vcpu));
        wait_for("all are interrupted", || (0..3).all(|vcpu| guest.interrupts(vcpu) == round));
    }
    guest.stop();
}

#[test]
fn timers_go_on_over_any_succession_of_schedulers_beside_a_vcpu_that_computes() {
    const POLICIES: [&str; 4] = ["rsdl:leases", "o1:leases", "credit2:leases", "host"];
    let kvm = require_kvm!();
    let changes = std::env::var("STILE_CHANGES").map_or(40, |changes| changes.parse().unwrap());
    let seed = std::env::var("STILE_SEED").map_or(7, |seed| seed.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(seed);
    let successor = |policy: &str, pcpus: &[usize]| {
        let cpus: stile_host::CpuList = pcpus.iter().map(|cpu| *cpu as u32).collect();
        stile_assembly::successor(&policy.parse().unwrap(), &cpus, true).expect("threads")
    };
    for keeps in [false, true] {
        let all = carrier::pcpus();
        let (mut policy, mut pcpus) = (0, all.clone());
        let switchable = Arc::new(Switchable::new(successor(POLICIES[0], &all), &all));
        let domain: Arc<dyn Domain> = Arc::clone(&switchable) as _;
        let recipe = HaltingRecipe::vcpus(2).timer(Nanos::from_millis(20));
        let guest = if keeps { recipe.keeping_time() } else { recipe }.start(&kvm, &domain);
        let hog = HaltingRecipe::vcpus(1).start(&kvm, &domain);
        hog.halts(0, false);
        hog.interrupt(0);
        let (hogs, group) = (hog.id(0), GroupId::unique());
        let mut wanted = Attributes::default();
        for change in 0..changes {
            match random.u32(..5) {
                0 => policy = (policy + 1) % POLICIES.len(),
                1 => pcpus = all[..=random.usize(..all.len())].to_vec(),
                2 => wanted.nice = Nice::new(random.i8(-10..=10)).expect("a nice value"),
                3 => wanted.class = if random.bool() { Class::Batch } else { Class::Normal },
                _ => {
                    let cap = |parts: u64| Cap::new(Nanos::from_millis(50 * parts), Nanos::from_millis(100));
                    let cap = [None, cap(1), cap(3)][random.usize(..3)];
                    wanted.group = cap.map(|cap| Group { id: group, cap });
                }
            }
            let set = |id, attributes: &mut Attributes| {
                if id != hogs {
                    *attributes = wanted;
                }
            };
            switchable.hand_over(successor(POLICIES[policy], &pcpus), &pcpus, set).expect("threads");
            let before = [guest.interrupts(0), guest.interrupts(1)];
            let what = format!("timers after change {change} to {} on {pcpus:?}, {wanted:?}", POLICIES[policy]);
            wait_for(&what, || (0..2).all(|vcpu| guest.interrupts(vcpu) > before[usize::from(vcpu)] + 1));
        }
        guest.stop();
        hog.stop();
    }
}
