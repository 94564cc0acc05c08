//! What is reported of a run: its phases, how far it is, how long it will take, what limits it,
//! and its results.
//!
//! A sync calls an [`Observer`]. The terminal, the log, the web page and the metrics implement one.
//! The crate reads no data directory and prints nothing.
//!
//! | module | contents |
//! |---|---|
//! | [`observer`] | [`Observer`], and what it is told: [`Progress`], [`Tip`], [`Download`] |
//! | [`method`], [`phase`] | the methods of syncing, and the phases of a run |
//! | [`estimate`] | how far the whole run is, and how long it will take |
//! | [`clock`], [`states`] | the times of the stages, and what threads wait for |
//! | [`meters`] | counters of the running work |
//! | [`bottleneck`] | what limits the speed of the work |
//! | [`peer_info`] | facts about a connected peer |
//! | [`marks`] | what the run has done with each block, for a picture of it |
//! | [`outcome`] | the results of the work |
//! | [`words`] | numbers, sizes and times in words |

pub mod bottleneck;
pub mod clock;
pub mod estimate;
pub mod marks;
pub mod meters;
pub mod method;
pub mod observer;
pub mod outcome;
pub mod peer_info;
pub mod phase;
pub mod states;
pub mod words;

pub use bottleneck::Bottleneck;
pub use clock::{STALLS, Waits};
pub use estimate::estimator::Ran;
pub use estimate::left::{Estimate, Left};
pub use meters::Meters;
pub use method::Method;
pub use observer::{Adding, Download, Observer, Progress, Tip, Unobserved, Upload, Watch};
pub use outcome::{Counts, Pruned, Refusal, ScriptCounts, ThreadStates};
pub use peer_info::PeerInfo;
pub use phase::Phase;
