//! How far a run is, and how long it will take: work done, of the work that is known.
//!
//! | module | contents |
//! |---|---|
//! | [`plan`] | the work of a run, stage by stage, and what it costs |
//! | [`left`] | what is told of a run, and the time left, as a range |
//! | [`estimator`] | the estimate, as a function of plan, progress and time |
//! | [`estimating`] | an observer that adds the estimate to each progress report |

pub mod estimating;
pub mod estimator;
pub mod left;
pub mod plan;
