//! The trait of a destination of rows, and files as such.

use apus_export::{Batch, Encoder, Piece, Writer};
use apus_node::error::SyncError;

use super::output::Output;

/// A destination of batches: any thread encodes them, and one thread at a time writes them.
pub(super) trait Sink: Sync {
    /// An encoded batch.
    type Piece: Send;
    /// The writer of pieces, in order.
    type Writer: Send;

    /// Encodes a batch.
    fn encode(&self, batch: Batch) -> Result<Self::Piece, SyncError>;

    /// Writes a piece.
    fn append(&self, writer: &mut Self::Writer, piece: Self::Piece) -> Result<(), SyncError>;

    /// Ends the writing after the last piece.
    fn finish(&self, writer: Self::Writer) -> Result<(), SyncError>;
}

/// A file in one of the formats of `apus-export`.
pub(super) struct FileSink<'a> {
    pub encoder: &'a Encoder,
    pub output: &'a Output,
}

impl<'a> Sink for FileSink<'a> {
    type Piece = Piece;
    type Writer = Writer<'a>;

    fn encode(&self, batch: Batch) -> Result<Piece, SyncError> {
        self.encoder.encode(batch).map_err(|error| self.output.blamed(error))
    }

    fn append(&self, writer: &mut Writer<'a>, piece: Piece) -> Result<(), SyncError> {
        writer.append(piece).map_err(|error| self.output.blamed(error))
    }

    fn finish(&self, writer: Writer<'a>) -> Result<(), SyncError> {
        writer.finish().map_err(|error| self.output.blamed(error))
    }
}
