//! The netbench client and server as real guests.

use stile_abi::port;
use stile_machine::devices::net::Switch;
use stile_machine::vm::Outcome;
use stile_tests::{Carrier, Guest, Recipe, program, require_kvm, wait_for};

#[test]
fn clients_and_their_servers_exchange_without_errors_or_drops_under_every_carrier() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        let (domain, switch) = (carrier.domain(), Switch::new());
        // A server answers one connection.
        let pair = |number: u16| -> [Guest; 2] {
            let server = Recipe::builtin("netbench-server").at_port(&switch, number);
            let cmdline = format!("server=10.0.0.{number} seed={number}");
            let client = Recipe::builtin("netbench-client").cmdline(&cmdline).at_port(&switch, number + 1);
            [server, client].map(|recipe| recipe.start(&kvm, &domain))
        };
        let pairs = [1, 3].map(pair);
        for [_, client] in &pairs {
            client.progresses([0], 1000);
        }
        for [server, client] in &pairs {
            let done = client.ops(0);
            assert_eq!(client.errors(0), 0, "{carrier}");
            assert!(client.bytes(0) > 0, "{carrier}");
            wait_for("the server counts what it answered", || server.ops(0) >= done);
        }
        assert_eq!(switch.total().drops.total(), 0, "{carrier}: {switch:?}");
        for guest in pairs.iter().flatten() {
            guest.stop();
            assert_eq!((guest.wait(), guest.console().as_str()), (Outcome::Stopped, ""), "{carrier}");
        }
    }
}

#[test]
fn a_request_and_its_answer_cost_one_exit_each_under_every_carrier() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        let (domain, switch) = (carrier.domain(), Switch::new());
        let server = Recipe::builtin("netbench-server").at_port(&switch, 1).start(&kvm, &domain);
        let client = Recipe::builtin("netbench-client").cmdline("server=10.0.0.1").at_port(&switch, 2);
        let client = client.start(&kvm, &domain);
        client.progresses([0], 1);
        let read = || [&client, &server].map(|guest| (guest.usage()[0].exits, guest.ops(0)));
        let before = read();
        client.progresses([0], 1000);
        for ((exits_before, ops_before), (exits, ops)) in before.into_iter().zip(read()) {
            let (exits, ops) = (exits - exits_before, ops - ops_before);
            // An exit to announce and one to idle would be two. The scheduler kicks the guest now and then, which does
            // not count.
            assert!(2 * exits < 3 * ops, "{carrier}: {exits} exits for {ops} operations");
        }
    }
}

#[test]
fn an_idle_doorbell_that_names_queues_of_no_driver_or_no_queues_at_all_only_idles() {
    let kvm = require_kvm!();
    for carrier in Carrier::mechanisms() {
        let (domain, switch) = (carrier.domain(), Switch::new());
        let rings = program::rings(port::IDLE, u32::MAX, [0; 3]);
        let guest = Recipe::program(&rings).at_port(&switch, 1).start(&kvm, &domain);
        wait_for("the doorbell has been rung", || guest.usage()[0].exits > 0);
        assert_eq!((guest.state().outcome(), switch.total().sent_frames), (None, 0), "{carrier}");
    }
}
