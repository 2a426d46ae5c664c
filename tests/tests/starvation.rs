//! A vCPU that its policy starves: the watchdog reports it with the events before, and the vCPU makes progress once the
//! domain falls back to the host's scheduler, as all others do.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use stile_abi::{Presence, exit};
use stile_assembly::watch::Watched;
use stile_config::{Config, HostConfig, OnStarvation, PolicyConfig};
use stile_machine::vm::Outcome;
use stile_sched::domain::executors::{self, Executors};
use stile_sched::domain::handover::Handover;
use stile_sched::domain::leases;
use stile_sched::domain::switchable::Switchable;
use stile_sched::domain::watchdog::{Cause, Starvation};
use stile_sched::ledger::What;
use stile_sched::lock::LockRules;
use stile_sched::policy::rsdl::{Rsdl, RsdlConfig};
use stile_sched::policy::{Freelist, Policy};
use stile_sched::{Domain, Nanos, VcpuId};
use stile_tests::{Recipe, Unfair, carrier, program, require_kvm, wait_for, watched};

/// Operations that show that a vCPU runs, not just that it has run once.
const SOME: u64 = 3;
const BOUND: Nanos = Nanos::from_millis(100);
const VICTIM: VcpuId = VcpuId(1);

/// Each mechanism on these pCPUs, under this policy.
fn mechanisms(cpus: &[usize], policy: impl Fn(usize) -> Box<dyn Policy>) -> [Arc<dyn Handover>; 3] {
    let (rules, switches) = (LockRules::default(), leases::Switches::default());
    let policy = |cpus: &[usize]| policy(cpus.len());
    let executors = Executors::new(cpus, policy(cpus), rules, executors::Switches::default())
        .expect("this process may start threads");
    let leases = |cpus: &[usize]| leases::start(cpus, policy(cpus), rules, switches);
    [Arc::new(executors), leases(cpus), leases(&cpus[..1])]
}

/// Domains that can fall back, one of each mechanism.
fn domains(policy: impl Fn(usize) -> Box<dyn Policy>) -> [Arc<Switchable>; 3] {
    let cpus = carrier::pcpus();
    mechanisms(&cpus, policy).map(|first| Arc::new(Switchable::new(first, &cpus)))
}

fn unfair(slots: usize) -> Box<dyn Policy> {
    Box::new(Unfair::new(VICTIM, slots))
}

fn fair(slots: usize) -> Box<dyn Policy> {
    Box::new(Freelist::new(Nanos::from_millis(2), slots))
}

/// The first starvation that the scheduler caused. On a host with other work the host may have caused earlier ones.
fn first(found: &mpsc::Receiver<Starvation>) -> Starvation {
    loop {
        let starvation = found.recv_timeout(Duration::from_secs(60)).expect("the watchdog finds it within a minute");
        if starvation.cause == Cause::Scheduler {
            return starvation;
        }
    }
}

#[test]
fn a_starved_vcpu_is_found_with_who_ran_meanwhile_and_the_events_that_led_there() {
    let kvm = require_kvm!();
    let cpus = carrier::pcpus();
    for domain in mechanisms(&cpus, unfair) {
        let domain: Arc<dyn Domain> = domain;
        let guest = Recipe::builtin("hog").vcpus(4).create(&kvm, &domain);
        assert_eq!(guest.ids()[1], VICTIM);
        // All vCPUs have this long bound, but only the victim waits that long.
        let (watchdog, found) = watched::watch(&domain, Box::new(|_, _| Some(BOUND)));
        guest.start();
        let starvation = first(&found);
        assert_eq!((starvation.vcpu, starvation.bound), (VICTIM, BOUND));
        assert!(starvation.waited > BOUND && starvation.others.is_empty(), "{starvation:?}");
        let ran: Vec<VcpuId> = starvation.meanwhile.ran.iter().map(|(vcpu, _)| *vcpu).collect();
        assert!(!ran.is_empty() && !ran.contains(&VICTIM), "{starvation:?}");
        let wakes = |what: &What| matches!(what, What::Wake { vcpu: VICTIM, .. });
        assert!(starvation.meanwhile.events.iter().any(|event| wakes(&event.what)), "{starvation:?}");
        drop(watchdog);
        assert!(found.try_iter().next().is_none(), "once a minute");
        assert_eq!(guest.ops(1), 0);
    }
}

