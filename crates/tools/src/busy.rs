//! The program that has locked a data directory: who it is, how far it is,
//! and where its page is. Everything is read from what is there: the lock, the list of processes,
//! and the log.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use apus_host::root::Root;
use apus_node::options::Options;

/// The last bytes of a log that are read.
const LOG_BYTES: u64 = 64 << 20;
/// The log file of bitcoind and Apus in the network's directory.
const LOG: &str = "debug.log";
/// How the lines of the log begin that say where the page is, and how far the work is.
const PAGE: &str = "Answering RPC and showing a page on ";
const PROGRESS: &str = "Progress: ";
const TIP: &str = "UpdateTip: ";
/// How the first line of a run of bitcoind begins, before its version.
const CORE: &str = "Bitcoin Core version ";

/// The program that has locked a directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Busy {
    /// The number of its process; `None` if the system does not tell.
    pub process: Option<u32>,
    /// Its command, with its arguments; `None` if the system does not tell.
    pub command: Option<String>,
    /// How far it is; `None` if its log does not say so, as that of bitcoind.
    pub progress: Option<Reached>,
    /// Its last tip; `None` if its log names none.
    pub tip: Option<Reached>,
    /// The address of its page; `None` if its log names none.
    pub page: Option<String>,
}

/// How far a program is, by its log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reached {
    /// When this was logged, as in the log.
    pub time: String,
    /// The progress in words.
    pub words: String,
}

/// Looks at the program that has locked the directory of these options; `process` is the number of
/// its process, if the lock told that.
pub fn busy(options: &Options, process: Option<u32>) -> Busy {
    let logged = read_log(&options.network_dir().join(LOG)).unwrap_or_default();
    Busy { process, command: process.and_then(command_of), ..logged }
}

fn command_of(process: u32) -> Option<String> {
    command(&Root::system(), process)
}

/// Returns the command line of a process; `None` if the system does not tell.
fn command(root: &Root, process: u32) -> Option<String> {
    let line = root.read(format!("/proc/{process}/cmdline"))?;
    let line = line.trim_end_matches('\0').replace('\0', " ");
    // Arguments are foreign text.
    let line: String = line.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    (!line.is_empty()).then_some(line)
}

/// Returns how far the last run in a log is, and where its page is.
fn read_log(path: &Path) -> std::io::Result<Busy> {
    let mut file = File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(LOG_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let mut found = Busy::default();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        if let Some((time, text)) = text.trim_end().split_once(' ') {
            let reached =
                |words: &str| Some(Reached { time: time.to_string(), words: words.to_string() });
            if text.starts_with("Apus ") || text.starts_with(CORE) {
                found = Busy::default();
            } else if let Some(words) = text.strip_prefix(PROGRESS) {
                found.progress = reached(words);
            } else if let Some(fields) = text.strip_prefix(TIP) {
                found.tip = reached(&words_of_tip(fields));
            } else if let Some(address) = text.strip_prefix(PAGE) {
                found.page = Some(address.to_string());
            }
        }
        line.clear();
    }
    Ok(found)
}

/// Returns the version of the last bitcoind in the log of a network's directory: its first two
/// numbers; `None` if the end of the log names none.
pub fn last_core_version(directory: &Path) -> Option<(u32, u32)> {
    let mut file = File::open(directory.join(LOG)).ok()?;
    let from = file.metadata().ok()?.len().saturating_sub(LOG_BYTES);
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let mut found = None;
    while reader.read_until(b'\n', &mut line).ok()? > 0 {
        let text = String::from_utf8_lossy(&line);
        let version = text.split_once(' ').and_then(|(_, text)| text.strip_prefix(CORE));
        found = version.and_then(version_of).or(found);
        line.clear();
    }
    found
}

/// Returns the first two numbers of a version, as in `v31.0.0 (release build)`.
fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix('v')?.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Returns what Core's line of a new tip says: its height, and the share of all transactions.
fn words_of_tip(fields: &str) -> String {
    let field = |name: &str| fields.split(' ').find_map(|field| field.strip_prefix(name));
    let height = field("height=").unwrap_or("unknown");
    match field("progress=").and_then(|share| share.parse::<f64>().ok()) {
        Some(share) => format!("height {height}, {:.1} % of all transactions", 100.0 * share),
        None => format!("height {height}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_log_names_the_last_bitcoind() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(last_core_version(place.path()), None);
        for (log, version) in [
            ("", None),
            ("1 Apus v1\n1 UpdateTip: Bitcoin Core version v31.0\n", None),
            ("1 Bitcoin Core version v29.3.0 (release build)\n2 Apus v1\n", Some((29, 3))),
            ("1 Bitcoin Core version v31.0\n2 Bitcoin Core version v31.99.0-gb8\n", Some((31, 99))),
            ("1 Bitcoin Core version v30.2.0\n2 Bitcoin Core version unknown\n", Some((30, 2))),
        ] {
            fs::write(place.path().join(LOG), log).unwrap();
            assert_eq!(last_core_version(place.path()), version, "{log}");
        }
    }

    #[test]
    fn the_log_says_how_far_the_last_run_is() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(LOG);
        let reached = |time: &str, words: &str| {
            Some(Reached { time: time.to_string(), words: words.to_string() })
        };
        let old = "1 Apus v1\n1 Answering RPC and showing a page on http://[::1]:1/\n\
                   2 Progress: 3 %\n";
        let page = "4 Answering RPC and showing a page on http://127.0.0.1:8332/\n";
        let tip = "UpdateTip: new best=00 height=7 version=0x1 date='x' progress=0.123456 cache=1";
        for (log, progress, tip, page) in [
            (String::new(), None, None, None),
            (old.to_string(), reached("2", "3 %"), None, Some("http://[::1]:1/")),
            (format!("{old}3 Apus v2\n"), None, None, None),
            (
                format!("{old}3 Apus v2\n{page}5 Progress: 9 %, x\n6 else\n"),
                reached("5", "9 %, x"),
                None,
                Some("http://127.0.0.1:8332/"),
            ),
            (
                format!("{old}3 Bitcoin Core version v31\n5 {tip}\n"),
                None,
                reached("5", "height 7, 12.3 % of all transactions"),
                None,
            ),
            (
                format!("{old}4 UpdateTip: height=7\n5 Progress: 8 %\n"),
                reached("5", "8 %"),
                reached("4", "height 7"),
                Some("http://[::1]:1/"),
            ),
        ] {
            fs::write(&path, &log).unwrap();
            let found = read_log(&path).unwrap();
            let page = page.map(str::to_string);
            assert_eq!(found, Busy { progress, tip, page, ..Busy::default() }, "{log}");
        }
        fs::write(&path, b"1 Progress: \xff\xfe\n\n \nno").unwrap();
        assert!(read_log(&path).is_ok());
        assert!(read_log(place.path()).is_err());
    }

    #[test]
    fn the_command_of_a_process_is_one_line() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::new(place.path());
        fs::create_dir_all(place.path().join("proc/7")).unwrap();
        fs::write(place.path().join("proc/7/cmdline"), "apus\0sync\0--datadir=a\nb\0").unwrap();
        assert_eq!(command(&root, 7).as_deref(), Some("apus sync --datadir=a?b"));
        assert_eq!(command(&root, 8), None);
    }
}
