//! The methods, with their parameters and help.

use std::sync::atomic::AtomicBool;

use serde_json::Value;

use super::error::RpcError;
use super::json::Json;
use super::params::{Arg, ArgKind, check_args, usage};
use super::source::{Call, Source};
use super::waiting::Waiting;
use super::{
    address, block, block_stats, chain, coin_stats, coins, decode, deployments, descriptor,
    filters, header, mempool, mining, proof, raw_transaction, scan, scan_coins, spenders, verify,
    wait,
};

/// What `help` says about a remote procedure call.
#[derive(Clone, Copy)]
pub struct About {
    pub name: &'static str,
    /// The heading under which `help` lists it.
    pub category: &'static str,
    /// Its parameters, in order.
    pub args: &'static [Arg],
    /// Its description.
    pub description: &'static str,
}

/// A remote procedure call.
#[derive(Clone, Copy)]
pub struct Method {
    pub about: About,
    run: fn(&Call) -> Result<Json, RpcError>,
}

impl About {
    /// Returns how the method is called, in one line.
    pub fn usage(&self) -> String {
        usage(self.name, self.args)
    }

    pub fn help(&self) -> String {
        format!("{}\n\n{}\n", self.usage(), self.description)
    }
}

/// Answers a call. It may take long, ends early once `stop` is true, and may have to be made again
/// ([`Waiting`]).
///
/// # Errors
/// Those of Bitcoin Core.
pub fn call(
    source: &Source,
    method: &Method,
    params: &[Value],
    (stop, waiting): (&AtomicBool, &Waiting),
) -> Result<Json, RpcError> {
    check_args(&method.about.help(), method.about.args, params)?;
    (method.run)(&Call { source, params, stop, waiting })
}

pub fn methods() -> &'static [Method] {
    METHODS
}

pub fn find(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.about.name == name)
}

const BLOCKCHAIN: &str = "blockchain";
const HASH: Arg = Arg::needed("blockhash", ArgKind::Text);
const TIMEOUT: Arg = Arg::optional("timeout", ArgKind::Number);
const TXID: Arg = Arg::needed("txid", ArgKind::Text);
const VERBOSE: Arg = Arg::optional("verbose", ArgKind::Bool);
const FEE_RATE: Arg = Arg::optional("maxfeerate", ArgKind::Any);
const BURN: Arg = Arg::optional("maxburnamount", ArgKind::Any);
const VERBOSITY: Arg = Arg::optional("verbosity|verbose", ArgKind::Any);

macro_rules! methods {
    ($($category:ident $module:ident::$name:ident [$($arg:expr),*] $description:literal;)*) => {
        &[$(Method {
            about: About {
                name: stringify!($name),
                category: $category,
                args: &[$($arg),*],
                description: $description,
            },
            run: $module::$name,
        }),*]
    };
}

const MINING: &str = "mining";
const RAW: &str = "rawtransactions";
const UTIL: &str = "util";

