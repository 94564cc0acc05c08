use apus_hash::{Hash, sha256d};

use super::put_compact_size;

/// The networks that Core supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Chain {
    /// The main network, whose coins have value.
    Main,
    /// Testnet 3, which Core calls `test`.
    Test,
    /// Testnet 4 (BIP94).
    Testnet4,
    /// Signet (BIP325), with the default or a custom challenge.
    Signet,
    /// Regtest, for private chains without difficulty.
    Regtest,
}

impl Chain {
    /// Returns Core's name of the network, as in `-chain=NAME`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Test => "test",
            Self::Testnet4 => "testnet4",
            Self::Signet => "signet",
            Self::Regtest => "regtest",
        }
    }

    /// All networks.
    pub const ALL: [Self; 5] =
        [Self::Main, Self::Test, Self::Testnet4, Self::Signet, Self::Regtest];

    /// Returns the network with this name, as in Core's `-chain=NAME`; `None` if there is none.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|chain| chain.name() == name)
    }
}

/// Core's script verification flags (`SCRIPT_VERIFY_*`), as `bitcoinkernel` takes them.
pub type ScriptFlags = u32;

/// The script verification flags that are part of consensus, with libbitcoinkernel's values.
pub mod flags {
    /// Evaluates the redeem script of P2SH (BIP16).
    pub const P2SH: u32 = 1 << 0;
    /// Requires strict DER signatures (BIP66).
    pub const DERSIG: u32 = 1 << 2;
    /// Requires that the dummy element of CHECKMULTISIG is empty (BIP147).
    pub const NULLDUMMY: u32 = 1 << 4;
    /// Enables CHECKLOCKTIMEVERIFY (BIP65).
    pub const CHECKLOCKTIMEVERIFY: u32 = 1 << 9;
    /// Enables CHECKSEQUENCEVERIFY (BIP112).
    pub const CHECKSEQUENCEVERIFY: u32 = 1 << 10;
    /// Evaluates witnesses (BIP141).
    pub const WITNESS: u32 = 1 << 11;
    /// Evaluates Taproot and Tapscript (BIP341, BIP342).
    pub const TAPROOT: u32 = 1 << 17;
}

/// The number of a network's transactions at one time, and the rate of new ones since then (Core's
/// `ChainTxData`), to estimate the progress of a sync.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ChainTxData {
    /// The time, in seconds since 1970.
    pub time: i64,
    /// Number of transactions up to that time.
    pub tx_count: u64,
    /// Transactions per second since that time.
    pub rate: f64,
}

/// The constants of a network (Core's `CChainParams` and `Consensus::Params`).
#[derive(Clone, PartialEq, Debug)]
pub struct Network {
    /// The network.
    pub chain: Chain,
    /// The subdirectory that Core uses for the network in the data directory; empty for main.
    pub subdirectory: &'static str,
    /// The four bytes before every block in a block file and every message between peers.
    pub magic: [u8; 4],
    /// The default port of peers.
    pub port: u16,
    /// Host names that DNS resolves to the addresses of peers.
    pub dns_seeds: &'static [&'static str],
    /// Hash of the genesis block.
    pub genesis_hash: Hash,
    /// Number of blocks from one halving of the subsidy to the next.
    pub halving_interval: u32,
    /// The height from which the coinbase must contain the height of its block (BIP34).
    pub bip34_height: u32,
    /// Hash of the block at `bip34_height`. On a chain with this block, BIP30 need not be checked
    /// above that height. Zero if it must always be checked.
    pub bip34_hash: Hash,
    /// The height from which CHECKLOCKTIMEVERIFY is enabled (BIP65).
    pub bip65_height: u32,
    /// The height from which signatures must be strict DER (BIP66).
    pub bip66_height: u32,
    /// The height from which BIP68, BIP112 and BIP113 are enforced.
    pub csv_height: u32,
    /// The height from which BIP141, BIP143 and BIP147 are enforced.
    pub segwit_height: u32,
    /// The easiest target, in compact form.
    pub pow_limit_bits: u32,
    /// The easiest target as 32 bytes, little endian.
    pub pow_limit: [u8; 32],
    /// Intended duration of a difficulty period in seconds.
    pub pow_target_timespan: u32,
    /// Intended time between two blocks in seconds.
    pub pow_target_spacing: u32,
    /// Whether a block more than 20 minutes after its parent may have the minimum difficulty, as on
    /// the testnets.
    pub pow_allow_min_difficulty: bool,
    /// Whether the two rules of BIP94 are enforced.
    pub enforce_bip94: bool,
    /// Whether the difficulty never changes, as on regtest.
    pub pow_no_retargeting: bool,
    /// The work that the best chain must have before scripts are assumed valid: a 256-bit number,
    /// whose most significant digits come first in the hash's hex form.
    pub minimum_chain_work: Hash,
    /// The default of Core's `-assumevalid`; zero for none.
    pub default_assume_valid: Hash,
    /// Height of the block `default_assume_valid`, to show progress before its header is known; 0
    /// if unknown.
    pub default_assume_valid_height: u32,
    /// The tip must be above this height before block files are pruned (Core's
    /// `nPruneAfterHeight`).
    pub prune_after_height: u32,
    /// The number of transactions at a known time.
    pub chain_tx_data: ChainTxData,
    /// Blocks whose scripts are checked with flags other than those of their height.
    pub script_flag_exceptions: &'static [(Hash, ScriptFlags)],
    /// The challenge of a signet (BIP325); `None` for other networks.
    pub signet_challenge: Option<Vec<u8>>,
}

