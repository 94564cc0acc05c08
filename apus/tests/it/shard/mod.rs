//! A join as tasks, held against a join on one machine: the same UTXO set, block index and undo
//! data, and for chains that break a rule the same refusal, however the work is cut, in whatever
//! order tasks run, and although each is killed once.

mod equal;
mod manners;
mod refused;
