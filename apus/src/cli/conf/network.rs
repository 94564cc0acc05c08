//! The network that the settings name.

use apus_wire::Chain;

use super::merge::{SettingPlace, Sources};

/// The settings that each select one network.
pub const NETWORK_FLAGS: [(&str, Chain); 4] = [
    ("regtest", Chain::Regtest),
    ("signet", Chain::Signet),
    ("testnet", Chain::Test),
    ("testnet4", Chain::Testnet4),
];

impl Sources {
    /// Returns the network that the command line or the top of bitcoin.conf names; settings.json
    /// does not count (Core's `GetChainArg`).
    pub fn chain(&self) -> Result<Chain, String> {
        let mut named: Vec<(Chain, String, SettingPlace)> = Vec::new();
        let name = self.get("", "chain");
        if let Some((name, place)) = name.and_then(|s| Some((s.value.text()?, s.place))) {
            let chain = Chain::from_name(&name).ok_or_else(|| {
                format!(
                    "unknown chain '{name}' from {place}: use main, test, testnet4, signet or \
                     regtest"
                )
            })?;
            named.push((chain, format!("chain={name}"), place));
        }
        for (name, chain) in NETWORK_FLAGS {
            if let Some(setting) = self.network_flag(name) {
                named.push((chain, name.to_string(), setting.place));
            }
        }
        match named.as_slice() {
            [] => Ok(Chain::Main),
            [(chain, ..)] => Ok(*chain),
            [(_, one, one_place), (_, other, other_place), ..] => Err(format!(
                "more than one network is named, {one} from {one_place} and {other} from \
                 {other_place}: keep one. On the command line, --chain=NAME overrides chain= in a \
                 file, and --regtest=0 overrides regtest=1"
            )),
        }
    }
}
