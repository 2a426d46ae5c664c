//! Port numbers and the addresses that follow from them. A port's number alone decides MAC and IPv4 address. So the
//! command lines of a guest and its peer can be written without asking either.

use std::fmt;
use std::net::Ipv4Addr;
use std::num::NonZeroU16;

/// All built-in guests are in one IPv4 network of this prefix length.
pub const PREFIX_LENGTH: u8 = 16;

/// An Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The address of the guest behind the tap of this name: 52:54:01, and three bytes that follow from the name. So
    /// the guest keeps its address.
    pub fn behind_tap(name: &str) -> Self {
        // FNV-1a: a few taps on one host seldom meet in 24 bits.
        let mix = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        let [a, b, c, d] = name.bytes().fold(0x811c_9dc5, mix).to_be_bytes();
        Self([0x52, 0x54, 1, a ^ d, b, c])
    }

    /// Whether the address is that of a group of stations, or of all of them.
    pub fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Number of a switch port, from 1 to [`PortNumber::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortNumber(NonZeroU16);

impl PortNumber {
    /// Greatest number. The next port's address would be the network's broadcast address.
    pub const MAX: u16 = 0xfffe;

    /// The port number `number`; `None` outside of 1 to [`PortNumber::MAX`].
    pub fn new(number: u16) -> Option<Self> {
        NonZeroU16::new(number).filter(|number| number.get() <= Self::MAX).map(Self)
    }

    /// The number.
    pub fn get(self) -> u16 {
        self.0.get()
    }

    /// The port's MAC: 52:54:00:00:hi:lo. The first byte marks it as locally administered.
    pub fn mac(self) -> Mac {
        let [hi, lo] = self.get().to_be_bytes();
        Mac([0x52, 0x54, 0, 0, hi, lo])
    }

    /// The port with this MAC, if a port has it.
    pub fn with_mac(mac: Mac) -> Option<Self> {
        match mac.0 {
            [0x52, 0x54, 0, 0, hi, lo] => Self::new(u16::from_be_bytes([hi, lo])),
            _ => None,
        }
    }

    /// The port's IPv4 address: 10.0.hi.lo.
    pub fn ip(self) -> Ipv4Addr {
        let [hi, lo] = self.get().to_be_bytes();
        Ipv4Addr::new(10, 0, hi, lo)
    }
}

impl fmt::Display for PortNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_from_the_number() {
        let port = PortNumber::new(0x1234).unwrap();
        assert_eq!(port.mac().to_string(), "52:54:00:00:12:34");
        assert_eq!(port.ip(), Ipv4Addr::new(10, 0, 0x12, 0x34));
        assert!(!port.mac().is_group());
        assert_eq!(PortNumber::with_mac(port.mac()), Some(port));
        for other in [Mac([0x52, 0x54, 0, 0, 0, 0]), Mac([0x52, 0x54, 0, 1, 0, 1]), Mac::behind_tap("tap0")] {
            assert_eq!(PortNumber::with_mac(other), None, "{other}");
        }
    }

    #[test]
    fn guests_behind_taps_differ_and_stay_the_same() {
        let macs = ["tap0", "tap1", "tap-a"].map(Mac::behind_tap);
        assert!(macs.iter().all(|mac| !mac.is_group() && mac.0[0] & 2 != 0));
        assert!(macs[0] != macs[1] && macs[1] != macs[2]);
        assert_eq!(macs[0], Mac::behind_tap("tap0"));
    }

    #[test]
    fn network_and_broadcast_addresses_are_no_ports() {
        assert_eq!(PortNumber::new(0), None);
        assert_eq!(PortNumber::new(0xffff), None);
        assert!(PortNumber::new(0xfffe).is_some());
    }
}
