use apus_wire::Chain;
use bitcoin::{Address, Network, Script};

/// Returns the address of an output script; `None` if it has none.
pub fn address(script: &[u8], chain: Chain) -> Option<String> {
    let address = Address::from_script(Script::from_bytes(script), network(chain));
    address.ok().map(|address| address.to_string())
}

/// Returns the network by the name that `bitcoin` has for it.
pub(super) fn network(chain: Chain) -> Network {
    match chain {
        Chain::Main => Network::Bitcoin,
        Chain::Test => Network::Testnet,
        Chain::Testnet4 => Network::Testnet4,
        Chain::Signet => Network::Signet,
        Chain::Regtest => Network::Regtest,
    }
}
