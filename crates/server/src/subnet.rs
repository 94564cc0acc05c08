//! The addresses that may connect (Core's `-rpcallowip`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A part of the network: an address, and the number of its leading bits that count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subnet {
    address: IpAddr,
    bits: u8,
}

impl Subnet {
    /// The addresses of this machine, which may always connect.
    pub(crate) const LOOPBACK: [Self; 2] = [
        Self { address: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), bits: 8 },
        Self { address: IpAddr::V6(Ipv6Addr::LOCALHOST), bits: 128 },
    ];

    /// Returns whether an address is in this part of the network.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                (own.to_bits() ^ other.to_bits()) & mask == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                (own.to_bits() ^ other.to_bits()) & mask == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Subnet {
    type Err = String;

    /// Parses an address, ADDRESS/BITS or ADDRESS/NETMASK (Core's `LookupSubNet`).
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is no address or part of a network: give an IP address (1.2.3.4), a \
                 network with the number of its bits (1.2.3.4/24) or its mask \
                 (1.2.3.4/255.255.255.0)"
            )
        };
        let (address, mask) = match text.split_once('/') {
            Some((address, mask)) => (address, Some(mask)),
            None => (text, None),
        };
        let address = address.parse::<IpAddr>().map_err(|_| wrong())?.to_canonical();
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match mask {
            None => Some(most),
            Some(mask) => mask.parse().ok().filter(|bits| *bits <= most).or_else(|| {
                let mask = mask.parse::<Ipv4Addr>().ok().filter(|_| address.is_ipv4())?.to_bits();
                (mask.leading_ones() + mask.trailing_zeros() == 32 || mask == 0)
                    .then_some(mask.leading_ones() as u8)
            }),
        };
        Ok(Self { address, bits: bits.ok_or_else(wrong)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_network_contains_its_addresses() {
        for (subnet, inside, outside) in [
            ("1.2.3.4", "1.2.3.4", "1.2.3.5"),
            ("1.2.3.4/24", "1.2.3.255", "1.2.4.0"),
            ("1.2.3.4/255.255.0.0", "1.2.9.9", "1.3.0.0"),
            ("0.0.0.0/0", "9.9.9.9", "::1"),
            ("10.0.0.0/8", "::ffff:10.1.1.1", "::ffff:11.1.1.1"),
            ("::/0", "2001:db8::1", "1.2.3.4"),
            ("fc00::/7", "fdff::1", "fe00::1"),
            ("::1", "::1", "::2"),
        ] {
            let subnet: Subnet = subnet.parse().unwrap();
            assert!(subnet.contains(inside.parse().unwrap()), "{subnet:?} {inside}");
            assert!(!subnet.contains(outside.parse().unwrap()), "{subnet:?} {outside}");
        }
        for wrong in ["", "host", "1.2.3", "1.2.3.4/33", "1.2.3.4/255.0.255.0", "::/129", "::/"] {
            assert!(wrong.parse::<Subnet>().is_err(), "{wrong}");
        }
    }
}
