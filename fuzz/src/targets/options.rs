//! The command line, bitcoin.conf and settings.json.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use apus::cli::options_of_sync;

use super::input::scratch;

/// Ends each part of the input but the last. No part that is UTF-8 holds it.
const END_OF_PART: u8 = 0xff;
/// What the parts after the first, the arguments, one in each line, are files of.
const FILES: [&str; 3] = ["bitcoin.conf", "included.conf", "regtest/settings.json"];

/// Reads `data` as arguments of `apus sync`, and the files of settings of its data directory.
///
/// Whatever they say, it is refused in words or gives options inside their limits, the same ones
/// each time.
pub fn run(data: &[u8]) {
    let mut parts = data.splitn(1 + FILES.len(), |byte| *byte == END_OF_PART);
    let lines = parts.next().unwrap_or_default().split(|byte| *byte == b'\n');
    let dir = scratch();
    let mut datadir = OsString::from("-datadir=");
    datadir.push(dir.path());
    let mut args = vec!["apus".into(), "sync".into(), datadir];
    let lines = lines.filter(|line| !line.is_empty());
    args.extend(lines.map(|line| std::ffi::OsStr::from_bytes(line).to_os_string()));
    fs::create_dir(dir.path().join("regtest")).expect("it is made");
    for (name, bytes) in FILES.iter().zip(parts) {
        fs::write(dir.path().join(name), bytes).expect("it is written");
    }
    let options = match options_of_sync(args.clone()) {
        Ok(options) => options,
        Err(why) => return assert!(!why.is_empty()),
    };
    assert!((1..=256).contains(&options.threads));
    assert!(options.dbcache_bytes >= 16 << 20);
    assert!(options.stop_at_height != Some(0));
    let again = options_of_sync(args).expect("nothing has changed");
    assert_eq!(again.threads, options.threads);
    assert_eq!(again.dbcache_bytes, options.dbcache_bytes);
    assert_eq!(again.stop_at_height, options.stop_at_height);
    assert_eq!(again.network.chain, options.network.chain);
    assert_eq!(again.network.magic, options.network.magic);
    assert_eq!(again.network.minimum_chain_work, options.network.minimum_chain_work);
}
