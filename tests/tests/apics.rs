//! Interrupt controllers in user space, used by a guest at CPL 0 as an operating system would: under every way to carry
//! vCPUs, with one to four of them.

use std::sync::Arc;
use stile_machine::linux::Interrupts;
use stile_machine::vm::Outcome;
use stile_sched::Domain;
use stile_sched::domain::executors::{self, Executors};
use stile_sched::domain::host::{HostThreads, HostYield};
use stile_sched::domain::leases;
use stile_sched::lock::LockRules;
use stile_sched::policy::Rsdl;
use stile_sched::policy::rsdl::RsdlConfig;
use stile_tests::{Ring0Run, carrier, require_kvm};

fn executors_on(pcpus: usize) -> Arc<dyn Domain> {
    let policy = Box::new(Rsdl::new(RsdlConfig::default(), pcpus));
    let switches = executors::Switches::default();
    let domain = Executors::new(&carrier::pcpus()[..pcpus], policy, LockRules::default(), switches);
    Arc::new(domain.expect("threads"))
}

fn domains() -> Vec<(&'static str, Arc<dyn Domain>)> {
    let cpus = carrier::pcpus();
    let policy = Box::new(Rsdl::new(RsdlConfig::default(), cpus.len()));
    let leases = leases::start(&cpus, policy, LockRules::default(), leases::Switches::default());
    let host = HostThreads::new(&cpus, HostYield::Sched);
    vec![
        ("executors", executors_on(cpus.len())),
        ("one executor", executors_on(1)),
        ("leases", leases),
        ("host", Arc::new(host)),
    ]
}

#[test]
fn a_guest_at_cpl_0_finds_its_interrupt_controllers_as_the_manual_says() {
    let kvm = require_kvm!();
    for (how, domain) in domains() {
        for vcpus in [1, 2, 4] {
            let run = Ring0Run::of(&kvm, &domain, Interrupts::User, vcpus, "");
            let Ring0Run { outcome, text, exits, cpu } = run;
            println!("{vcpus} vCPUs by {how}: {exits} exits, {cpu:?}\n{text}");
            assert_eq!(outcome, Some(Outcome::PoweredOff), "{vcpus} vCPUs by {how}");
            assert!(!text.contains("FAILED") && text.contains("ok: interrupts end without a write"), "{text}");
        }
    }
}

#[test]
fn a_timer_interrupt_costs_an_exit_less_if_its_end_needs_no_write() {
    let kvm = require_kvm!();
    let domain = executors_on(1);
    let exits = ["ticks", "ticks pv"].map(|words| {
        let Ring0Run { outcome, text, exits, cpu } = Ring0Run::of(&kvm, &domain, Interrupts::User, 1, words);
        println!("{words}: {exits} exits, {cpu:?}, {text}");
        assert_eq!(outcome, Some(Outcome::PoweredOff), "{text}");
        if words == "ticks pv" && !text.contains("offers true") {
            return None;
        }
        Some(exits)
    });
    if let [Some(without), Some(with)] = exits {
        // 200 ticks; some may come late, beside another.
        assert!(with + 150 <= without, "{with} exits with it, {without} without");
    }
}
