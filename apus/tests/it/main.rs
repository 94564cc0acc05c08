//! Apus as a whole, judged by figures of Bitcoin Core, by its engine, and by broken input.

mod bad_input;
mod blocks;
mod kernel;
mod real_chains;
mod review;
mod support;
