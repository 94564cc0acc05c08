use std::io;

/// Why rows could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or stream cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The Parquet library has failed.
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
    /// SQLite has failed.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// Arrow's library has failed.
    #[cfg(feature = "arrow")]
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
    /// The request makes no sense.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// Returns whether the disk is full.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Io(error) => error.kind() == io::ErrorKind::StorageFull,
            Self::Sqlite(error) => error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull),
            Self::Parquet(parquet::errors::ParquetError::External(error)) => {
                let error = error.downcast_ref::<io::Error>();
                error.is_some_and(|error| error.kind() == io::ErrorKind::StorageFull)
            }
            Self::Parquet(_) | Self::Usage(_) => false,
            #[cfg(feature = "arrow")]
            Self::Arrow(_) => false,
        }
    }
}
