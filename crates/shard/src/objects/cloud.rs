//! Objects in an object store: S3, Google Cloud Storage, Azure. The client repeats requests that
//! the store refuses for a reason that may pass; answers that break off are asked for again here.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use apus_disk::{Result, StoreError};
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use tokio::io::AsyncWriteExt as _;
use tokio::runtime::{Builder, Runtime};
use url::Url;

use super::{Store, Upload};

/// The schemes of URLs of object stores.
pub(super) const SCHEMES: [&str; 5] = ["s3://", "gs://", "az://", "abfs://", "abfss://"];
/// Bytes of a part of an object, several of which are sent at a time.
const PART_BYTES: usize = 8 << 20;
/// Threads that send and receive.
const THREADS: usize = 2;
/// How often an answer that breaks off is asked for again, and the first pause, which doubles.
const REPEATS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// The objects below a URL.
pub(super) struct Cloud {
    url: String,
    store: Arc<dyn ObjectStore>,
    below: Path,
    runtime: Arc<Runtime>,
}

impl Cloud {
    /// Returns the objects below `url`. Keys, region and endpoint are those of the environment
    /// variables that the provider's own programs read, such as `AWS_ACCESS_KEY_ID`.
    ///
    /// # Errors
    /// The URL names no store, or the environment has a setting that cannot be right.
    pub(super) fn new(url: &str) -> Result<Self> {
        let wrong = |error: String| StoreError::new(url, error);
        // Another part of the process may have chosen a provider; then that is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let parsed = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        let settings = std::env::vars().map(|(name, value)| (name.to_ascii_lowercase(), value));
        let (store, below) = object_store::parse_url_opts(&parsed, settings)
            .map_err(|error| wrong(error.to_string()))?;
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime = runtime.map_err(|e| StoreError::io(url, "start threads", e))?;
        let store = Arc::from(store);
        let runtime = Arc::new(runtime);
        Ok(Self { url: url.to_string(), store, below, runtime })
    }

    /// Waits for an answer, and asks again if it breaks off.
    fn ask<T, F: Future<Output = object_store::Result<T>>>(
        &self,
        request: impl Fn() -> F,
    ) -> object_store::Result<T> {
        let mut attempt = 0;
        loop {
            match self.runtime.block_on(request()) {
                Err(object_store::Error::Generic { .. }) if attempt < REPEATS => {
                    std::thread::sleep(PAUSE * 2_u32.pow(attempt));
                    attempt += 1;
                }
                answer => return answer,
            }
        }
    }

    fn path(&self, name: &str) -> Path {
        self.below.clone().join(name)
    }

    fn error(&self, name: &str, what: &str, error: impl Into<io::Error>) -> StoreError {
        StoreError::io(std::path::Path::new(&self.url).join(name), what, error.into())
    }
}

impl Store for Cloud {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.path(name);
        match self.ask(async || self.store.get(&path).await?.bytes().await) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.error(name, "read this object", error)),
        }
    }

    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>> {
        let len = range.end - range.start;
        if len == 0 {
            return Ok(Vec::new());
        }
        let path = self.path(name);
        let bytes = self.ask(|| self.store.get_range(&path, range.clone()));
        let bytes = bytes.map_err(|error| self.error(name, "read this object", error))?;
        if bytes.len() as u64 == len {
            Ok(bytes.into())
        } else {
            Err(self.error(name, "read this object", io::ErrorKind::UnexpectedEof))
        }
    }

    fn begin(&self, name: &str) -> Result<Box<dyn Upload>> {
        let writer = BufWriter::with_capacity(Arc::clone(&self.store), self.path(name), PART_BYTES);
        let path = std::path::Path::new(&self.url).join(name);
        Ok(Box::new(Sending { path, writer, runtime: Arc::clone(&self.runtime) }))
    }

    fn names(&self) -> Result<Vec<String>> {
        let listed = self.ask(|| self.store.list_with_delimiter(Some(&self.below)));
        let listed = listed.map_err(|error| self.error("", "list the objects", error))?;
        let name = |object: object_store::ObjectMeta| {
            object.location.filename().unwrap_or_default().to_string()
        };
        Ok(listed.objects.into_iter().map(name).collect())
    }
}

/// An object that is being sent. A store keeps no part of one that is not finished, or removes it
/// after some time.
struct Sending {
    path: std::path::PathBuf,
    writer: BufWriter,
    runtime: Arc<Runtime>,
}

impl Upload for Sending {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let sent = self.runtime.block_on(self.writer.write_all(bytes));
        sent.map_err(|e| StoreError::io(&self.path, "write this object", e))
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let sent = self.runtime.block_on(self.writer.shutdown());
        sent.map_err(|e| StoreError::io(&self.path, "write this object", e))
    }
}
