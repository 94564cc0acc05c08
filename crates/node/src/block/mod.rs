//! One block, with any method of syncing.
//!
//! [`Shared::checked`](crate::shared::Shared::checked) reads a block and checks all rules that need
//! no coins; [`prepare::Prepared`] lays out the coins that it spends and creates; given the coins
//! that it spends, [`validate::Validation`] checks the other rules, the scripts with
//! [`scripts::ScriptChecker`], and encodes the undo data. Once there is a [`script_difference`]
//! between the fast engine and Core's engine, Core's engine alone checks scripts. Nothing here
//! knows where coins come from, or the order of blocks.

pub mod check;
pub mod prepare;
pub mod script_difference;
pub mod scripts;
pub mod step;
pub mod validate;
