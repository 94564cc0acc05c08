//! Addresses of peers for when neither the address book nor a DNS seed has any (Core's
//! `-fixedseeds`).

use apus_wire::{Chain, Network};

use super::address_file::parse_place;
use super::group::Place;

/// Returns the addresses in Core's `chainparamsseeds.h` (v31.99), without those of I2P and CJDNS:
/// peers that had been reachable for a while when that version was made. A signet with a challenge
/// of its own has none.
pub fn fixed_seeds(network: &Network) -> impl Iterator<Item = Place> + use<> {
    let text = match network.chain {
        _ if network.dns_seeds.is_empty() => "",
        Chain::Main => include_str!("fixed_seeds/main.txt"),
        Chain::Test => include_str!("fixed_seeds/testnet3.txt"),
        Chain::Testnet4 => include_str!("fixed_seeds/testnet4.txt"),
        Chain::Signet => include_str!("fixed_seeds/signet.txt"),
        Chain::Regtest => "",
    };
    text.lines().filter_map(|line| {
        let (host, port) = line.split_once(' ')?;
        parse_place(host, port)
    })
}
