//! The tables and their columns. A test compares them with docs/guide/data-columns.md.

use apus_export::{Column, Kind, Table};

/// A table that can be exported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportTable {
    /// The UTXO set.
    Coins,
    /// The blocks of the active chain.
    Blocks,
    /// The transactions of the active chain.
    Transactions,
    /// The inputs of the active chain's transactions, with the coins that they spend.
    Inputs,
    /// The outputs of the active chain's transactions.
    Outputs,
}

impl ExportTable {
    /// All tables.
    pub const ALL: [Self; 5] =
        [Self::Coins, Self::Blocks, Self::Transactions, Self::Inputs, Self::Outputs];

    /// Returns the name by which a user asks for the table; in databases the table of coins has
    /// another name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Coins => "coins",
            other => other.layout().name,
        }
    }

    pub fn layout(self) -> &'static Table {
        match self {
            Self::Coins => &COINS,
            Self::Blocks => &BLOCKS,
            Self::Transactions => &TRANSACTIONS,
            Self::Inputs => &INPUTS,
            Self::Outputs => &OUTPUTS,
        }
    }
}

/// The table of Core's `utxo_to_sqlite.py`.
static COINS: Table = Table {
    name: "utxos",
    about: "The UTXO set: one row for each unspent output that can be spent, in the order of \
            Bitcoin Core's chainstate (txids by their raw bytes). Of genesis there is none.",
    columns: &[
        Column::new("txid", Kind::Hash, "The transaction that created the output."),
        Column::new("vout", Kind::U32, "The index of the output in its transaction, from 0."),
        Column::new("value", Kind::I64, "The amount, in satoshi."),
        Column::new("coinbase", Kind::Bool, "Whether the transaction is a coinbase."),
        Column::new("height", Kind::U32, "The height of the block that created the output."),
        Column::new("scriptpubkey", Kind::Bytes, "The output's script."),
    ],
};

static BLOCKS: Table = Table {
    name: "blocks",
    about: "The active chain: one row for each block, by height.",
    columns: &[
        Column::new("height", Kind::U32, "The number of blocks below; that of genesis is 0."),
        Column::new("hash", Kind::Hash, "The hash of the header."),
        Column::new("version", Kind::I32, "The version, which holds the bits of BIP 9."),
        Column::new("previous", Kind::Hash, "The hash of the block below; zeros in genesis."),
        Column::new("merkle_root", Kind::Hash, "The merkle root of the txids."),
        Column::new("time", Kind::U32, "The time in the header, in seconds since 1970, UTC."),
        Column::new(
            "median_time",
            Kind::U32,
            "The median time past of the block (BIP 113), in seconds since 1970, UTC.",
        ),
        Column::new("bits", Kind::U32, "The target in compact form (nBits), as a number."),
        Column::new("nonce", Kind::U32, "The nonce."),
        Column::new("size", Kind::U32, "The size with witnesses, in bytes."),
        Column::new("stripped_size", Kind::U32, "The size without witnesses, in bytes."),
        Column::new("weight", Kind::U32, "The weight (BIP 141), in weight units."),
        Column::new("transactions", Kind::U32, "The number of transactions."),
        Column::new("inputs", Kind::U32, "The number of inputs, that of the coinbase included."),
        Column::new("outputs", Kind::U32, "The number of outputs."),
        Column::new("subsidy", Kind::I64, "The new coins that the block may claim, in satoshi."),
        Column::new("reward", Kind::I64, "What the outputs of the coinbase pay, in satoshi."),
        Column::new(
            "fees",
            Kind::I64,
            "The fees of all transactions, in satoshi; none where the block's undo data is not \
             stored.",
        )
        .nullable(),
    ],
};

static TRANSACTIONS: Table = Table {
    name: "transactions",
    about: "The transactions of the active chain, by height and position.",
    columns: &[
        Column::new("height", Kind::U32, "The height of the block."),
        Column::new("position", Kind::U32, "The index in the block; that of the coinbase is 0."),
        Column::new("txid", Kind::Hash, "The txid."),
        Column::new("wtxid", Kind::Hash, "The hash with witnesses (BIP 141)."),
        Column::new("coinbase", Kind::Bool, "Whether the transaction is a coinbase."),
        Column::new("version", Kind::U32, "The version."),
        Column::new(
            "locktime",
            Kind::U32,
            "The lock time: below 500,000,000 a height, otherwise seconds since 1970, UTC.",
        ),
        Column::new("size", Kind::U32, "The size with witnesses, in bytes."),
        Column::new("weight", Kind::U32, "The weight (BIP 141), in weight units."),
        Column::new("vsize", Kind::U32, "The virtual size: a fourth of the weight, rounded up."),
        Column::new("inputs", Kind::U32, "The number of inputs."),
        Column::new("outputs", Kind::U32, "The number of outputs."),
        Column::new("output_value", Kind::I64, "The sum of the outputs' amounts, in satoshi."),
        Column::new(
            "fee",
            Kind::I64,
            "The fee, in satoshi; none of a coinbase, or where the block's undo data is not \
             stored.",
        )
        .nullable(),
    ],
};

