//! Nodes that run on this machine, and the data directories of nodes by their paths.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use apus_node::root::Root;

/// The names of Bitcoin Core's processes, and of Knots', which are the same.
const PROGRAMS: [&str; 4] = ["bitcoind", "bitcoin-qt", "bitcoin-node", "bitcoin-gui"];

/// Where the software of node boxes, and services, keep Bitcoin's data directory. `~` is any home
/// directory.
const PLACES: [(&str, &str); 13] = [
    ("Umbrel", "~/umbrel/app-data/bitcoin/data/bitcoin"),
    ("Umbrel (Knots)", "~/umbrel/app-data/bitcoin-knots/data/bitcoin"),
    ("Umbrel", "/data/umbrel-os/home/umbrel/umbrel/app-data/bitcoin/data/bitcoin"),
    ("Umbrel (Knots)", "/data/umbrel-os/home/umbrel/umbrel/app-data/bitcoin-knots/data/bitcoin"),
    ("StartOS", "/media/startos/data/package-data/volumes/bitcoind/data/main"),
    ("StartOS", "/embassy-data/package-data/volumes/bitcoind/data/main"),
    ("RaspiBlitz", "/mnt/hdd/app-storage/bitcoin"),
    ("RaspiBlitz", "/mnt/hdd/bitcoin"),
    ("RaspiBolt", "/data/bitcoin"),
    ("a service", "/var/lib/bitcoind"),
    ("a service", "/var/lib/bitcoin"),
    ("Apus", "/var/lib/apus"),
    ("Bitcoin Core or Knots", "~/.bitcoin"),
];

/// A process of Bitcoin Core or Knots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Running {
    /// The program's name.
    pub name: String,
    /// The process's number.
    pub pid: u32,
    /// The data directory that its arguments name.
    pub datadir: Option<PathBuf>,
}

/// The data directory of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// What usually has its directory at this path.
    pub of: &'static str,
    /// The directory.
    pub path: PathBuf,
    /// The number of the user who owns it.
    pub owner: u32,
}

/// Returns the processes of Bitcoin Core and Knots, by their numbers.
pub fn running(root: &Root) -> Vec<Running> {
    let pids = root.names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    let mut running: Vec<Running> = pids
        .filter_map(|pid| {
            let name = root.read(format!("/proc/{pid}/comm"))?;
            PROGRAMS.contains(&&name[..]).then_some(())?;
            let args = root.read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let datadir = args.split('\0').find_map(|arg| {
                let named = arg.trim_start_matches('-').strip_prefix("datadir=")?;
                // A relative path is one from the directory that the process is in.
                let from = fs::read_link(root.below(format!("/proc/{pid}/cwd")));
                Some(from.unwrap_or_default().join(named))
            });
            Some(Running { name, pid, datadir })
        })
        .collect();
    running.sort_by_key(|running| running.pid);
    running
}

/// Returns the data directories of nodes on this machine: at the usual paths, and below the home
/// directories of all users. `first` come before these, each only if it is one.
pub fn places(root: &Root, first: &[PathBuf]) -> Vec<Place> {
    let mut homes: Vec<PathBuf> = vec!["/root".into()];
    homes.extend(root.names("/home").iter().map(|name| Path::new("/home").join(name)));
    let named = first.iter().map(|path| ("Bitcoin Core or Knots", path.clone()));
    let usual = PLACES.iter().flat_map(|(of, path)| match path.strip_prefix("~/") {
        Some(below) => homes.iter().map(|home| (*of, home.join(below))).collect(),
        None => vec![(*of, PathBuf::from(path))],
    });
    let mut found: Vec<Place> = Vec::new();
    let mut seen = Vec::new();
    for (of, path) in named.chain(usual) {
        let Ok(real) = fs::canonicalize(root.below(&path)) else { continue };
        let Ok(metadata) = fs::metadata(&real) else { continue };
        // The same directory may have several names, by links and by mounts.
        let is = (metadata.dev(), metadata.ino());
        let has_blocks = fs::read_dir(real.join("blocks"))
            .is_ok_and(|entries| entries.flatten().any(|entry| is_of_blocks(&entry.path())));
        if !has_blocks || seen.contains(&is) {
            continue;
        }
        // The path of a box says more than the name that led there.
        let is_at =
            |place: &str| fs::canonicalize(root.below(place)).is_ok_and(|place| place == real);
        let of = PLACES.iter().find(|(_, place)| is_at(place)).map_or(of, |at| at.0);
        seen.push(is);
        found.push(Place { of, path, owner: metadata.uid() });
    }
    found
}