/// The challenge of the default signet: a signature by one of two keys.
const SIGNET_CHALLENGE: &str = "512103ad5e0edad18cb1f0fc0d28a3d4f1f3e445640337489abb10404f2d1e086b\
    e430210359ef5021964fe22d6f8e05b2463c9540ce96883fe3b278760f048f5189f2e6c452ae";

const TWO_WEEKS: u32 = 14 * 24 * 60 * 60;

impl Network {
    /// Returns the constants of `chain`; for signet, with the default challenge.
    pub fn new(chain: Chain) -> Self {
        match chain {
            Chain::Main => Self::main(),
            Chain::Test => Self::test(),
            Chain::Testnet4 => Self::testnet4(),
            Chain::Signet => Self::signet(),
            Chain::Regtest => Self::regtest(),
        }
    }

    /// Returns the constants of a signet with its own challenge (Core's `-signetchallenge`): the
    /// magic is derived from the challenge, and no minimum work is assumed.
    pub fn custom_signet(challenge: Vec<u8>) -> Self {
        let mut serialised = Vec::with_capacity(challenge.len() + 3);
        put_compact_size(&mut serialised, challenge.len() as u64);
        serialised.extend_from_slice(&challenge);
        let hash = sha256d(&serialised);
        Self {
            magic: [hash.0[0], hash.0[1], hash.0[2], hash.0[3]],
            dns_seeds: &[],
            minimum_chain_work: Hash::ZERO,
            default_assume_valid: Hash::ZERO,
            default_assume_valid_height: 0,
            chain_tx_data: ChainTxData { time: 0, tx_count: 0, rate: 0.0 },
            signet_challenge: Some(challenge),
            ..Self::signet_base()
        }
    }

    /// Returns the number of blocks in a difficulty period.
    pub fn difficulty_adjustment_interval(&self) -> u32 {
        self.pow_target_timespan / self.pow_target_spacing
    }

    fn main() -> Self {
        const EXCEPTIONS: &[(Hash, ScriptFlags)] = &[
            (
                // BIP16
                Hash::from_hex("00000000000002dc756eebf4f49723ed8d30cc28a5f108eb94b1ba88ac4f9c22"),
                0,
            ),
            (
                // Taproot
                Hash::from_hex("0000000000000000000f14c35b2d841e986ab5441de8c585d5ffe55ea1e395ad"),
                flags::P2SH | flags::WITNESS,
            ),
        ];
        Self {
            chain: Chain::Main,
            subdirectory: "",
            magic: [0xf9, 0xbe, 0xb4, 0xd9],
            port: 8333,
            dns_seeds: &[
                "dnsseed.bluematt.me.",
                "seed.bitcoin.jonasschnelli.ch.",
                "seed.btc.petertodd.net.",
                "seed.bitcoin.sprovoost.nl.",
                "dnsseed.emzy.de.",
                "seed.bitcoin.wiz.biz.",
                "seed.mainnet.achownodes.xyz.",
            ],
            genesis_hash: Hash::from_hex(
                "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f",
            ),
            halving_interval: 210_000,
            bip34_height: 227_931,
            bip34_hash: Hash::from_hex(
                "000000000000024b89b42a942fe0d9fea3bb44ab7bd1b19115dd6a759c0808b8",
            ),
            bip65_height: 388_381,
            bip66_height: 363_725,
            csv_height: 419_328,
            segwit_height: 481_824,
            pow_limit_bits: 0x1d00_ffff,
            pow_limit: pow_limit(4),
            pow_target_timespan: TWO_WEEKS,
            pow_target_spacing: 600,
            pow_allow_min_difficulty: false,
            enforce_bip94: false,
            pow_no_retargeting: false,
            minimum_chain_work: Hash::from_hex(
                "0000000000000000000000000000000000000001128750f82f4c366153a3a030",
            ),
            default_assume_valid: Hash::from_hex(
                "00000000000000000000ccebd6d74d9194d8dcdc1d177c478e094bfad51ba5ac",
            ),
            default_assume_valid_height: 938_343,
            prune_after_height: 100_000,
            chain_tx_data: ChainTxData {
                time: 1_772_055_173,
                tx_count: 1_315_805_869,
                rate: 5.401_110_064_961_22,
            },
            script_flag_exceptions: EXCEPTIONS,
            signet_challenge: None,
        }
    }