#[test]
fn a_domain_that_falls_back_loses_no_vcpu_whether_it_computes_waits_or_idles() {
    let kvm = require_kvm!();
    for switchable in domains(unfair) {
        let domain: Arc<dyn Domain> = Arc::clone(&switchable) as _;
        let mix = Recipe::builtin("mix").vcpus(5).cmdline("roles=pair:2,locker:2,hog:1").start(&kvm, &domain);
        let probes = Recipe::builtin("probe").vcpus(2).cmdline("period_us=2000 work_us=20").start(&kvm, &domain);
        let idler = Recipe::program(&program::steps_at_events()).start(&kvm, &domain);
        let unborn = Recipe::builtin("hello").create(&kvm, &domain);
        probes.all_progress(SOME);
        wait_for("it idles after its first step", || idler.ops(0) > 0);
        let (ids, before) = (mix.ids(), domain.totals());
        let usage = [mix.usage(), probes.usage(), idler.usage()].concat();
        assert_eq!(mix.ops(1), 0, "the victim has not run");

        assert_eq!(switchable.fall_back().expect("the host has threads"), 9);
        mix.all_progress(SOME);
        probes.all_progress(SOME);
        let steps = idler.ops(0);
        idler.start();
        wait_for("an event reaches an idle vCPU", || idler.ops(0) > steps);
        unborn.start();
        assert_eq!(unborn.ends(), Outcome::Exit(exit::OK), "it had not been started");

        assert_eq!(mix.ids(), ids);
        let now = [mix.usage(), probes.usage(), idler.usage()].concat();
        for (then, now) in usage.iter().zip(&now) {
            // A reading within a stall of the host counts it as run, and the next one as taken.
            assert!(
                now.run_ns + now.taken_ns >= then.run_ns + then.taken_ns
                    && now.wait_ns >= then.wait_ns
                    && now.exits >= then.exits,
                "{then:?}, {now:?}"
            );
            assert!(now.idle_ns >= then.idle_ns && now.run_ns > 0, "{then:?}, {now:?}");
        }
        assert!(domain.totals().exits > before.exits);
        assert_eq!(switchable.fall_back().expect("nothing is left to do"), 0);

        let late = Recipe::builtin("hello").vcpus(3).start(&kvm, &domain);
        assert_eq!(late.ends(), Outcome::Exit(exit::OK), "it came after the change");
        for guest in [mix, probes, idler] {
            guest.stop();
            assert_eq!(guest.wait(), Outcome::Stopped);
        }
    }
}

#[test]
fn who_is_carried_by_the_host_from_now_on_is_not_told_who_runs_any_more() {
    let kvm = require_kvm!();
    for switchable in domains(|slots| Box::new(Rsdl::new(RsdlConfig::default(), slots))) {
        let domain: Arc<dyn Domain> = Arc::clone(&switchable) as _;
        let hogs = Recipe::builtin("hog").vcpus(3).start(&kvm, &domain);
        hogs.are(0..3, Presence::Away);
        switchable.fall_back().expect("the host has threads");
        hogs.are(0..3, Presence::Untold);
        hogs.all_progress(SOME);
    }
}

#[test]
fn vms_that_start_and_end_while_the_domain_falls_back_do_so_as_ever() {
    let kvm = require_kvm!();
    for _ in 0..5 {
        for switchable in domains(fair) {
            let domain: Arc<dyn Domain> = Arc::clone(&switchable) as _;
            let hogs = Recipe::builtin("hog").vcpus(4).start(&kvm, &domain);
            let done = AtomicBool::new(false);
            thread::scope(|scope| {
                for image in ["hello", "hog", "pingpong"] {
                    let (kvm, domain, done) = (&kvm, &domain, &done);
                    scope.spawn(move || {
                        while !done.load(Relaxed) {
                            let guest = Recipe::builtin(image).vcpus(2).start(kvm, domain);
                            if image == "hello" {
                                assert_eq!(guest.ends(), Outcome::Exit(exit::OK));
                            } else {
                                guest.all_progress(SOME);
                            }
                        }
                    });
                }
                hogs.all_progress(SOME);
                switchable.fall_back().expect("the host has threads");
                hogs.all_progress(SOME);
                done.store(true, Relaxed);
            });
        }
    }
}

#[test]
fn a_configured_fallback_is_told_and_everybody_gets_on() {
    let kvm = require_kvm!();
    let policy = PolicyConfig {
        starvation_bound: "100ms".parse().expect("a bound"),
        on_starvation: OnStarvation::Fallback,
        .."freelist".parse().expect("a policy")
    };
    let host = HostConfig { pcpus: carrier::pcpus().iter().map(|&cpu| cpu as u32).collect(), ..HostConfig::default() };
    let run = Watched::new(&Config { host, policy, vms: Vec::new() }).expect("this process may start threads");
    // 6 ms for each of 80 vCPUs on two pCPUs.
    let hogs = Recipe::builtin("hog").vcpus(80).start(&kvm, run.domain());
    let (says, said) = mpsc::channel();
    let names = hogs.ids().into_iter().map(|id| (id, format!("crowd/{}", id.0))).collect();
    let say = Box::new(move |text: &str| says.send(text.to_owned()).expect("the test listens"));
    let _watchdog = run.watch(names, say).expect("this process may start threads");
    let mut text = String::new();
    while !text.contains("the host's scheduler decides from now on; all 80 vCPUs go on there") {
        text += &said.recv_timeout(Duration::from_secs(60)).expect("it falls back within a minute");
    }
    assert!(text.contains("vCPU crowd/") && text.contains("its bound is 100 ms"), "{text}");
    hogs.all_progress(1);
}
