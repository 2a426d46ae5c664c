//! IPv4 addresses as the command line gives them.

use core::fmt;

use smoltcp::wire::{Ipv4Address, Ipv4Cidr};

/// The guest's own address and its network, `net.ip=10.0.0.1/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address(pub(super) Ipv4Cidr);

/// The text is not an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadAddress<'a>(&'a str);

impl fmt::Display for BadAddress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is no address, want A.B.C.D/PREFIX", self.0)
    }
}

impl Address {
    /// An address with a prefix length.
    pub fn parse(text: &str) -> Result<Self, BadAddress<'_>> {
        let (address, prefix) = text.split_once('/').ok_or(BadAddress(text))?;
        let address: Ipv4Address = address.parse().map_err(|_| BadAddress(text))?;
        match prefix.parse() {
            Ok(prefix) if prefix <= 32 => Ok(Self(Ipv4Cidr::new(address, prefix))),
            _ => Err(BadAddress(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_four_bytes_and_a_prefix() {
        assert_eq!(Address::parse("10.0.1.2/16"), Ok(Address(Ipv4Cidr::new(Ipv4Address::new(10, 0, 1, 2), 16))));
        for bad in ["", "10.0.1.2", "10.0.1/16", "10.0.1.256/16", "10.0.1.2/33", "10.0.1.2/x"] {
            assert_eq!(Address::parse(bad), Err(BadAddress(bad)));
        }
    }
}