static INPUTS: Table = Table {
    name: "inputs",
    about: "The inputs of the transactions of the active chain, by height, position of the \
            transaction and index, each with the coin that it spends. Those of coinbases spend \
            none: columns that start with prev_ have no value there.",
    columns: &[
        Column::new("height", Kind::U32, "The height of the block."),
        Column::new("txid", Kind::Hash, "The transaction that the input is part of."),
        Column::new("vin", Kind::U32, "The index of the input in its transaction, from 0."),
        Column::new("prev_txid", Kind::Hash, "The transaction that created the coin.").nullable(),
        Column::new("prev_vout", Kind::U32, "The index of the coin in its transaction, from 0.")
            .nullable(),
        Column::new("sequence", Kind::U32, "The sequence number (BIP 68)."),
        Column::new("scriptsig", Kind::Bytes, "The input's script."),
        Column::new(
            "witness",
            Kind::Bytes,
            "The witness as it is serialised: the number of items, then each with its length \
             before it, all as CompactSize. No bytes where there is none.",
        ),
        Column::new("prev_value", Kind::I64, "The amount of the coin, in satoshi.").nullable(),
        Column::new("prev_height", Kind::U32, "The height of the block that created the coin.")
            .nullable(),
        Column::new("prev_coinbase", Kind::Bool, "Whether a coinbase created the coin.").nullable(),
        Column::new("prev_type", Kind::Word, "The kind of the coin's script: see outputs, type.")
            .nullable(),
        Column::new("prev_scriptpubkey", Kind::Bytes, "The coin's script.").nullable(),
    ],
};

/// The history of the scripts of descriptors.
pub static HISTORY: Table = Table {
    name: "history",
    about: "The outputs that pay to the scripts of descriptors, and the inputs that spend them: \
            by height and position of the transaction, inputs before outputs, by index. The value \
            of all outputs less that of all inputs is the balance.",
    columns: &[
        Column::new("height", Kind::U32, "The height of the block."),
        Column::new(
            "time",
            Kind::U32,
            "The time in the block's header, in seconds since 1970, UTC.",
        ),
        Column::new("block", Kind::Hash, "The hash of the block."),
        Column::new("txid", Kind::Hash, "The transaction that the output or the input is part of."),
        Column::new("side", Kind::Word, "The word output or input."),
        Column::new(
            "index",
            Kind::U32,
            "The index of the output or the input in its transaction, from 0.",
        ),
        Column::new(
            "value",
            Kind::I64,
            "The amount of the output, or of the coin that the input spends, in satoshi.",
        ),
        Column::new("coinbase", Kind::Bool, "Whether the transaction is a coinbase."),
        Column::new("prev_txid", Kind::Hash, "The transaction that created the coin of an input.")
            .nullable(),
        Column::new("prev_vout", Kind::U32, "The index of that coin in its transaction, from 0.")
            .nullable(),
        Column::new("descriptor", Kind::U32, "The number of the descriptor, from 0."),
        Column::new(
            "derivation",
            Kind::U32,
            "The index of the script in the descriptor; none if the descriptor has no *.",
        )
        .nullable(),
        Column::new("address", Kind::Word, "The address of the script, if it has one.").nullable(),
        Column::new("scriptpubkey", Kind::Bytes, "The script."),
    ],
};

static OUTPUTS: Table = Table {
    name: "outputs",
    about: "The outputs of the transactions of the active chain, by height, position of the \
            transaction and index; unspendable outputs included.",
    columns: &[
        Column::new("height", Kind::U32, "The height of the block."),
        Column::new("txid", Kind::Hash, "The transaction that the output is part of."),
        Column::new("vout", Kind::U32, "The index of the output in its transaction, from 0."),
        Column::new("value", Kind::I64, "The amount, in satoshi."),
        Column::new("coinbase", Kind::Bool, "Whether the transaction is a coinbase."),
        Column::new(
            "type",
            Kind::Word,
            "The kind of the script: p2pk, p2pkh, p2sh, p2wpkh, p2wsh, p2tr, witness (a witness \
             program of another version or length), multisig, op_return or other.",
        ),
        Column::new("scriptpubkey", Kind::Bytes, "The output's script."),
    ],
};
