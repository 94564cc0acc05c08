//! x
use crate::kernel::Kernel;
pub fn answers(_: Kernel) -> bool { true }
