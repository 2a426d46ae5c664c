//! Interrupt controllers in user space, used by a guest at CPL 0 as an operating system would: under every way to carry
//! vCPUs, with one to four of them.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stile_machine::linux::{Interrupts, LinuxVm, Payload, Spec};
use stile_machine::vm::console::Sink;
use stile_machine::vm::{HostFeatures, Outcome};
use stile_sched::domain::executors::{self, Executors};
use stile_sched::domain::host::{HostThreads, HostYield};
use stile_sched::domain::leases;
use stile_sched::lock::LockRules;
use stile_sched::policy::Rsdl;
use stile_sched::policy::rsdl::RsdlConfig;
use stile_sched::{Attributes, Domain};
use stile_tests::{carrier, require_kvm};

const MEMORY: u64 = 16 << 20;
/// A sound run takes seconds where ring 0 is emulated.
const LIMIT: Duration = Duration::from_secs(120);

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

/// What became of a guest.
struct Run {
    outcome: Option<Outcome>,
    text: String,
    exits: u64,
    /// CPU time of all vCPUs.
    cpu: Duration,
}

/// Runs the guest until it ends.
fn run(kvm: &kvm_ioctls::Kvm, domain: &Arc<dyn Domain>, vcpus: u32, words: &str) -> Run {
    let folder = tempfile::tempdir().expect("a test may write temporary files");
    let kernel = folder.path().join("ring0");
    fs::write(&kernel, stile_guest_images::RING0).expect("the folder is this test's own");
    let payload = Payload::open(&kernel, None, &format!("{words} cpus={vcpus}"), MEMORY);
    let payload = payload.expect("the image is a kernel");
    let text = Arc::new(Mutex::new(Vec::new()));
    let spec = Spec {
        name: "ring0",
        payload: &payload,
        vcpus,
        attributes: Attributes::default(),
        interrupts: Interrupts::User,
        halt_poll: None,
        shown: HostFeatures::default(),
        console: Sink::Buffer(Arc::clone(&text)),
        devices: Vec::new(),
    };
    let vm = LinuxVm::create(kvm, spec, Arc::clone(domain)).expect("KVM makes it");
    vm.start();
    let outcome = vm.wait_for(LIMIT);
    let exits = vm.usage().iter().map(|usage| usage.exits).sum();
    let cpu = Duration::from_nanos(vm.usage().iter().map(|usage| usage.run_ns).sum());
    let text = String::from_utf8_lossy(&text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
    Run { outcome, text, exits, cpu }
}

#[test]
fn a_guest_at_cpl_0_finds_its_interrupt_controllers_as_the_manual_says() {
    let kvm = require_kvm!();
    for (how, domain) in domains() {
        for vcpus in [1, 2, 4] {
            let Run { outcome, text, exits, cpu } = run(&kvm, &domain, vcpus, "");
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
        let Run { outcome, text, exits, cpu } = run(&kvm, &domain, 1, words);
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
