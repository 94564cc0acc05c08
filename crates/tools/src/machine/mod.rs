//! This machine, as far as it matters to a sync: processor, memory, disks, and the nodes
//! that are there already. Nothing is changed, and directories of nodes are only looked at.
//!
//! | module | contents |
//! |---|---|
//! | [`volume`] | mounted file systems, that of a directory, and what it is on |
//! | [`nodes`] | nodes that run here, and their directories by their paths |
//! | [`measure`] | the speed of a disk |
//! | [`needs`] | the space and time that a sync of mainnet takes |
//! | [`look`] | all of it at one moment |
//! | [`plan`] | what to do on this machine |
//! | [`findings`] | what makes a sync slow or unsafe, and the remedies |

pub mod findings;
pub mod look;
pub mod measure;
pub mod needs;
pub mod nodes;
pub mod plan;
pub mod volume;