    fn test() -> Self {
        const EXCEPTIONS: &[(Hash, ScriptFlags)] = &[(
            // BIP16
            Hash::from_hex("00000000dd30457c001f4095d208cc1296b0eed002427aa599874af7a432b105"),
            0,
        )];
        Self {
            chain: Chain::Test,
            subdirectory: "testnet3",
            magic: [0x0b, 0x11, 0x09, 0x07],
            port: 18333,
            dns_seeds: &[
                "testnet-seed.bitcoin.jonasschnelli.ch.",
                "seed.tbtc.petertodd.net.",
                "seed.testnet.bitcoin.sprovoost.nl.",
                "testnet-seed.bluematt.me.",
                "seed.testnet.achownodes.xyz.",
            ],
            genesis_hash: Hash::from_hex(
                "000000000933ea01ad0ee984209779baaec3ced90fa3f408719526f8d77f4943",
            ),
            bip34_height: 21_111,
            bip34_hash: Hash::from_hex(
                "0000000023b3a96d3484e5abb3755c413e7d41500f8e2a5c3f0dd01299cd8ef8",
            ),
            bip65_height: 581_885,
            bip66_height: 330_776,
            csv_height: 770_112,
            segwit_height: 834_624,
            pow_allow_min_difficulty: true,
            minimum_chain_work: Hash::from_hex(
                "0000000000000000000000000000000000000000000017dde1c649f3708d14b6",
            ),
            default_assume_valid: Hash::from_hex(
                "000000007a61e4230b28ac5cb6b5e5a0130de37ac1faf2f8987d2fa6505b67f4",
            ),
            default_assume_valid_height: 4_842_348,
            prune_after_height: 1000,
            script_flag_exceptions: EXCEPTIONS,
            chain_tx_data: ChainTxData {
                time: 1_772_051_651,
                tx_count: 536_108_416,
                rate: 0.026_914_790_162_571_17,
            },
            ..Self::main()
        }
    }

    fn testnet4() -> Self {
        Self {
            chain: Chain::Testnet4,
            subdirectory: "testnet4",
            magic: [0x1c, 0x16, 0x3f, 0x28],
            port: 48333,
            dns_seeds: &["seed.testnet4.bitcoin.sprovoost.nl.", "seed.testnet4.wiz.biz."],
            genesis_hash: Hash::from_hex(
                "00000000da84f2bafbbc53dee25a72ae507ff4914b867c565be350b0da8bf043",
            ),
            pow_allow_min_difficulty: true,
            enforce_bip94: true,
            minimum_chain_work: Hash::from_hex(
                "0000000000000000000000000000000000000000000009a0fe15d0177d086304",
            ),
            default_assume_valid: Hash::from_hex(
                "0000000002368b1e4ee27e2e85676ae6f9f9e69579b29093e9a82c170bf7cf8a",
            ),
            default_assume_valid_height: 123_613,
            chain_tx_data: ChainTxData {
                time: 1_772_013_387,
                tx_count: 14_191_421,
                rate: 0.018_485_795_795_280_41,
            },
            ..Self::active_from_one()
        }
    }

    fn signet() -> Self {
        let challenge: String = SIGNET_CHALLENGE.chars().filter(|c| !c.is_whitespace()).collect();
        let challenge = (0..challenge.len() / 2)
            .map(|i| u8::from_str_radix(&challenge[2 * i..2 * i + 2], 16).expect("a constant"))
            .collect();
        Self {
            dns_seeds: &["seed.signet.bitcoin.sprovoost.nl.", "seed.signet.achownodes.xyz."],
            minimum_chain_work: Hash::from_hex(
                "00000000000000000000000000000000000000000000000000000b463ea0a4b8",
            ),
            default_assume_valid: Hash::from_hex(
                "00000008414aab61092ef93f1aacc54cf9e9f16af29ddad493b908a01ff5c329",
            ),
            default_assume_valid_height: 293_175,
            chain_tx_data: ChainTxData {
                time: 1_772_055_248,
                tx_count: 28_676_833,
                rate: 0.067_366_234_363_389_29,
            },
            ..Self::custom_signet(challenge)
        }
    }

