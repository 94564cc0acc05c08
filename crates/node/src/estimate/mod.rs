//! How far a run is, and how long it will take: one figure for the whole run, with a range.
//!
//! A run publishes its stages ([`plan`]) once it knows what is to be done. How long each takes is
//! expected from what its blocks hold ([`amounts`]) and what that costs on a known machine
//! ([`weigher`]). As soon as a stage has begun, its own pace counts (`pace`), and says how much
//! slower or faster this machine is, for the stages to come ([`estimator`]).
//!
//! | module | contents |
//! |---|---|
//! | [`amounts`] | inputs, outputs and signatures of blocks: sampled, or by mainnet's eras |
//! | `pace` | how fast a stage gets on, and how sure that is |
//! | [`left`] | what is told of a run, and the time left, as a range |
//! | [`plan`] | the stages of a run |
//! | [`weigher`] | what each phase costs for a block |
//! | `recent` | the last minute: speeds, and the bottleneck |
//! | [`estimator`] | the estimate, as a function of plan and progress |
//! | [`estimating`] | an observer that adds the estimate to each progress report |

pub mod amounts;
pub mod estimating;
pub mod estimator;
pub mod left;
mod pace;
pub mod plan;
mod recent;
pub mod weigher;
