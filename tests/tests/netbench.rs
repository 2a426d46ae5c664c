//! The netbench client and server as real guests.

use stile::net::Switch;
use stile::vm::Outcome;
use stile_tests::{Carrier, Recipe, require_kvm, wait_for};

#[test]
fn clients_and_their_server_exchange_without_errors_or_drops_under_every_carrier() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        let (domain, switch) = (carrier.domain(), Switch::new());
        let server = Recipe::builtin("netbench-server").at_port(&switch, 1).start(&kvm, &domain);
        let client = |number: u16| {
            let cmdline = format!("server=10.0.0.1 seed={number}");
            Recipe::builtin("netbench-client").cmdline(&cmdline).at_port(&switch, number).start(&kvm, &domain)
        };
        let clients = [2, 3].map(client);
        for client in &clients {
            wait_for("500 operations", || client.ops(0) >= 500 || client.state().has_ended());
        }
        let done: u64 = clients.iter().map(|client| client.ops(0)).sum();
        for client in &clients {
            assert_eq!(client.state().outcome(), None, "{carrier}: {}", client.console());
            assert_eq!(client.errors(0), 0, "{carrier}: {}", client.console());
            assert!(client.bytes(0) > 0, "{carrier}");
        }
        wait_for("the server to count what it answered", || server.ops(0) >= done);
        assert_eq!(switch.total().drops.total(), 0, "{carrier}: {switch:?}");
        for guest in clients.iter().chain([&server]) {
            guest.stop();
            assert_eq!((guest.wait(), guest.console().as_str()), (Outcome::Stopped, ""), "{carrier}");
        }
    }
}
