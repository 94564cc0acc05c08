//! Findings on a machine that make a sync slow or unsafe, each with a remedy.

use apus_node::options::Options;
use apus_progress::words::{size, speed, thousands};
use apus_wire::Chain;
use secp_lanes::Kernel;

use super::look::{HeldDirectory, Look};
use super::needs::Needs;
use super::nodes::Running;
use super::volume::Medium;

const GB: u64 = 1_000_000_000;
/// Memory below which a sync is slowed down by the lack of it.
const MEMORY_MIN: u64 = GB;
/// Bytes a second below which writing holds a sync up.
const WRITTEN_MIN: f64 = 50e6;
/// Random reads a second below which a sync in order, which looks coins up, is slow.
const READS_MIN: f64 = 2_000.0;
/// Seconds by which the clock may be behind the last block: blocks may be two hours early.
const BEHIND_MAX: i64 = 2 * 60 * 60;
const UNREPORTED: &str = "the system does not report it";

/// How good or bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Nothing is to be done.
    Good,
    /// It may be good: this cannot be seen from here.
    Unsure,
    /// It makes a sync slow.
    Slow,
    /// It makes a sync fail, or puts its result at risk.
    Unsafe,
}

impl Level {
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Unsure => "unsure",
            Self::Slow => "slow",
            Self::Unsafe => "unsafe",
        }
    }
}

/// One thing about the machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How good or bad it is.
    pub level: Level,
    /// Its subject, in one or two words.
    pub about: &'static str,
    /// The finding.
    pub found: String,
    /// The remedy; empty if all is well.
    pub remedy: &'static str,
}

