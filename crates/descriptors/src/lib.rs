//! Output descriptors (BIP 380 to 389): their checksum, and the scripts that they stand for.
//!
//! This crate does not know where scripts are looked for.
//!
//! | module | contents |
//! |---|---|
//! | `address` | the address of a script |
//! | `checksum` | the checksum (BIP380) |
//! | `error` | why a descriptor is refused |
//! | `range` | the indexes of a descriptor with a wildcard |
//! | `text` | the text of a descriptor as Bitcoin Core writes it |
//! | `descriptor` | [`Descriptor`]: parsed, its scripts and its text |
//! | `scripts` | [`Scripts`]: the scripts of several descriptors, found by their bytes |

#![warn(missing_docs)]

mod address;
mod checksum;
mod error;
mod range;
mod text;
mod descriptor;
mod scripts;

pub use address::address;
pub use checksum::{checksum, with_checksum};
pub use descriptor::Descriptor;
pub use error::DescriptorError;
pub use range::{Range, RangeError};
pub use scripts::{ScriptPlace, Scripts};
