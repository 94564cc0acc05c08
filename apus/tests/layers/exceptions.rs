//! Arrows between files of one crate that are part of a circle all the same.

use crate::circles::Exception;

/// The exceptions, each with its reason. One whose circle is gone fails the test, so that it is
/// deleted here too.
pub const EXCEPTIONS: &[Exception] = &[];
