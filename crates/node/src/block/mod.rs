//! What is done to one block, by every method of syncing.
//!
//! [`Shared::checked`](crate::shared::Shared::checked) reads it and checks all rules that need no coins;
//! [`prepare::Prepared`] lays out which coins it spends and creates; with the coins that it spends,
//! [`validate::Validation`] checks the rest, its scripts by [`scripts::ScriptChecker`], and encodes
//! the undo data. A [`script_difference`] between Core's engine and the fast path takes the latter out of
//! use. Nothing here knows where coins come from, or in which order blocks do.

pub mod check;
pub mod prepare;
pub mod script_difference;
pub mod scripts;
pub mod step;
pub mod validate;
