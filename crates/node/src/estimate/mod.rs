//! How far a run is, and how long it will take: work done, of the work that is known.
//!
//! | module | contents |
//! |---|---|
//! | [`costs`] | what each phase costs for a byte of blocks |
//! | [`plan`] | the work of a run, stage by stage |
//! | [`left`] | what is told of a run, and the time left, as a range |
//! | `recent` | the last minute: speeds, and the bottleneck |
//! | [`estimator`] | the estimate, as a function of plan, progress and time |
//! | [`estimating`] | an observer that adds the estimate to each progress report |

pub mod costs;
pub mod estimating;
pub mod estimator;
pub mod left;
pub mod plan;
mod recent;
