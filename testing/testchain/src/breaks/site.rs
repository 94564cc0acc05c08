//! What the cases are built from: the coins at the tip, payments, and blocks on the tip.

use bitcoin::block::Block;
use bitcoin::transaction::{OutPoint, Transaction, TxIn};
use bitcoin::{ScriptBuf, Sequence, Witness};

use super::Case;
use crate::builder::{Builder, seal};
use crate::chain::Chain;
use crate::coin::Coin;
use crate::keys::Keys;
use crate::lock::Kind;
use crate::opcodes::OP_1;
use crate::payment::Payment;

/// The output script that everything here pays to.
pub const OP_TRUE: [u8; 1] = [OP_1];

/// The place after the tip of a chain, where blocks are built.
pub struct Site<'a> {
    pub chain: &'a Chain,
    /// Height of the block to build.
    pub height: u32,
    /// Median time past of the tip.
    pub median_time_past: u32,
}

impl<'a> Site<'a> {
    pub fn new(chain: &'a Chain) -> Self {
        let height = chain.height() + 1;
        Site { chain, height, median_time_past: chain.median_time_past(chain.height()) }
    }

    pub fn keys(&self) -> &Keys {
        self.chain.keys()
    }

    /// Returns the most valuable spendable coin of a kind.
    pub fn coin(&self, kind: Kind) -> Coin {
        *self.chain.spendable(kind).first().expect("the chain has a coin of every kind")
    }

    /// Returns a key that does not lock the most valuable coin of a kind.
    pub fn other_key(&self, kind: Kind) -> [u8; 33] {
        let lock = self.coin(kind).lock;
        self.keys().ring().key(lock.key.wrapping_add(kind.keys())).pk33()
    }

    /// Returns a payment of a coin to OP_TRUE, without a fee, with a sequence number that allows
    /// lock times.
    pub fn payment_of(&self, coin: Coin) -> Payment {
        let mut payment = Payment::new(&[coin], [(coin.amount, OP_TRUE.to_vec())]);
        payment.inputs[0].sequence = 0xffff_fffe;
        payment
    }

    /// Returns a signed payment of the most valuable coin of a kind to OP_TRUE.
    pub fn pay(&self, kind: Kind) -> Transaction {
        self.payment_of(self.coin(kind)).to_transaction(self.keys())
    }

    /// Returns a transaction that pays 100 satoshis to each script from an OP_TRUE coin, without a
    /// signature operation.
    pub fn fund(&self, scripts: &[Vec<u8>]) -> Transaction {
        let coin = self.coin(Kind::OpTrue);
        let paid = 100 * scripts.len() as u64;
        let change = coin.amount.checked_sub(paid).expect("the most valuable coin is worth more");
        let outputs = scripts.iter().map(|script| (100, script.clone()));
        Payment::new(&[coin], outputs.chain([(change, OP_TRUE.to_vec())]))
            .to_transaction(self.keys())
    }

    /// Returns two signed payments of different kinds.
    pub fn ordinary(&self) -> Vec<Transaction> {
        [Kind::P2wpkh, Kind::P2trKey].map(|kind| self.pay(kind)).to_vec()
    }

    /// Returns a block of `txs` on the tip, which is valid if they are.
    pub fn block(&self, txs: impl IntoIterator<Item = Transaction>) -> Block {
        self.builder().txs(txs).finish()
    }

    /// Returns the builder of a block on the tip.
    pub fn builder(&self) -> Builder {
        self.chain.next_block()
    }

    /// Returns a block of `sound`, and one of `broken`.
    pub fn case(
        &self,
        sound: impl IntoIterator<Item = Transaction>,
        broken: impl IntoIterator<Item = Transaction>,
    ) -> Case {
        Case { sound: self.block(sound), broken: self.block(broken) }
    }

    /// Returns a block of ordinary payments, and the same after `change`, with a new commitment,
    /// merkle root and proof of work.
    pub fn sealed(&self, change: impl FnOnce(&mut Block)) -> Case {
        let sound = self.block(self.ordinary());
        let mut broken = sound.clone();
        change(&mut broken);
        seal(&mut broken);
        Case { sound, broken }
    }
}

/// An output's index, and the input script and witness that spend it.
pub type Unlock = (u32, Vec<u8>, Vec<Vec<u8>>);

/// Returns a transaction that spends outputs of `parent` to OP_TRUE, each with its own script and
/// witness. The sequence numbers are 0: relative locks that have passed at once.
pub fn spend(parent: &Transaction, unlocks: &[Unlock]) -> Transaction {
    let txid = parent.compute_txid();
    let input = |(vout, script_sig, witness): &Unlock| TxIn {
        previous_output: OutPoint::new(txid, *vout),
        script_sig: ScriptBuf::from(script_sig.clone()),
        sequence: Sequence(0),
        witness: Witness::from_slice(witness),
    };
    let mut tx = Payment::new(&[], [(0, OP_TRUE.to_vec())]).unsigned();
    tx.input = unlocks.iter().map(input).collect();
    let amounts = unlocks.iter().map(|unlock| parent.output[unlock.0 as usize].value);
    tx.output[0].value = amounts.sum();
    tx
}
