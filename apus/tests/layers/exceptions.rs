//! Arrows between files of one crate that may be part of a circle.

use crate::circles::Exception;

/// The exceptions, each with its reason. An exception whose circle no longer exists fails the test,
/// so that it is deleted here too.
pub const EXCEPTIONS: &[Exception] = &[];