/// Returns whether a path inside `blocks` is a block file or the block index.
fn is_of_blocks(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name == "index" || name.starts_with("blk") && name.ends_with(".dat")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_boxes_are_found_by_their_paths() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(fs::canonicalize(dir.path()).unwrap());
        assert!(places(&root, &[]).is_empty());
        let make = |path: &str| fs::create_dir_all(root.below(path).join("blocks/index")).unwrap();
        let boxes = [
            ("Umbrel", "/home/umbrel/umbrel/app-data/bitcoin/data/bitcoin"),
            ("Umbrel (Knots)", "/home/u/umbrel/app-data/bitcoin-knots/data/bitcoin"),
            ("StartOS", "/embassy-data/package-data/volumes/bitcoind/data/main"),
            ("RaspiBlitz", "/mnt/hdd/bitcoin"),
            ("a service", "/var/lib/bitcoind"),
        ];
        for (_, path) in boxes {
            make(path);
        }
        // A RaspiBlitz has a link to its directory; an empty directory is none of a node.
        fs::create_dir_all(root.below("/home/bitcoin")).unwrap();
        let link = root.below("/home/bitcoin/.bitcoin");
        std::os::unix::fs::symlink(root.below("/mnt/hdd/bitcoin"), link).unwrap();
        fs::create_dir_all(root.below("/root/.bitcoin/blocks")).unwrap();
        let found = places(&root, &["/home/bitcoin/.bitcoin".into(), "/nowhere".into()]);
        let words: Vec<(&str, &str)> =
            found.iter().map(|place| (place.of, place.path.to_str().unwrap())).collect();
        assert_eq!(words[0], ("RaspiBlitz", "/home/bitcoin/.bitcoin"));
        let others: Vec<_> = boxes.into_iter().filter(|(of, _)| *of != "RaspiBlitz").collect();
        for expected in &others {
            assert!(words.contains(expected), "{expected:?} is not in {words:?}");
        }
        assert_eq!(words.len(), 1 + others.len(), "{words:?}");
    }

    #[test]
    fn running_nodes_and_their_directories_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let process = |pid: u32, name: &str, args: &str| {
            let at = root.below(format!("/proc/{pid}"));
            fs::create_dir_all(&at).unwrap();
            fs::write(at.join("comm"), format!("{name}\n")).unwrap();
            fs::write(at.join("cmdline"), args).unwrap();
        };
        process(7, "bitcoind", "bitcoind\0-server\0-datadir=/mnt/a b\0");
        process(11, "bitcoin-qt", "bitcoin-qt\0");
        process(13, "bitcoind", "bitcoind\0--datadir=nodes/a\0");
        std::os::unix::fs::symlink("/home/x", root.below("/proc/13/cwd")).unwrap();
        process(12, "bitcoin-cli", "bitcoin-cli\0-datadir=/x\0");
        let found = running(&root);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!((found[0].pid, found[0].datadir.clone()), (7, Some("/mnt/a b".into())));
        assert_eq!((&found[1].name[..], found[1].datadir.clone()), ("bitcoin-qt", None));
        assert_eq!(found[2].datadir, Some("/home/x/nodes/a".into()));
    }
}
