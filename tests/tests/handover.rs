//! Real guests whose scheduler is changed again and again while they work: another policy, mechanism or set of pCPUs,
//! and other nice values. No guest ends, errs or stops, and no vCPU runs twice.

use kvm_ioctls::Kvm;
use std::sync::Arc;
use std::time::Instant;
use stile_host::CpuList;
use stile_machine::devices::net::Switch;
use stile_machine::vm::Outcome;
use stile_sched::domain::handover::Handover;
use stile_sched::domain::switchable::Switchable;
use stile_sched::{Domain, Nanos, Nice};
use stile_tests::{Guest, Recipe, carrier, require_kvm};

/// Changes, where the environment does not say how many (`STILE_CHANGES`).
const CHANGES: usize = 42;
/// Not `o1` and `goodness`: beside vCPUs that spin they keep a client waiting for the five seconds after which it
/// counts an error, without any change.
const POLICIES: [&str; 7] =
    ["rsdl", "rsdl:leases", "credit2", "credit2:leases", "freelist", "host", "rsdl+none:shard_pcpus=1"];

/// All pCPUs, or one of them.
fn pcpus(all: bool) -> Vec<usize> {
    carrier::pcpus().into_iter().take(if all { usize::MAX } else { 1 }).collect()
}

fn successor(policy: &str, all: bool) -> Arc<dyn Handover> {
    let policy = policy.parse().expect("the test names policies that there are");
    let cpus: CpuList = pcpus(all).into_iter().map(|cpu| cpu as u32).collect();
    stile_assembly::successor(&policy, &cpus, false).expect("this process may start threads")
}

/// 24 vCPUs: six netbench pairs, eight that take a lock in turn, and four probes.
fn guests(kvm: &Kvm, domain: &Arc<dyn Domain>) -> Vec<Guest> {
    let (switch, mut guests) = (Switch::new(), Vec::new());
    for port in [1, 3, 5, 7, 9, 11] {
        guests.push(Recipe::builtin("netbench-server").at_port(&switch, port).start(kvm, domain));
        let client = Recipe::builtin("netbench-client").cmdline(&format!("server=10.0.0.{port}"));
        guests.push(client.at_port(&switch, port + 1).start(kvm, domain));
    }
    guests.push(Recipe::builtin("ticket").vcpus(8).start(kvm, domain));
    guests.push(Recipe::builtin("probe").cmdline("period_us=2000 work_us=50").vcpus(4).start(kvm, domain));
    guests
}

#[test]
fn guests_work_on_under_any_succession_of_schedulers() {
    let kvm = require_kvm!();
    let changes = std::env::var("STILE_CHANGES").map_or(CHANGES, |changes| changes.parse().unwrap());
    let begun = Instant::now();
    let switchable = Arc::new(Switchable::new(successor("rsdl", true), &carrier::pcpus()));
    let domain = Arc::clone(&switchable) as Arc<dyn Domain>;
    let guests = guests(&kvm, &domain);
    let population: usize = guests.iter().map(|guest| guest.ids().len()).sum();
    assert_eq!(population, 24);
    for change in 0..changes {
        // Seven is a prime: with another step in each of six rounds, each policy comes after each other one.
        let step = change / POLICIES.len() % (POLICIES.len() - 1) + 1;
        let (policy, all) = (POLICIES[change * step % POLICIES.len()], change % 3 != 0);
        let weight = Nice::new((change % 11) as i8 - 5).expect("from -5 to 5");
        let vcpus = switchable
            .hand_over(successor(policy, all), &pcpus(all), |id, attributes| {
                if id.0 % 3 == 0 {
                    attributes.nice = weight;
                }
            })
            .unwrap();
        assert_eq!(vcpus, population, "change {change} to {policy}");
        guests.iter().for_each(|guest| guest.all_progress(1));
    }
    let elapsed = Nanos::from(begun.elapsed());
    let mut run = Nanos::ZERO;
    for id in guests.iter().flat_map(|guest| guest.ids()) {
        let account = domain.account(id).expect("it has not ended");
        assert!(account.total() <= elapsed, "time that counts twice: {account:?} in {elapsed:?}");
        run += account.run;
    }
    let most = Nanos(elapsed.0 * carrier::pcpus().len() as u64);
    assert!(run <= most, "{run:?} on pCPUs that had {most:?}");
    for guest in &guests {
        let errors: u64 = (0..guest.state().vcpus()).map(|vcpu| guest.errors(vcpu)).sum();
        assert_eq!(
            (errors, guest.console().as_str(), guest.state().outcome()),
            (0, "", None),
            "{}",
            guest.state().name()
        );
        guest.stop();
        assert_eq!(guest.wait(), Outcome::Stopped);
    }
}
