//! A seeded, deterministic generator of valid Bitcoin regtest chains that knows its own UTXO set.
//!
//! It shares no code with `apus`, so that it can test it independently. There are three entry
//! points:
//!
//! * [`Generator`] makes a chain of any size block after block ([`Spec::mainnet_like`]);
//!   [`mod@write`] puts one into files. [`Wide`] makes one that leaves many coins.
//! * [`Chain`] holds a small one ([`Spec::small`]; [`Spec::odd`] has rare scripts) in memory, with
//!   forks ([`Chain::fork`]), hand-made blocks ([`Builder`]) and blocks that break a chosen rule
//!   ([`Chain::broken`]).
//! * [`mod@assumeutxo`] makes the chains whose UTXO sets Bitcoin Core's chain parameters list.
//!
//! ```
//! use apus_testchain::{Chain, Spec};
//! let chain = Chain::new(Spec::small(1));
//! assert_eq!(chain.height(), 200);
//! assert_eq!(chain.utxos().count() as u64, chain.totals().unspent);
//! ```

pub mod assumeutxo;
pub mod block;
mod breaks;

mod builder;
mod chain;
mod coin;
mod curve;
mod encode;
mod files;
mod generator;
mod keys;
mod lock;
mod odd;
mod opcodes;
mod payment;
mod plan;
mod rng;
mod rounds;
mod series;
mod sighash;
mod signature;
mod signer;
mod spec;
mod wide;
pub mod write;

pub use breaks::{Break, Broken};
pub use builder::{Builder, Parent, remerkle, seal};
pub use chain::Chain;
pub use coin::{Coin, Utxo};
pub use files::{copy_dir, used_len};
pub use generator::{Generator, HEIGHT_MAX, MadeBlock, Totals};
pub use keys::{KEYS_MAX, Keys};
pub use lock::{ALL_KINDS, KINDS, Kind, Lock};
pub use odd::ODD_TEMPLATES;
pub use payment::{Output, Payment, Spend, Target};
pub use rng::Rng;
pub use rounds::{every, rounds};
pub use signer::Signed;
pub use spec::{Mix, Spec};
pub use wide::{Spends, Wide, WideSpec};