static METHODS: &[Method] = methods![
    BLOCKCHAIN chain::getbestblockhash []
        "Returns the hash of the last block of the active chain.";
    BLOCKCHAIN block::getblock [HASH, VERBOSITY]
        "Returns a block. Verbosity 0: its bytes in hex; 1 (default): its header, sizes and txids; \
         2: its transactions, with fees if undo data is stored; 3: the coins that they spend, too.";
    BLOCKCHAIN chain::getblockchaininfo []
        "Returns the state of the chain: heights, difficulty, progress, size on disk, pruning. \
         While a sync runs, it is that of the last commit, but for the headers and the progress.";
    BLOCKCHAIN chain::getblockcount []
        "Returns the height of the last block of the active chain.";
    BLOCKCHAIN filters::getblockfilter [HASH, Arg::optional("filtertype", ArgKind::Text)]
        "Returns the basic filter of a block (BIP158) and its filter header (BIP157), from \
         blockfilterindex.";
    BLOCKCHAIN chain::getblockhash [Arg::needed("height", ArgKind::Number)]
        "Returns the hash of the block at a height of the active chain.";
    BLOCKCHAIN header::getblockheader [HASH, Arg::optional("verbose", ArgKind::Bool)]
        "Returns a header: described, or with verbose=false its bytes in hex.";
    BLOCKCHAIN block_stats::getblockstats [
        Arg::needed("hash_or_height", ArgKind::Any), Arg::optional("stats", ArgKind::Array)
    ]
        "Returns statistics of a block: fees, fee rates, sizes, counts. All amounts are in \
         satoshis. Undo data must be stored. `stats` names those wanted; all by default.";
    BLOCKCHAIN chain::getchainstates []
        "Returns the number of headers, and the state of the UTXO set.";
    BLOCKCHAIN chain::getchaintips []
        "Returns the last blocks of all branches, and how far each branch is known to be valid.";
    BLOCKCHAIN chain::getchaintxstats [
        Arg::optional("nblocks", ArgKind::Number), Arg::optional("blockhash", ArgKind::Text)
    ]
        "Returns the number and the rate of transactions in the last `nblocks` (default: a month) \
         up to a block of the active chain (default: its last).";
    BLOCKCHAIN deployments::getdeploymentinfo [Arg::optional("blockhash", ArgKind::Text)]
        "Returns the deployments of consensus rules after a block (default: the last).";
    BLOCKCHAIN header::getdifficulty []
        "Returns the difficulty of the last block, as a multiple of the least of mainnet.";
    BLOCKCHAIN mempool::getmempoolancestors [TXID, VERBOSE]
        "Fails: Apus has no mempool.";
    BLOCKCHAIN mempool::getmempoolcluster [TXID]
        "Fails: Apus has no mempool.";
    BLOCKCHAIN mempool::getmempooldescendants [TXID, VERBOSE]
        "Fails: Apus has no mempool.";
    BLOCKCHAIN mempool::getmempoolentry [TXID]
        "Fails: Apus has no mempool.";
    BLOCKCHAIN mempool::getmempoolinfo []
        "Returns the state of a mempool that is empty: Apus has none.";
    BLOCKCHAIN mempool::getrawmempool [VERBOSE, Arg::optional("mempool_sequence", ArgKind::Bool)]
        "Returns an empty list: Apus has no mempool.";
    BLOCKCHAIN coins::gettxout [
        Arg::needed("txid", ArgKind::Text), Arg::needed("n", ArgKind::Number),
        Arg::optional("include_mempool", ArgKind::Bool)
    ]
        "Returns an unspent output; null if it is spent, or was never created. Apus has no \
         mempool: `include_mempool` makes no difference.";
    BLOCKCHAIN proof::gettxoutproof [
        Arg::needed("txids", ArgKind::Array), Arg::optional("blockhash", ArgKind::Text)
    ]
        "Returns a proof in hex that a block has these transactions. Without a block, one of them \
         must have an unspent output, or txindex names its block.";
    BLOCKCHAIN coin_stats::gettxoutsetinfo [
        Arg::optional("hash_type", ArgKind::Text), Arg::optional("hash_or_height", ArgKind::Any),
        Arg::optional("use_index", ArgKind::Bool)
    ]
        "Returns statistics of the UTXO set, with a hash: hash_serialized_3 (default), muhash or \
         none. With coinstatsindex, the last two are known after any block; otherwise all coins \
         are read, which takes minutes on mainnet.";
    BLOCKCHAIN spenders::gettxspendingprevout [
        Arg::needed("outputs", ArgKind::Array),
        Arg::optional("options", ArgKind::Object)
            .with_fields(&["mempool_only", "return_spending_tx"])
    ]
        "Returns the transactions that spend outputs, from txospenderindex: Apus has no mempool. \
         Option `return_spending_tx`: with their bytes in hex.";
    BLOCKCHAIN chain::pruneblockchain [Arg::needed("height", ArgKind::Number)]
        "Fails: the directory is in use. `apus prune` prunes a directory at rest.";
    BLOCKCHAIN coins::dumptxoutset [
        Arg::needed("path", ArgKind::Text), Arg::optional("type", ArgKind::Text),
        Arg::optional("options", ArgKind::Object).with_fields(&["rollback", "in_memory"])
    ]
        "Writes the UTXO set to a snapshot file, which must not exist; a relative path is in the \
         network's directory. Type \"latest\": after the last block; \"rollback\": after the block \
         that the option `rollback` names by height or hash, but not while a sync runs. Option \
         `in_memory` makes no difference.";
    BLOCKCHAIN scan::scanblocks [
        Arg::needed("action", ArgKind::Text), Arg::optional("scanobjects", ArgKind::Array),
        Arg::optional("start_height", ArgKind::Number),
        Arg::optional("stop_height", ArgKind::Number), Arg::optional("filtertype", ArgKind::Text),
        Arg::optional("options", ArgKind::Object).with_fields(&["filter_false_positives"])
    ]
        "Returns the blocks that pay to or spend from scripts of descriptors, from \
         blockfilterindex. Action \"start\": scans, and answers at the end; \"status\": how far it \
         is; \"abort\": ends it. A scan object is a descriptor, or an object with `desc` and \
         `range`. Few blocks match by mistake, none with the option `filter_false_positives`, for \
         which they must be stored. Descriptors with private keys are refused.";
    BLOCKCHAIN scan_coins::scantxoutset [
        Arg::needed("action", ArgKind::Text), Arg::optional("scanobjects", ArgKind::Array)
    ]
        "Returns the unspent outputs of descriptors, from the UTXO set. Actions and scan objects \
         are those of scanblocks. While a sync runs, one thread reads the coins.";
    BLOCKCHAIN verify::verifychain [
        Arg::optional("checklevel", ArgKind::Number), Arg::optional("nblocks", ArgKind::Number)
    ]
        "Checks the last `nblocks` (default 6, 0: all) at a level from 0 to 4 (default 3). Returns \
         whether they are sound. While a sync runs, coins are not checked: the level is 2 at most.";
    BLOCKCHAIN proof::verifytxoutproof [Arg::needed("proof", ArgKind::Text)]
        "Returns the txids that a proof shows to be in a block of the active chain.";
    BLOCKCHAIN wait::waitforblock [HASH, TIMEOUT]
        "Waits until a block is the last of the active chain, at most for `timeout` milliseconds \
         (default 0: no limit). Returns the last block.";
    BLOCKCHAIN wait::waitforblockheight [Arg::needed("height", ArgKind::Number), TIMEOUT]
        "Waits until the active chain has this height. Otherwise as waitforblock.";
    BLOCKCHAIN wait::waitfornewblock [TIMEOUT, Arg::optional("current_tip", ArgKind::Text)]
        "Waits until the last block is not `current_tip` (default: the present one). Otherwise as \
         waitforblock.";
    MINING mining::getmininginfo []
        "Returns the difficulty, the hash rate, and the target of the next block.";
    MINING mining::getnetworkhashps [
        Arg::optional("nblocks", ArgKind::Number), Arg::optional("height", ArgKind::Number)
    ]
        "Returns the hashes a second that the last `nblocks` took (default 120; -1: since the \
         difficulty changed), up to a height.";
    MINING mempool::getprioritisedtransactions []
        "Returns an empty object: Apus has no mempool.";
    RAW decode::decoderawtransaction [
        Arg::needed("hexstring", ArgKind::Text), Arg::optional("iswitness", ArgKind::Bool)
    ]
        "Describes a transaction. `iswitness` says whether it is serialised with witnesses; if it \
         is not given, it is guessed.";
    RAW decode::decodescript [Arg::needed("hexstring", ArgKind::Text)]
        "Describes a script, and the addresses that pay to it by its hash.";
    RAW raw_transaction::getrawtransaction [
        Arg::needed("txid", ArgKind::Text), VERBOSITY, Arg::optional("blockhash", ArgKind::Text)
    ]
        "Returns a transaction of a block, or with txindex of any block. Verbosity 0 (default): \
         its bytes in hex; 1: described; 2: with its fee and the coins that it spends.";
    RAW mempool::sendrawtransaction [Arg::needed("hexstring", ArgKind::Text), FEE_RATE, BURN]
        "Fails: a transaction with an unspent output is in the chain already, and Apus relays no \
         others.";
    RAW mempool::submitpackage [Arg::needed("package", ArgKind::Array), FEE_RATE, BURN]
        "Fails: Apus relays no transactions.";
    RAW mempool::testmempoolaccept [Arg::needed("rawtxs", ArgKind::Array), FEE_RATE]
        "Returns that no transaction is accepted: Apus has no mempool.";
    UTIL mempool::estimatesmartfee [
        Arg::needed("conf_target", ArgKind::Number), Arg::optional("estimate_mode", ArgKind::Text)
    ]
        "Returns that no fee can be estimated: Apus has no mempool.";
    UTIL address::validateaddress [Arg::needed("address", ArgKind::Text)]
        "Returns whether an address is valid, its output script, or which characters are wrong.";
    UTIL descriptor::getdescriptorinfo [Arg::needed("descriptor", ArgKind::Text)]
        "Returns a descriptor as Core writes it, its checksum, whether it has a wildcard, and \
         whether it says how its scripts are satisfied. Descriptors with private keys are refused.";
    UTIL filters::getindexinfo [Arg::optional("index_name", ArgKind::Text)]
        "Returns how far the optional indexes of the directory reach.";
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_a_name_of_its_own_and_help() {
        for (index, Method { about, .. }) in METHODS.iter().enumerate() {
            assert!(METHODS[..index].iter().all(|other| other.about.name != about.name));
            assert!(about.help().starts_with(about.name) && about.description.ends_with('.'));
            assert_eq!(find(about.name).unwrap().about.description, about.description);
        }
        let getblock = find("getblock").unwrap();
        assert_eq!(getblock.about.usage(), "getblock \"blockhash\" ( verbosity )");
        assert!(find("getblocks").is_none());
    }
}
