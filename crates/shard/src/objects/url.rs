use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use apus_disk::{Disk, Result, StoreError};

#[cfg(feature = "cloud")]
use super::cloud::{Cloud, SCHEMES};
use super::compared::Compared;
use super::directory::Directory;
use super::{Store, Upload};

/// The objects below a URL.
pub struct Objects {
    url: String,
    store: Arc<dyn Store>,
    /// Whether what is written is compared with what is there instead.
    compares: bool,
}

impl Objects {
    /// Returns the objects below `url`: the path of a directory, `file://` and its absolute path,
    /// or with the feature `cloud` the URL of an object store (`s3://`, `gs://`, `az://`). Nothing
    /// is read or written yet.
    ///
    /// # Errors
    /// The scheme is none that this build supports, or the settings of an object store are wrong.
    pub fn open(url: &str, disk: &Disk) -> Result<Self> {
        let path = url.strip_prefix("file://").unwrap_or(url);
        let store: Arc<dyn Store> = if path.contains("://") {
            cloud(url)?
        } else {
            Arc::new(Directory::new(disk, Path::new(path)))
        };
        Ok(Self { url: url.to_string(), store, compares: false })
    }

    /// Returns the same objects, to which nothing is written: what would be is compared with the
    /// object of that name, and an error names the first byte that differs.
    pub fn compared(&self) -> Self {
        Self { url: self.url.clone(), store: Arc::clone(&self.store), compares: true }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the path that errors about an object name.
    pub fn path(&self, name: &str) -> PathBuf {
        Path::new(&self.url).join(name)
    }

    /// Reads a whole object; `None` if there is none of this name.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.store.read(name)
    }

    /// Reads a range of bytes of an object.
    ///
    /// # Errors
    /// The object does not exist, is shorter, or cannot be read.
    pub fn read_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>> {
        self.store.read_range(name, range)
    }

    /// Returns the names of all objects.
    pub fn names(&self) -> Result<Vec<String>> {
        self.store.names()
    }

    /// Writes a whole object, which replaces any other of this name.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut upload = self.begin(name)?;
        upload.append(bytes)?;
        upload.finish()
    }

    pub(super) fn begin(&self, name: &str) -> Result<Box<dyn Upload>> {
        if self.compares {
            Ok(Box::new(Compared::new(Arc::clone(&self.store), name, self.path(name))))
        } else {
            self.store.begin(name)
        }
    }
}

#[cfg(feature = "cloud")]
fn cloud(url: &str) -> Result<Arc<dyn Store>> {
    if SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
        Ok(Arc::new(Cloud::new(url)?))
    } else {
        let what = format!("none of the schemes that are known: {}", SCHEMES.join(", "));
        Err(StoreError::new(url, what))
    }
}

#[cfg(not(feature = "cloud"))]
fn cloud(url: &str) -> Result<Arc<dyn Store>> {
    let what = if ["s3://", "gs://", "az://"].iter().any(|scheme| url.starts_with(scheme)) {
        "this build reads and writes directories alone: mount the store as a directory, or build \
         Apus with the feature `cloud`"
    } else {
        "none of the schemes that are known: give the path of a directory, or with the feature \
         `cloud` s3://, gs:// or az://"
    };
    Err(StoreError::new(url, what))
}
