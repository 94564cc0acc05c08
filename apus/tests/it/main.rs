//! Tests of Apus as a whole: with Bitcoin Core's figures and its engine as judges, and with wrong
//! input.

mod bad_input;
mod bip30;
mod blocks;
mod broken_rules;
mod conf;
mod crash;
mod crash_join;
mod format;
mod fuzz;
mod hints;
mod join;
mod join_users;
mod judged;
mod kernel;
mod lost_work;
mod manners;
mod progress;
mod pruned;
mod real_chains;
mod reorganisation;
mod repairs;
mod resources;
mod support;
mod swiftsync;
mod tie_breaks;