    fn signet_base() -> Self {
        let mut limit = [0; 32];
        limit[27..30].copy_from_slice(&[0xae, 0x77, 0x03]);
        Self {
            chain: Chain::Signet,
            subdirectory: "signet",
            port: 38333,
            genesis_hash: Hash::from_hex(
                "00000008819873e925422c1ff0f99f7cc9bbb232af63a077a480a3633bee1ef6",
            ),
            pow_limit_bits: 0x1e03_77ae,
            pow_limit: limit,
            ..Self::active_from_one()
        }
    }

    fn regtest() -> Self {
        let mut limit = [0xff; 32];
        limit[31] = 0x7f;
        Self {
            chain: Chain::Regtest,
            subdirectory: "regtest",
            magic: [0xfa, 0xbf, 0xb5, 0xda],
            port: 18444,
            dns_seeds: &[],
            genesis_hash: Hash::from_hex(
                "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206",
            ),
            halving_interval: 150,
            // Core's regtest has segwit from the genesis block on and every other rule from block
            // 1, as the genesis block's index entry shows (`BLOCK_OPT_WITNESS`).
            segwit_height: 0,
            pow_limit_bits: 0x207f_ffff,
            pow_limit: limit,
            pow_target_timespan: 24 * 60 * 60,
            pow_allow_min_difficulty: true,
            pow_no_retargeting: true,
            minimum_chain_work: Hash::ZERO,
            default_assume_valid: Hash::ZERO,
            default_assume_valid_height: 0,
            // Core's values, with a rate above 0 for tests.
            chain_tx_data: ChainTxData { time: 0, tx_count: 0, rate: 0.001 },
            ..Self::active_from_one()
        }
    }

    /// Returns the constants that the newer networks share: every rule is active from block 1,
    /// without exceptions.
    fn active_from_one() -> Self {
        Self {
            bip34_height: 1,
            bip34_hash: Hash::ZERO,
            bip65_height: 1,
            bip66_height: 1,
            csv_height: 1,
            segwit_height: 1,
            prune_after_height: 1000,
            script_flag_exceptions: &[],
            ..Self::main()
        }
    }
}

/// Returns the target whose highest `zeros` bytes are 0 and whose other bits are 1, little endian.
const fn pow_limit(zeros: usize) -> [u8; 32] {
    let mut limit = [0xff; 32];
    let mut i = 0;
    while i < zeros {
        limit[31 - i] = 0;
        i += 1;
    }
    limit
}

/// Returns the bytes of the genesis block.
pub fn genesis_block(network: &Network) -> Vec<u8> {
    use bitcoin::Network as Upstream;
    let upstream = match network.chain {
        Chain::Main => Upstream::Bitcoin,
        Chain::Test => Upstream::Testnet,
        Chain::Testnet4 => Upstream::Testnet4,
        Chain::Signet => Upstream::Signet,
        Chain::Regtest => Upstream::Regtest,
    };
    bitcoin::consensus::serialize(&bitcoin::constants::genesis_block(upstream))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlockView;

    #[test]
    fn every_genesis_block_hashes_to_its_constant() {
        for chain in Chain::ALL {
            let network = Network::new(chain);
            let bytes = genesis_block(&network);
            let block = BlockView::parse(&bytes).unwrap();
            assert_eq!(block.hash(), network.genesis_hash, "{chain:?}");
            assert_eq!(Chain::from_name(chain.name()), Some(chain));
        }
    }

    /// Networks inherit the constants of main that they do not set, so the test lists the height of
    /// each rule for every network; a new network must be added here.
    #[test]
    fn every_network_has_the_heights_of_its_own() {
        for (chain, due) in [
            (Chain::Main, ["227931", "388381", "363725", "419328", "481824"]),
            (Chain::Test, ["21111", "581885", "330776", "770112", "834624"]),
            (Chain::Testnet4, ["1"; 5]),
            (Chain::Signet, ["1"; 5]),
            (Chain::Regtest, ["1", "1", "1", "1", "0"]),
        ] {
            let constants = format!("{:?}", Network::new(chain));
            let heights: Vec<(&str, &str)> = constants
                .split(", ")
                .filter_map(|field| field.split_once("_height: "))
                .filter(|(name, _)| *name != "default_assume_valid")
                .collect();
            let names = ["bip34", "bip65", "bip66", "csv", "segwit", "prune_after"];
            let prune_after = if chain == Chain::Main { "100000" } else { "1000" };
            let due = due.into_iter().chain([prune_after]);
            let due: Vec<(&str, &str)> = names.into_iter().zip(due).collect();
            assert_eq!(heights, due, "{chain:?}");
        }
    }

    #[test]
    fn signet_magic_follows_from_the_challenge() {
        assert_eq!(Network::new(Chain::Signet).magic, [0x0a, 0x03, 0xcf, 0x40]);
        assert_ne!(Network::custom_signet(vec![0x51]).magic, [0x0a, 0x03, 0xcf, 0x40]);
    }
}
