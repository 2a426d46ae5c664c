//! The IPv4 address that a port is pinned to. Its frames may claim no other one, neither as the source of a packet nor
//! in what tells others whose address it is.
//!
//! Only IPv4 and ARP pass. Whatever else a frame may be could carry IPv4 in it, such as one with a VLAN tag, which
//! Linux takes off.

use super::super::Frame;
use std::net::Ipv4Addr;

/// Types of frames, after the two addresses.
const IPV4: [u8; 2] = [0x08, 0x00];
const ARP: [u8; 2] = [0x08, 0x06];
/// ARP for IPv4 on Ethernet: kinds and lengths of both addresses.
const ARP_START: [u8; 6] = [0, 1, 0x08, 0, 6, 4];
/// Places in a frame: its source, its type, and what follows.
const SOURCE: usize = 6;
const TYPE: usize = 12;
const PAYLOAD: usize = 14;
/// Places in an IPv4 packet and in an ARP packet: the sender's addresses.
const IPV4_SOURCE: usize = 12;
const ARP_STATION: usize = 8;
const ARP_SENDER: usize = 14;

/// Whether a frame, whose source is its port's own station, says that it comes from this address.
pub(super) fn comes_from(frame: &Frame, address: Ipv4Addr) -> bool {
    let bytes = frame.ethernet();
    let at = |place: usize, length: usize| bytes.get(place..place + length);
    let payload = |place: usize, length: usize| at(PAYLOAD + place, length);
    let is_address = |place: usize| payload(place, 4) == Some(&address.octets());
    if at(TYPE, 2) == Some(&IPV4) {
        // Of another version there is no address where one is looked for.
        payload(0, 1).is_some_and(|first| first[0] >> 4 == 4) && is_address(IPV4_SOURCE)
    } else if at(TYPE, 2) == Some(&ARP) {
        payload(0, ARP_START.len()) == Some(&ARP_START)
            && payload(ARP_STATION, 6) == at(SOURCE, 6)
            && is_address(ARP_SENDER)
    } else {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::net::frame::test_frame;
    use crate::devices::net::{Mac, PortNumber};

    const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

    fn mac(port: u16) -> Mac {
        PortNumber::new(port).unwrap().mac()
    }

    /// A frame of a type. The test's frames have a type of their own, which the payload follows.
    fn frame(kind: [u8; 2], payload: &[u8]) -> Frame {
        let mut frame = test_frame(Mac([0xff; 6]), mac(2), payload);
        let start = super::super::super::frame::HEADER_BYTES + TYPE;
        frame.buffer()[start..start + 2].copy_from_slice(&kind);
        frame
    }

    fn ipv4(source: Ipv4Addr) -> Vec<u8> {
        let mut packet = vec![0; 20];
        packet[0] = 0x45;
        packet[12..16].copy_from_slice(&source.octets());
        packet[16..20].copy_from_slice(&OTHER.octets());
        packet
    }

    fn arp(operation: u8, station: Mac, sender: Ipv4Addr) -> Vec<u8> {
        let target = OTHER.octets();
        [&ARP_START[..], &[0, operation], &station.0, &sender.octets(), &[0; 6], &target].concat()
    }

    #[test]
    fn packets_and_answers_with_the_ports_own_address_pass() {
        assert!(comes_from(&frame(IPV4, &ipv4(OWN)), OWN));
        for operation in [1, 2] {
            assert!(comes_from(&frame(ARP, &arp(operation, mac(2), OWN)), OWN), "{operation}");
        }
    }

    #[test]
    fn packets_and_answers_with_another_ones_address_do_not() {
        for source in [OTHER, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST] {
            assert!(!comes_from(&frame(IPV4, &ipv4(source)), OWN), "{source}");
            for operation in [1, 2] {
                assert!(!comes_from(&frame(ARP, &arp(operation, mac(2), source)), OWN), "{source}");
            }
        }
        // An answer that sends the traffic for its own address to another one's station.
        assert!(!comes_from(&frame(ARP, &arp(2, mac(3), OWN)), OWN));
    }

    #[test]
    fn what_could_hide_an_address_does_not_pass() {
        let tagged = [&[0, 0][..], &IPV4, &ipv4(OTHER)].concat();
        // VLANs, IPv6, reverse ARP, and a length in place of a type.
        for kind in [[0x81, 0], [0x88, 0xa8], [0x86, 0xdd], [0x80, 0x35], [0, 46]] {
            assert!(!comes_from(&frame(kind, &tagged), OWN), "{kind:x?}");
        }
        for length in 0..16 {
            assert!(!comes_from(&frame(IPV4, &ipv4(OWN)[..length]), OWN), "{length}");
        }
        for length in 0..18 {
            assert!(!comes_from(&frame(ARP, &arp(2, mac(2), OWN)[..length]), OWN), "{length}");
        }
        let mut version = ipv4(OWN);
        version[0] = 0x65;
        assert!(!comes_from(&frame(IPV4, &version), OWN));
        let mut lengths = arp(2, mac(2), OWN);
        lengths[4] = 8;
        assert!(!comes_from(&frame(ARP, &lengths), OWN));
    }
}
