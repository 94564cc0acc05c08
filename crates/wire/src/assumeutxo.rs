//! The UTXO snapshots listed in Core's chain parameters (`m_assumeutxo_data`, of version 31.99).

use apus_hash::Hash;

use super::network::{Chain, Network};

/// A height whose UTXO set hash Core knows, so that it loads a snapshot of that set
/// (`AssumeutxoData`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssumeutxoData {
    /// Height of the base block.
    pub height: u32,
    /// Hash of the base block, up to which the snapshot holds the unspent coins.
    pub base: Hash,
    /// Hash of all coins (`hash_serialized_3`).
    pub hash_serialized: Hash,
    /// Number of transactions up to the base block.
    pub chain_tx_count: u64,
}

impl Network {
    /// Returns the snapshots that Core loads, by ascending height.
    pub fn assumeutxo(&self) -> &'static [AssumeutxoData] {
        match self.chain {
            Chain::Main => MAIN,
            Chain::Test => TEST,
            Chain::Testnet4 => TESTNET4,
            Chain::Signet => SIGNET,
            Chain::Regtest => REGTEST,
        }
    }

    /// Returns the entry for the base block with this hash.
    pub fn assumeutxo_at(&self, base: &Hash) -> Option<&'static AssumeutxoData> {
        self.assumeutxo().iter().find(|listed| listed.base == *base)
    }
}

/// Returns an entry of the lists below, from hashes in hex.
const fn listed(height: u32, chain_tx_count: u64, base: &str, coins: &str) -> AssumeutxoData {
    let base = Hash::from_hex(base);
    let hash_serialized = Hash::from_hex(coins);
    AssumeutxoData { height, base, hash_serialized, chain_tx_count }
}

const MAIN: &[AssumeutxoData] = &[
    listed(
        840_000,
        991_032_194,
        "0000000000000000000320283a032748cef8227873ff4872689bf23f1cda83a5",
        "a2a5521b1b5ab65f67818e5e8eccabb7171a517f9e2382208f77687310768f96",
    ),
    listed(
        880_000,
        1_145_604_538,
        "000000000000000000010b17283c3c400507969a9c2afd1dcf2082ec5cca2880",
        "dbd190983eaf433ef7c15f78a278ae42c00ef52e0fd2a54953782175fbadcea9",
    ),
    listed(
        910_000,
        1_226_586_151,
        "0000000000000000000108970acb9522ffd516eae17acddcb1bd16469194a821",
        "4daf8a17b4902498c5787966a2b51c613acdab5df5db73f196fa59a4da2f1568",
    ),
    listed(
        935_000,
        1_305_397_408,
        "0000000000000000000147034958af1652b2b91bba607beacc5e72a56f0fb5ee",
        "e4b90ef9eae834f56c4b64d2d50143cee10ad87994c614d7d04125e2a6025050",
    ),
];

const TEST: &[AssumeutxoData] = &[
    listed(
        2_500_000,
        66_484_552,
        "0000000000000093bcb68c03a9a168ae252572d348a2eaeba2cdf9231d73206f",
        "f841584909f68e47897952345234e37fcd9128cd818f41ee6c3ca68db8071be7",
    ),
    listed(
        4_840_000,
        536_078_574,
        "00000000000000f4971a7fb37fbdff89315b69a2e1920c467654a382f0d64786",
        "ce6bb677bb2ee9789c4a1c9d73e6683c53fc20e8fdbedbdaaf468982a0c8db2a",
    ),
];

const TESTNET4: &[AssumeutxoData] = &[
    listed(
        90_000,
        11_347_043,
        "0000000002ebe8bcda020e0dd6ccfbdfac531d2f6a81457191b99fc2df2dbe3b",
        "784fb5e98241de66fdd429f4392155c9e7db5c017148e66e8fdbc95746f8b9b5",
    ),
    listed(
        120_000,
        14_141_057,
        "000000000bd2317e51b3c5794981c35ba894ce27d3e772d5c39ecd9cbce01dc8",
        "10b05d05ad468d0971162e1b222a4aa66caca89da2bb2a93f8f37fb29c4794b0",
    ),
];

const SIGNET: &[AssumeutxoData] = &[
    listed(
        160_000,
        2_289_496,
        "0000003ca3c99aff040f2563c2ad8f8ec88bd0fd6b8f0895cfaf1ef90353a62c",
        "fe0a44309b74d6b5883d246cb419c6221bcccf0b308c9b59b7d70783dbdf928a",
    ),
    listed(
        290_000,
        28_547_497,
        "0000000577f2741bb30cd9d39d6d71b023afbeb9764f6260786a97969d5c9ac0",
        "97267e000b4b876800167e71b9123f1529d13b14308abec2888bbd2160d14545",
    ),
];

const REGTEST: &[AssumeutxoData] = &[
    listed(
        110,
        111,
        "135eec25a6fb277884e5824e7aa7d052c4868161c99a5122170b5266f86c273d",
        "86e9a1205b418b16dde3a18a78c730e30137e28466bda5dbf6b33ab8fc05447c",
    ),
    listed(
        200,
        201,
        "385901ccbd69dff6bbd00065d01fb8a9e464dede7cfe0372443884f9b1dcf6b9",
        "17dcc016d188d16068907cdeb38b75691a118d43053b8cd6a25969419381d13a",
    ),
    listed(
        299,
        334,
        "0c552ced4721c249a389eb9b08cb8da261cd46f0e7b5f9d064d48f3113406853",
        "106b2c56233e378a824cf0d5ff2be42ed32c72f1605c9be288d00942908a40ac",
    ),
];
