//! Each attack of `builtin:hostile`, beside victims that do not notice more of it than of a VM that computes.

use super::alone;
use kvm_ioctls::Kvm;
use std::sync::Arc;
use stile_machine::devices::net::{Drops, Switch};
use stile_machine::vm::{Fault, Outcome, VirtualMachine};
use stile_sched::Domain;
use stile_tests::{Carrier, Guest, Recipe, require_kvm, wait_for};
use stile_workloads::hostile::{ATTACKS, Attack, Needs};

/// Victims at ports 1 and 2 of a switch, and two that need no network.
struct Victims {
    switch: Arc<Switch>,
    server: Guest,
    client: Guest,
    probe: Guest,
}

impl Victims {
    fn start(kvm: &Kvm, domain: &Arc<dyn Domain>) -> Self {
        let switch = Switch::new();
        let server = Recipe::builtin("netbench-server").at_port(&switch, 1).start(kvm, domain);
        let client = Recipe::builtin("netbench-client").cmdline("server=10.0.0.1").at_port(&switch, 2);
        let client = client.start(kvm, domain);
        let probe = Recipe::builtin("probe").cmdline("period_us=2000 work_us=50").start(kvm, domain);
        client.progresses([0], 1);
        Self { switch, server, client, probe }
    }

    /// Their work gets on, and nothing of it has failed.
    fn get_on(&self, attack: &str, carrier: Carrier) {
        self.client.progresses([0], 100);
        self.probe.progresses([0], 20);
        assert_eq!(self.client.errors(0), 0, "{attack}, {carrier}");
        for guest in [&self.server, &self.client, &self.probe] {
            assert_eq!((guest.state().outcome(), guest.console().as_str()), (None, ""), "{attack}, {carrier}");
        }
    }
}

/// An attacker, at port 3 if the attack needs a network.
fn attacker(attack: &Attack, victims: &Victims) -> Recipe {
    let recipe =
        Recipe::builtin("hostile").cmdline(&format!("mode={} peers=2", attack.name)).vcpus(2).without_console();
    // Two vCPUs of one device would end it each in the other one's place.
    let recipe = recipe.vcpus(if attack.end.is_none() { 2 } else { 1 });
    if attack.needs == Needs::Network { recipe.at_port(&victims.switch, 3) } else { recipe }
}

/// Whether the switch has counted what it has to refuse of an attack.
fn has_counted(attack: &Attack, before: Drops, now: Drops) -> bool {
    match attack.name {
        "stolen-macs" => now.foreign_source > before.foreign_source,
        "group-floods" => now.flood_limit > before.flood_limit,
        "wrong-sizes" => now.oversize > before.oversize && now.runt > before.runt,
        _ => true,
    }
}

#[test]
fn survivable_attacks_go_on_and_so_do_their_victims() {
    let kvm = require_kvm!();
    let _alone = alone();
    for carrier in Carrier::mechanisms() {
        let domain = carrier.domain();
        let victims = Victims::start(&kvm, &domain);
        for attack in ATTACKS.iter().filter(|attack| attack.end.is_none()) {
            let attacker = attacker(attack, &victims).start(&kvm, &domain);
            if attack.needs == Needs::Gate {
                attacker.open_gate();
            }
            let before = victims.switch.total().drops;
            attacker.all_progress(200);
            victims.get_on(attack.name, carrier);
            attacker.all_progress(200);
            wait_for(attack.name, || has_counted(attack, before, victims.switch.total().drops));
            attacker.stop();
            assert_eq!(attacker.wait(), Outcome::Stopped, "{}, {carrier}", attack.name);
        }
    }
}

#[test]
fn a_deadly_attack_ends_its_own_vm_for_the_stated_reason_and_no_other_vm() {
    let kvm = require_kvm!();
    let _alone = alone();
    for carrier in Carrier::mechanisms() {
        let domain = carrier.domain();
        let victims = Victims::start(&kvm, &domain);
        for (attack, end) in ATTACKS.iter().filter_map(|attack| Some((attack, attack.end?))) {
            let attacker = attacker(attack, &victims).start(&kvm, &domain);
            let outcome = attacker.ends();
            let Outcome::Fault(Fault { kind, .. }) = &outcome else {
                panic!("{}: {outcome}, {carrier}: {}", attack.name, attacker.console())
            };
            assert_eq!(kind.to_string(), end, "{}, {carrier}", attack.name);
            victims.get_on(attack.name, carrier);
        }
    }
}

#[test]
fn random_attacks_follow_from_their_seed_and_report_how_many_inputs_they_made() {
    let kvm = require_kvm!();
    let _alone = alone();
    for carrier in Carrier::mechanisms() {
        let domain = carrier.domain();
        let victims = Victims::start(&kvm, &domain);
        let random = Recipe::builtin("hostile").cmdline("seed=5 peers=2 gate=open").vcpus(2).without_console();
        let attacker = random.at_port(&victims.switch, 3).start(&kvm, &domain);
        attacker.open_gate();
        attacker.all_progress(5000);
        victims.get_on("random", carrier);
        wait_for("reports", || attacker.results().len() > 2);
        let counted = attacker.ops(0) + attacker.ops(1);
        for (name, inputs) in attacker.results() {
            assert!(name == "inputs" && inputs > 0 && inputs <= counted, "{name}: {inputs} of {counted}, {carrier}");
        }
        attacker.stop();
        assert_eq!(attacker.wait(), Outcome::Stopped, "{carrier}");
    }
}
