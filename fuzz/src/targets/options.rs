//! The command line, bitcoin.conf and settings.json.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use apus::options_of_sync;
use apus_wire::{Chain, Network};

use super::input::scratch;

/// The byte between two parts of the input. UTF-8 never contains it.
const END_OF_PART: u8 = 0xff;
/// The files whose content is in the parts after the first one.
const FILES: [&str; 3] = ["bitcoin.conf", "included.conf", "regtest/settings.json"];

/// Reads `data` as the arguments of `apus sync`, one per line, and as the settings files in its
/// data directory.
///
/// Any input is refused with a message, or gives options within their limits, the same ones each
/// time.
pub fn run(data: &[u8]) {
    let mut parts = data.splitn(1 + FILES.len(), |byte| *byte == END_OF_PART);
    let lines = parts.next().unwrap_or_default().split(|byte| *byte == b'\n');
    let dir = scratch();
    let mut datadir = OsString::from("-datadir=");
    datadir.push(dir.path());
    let mut args = vec!["apus".into(), "sync".into(), datadir];
    let lines = lines.filter(|line| !line.is_empty());
    args.extend(lines.map(|line| std::ffi::OsStr::from_bytes(line).to_os_string()));
    fs::create_dir(dir.path().join("regtest")).expect("a directory can be made");
    for (name, bytes) in FILES.iter().zip(parts) {
        fs::write(dir.path().join(name), bytes).expect("a temporary file can be written");
    }
    let options = match options_of_sync(args.clone()) {
        Ok((options, _)) => options,
        Err(why) => return assert!(!why.is_empty()),
    };
    assert!((1..=256).contains(&options.threads));
    assert!(options.dbcache_bytes >= 16 << 20);
    assert!(options.stop_at_height != Some(0));
    check_challenge(&options.network, data);
    let (again, _) = options_of_sync(args).expect("the same input is accepted again");
    assert_eq!(again.threads, options.threads);
    assert_eq!(again.dbcache_bytes, options.dbcache_bytes);
    assert_eq!(again.stop_at_height, options.stop_at_height);
    assert_eq!(again.network.chain, options.network.chain);
    assert_eq!(again.network.magic, options.network.magic);
    assert_eq!(again.network.minimum_chain_work, options.network.minimum_chain_work);
}

/// Checks that the challenge of a custom signet is in the input, in hex.
fn check_challenge(network: &Network, data: &[u8]) {
    let Some(challenge) = &network.signet_challenge else { return };
    if network.magic == Network::new(Chain::Signet).magic || challenge.is_empty() {
        return;
    }
    let hex: String = challenge.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = data.to_ascii_lowercase();
    assert!(text.windows(hex.len()).any(|part| part == hex.as_bytes()), "{hex}");
}
