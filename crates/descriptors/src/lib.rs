//! Output descriptors (BIP 380 to 389): their checksum, and the scripts that they stand for.
//!
//! This crate does not know where scripts are looked for.
//!
//! | module | contents |
//! |---|---|
//! | `address` | the address of a script |
//! | `script_kind` | the type of a script |
//! | `checksum` | the checksum (BIP380) |
//! | `error` | why a descriptor is refused |
//! | `range` | the indexes of a descriptor with a wildcard |
//! | `sorted_leaves` | leaves of a tree whose keys are sorted |
//! | `sane` | which scripts Core calls sane |
//! | `text` | the text of a descriptor as Bitcoin Core writes it |
//! | `descriptor` | [`Descriptor`]: parsed, its scripts and its text |
//! | `provider` | the keys and scripts that a descriptor names |
//! | `infer` | the descriptor of a script |
//! | `scripts` | [`Scripts`]: the scripts of several descriptors, found by their bytes |

#![warn(missing_docs)]

mod address;
mod script_kind;
mod checksum;
mod error;
mod range;
mod sorted_leaves;
mod text;
mod provider;
mod sane;
mod infer;
mod descriptor;
mod scripts;

pub use address::address;
pub use checksum::{checksum, with_checksum};
pub use descriptor::Descriptor;
pub use error::DescriptorError;
pub use infer::infer;
pub use provider::Provider;
pub use range::{Range, RangeError};
pub use script_kind::ScriptKind;
pub use scripts::{ScriptPlace, Scripts};
