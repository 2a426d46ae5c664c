//! The networks of a node: a switch for each name, and the ports that VMs have on it.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use stile_machine::devices::net::{PortNumber, Switch};

/// All networks. No frame passes from one to another.
#[derive(Default)]
pub struct Networks(Mutex<BTreeMap<String, Network>>);

struct Network {
    switch: Arc<Switch>,
    taken: BTreeSet<u16>,
    /// No lower number is free.
    lowest: u16,
}

/// A port of a network that belongs to one VM, until this is dropped.
pub struct Place {
    networks: Arc<Networks>,
    name: String,
    switch: Arc<Switch>,
    number: PortNumber,
}

/// A network has no port left.
#[derive(Debug, thiserror::Error)]
#[error("network {0} has more than {most} VMs", most = PortNumber::MAX)]
pub struct NetworkFull(String);

impl Networks {
    /// The lowest free port of this network, pinned to the address if there is one.
    pub fn join(self: &Arc<Self>, name: &str, address: Option<Ipv4Addr>) -> Result<Place, NetworkFull> {
        let mut networks = self.0.lock();
        let network = networks.entry(name.to_owned()).or_insert_with(|| Network {
            switch: Switch::new(),
            taken: BTreeSet::new(),
            lowest: 1,
        });
        let free = (network.lowest..=u16::MAX).find(|number| !network.taken.contains(number));
        let number = free.and_then(PortNumber::new).ok_or_else(|| NetworkFull(name.to_owned()))?;
        network.taken.insert(number.get());
        network.lowest = number.get();
        match address {
            Some(address) => network.switch.pin(number, address),
            None => network.switch.unpin(number),
        }
        let switch = Arc::clone(&network.switch);
        Ok(Place { networks: Arc::clone(self), name: name.to_owned(), switch, number })
    }
}

impl Place {
    /// The switch.
    pub fn switch(&self) -> &Arc<Switch> {
        &self.switch
    }

    /// The port's number on it.
    pub fn number(&self) -> PortNumber {
        self.number
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut networks = self.networks.0.lock();
        let Some(network) = networks.get_mut(&self.name) else { return };
        network.taken.remove(&self.number.get());
        network.lowest = network.lowest.min(self.number.get());
        if network.taken.is_empty() {
            networks.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_free_again_once_its_vm_is_gone_and_networks_number_theirs_by_themselves() {
        let networks = Arc::<Networks>::default();
        let number = |place: &Place| place.number().get();
        let [a, b] = [(); 2].map(|()| networks.join("lan", None).unwrap());
        let other = networks.join("dmz", None).unwrap();
        assert_eq!((number(&a), number(&b), number(&other)), (1, 2, 1));
        assert!(!Arc::ptr_eq(a.switch(), other.switch()));
        drop(a);
        assert_eq!(number(&networks.join("lan", None).unwrap()), 1);
        drop((b, other));
        assert!(networks.0.lock().is_empty());
    }

    #[test]
    fn a_full_network_is_named() {
        let networks = Arc::<Networks>::default();
        let places: Vec<Place> = (0..PortNumber::MAX).map(|_| networks.join("lan", None).unwrap()).collect();
        assert!(networks.join("lan", None).err().unwrap().to_string().starts_with("network lan has more than"));
        drop(places);
    }
}
