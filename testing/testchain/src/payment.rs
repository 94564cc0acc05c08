//! A transaction that knows what it spends.

use bitcoin::hashes::Hash;
use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness};

use crate::coin::Coin;
use crate::lock::Lock;

/// A transaction before it is signed.
#[derive(Clone, Debug)]
pub struct Payment {
    /// Version; relative lock times (BIP 68) apply from 2 on.
    pub version: i32,
    /// Absolute lock time.
    pub lock_time: u32,
    /// The coins that it spends.
    pub inputs: Vec<Spend>,
    pub outputs: Vec<Output>,
}

/// A coin being spent.
#[derive(Clone, Copy, Debug)]
pub struct Spend {
    /// Transaction id, in the byte order of the wire.
    pub txid: [u8; 32],
    /// Index of the output.
    pub vout: u32,
    /// Amount in satoshis.
    pub amount: u64,
    /// The script's kind and key.
    pub lock: Lock,
    /// Sequence number of the input.
    pub sequence: u32,
    /// The hash type of the signatures, if it is not the usual one (SIGHASH_ALL, in Taproot
    /// SIGHASH_DEFAULT). In Taproot only the part that BIP 341 defines counts.
    pub hash_type: Option<u8>,
}

/// A new output.
#[derive(Clone, Debug)]
pub struct Output {
    /// Amount in satoshis.
    pub amount: u64,
    /// Its script.
    pub to: Target,
}

/// The script of an output.
#[derive(Clone, Debug)]
pub enum Target {
    /// To a key of the chain.
    Lock(Lock),
    /// To any script.
    Script(Vec<u8>),
}

impl From<&Coin> for Spend {
    fn from(coin: &Coin) -> Self {
        Spend {
            txid: coin.txid,
            vout: u32::from(coin.vout),
            amount: coin.amount,
            lock: coin.lock,
            sequence: u32::MAX,
            hash_type: None,
        }
    }
}

impl Payment {
    /// Returns a payment that spends `coins` and creates an output for each pair of amount and
    /// script: version 2, no lock time, final sequence numbers.
    pub fn new(coins: &[Coin], outputs: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Self {
        let outputs = outputs.into_iter();
        Payment {
            version: 2,
            lock_time: 0,
            inputs: coins.iter().map(Spend::from).collect(),
            outputs: outputs.map(|(amount, s)| Output { amount, to: Target::Script(s) }).collect(),
        }
    }

    /// Returns the indices of the keys of all outputs that it spends and creates.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u32> {
        let spent = self.inputs.iter().map(|input| input.lock);
        let created = self.outputs.iter().filter_map(|output| match output.to {
            Target::Lock(lock) => Some(lock),
            Target::Script(_) => None,
        });
        spent.chain(created).flat_map(Lock::keys)
    }

    /// Returns the maximum number of signatures that it needs.
    pub(crate) fn signatures(&self) -> usize {
        self.inputs.iter().map(|input| input.lock.kind.signatures() as usize).sum()
    }

    /// Returns the transaction without scripts and witnesses in its inputs.
    ///
    /// # Panics
    /// If an output pays to a key: such a payment needs [`Payment::sign`].
    pub(crate) fn unsigned(&self) -> Transaction {
        let input = |spend: &Spend| TxIn {
            previous_output: OutPoint::new(Txid::from_byte_array(spend.txid), spend.vout),
            script_sig: ScriptBuf::new(),
            sequence: Sequence(spend.sequence),
            witness: Witness::new(),
        };
        let output = |output: &Output| match &output.to {
            Target::Lock(lock) => panic!("{lock:?} is not a script"),
            Target::Script(script) => TxOut {
                value: Amount::from_sat(output.amount),
                script_pubkey: ScriptBuf::from(script.clone()),
            },
        };
        Transaction {
            version: bitcoin::transaction::Version(self.version),
            lock_time: bitcoin::absolute::LockTime::from_consensus(self.lock_time),
            input: self.inputs.iter().map(input).collect(),
            output: self.outputs.iter().map(output).collect(),
        }
    }
}