/// The level of a finding, what was found, and the remedy.
type Found = (Level, String, &'static str);

/// Returns what there is to say about a machine, in a fixed order.
pub fn findings(look: &Look, options: &Options) -> Vec<Finding> {
    let mut all = vec![("disk", disk(look)), ("file system", file_system(look))];
    if options.network.chain == Chain::Main {
        all.push(("free space", space(look, options)));
    }
    all.extend([
        ("memory", memory(look)),
        ("swap", swap(look)),
        ("clock", clock(look)),
        ("processor", processor(look)),
        ("directory", directory(look)),
    ]);
    all.extend(look.core.map(|version| ("bitcoind", bitcoind(version))));
    let finding = |(about, (level, found, remedy))| Finding { level, about, found, remedy };
    all.into_iter().map(finding).collect()
}

fn good(found: String) -> Found {
    (Level::Good, found, "")
}

fn disk(look: &Look) -> Found {
    let Some(measured) = look.speed else {
        return good(format!("not measured: {}", look.volume.words()));
    };
    let found = format!(
        "{} written, {} random reads a second, in {}",
        speed(measured.written),
        thousands(measured.reads as u64),
        look.volume.path.display()
    );
    if measured.reads < READS_MIN {
        let remedy = "leave the method to Apus, since a join reads in order; for bitcoind move \
                      chainstate to a solid-state disk";
        (Level::Slow, found, remedy)
    } else if measured.written < WRITTEN_MIN {
        (Level::Slow, found, "use a disk on USB 3, SATA or NVMe, and not a memory card")
    } else {
        good(found)
    }
}

/// What becomes of the tables of the UTXO set under the bitcoind of a version. Those without a fix
/// move a table down a level after it was read some thousand times, whatever the levels are, and in
/// the end rewrite the last level with it.
fn bitcoind((major, minor): (u32, u32)) -> Found {
    let rewrites = match major {
        29 => minor < 4,
        30 => minor < 3,
        31 => minor < 1,
        _ => false,
    };
    let found = format!("v{major}.{minor} was the last on the directory");
    if !rewrites {
        return good(found);
    }
    let found = format!("{found}: it rewrites the whole UTXO set every 30 to 60 minutes");
    (Level::Slow, found, "use Bitcoin Core 31.1, 30.3, 29.4 or newer")
}

fn file_system(look: &Look) -> Found {
    let found = look.volume.words();
    let Some(mount) = &look.volume.mount else { return good(found) };
    if mount.is_read_only {
        let remedy = "mount it for writing; after an error of the disk, check it first (fsck)";
        return (Level::Unsafe, format!("{found}, mounted read-only"), remedy);
    }
    let (level, remedy) = match (look.volume.medium, &mount.kind[..]) {
        (Medium::Memory, _) => {
            (Level::Unsafe, "choose a directory on a disk: this one is empty after a restart")
        }
        (_, "vfat" | "exfat" | "msdos") => (
            Level::Unsafe,
            "use ext4 or xfs: this file system loses data at a power failure, and has no owners",
        ),
        (Medium::Network, _) => (
            Level::Unsafe,
            "keep chainstate and the block index on a local disk, and only blocks there \
             (--blocksdir)",
        ),
        (_, "ntfs" | "ntfs3" | "fuseblk") => (Level::Slow, "use ext4 or xfs"),
        (Medium::Card, _) => {
            (Level::Slow, "use a disk: memory cards are slow, and wear out under a node")
        }
        _ => (Level::Good, ""),
    };
    (level, found, remedy)
}

fn space(look: &Look, options: &Options) -> Found {
    let needs = Needs::new(look.height() + 1, look.now, options);
    let free = look.volume.free;
    let now = needs.space.all();
    let later = needs.a_year.all();
    if matches!(look.held(), Some(HeldDirectory::Chain { pruned: true, .. })) {
        return good(format!("{} now, and block files are pruned", size(free)));
    }
    let found = format!(
        "{} now; the chain takes {} more, and {} in the year after",
        size(free),
        size(now),
        size(later)
    );
    if free < now {
        let remedy = "use a larger disk, or keep only the newest blocks with --prune=550";
        (Level::Unsafe, found, remedy)
    } else if free <= now + later {
        (Level::Slow, format!("{found}: it is full within a year"), "plan a larger disk, or prune")
    } else {
        good(format!("{found}, so that {} are left", size(free - now - later)))
    }
}

fn memory(look: &Look) -> Found {
    let memory = &look.memory;
    if memory.total == 0 {
        return good(UNREPORTED.to_string());
    }
    let found = format!(
        "{}, of which {} are free: a sync caches coins in {}",
        size(memory.total),
        size(memory.available),
        size(memory.cache)
    );
    if memory.available < MEMORY_MIN {
        let remedy = "stop other services during the sync, or give the container more";
        return (Level::Slow, found, remedy);
    }
    good(found)
}

fn swap(look: &Look) -> Found {
    let memory = &look.memory;
    let used = memory.swap.saturating_sub(memory.swap_free);
    if memory.total == 0 {
        good(UNREPORTED.to_string())
    } else if memory.swap == 0 && memory.total < 4 * GB {
        let found = "none, with little memory: the system ends programs when it runs short";
        (Level::Unsafe, found.to_string(), "add 1 to 2 GB of swap on a disk, or zram")
    } else if memory.swap == 0 {
        good("none".to_string())
    } else if used > memory.swap / 2 {
        let found = format!("{} of {} are used", size(used), size(memory.swap));
        let remedy = "other programs need more memory than there is: stop some of them";
        (Level::Slow, found, remedy)
    } else {
        good(size(memory.swap))
    }
}

fn clock(look: &Look) -> Found {
    let times = look.known.iter().filter_map(|known| match known.held {
        HeldDirectory::Chain { time, .. } => Some(i64::from(time)),
        HeldDirectory::Blocks | HeldDirectory::InUse(_) | HeldDirectory::Closed(_) => None,
    });
    let behind = times.max().unwrap_or(0) - look.now;
    if behind > BEHIND_MAX {
        let found = format!("{} h behind the last block", behind / 3600);
        let remedy = "set it: blocks of the future are refused (timedatectl set-ntp true)";
        (Level::Unsafe, found, remedy)
    } else if !look.clock_is_kept {
        let found = "no program was found that keeps it right".to_string();
        let remedy = "install systemd-timesyncd or chrony, unless the machine's host does it";
        (Level::Unsure, found, remedy)
    } else {
        good("kept right".to_string())
    }
}

fn processor(look: &Look) -> Found {
    let cores = if look.cores == 1 { "core" } else { "cores" };
    let found = format!("{} {cores}, signatures checked {}", look.cores, look.kernel.words());
    match look.kernel {
        Kernel::Avx512 | Kernel::AvxIfma | Kernel::Avx2Doubles | Kernel::Avx2 | Kernel::Neon => {
            good(found)
        }
        Kernel::Library | Kernel::Portable => (
            Level::Slow,
            found,
            "leave --assumevalid at its default; give a virtual machine the processor of its host \
             (its type is called host), or sync on another machine and move the directory",
        ),
    }
}

fn directory(look: &Look) -> Found {
    let path = look.datadir.display();
    let is_read = !matches!(look.held(), Some(HeldDirectory::InUse(_) | HeldDirectory::Closed(_)));
    if let (true, Some(why)) = (is_read, &look.volume.refused) {
        let found = format!("{path} cannot be written to: {why}");
        let remedy =
            "mount its disk, run Apus as the user who owns it, or name another with --datadir";
        return (Level::Unsafe, found, remedy);
    }
    match look.held() {
        None => good(format!("{path} holds no blocks yet")),
        Some(HeldDirectory::Chain { height, doubtful: Some(doubtful), .. }) => {
            let height = thousands(u64::from(*height));
            let level = if doubtful.left_out > 0 { Level::Unsafe } else { Level::Unsure };
            let remedy = "if another program marked these blocks (Bitcoin Knots, bitcoind's \
                          invalidateblock) or left such entries, `apus sync --reconsider` checks \
                          the blocks again, and removes the entries";
            (level, format!("{path} is at height {height}, {doubtful}"), remedy)
        }
        Some(HeldDirectory::Chain { height, .. }) => {
            good(format!("{path} is at height {}", thousands(u64::from(*height))))
        }
        Some(HeldDirectory::Blocks) => (
            Level::Slow,
            format!("{path} holds block files, but no UTXO set"),
            "build the block index and the UTXO set from them (apus reindex --index)",
        ),
        Some(HeldDirectory::InUse(by)) => {
            let by = by.as_ref().map_or_else(|| "another program".to_string(), Running::to_string);
            let remedy =
                "stop it before a sync (bitcoin-cli stop): a directory has one owner at a time";
            (Level::Unsafe, format!("{path} is in use by {by}"), remedy)
        }
        Some(HeldDirectory::Closed(why)) => (
            Level::Unsafe,
            format!("{path} cannot be read: {why}"),
            "do what the message says; nothing is to be rebuilt before the directory can be read",
        ),
    }
}

#[cfg(test)]
mod tests {
    use apus_wire::Network;

    use super::*;
    use crate::machine::look::{Known, Memory};
    use crate::machine::measure::Speed;
    use crate::machine::nodes::NodeDirectory;

    fn options() -> Options {
        Options::new("/data".into(), Network::new(Chain::Main))
    }

    fn machine() -> Look {
        Look::good("/data")
    }

    /// The one finding that is not good.
    fn bad(change: impl FnOnce(&mut Look)) -> (Level, &'static str, String) {
        let mut look = machine();
        change(&mut look);
        let mut bad = findings(&look, &options());
        bad.retain(|finding| finding.level != Level::Good);
        assert_eq!(bad.len(), 1, "{bad:?}");
        let Finding { level, about, found, remedy } = bad.remove(0);
        assert!(!remedy.is_empty(), "{about}");
        (level, about, found)
    }

    #[test]
    fn a_good_machine_has_no_remedies() {
        for finding in findings(&machine(), &options()) {
            assert_eq!((finding.level, finding.remedy), (Level::Good, ""), "{finding:?}");
        }
    }

    #[test]
    fn a_bitcoind_that_leaves_tables_alone_is_good() {
        for version in [(31, 1), (31, 99), (30, 3), (29, 4), (28, 2), (32, 0)] {
            let found = findings(&Look { core: Some(version), ..machine() }, &options());
            assert!(found.iter().all(|finding| finding.level == Level::Good), "{version:?}");
        }
    }

    /// Virtual disks are often reported as disks that turn.
    #[test]
    fn a_measured_disk_is_what_it_does_and_not_what_it_says() {
        for (reads, words) in [(10_605.0, "ext4 on a solid-state disk"), (90.0, "hard disk")] {
            let mut look = machine();
            look.volume.medium = Medium::Unknown;
            look.measured(Speed { written: 400e6, reads });
            let found = findings(&look, &options());
            let file_system = found.iter().find(|finding| finding.about == "file system").unwrap();
            assert!(file_system.found.ends_with(words), "{file_system:?}");
        }
    }

    #[test]
    fn what_the_system_does_not_report_is_no_flaw() {
        let look = Look { memory: Memory::default(), ..machine() };
        for finding in findings(&look, &options()) {
            assert_eq!(finding.level, Level::Good, "{finding:?}");
        }
    }

    #[test]
    fn each_flaw_is_found_and_has_a_remedy() {
        let kind = |kind: &'static str| {
            move |look: &mut Look| look.volume.mount.as_mut().unwrap().kind = kind.into()
        };
        let medium = |medium: Medium| move |look: &mut Look| look.volume.medium = medium;
        let free = |gigabytes: u64| move |look: &mut Look| look.volume.free = gigabytes * GB;
        type Flaw = (Level, &'static str, Box<dyn FnOnce(&mut Look)>);
        let flaws: [Flaw; 18] = [
            (Level::Slow, "disk", Box::new(|look| look.speed.as_mut().unwrap().reads = 90.0)),
            (Level::Slow, "disk", Box::new(|look| look.speed.as_mut().unwrap().written = 9e6)),
            (Level::Slow, "bitcoind", Box::new(|look| look.core = Some((31, 0)))),
            (Level::Slow, "bitcoind", Box::new(|look| look.core = Some((30, 2)))),
            (Level::Slow, "bitcoind", Box::new(|look| look.core = Some((29, 3)))),
            (Level::Unsafe, "file system", Box::new(kind("exfat"))),
            (Level::Slow, "file system", Box::new(kind("fuseblk"))),
            (
                Level::Unsafe,
                "file system",
                Box::new(|look| look.volume.mount.as_mut().unwrap().is_read_only = true),
            ),
            (Level::Unsafe, "file system", Box::new(medium(Medium::Network))),
            (Level::Unsafe, "file system", Box::new(medium(Medium::Memory))),
            (Level::Slow, "file system", Box::new(medium(Medium::Card))),
            (Level::Unsafe, "free space", Box::new(free(500))),
            (Level::Slow, "free space", Box::new(free(920))),
            (Level::Slow, "memory", Box::new(|look| look.memory.available = GB / 2)),
            (Level::Slow, "swap", Box::new(|look| look.memory.swap_free = GB / 2)),
            (Level::Unsure, "clock", Box::new(|look| look.clock_is_kept = false)),
            (Level::Slow, "processor", Box::new(|look| look.kernel = Kernel::Library)),
            (
                Level::Unsafe,
                "swap",
                Box::new(|look| {
                    look.memory = Memory { total: 2 * GB, available: 2 * GB, ..Memory::default() };
                }),
            ),
        ];
        for (level, about, change) in flaws {
            let (found_level, found_about, found) = bad(change);
            assert_eq!((found_level, found_about), (level, about), "{found}");
        }
    }

    #[test]
    fn a_directory_in_use_and_a_wrong_clock_are_unsafe() {
        let known = |held| Known {
            place: NodeDirectory { of: "Umbrel", path: "/data".into(), owner: 0 },
            held,
        };
        let (level, about, found) = bad(|look| {
            let by = Running { name: "bitcoind".into(), pid: 7, datadir: None };
            look.known = vec![known(HeldDirectory::InUse(Some(by)))];
            look.running = vec![Running { name: "bitcoind".into(), pid: 4, datadir: None }];
        });
        assert_eq!((level, about), (Level::Unsafe, "directory"));
        assert!(found.contains("in use by bitcoind (process 7)"), "{found}");
        let (.., found) =
            bad(|look| look.known = vec![known(HeldDirectory::Closed("damaged".into()))]);
        assert!(found.ends_with("cannot be read: damaged"), "{found}");
        let (level, about, found) =
            bad(|look| look.volume.refused = Some("/data is not a directory".into()));
        assert_eq!((level, about), (Level::Unsafe, "directory"));
        assert_eq!(found, "/data cannot be written to: /data is not a directory");
        let (level, about, found) = bad(|look| {
            let time = look.now as u32 + 10 * 3600;
            look.known = vec![known(HeldDirectory::Chain {
                height: 1,
                time,
                pruned: false,
                has_blocks: true,
                doubtful: None,
            })];
        });
        assert_eq!(
            (level, about, &found[..]),
            (Level::Unsafe, "clock", "10 h behind the last block")
        );
    }
}
