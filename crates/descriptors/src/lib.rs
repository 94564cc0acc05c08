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
//! | `descriptor` | [`Descriptor`]: parsed, and its scripts |
//! | `scripts` | [`Scripts`]: the scripts of several descriptors, found by their bytes |

mod address;
mod checksum;
mod error;
mod range;
mod descriptor;
mod scripts;

pub use address::address;
pub use checksum::with_checksum;
pub use descriptor::Descriptor;
pub use error::DescriptorError;
pub use range::{Range, RangeError};
pub use scripts::{ScriptPlace, Scripts};
