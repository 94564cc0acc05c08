//! Requests for filters of blocks (BIP157), and their answers.

use apus_hash::Hash;

use super::Command;
use super::payload::PayloadError;
use crate::{Cursor, put_compact_size};

/// A request for filters of blocks (`getcfilters`), their headers (`getcfheaders`), or the headers
/// of every thousandth (`getcfcheckpt`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilterRequest {
    /// The name of the message.
    pub command: Command,
    /// The type of filters; 0 is that of BIP158.
    pub filter_type: u8,
    /// The height of the first block; 0 in `getcfcheckpt`, which does not have it.
    pub start_height: u32,
    /// The hash of the last block.
    pub stop: Hash,
}

impl FilterRequest {
    pub(super) fn parse(command: Command, cursor: &mut Cursor) -> Result<Self, PayloadError> {
        let has_start = command != Command::GETCFCHECKPT;
        Ok(Self {
            command,
            filter_type: cursor.u8()?,
            start_height: if has_start { cursor.u32()? } else { 0 },
            stop: Hash(cursor.array()?),
        })
    }

    /// Returns the payload of `cfilter`: the filter of one of the blocks.
    pub fn filter(&self, block: &Hash, filter: &[u8]) -> Vec<u8> {
        let mut out = vec![self.filter_type];
        out.extend_from_slice(&block.0);
        put_compact_size(&mut out, filter.len() as u64);
        out.extend_from_slice(filter);
        out
    }

    /// Returns the payload of `cfheaders`: the filter header of the block before the first, and
    /// the hashes of all filters.
    pub fn headers(&self, before: &Hash, filters: impl ExactSizeIterator<Item = Hash>) -> Vec<u8> {
        let mut out = self.head();
        out.extend_from_slice(&before.0);
        put_hashes(&mut out, filters);
        out
    }

    /// Returns the payload of `cfcheckpt`: the filter headers of every thousandth block.
    pub fn checkpoints(&self, headers: impl ExactSizeIterator<Item = Hash>) -> Vec<u8> {
        let mut out = self.head();
        put_hashes(&mut out, headers);
        out
    }

    fn head(&self) -> Vec<u8> {
        let mut out = vec![self.filter_type];
        out.extend_from_slice(&self.stop.0);
        out
    }
}

fn put_hashes(out: &mut Vec<u8>, hashes: impl ExactSizeIterator<Item = Hash>) {
    put_compact_size(out, hashes.len() as u64);
    hashes.for_each(|hash| out.extend_from_slice(&hash.0));
}
