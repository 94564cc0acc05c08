//! Apus and Bitcoin Core's engine (`bitcoinkernel`, Core v31.99) get the same blocks, and must come
//! to the same verdicts, tips, undo bytes and UTXO sets.
//!
//! * `same_chains`: whole chains, every byte of undo data and every entry of the block index.
//! * `streams`: random trees of good, broken, mutated and repeated blocks, in any order.
//! * `trees`: random trees of small blocks, some in mutated copies first.
//! * `changes`: random changes in real blocks, with and without new work.
//! * `malleation`: bytes that break a rule and are not the block that they seem to be.
//!
//! What the tests cannot compare with the engine, and why:
//!
//! * The words of a reject reason. The engine tells the class of a fault (consensus, mutated,
//!   header, ...) and no more. `testchain` reads Core's log for them, and `broken_rules` holds
//!   Apus against the list that comes of it.
//! * Of a script that fails, the words in brackets that Core adds: `libbitcoinkernel` checks a
//!   script for Apus and says yes or no. This is all that Apus cannot say like Core.
//! * Whether a block that was never on the best chain would connect. Neither tries; which ones
//!   are tried depends on the order in which blocks come, and Apus sees all headers of a source
//!   before the first block. With one block a run, both try the same (`streams`).
//! * Which of several branches of equal work is the tip, where many blocks come in one run: to
//!   both it is the first that could be connected, and to Core's `process_block` their order is
//!   that in which blocks come after their parents. With one block a run it is the same.

mod changes;
mod directory;
mod malleation;
mod same_chains;
mod stream;
mod streams;
mod trees;
mod world;
