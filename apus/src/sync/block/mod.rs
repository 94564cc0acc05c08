//! One block, whichever way it goes: read, checked as far as that goes without coins, laid out by
//! the coins that it needs and creates, and checked with those coins. Does not know who asks.

pub(super) mod check;
pub(super) mod prepare;
pub(super) mod shared;
pub(super) mod spends;
pub(super) mod step;
pub(super) mod validate;
