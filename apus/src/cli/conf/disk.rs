//! Reads settings files, and checks the directories that they name. Nothing is written.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::config::Config;
use super::load::CONF;

/// The most bytes of a settings file, so that a device or a block file named by mistake does not
/// fill the memory.
const BYTES_MAX: u64 = 1 << 20;

/// Reads a settings file.
///
/// # Errors
/// The file cannot be read, or is longer than [`BYTES_MAX`].
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        let what = format!("it is longer than {BYTES_MAX} bytes, so it is not a settings file");
        return Err(io::Error::other(what));
    }
    Ok(bytes)
}

/// Checks the directories that settings name. A data directory named in a file must exist: creating
/// it where a disk is not mounted would hide the real one. It must not hold a second bitcoin.conf,
/// which bitcoind would refuse. Returns a warning, if there is one.
///
/// # Errors
/// One of these does not hold. Core refuses to start then, too.
pub fn check_directories(config: &mut Config) -> Result<Option<String>, String> {
    let datadir = &config.loaded.datadir;
    if let Some(place) = config.loaded.datadir_place.as_ref().filter(|_| !datadir.is_dir()) {
        return Err(format!(
            "{place}: the data directory {} does not exist: mount or create it, or name another \
             with --datadir",
            datadir.display()
        ));
    }
    let (inside, Some(conf)) = (datadir.join(CONF), &config.loaded.conf) else { return Ok(None) };
    if !inside.exists() || is_same(&inside, conf) {
        return Ok(None);
    }
    let what = format!("{} is ignored, since {} is used", inside.display(), conf.display());
    if config.take_flag("allowignoredconf", false)? {
        Ok(Some(what))
    } else {
        Err(format!(
            "{what}: remove or rename it, or include it there with includeconf=; \
         allowignoredconf=1 ignores it, and --noconf reads neither"
        ))
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
    identity(one).is_some_and(|one| identity(other) == Some(one))
}
