//! Nodes that run on this machine, and the data directories of nodes by their paths.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use apus_disk::lock_holder;
use apus_host::root::Root;
use apus_wire::Network;

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
pub struct NodeDirectory {
    /// The program that usually has its directory at this path.
    pub of: &'static str,
    /// The directory.
    pub path: PathBuf,
    /// The number of the user who owns it.
    pub owner: u32,
}

impl Running {
    /// Returns the process with this number, of any program; `None` if there is none.
    fn of(root: &Root, pid: u32) -> Option<Self> {
        let name = root.read(format!("/proc/{pid}/comm"))?;
        let args = root.read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let datadir = args.split('\0').find_map(|arg| {
            let named = arg.trim_start_matches('-').strip_prefix("datadir=")?;
            // A relative path is one from the directory that the process is in.
            let from = fs::read_link(root.below(format!("/proc/{pid}/cwd")));
            Some(from.unwrap_or_default().join(named))
        });
        Some(Self { name, pid, datadir })
    }

    pub fn how_to_stop(&self) -> String {
        if PROGRAMS.contains(&&self.name[..]) {
            "bitcoin-cli stop".to_string()
        } else {
            format!("kill -INT {}", self.pid)
        }
    }
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.name, self.pid)
    }
}

/// Returns the processes of Bitcoin Core and Knots, by their numbers.
pub fn running(root: &Root) -> Vec<Running> {
    let pids = root.names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    let mut running: Vec<Running> = pids
        .filter_map(|pid| Running::of(root, pid))
        .filter(|running| PROGRAMS.contains(&&running.name[..]))
        .collect();
    running.sort_by_key(|running| running.pid);
    running
}

/// Returns the process that works in the data directory `datadir`: the one that holds the lock on
/// the network's directory below it, or else the one of `running` whose arguments name it. `None`
/// if neither is known.
pub fn user_of(
    root: &Root,
    datadir: &Path,
    network: &Network,
    running: &[Running],
) -> Option<Running> {
    let directory = root.below(datadir).join(network.subdirectory);
    let locks = [directory.join(".lock"), directory.join("blocks/.lock")];
    let holder = locks.iter().find_map(|lock| lock_holder(lock));
    let real = |path: &Path| fs::canonicalize(root.below(path)).ok();
    let names_it = |running: &&Running| {
        running.datadir.as_deref().is_some_and(|named| real(named) == real(datadir))
    };
    holder.and_then(|pid| Running::of(root, pid)).or_else(|| running.iter().find(names_it).cloned())
}

/// Returns the data directories of nodes on this machine that hold blocks of `network`: at the
/// usual paths, and below the home directories of all users. `first` come before these, each only
/// if it is one.
pub fn places(root: &Root, network: &Network, first: &[PathBuf]) -> Vec<NodeDirectory> {
    let mut homes: Vec<PathBuf> = vec!["/root".into()];
    homes.extend(root.names("/home").iter().map(|name| Path::new("/home").join(name)));
    let named = first.iter().map(|path| ("Bitcoin Core or Knots", path.clone()));
    let usual = PLACES.iter().flat_map(|(of, path)| match path.strip_prefix("~/") {
        Some(below) => homes.iter().map(|home| (*of, home.join(below))).collect(),
        None => vec![(*of, PathBuf::from(path))],
    });
    let mut found: Vec<NodeDirectory> = Vec::new();
    let mut seen = Vec::new();
    for (of, path) in named.chain(usual) {
        let Ok(real) = fs::canonicalize(root.below(&path)) else { continue };
        let Ok(metadata) = fs::metadata(&real) else { continue };
        // The same directory may have several names, by links and by mounts.
        let is = (metadata.dev(), metadata.ino());
        let blocks = real.join(network.subdirectory).join("blocks");
        if !holds_blocks(&blocks) || seen.contains(&is) {
            continue;
        }
        // The path of a box says more than the name that led there.
        let is_at =
            |place: &str| fs::canonicalize(root.below(place)).is_ok_and(|place| place == real);
        let of = PLACES.iter().find(|(_, place)| is_at(place)).map_or(of, |at| at.0);
        seen.push(is);
        found.push(NodeDirectory { of, path, owner: metadata.uid() });
    }
    found
}

/// Returns whether a directory of blocks is that of a node. One that this user may not read may be.
fn holds_blocks(blocks: &Path) -> bool {
    match fs::read_dir(blocks) {
        Ok(entries) => entries.flatten().any(|entry| is_of_blocks(&entry.path())),
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

/// Returns whether a path inside `blocks` is a block file or the block index.
fn is_of_blocks(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name == "index" || name.starts_with("blk") && name.ends_with(".dat")
}

#[cfg(test)]
mod tests {
    use apus_wire::Chain;

    use super::*;

    fn places_of_main(root: &Root, first: &[PathBuf]) -> Vec<NodeDirectory> {
        places(root, &Network::new(Chain::Main), first)
    }

    #[test]
    fn directories_of_boxes_are_found_by_their_paths() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(fs::canonicalize(dir.path()).unwrap());
        assert!(places_of_main(&root, &[]).is_empty());
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
        let found = places_of_main(&root, &["/home/bitcoin/.bitcoin".into(), "/nowhere".into()]);
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
    fn the_blocks_of_each_network_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(fs::canonicalize(dir.path()).unwrap());
        let networks = Chain::ALL.map(Network::new);
        for network in &networks {
            let datadir = PathBuf::from(format!("/node of {}", network.chain.name()));
            let blocks = root.below(&datadir).join(network.subdirectory).join("blocks");
            fs::create_dir_all(blocks.join("index")).unwrap();
            for other in &networks {
                let found = places(&root, other, std::slice::from_ref(&datadir));
                let here = usize::from(other.chain == network.chain);
                assert_eq!(found.len(), here, "{:?}: {found:?}", other.chain);
            }
        }
    }

    #[test]
    fn a_directory_is_used_by_the_process_that_names_or_locks_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(fs::canonicalize(dir.path()).unwrap());
        let main = Network::new(Chain::Main);
        let running = ["/one", "/other"].into_iter().zip([7, 8]).map(|(datadir, pid)| {
            fs::create_dir_all(root.below(datadir)).unwrap();
            Running { name: "bitcoind".into(), pid, datadir: Some(datadir.into()) }
        });
        let running: Vec<Running> = running.collect();
        fs::create_dir_all(root.below("/third")).unwrap();
        for (datadir, pid) in [("/one", Some(7)), ("/other", Some(8)), ("/third", None)] {
            let found = user_of(&root, Path::new(datadir), &main, &running);
            assert_eq!(found.map(|running| running.pid), pid, "{datadir}");
        }
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
