//! Apus as a whole, judged by figures of Bitcoin Core, by its engine, and by broken input.

mod bad_input;
mod blocks;
mod broken_rules;
mod crash;
mod format;
mod hints;
mod judged;
mod kernel;
mod manners;
mod progress;
mod real_chains;
mod reorganisation;
mod review;
mod support;
mod swiftsync;
