//! Work that a server does on a directory at rest.

use apus_node::error::SyncError;
use apus_node::options::Options;
use apus_progress::{Unobserved, Watch};
use apus_query::AtRest;
use apus_sync::Verify;

use super::verify;

/// Returns the work on the directory of `options` that answers need and that opens it again.
pub fn at_rest(options: &Options) -> AtRest {
    let verified = options.clone();
    let copied = options.clone();
    AtRest {
        verify: Box::new(move |blocks, level, stop| {
            let watch = Watch::new(&Unobserved, stop);
            let found = verify(&verified, Verify { level, blocks }, watch)?;
            if found.interrupted {
                return Err(SyncError::Stopped);
            }
            Ok(found.is_sound() && found.is_complete())
        }),
        create_snapshot: Box::new(move |height, path, stop| {
            let watch = Watch::new(&Unobserved, stop);
            let made = apus_claims::create_snapshot(&copied, Some(height), path, watch)?;
            if made.interrupted { Err(SyncError::Stopped) } else { Ok(()) }
        }),
    }
}
