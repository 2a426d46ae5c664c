//! IPv4 addresses on networks: each belongs to one VM.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use toml::de::DeTable;

use crate::bounds;
use crate::check::integer;
use crate::defaults;
use crate::error::{Finding, Misplaced};
use crate::keypath::KeyPath;
use crate::values::StationAddress;
use stile_machine::devices::net::PortNumber;

/// The networks so far.
#[derive(Default)]
pub(super) struct Networks {
    /// Number of ports of each.
    ports: HashMap<String, u32>,
    /// From network and address to the VM that has it.
    addresses: HashMap<(String, Ipv4Addr), KeyPath>,
}

impl Networks {
    /// Returns a finding if a VM's address is another one's, or cannot be pinned. Adds what it has.
    pub(super) fn check(&mut self, vm: &DeTable<'_>, path: &KeyPath) -> Option<Misplaced> {
        let text = |key: &str| vm.get(key)?.get_ref().as_str().map(str::to_owned);
        let Some(value) = vm.get("ipv4") else { return self.add_ports(vm, path) };
        let note = |wrong: String, label: &str, help: &str| {
            let finding = Finding { wrong, label: label.to_owned(), help: Some(help.to_owned()) };
            Some(Misplaced { key: path.key("ipv4"), span: value.span(), finding })
        };
        if !vm.contains_key("kernel") {
            let help = "leave it out: built-in guests have the address of their port";
            return note("only a Linux guest has an `ipv4`".to_owned(), "without `kernel`", help);
        }
        let Some(network) = text("network") else {
            return note("an `ipv4` is on a network".to_owned(), "without `network`", "name the `network` as well");
        };
        *self.ports.entry(network.clone()).or_default() += count(vm)?;
        let address = text("ipv4")?.parse::<StationAddress>().ok()?.get();
        if count(vm)? > 1 {
            return note(
                format!("the address {address} cannot be had by several VMs"),
                "`count` is more than 1",
                "write an entry for each VM",
            );
        }
        if let Some(other) = self.addresses.get(&(network.clone(), address)) {
            let wrong = format!("the address {address} on network `{network}` is taken by {other}");
            return note(wrong, "taken", "give each VM its own");
        }
        self.addresses.insert((network, address), path.clone());
        None
    }

    /// Counts the ports of a VM without a pinned address. A built-in guest has the address of its port.
    fn add_ports(&mut self, vm: &DeTable<'_>, path: &KeyPath) -> Option<Misplaced> {
        let value = vm.get("network")?;
        let network = value.get_ref().as_str()?.to_owned();
        let ports = self.ports.entry(network.clone()).or_default();
        let first = *ports + 1;
        *ports += count(vm)?;
        if vm.contains_key("kernel") {
            return None;
        }
        let own = (first..=*ports).filter_map(|port| PortNumber::new(u16::try_from(port).ok()?));
        let mut taken = None;
        for address in own.map(PortNumber::ip) {
            match self.addresses.get(&(network.clone(), address)) {
                Some(other) if taken.is_none() => taken = Some((address, other.clone())),
                Some(_) => {}
                None => drop(self.addresses.insert((network.clone(), address), path.clone())),
            }
        }
        let (address, other) = taken?;
        let finding = Finding {
            wrong: format!(
                "the address {address}, which this VM has by its port on network `{network}`, is taken by {other}"
            ),
            label: "address taken".to_owned(),
            help: Some("give the other one another `ipv4`".to_owned()),
        };
        Some(Misplaced { key: path.key("network"), span: value.span(), finding })
    }
}

/// Number of VMs of an entry; `None` if that is a mistake of its own.
fn count(vm: &DeTable<'_>) -> Option<u32> {
    let count = vm.get("count").map_or(Some(defaults::COUNT.into()), |count| integer(count.get_ref()))?;
    u32::try_from(count).ok().filter(|count| (1..=bounds::COUNT_MAX).contains(count))
}
