//! What makes a sync slow or unsafe on a machine, each with a remedy.

use apus_node::options::Options;
use apus_node::words::{size, speed, thousands};
use apus_wire::Chain;
use secp_lanes::Kernel;

use super::look::{Held, Look};
use super::needs::Needs;
use super::nodes::Running;
use super::volume::Medium;

const GB: u64 = 1_000_000_000;
/// Memory below which a sync works with less than it likes.
const MEMORY_MIN: u64 = GB;
/// Bytes a second below which writing holds a sync up.
const WRITTEN_MIN: f64 = 50e6;
/// Random reads a second below which a sync in order, which looks coins up, is slow.
const READS_MIN: f64 = 2_000.0;
/// Open files below which tables and peers get in each other's way.
const OPEN_FILES_MIN: u64 = 1_024;
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
    /// Returns the level in one word.
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
    /// What it is about, in one or two words.
    pub about: &'static str,
    /// What was found.
    pub found: String,
    /// What to do about it; empty if it is good.
    pub remedy: &'static str,
}

impl Finding {
    fn good(about: &'static str, found: String) -> Self {
        Self { level: Level::Good, about, found, remedy: "" }
    }

    fn slow(about: &'static str, found: String, remedy: &'static str) -> Self {
        Self { level: Level::Slow, about, found, remedy }
    }

    fn is_unsafe(about: &'static str, found: String, remedy: &'static str) -> Self {
        Self { level: Level::Unsafe, about, found, remedy }
    }
}

/// Returns what there is to say about a machine, in a fixed order.
pub fn findings(look: &Look, options: &Options) -> Vec<Finding> {
    let mut all = vec![disk(look), file_system(look)];
    all.extend(space(look, options));
    all.extend([memory(look), swap(look), clock(look), processor(look)]);
    all.extend(look.processor.slowed.iter().map(|what| {
        let remedy = "use a power supply that the maker names, cool the processor, and choose the \
                      governor ondemand or performance";
        Finding::slow("throttling", format!("the processor is slowed down: {what}"), remedy)
    }));
    all.extend([open_files(look), owner(look)]);
    all
}

fn disk(look: &Look) -> Finding {
    const ABOUT: &str = "disk";
    let Some(measured) = look.speed else {
        return Finding::good(ABOUT, format!("not measured: {}", look.volume.words()));
    };
    let found = format!(
        "{} written, {} random reads a second, in {}",
        speed(measured.written),
        thousands(measured.reads as u64),
        look.volume.path.display()
    );
    if measured.reads < READS_MIN {
        Finding::slow(
            ABOUT,
            found,
            "leave the method to Apus, since a join reads in order; for bitcoind move chainstate \
             to a solid-state disk",
        )
    } else if measured.written < WRITTEN_MIN {
        Finding::slow(ABOUT, found, "use a disk on USB 3, SATA or NVMe, and not a memory card")
    } else {
        Finding::good(ABOUT, found)
    }
}

fn file_system(look: &Look) -> Finding {
    const ABOUT: &str = "file system";
    let found = look.volume.words();
    let Some(mount) = &look.volume.mount else { return Finding::good(ABOUT, found) };
    let is = |kinds: &[&str]| kinds.contains(&&mount.kind[..]);
    if mount.has("ro") {
        Finding::is_unsafe(
            ABOUT,
            format!("{found}, mounted read-only"),
            "mount it for writing; after an error of the disk, check it first (fsck)",
        )
    } else if look.volume.medium == Medium::Memory {
        Finding::is_unsafe(
            ABOUT,
            found,
            "choose a directory on a disk: this one is empty after a restart",
        )
    } else if is(&["vfat", "exfat", "msdos"]) {
        Finding::is_unsafe(
            ABOUT,
            found,
            "use ext4 or xfs: this file system loses data at a power failure, and has no owners",
        )
    } else if look.volume.medium == Medium::Network {
        Finding::is_unsafe(
            ABOUT,
            found,
            "keep chainstate and the block index on a local disk, and only blocks there \
             (--blocksdir)",
        )
    } else if is(&["ntfs", "ntfs3", "fuseblk"]) {
        Finding::slow(ABOUT, found, "use ext4 or xfs")
    } else if look.volume.medium == Medium::Card {
        Finding::slow(ABOUT, found, "use a disk: memory cards are slow, and wear out under a node")
    } else if mount.has("sync") {
        Finding::slow(
            ABOUT,
            format!("{found}, mounted with sync"),
            "mount it without sync: Apus makes durable what has to be",
        )
    } else {
        Finding::good(ABOUT, found)
    }
}

fn space(look: &Look, options: &Options) -> Option<Finding> {
    const ABOUT: &str = "free space";
    if options.network.chain != Chain::Main {
        return None;
    }
    let needs = Needs::new(look.height() + 1, look.now, options);
    let free = look.volume.free;
    let now = needs.space.all();
    let later = needs.a_year.all();
    let is_pruned = matches!(look.held(), Some(Held::Chain { pruned: true, .. }));
    let year = free.saturating_sub(now).saturating_sub(later);
    let found = format!(
        "{} now; the chain takes {} more, and {} in the year after",
        size(free),
        size(now),
        size(later)
    );
    Some(if is_pruned {
        Finding::good(ABOUT, format!("{} now, and block files are pruned", size(free)))
    } else if free < now {
        Finding::is_unsafe(
            ABOUT,
            found,
            "use a larger disk, or keep only the newest blocks with --prune=550",
        )
    } else if year == 0 {
        Finding::slow(
            ABOUT,
            format!("{found}: it is full within a year"),
            "plan a larger disk, or prune",
        )
    } else {
        Finding::good(ABOUT, format!("{found}, so that {} are left", size(year)))
    })
}

fn memory(look: &Look) -> Finding {
    let memory = &look.memory;
    if memory.total == 0 {
        return Finding::good("memory", UNREPORTED.to_string());
    }
    let found = format!(
        "{}, of which {} are free: a sync caches coins in {}",
        size(memory.total),
        size(memory.available),
        size(memory.cache)
    );
    if memory.available < MEMORY_MIN {
        Finding::slow(
            "memory",
            found,
            "stop other services during the sync, or give the container more",
        )
    } else {
        Finding::good("memory", found)
    }
}

fn swap(look: &Look) -> Finding {
    const ABOUT: &str = "swap";
    let memory = &look.memory;
    let used = memory.swap.saturating_sub(memory.swap_free);
    match (memory.swap, memory.total) {
        (0, 0) => Finding::good(ABOUT, UNREPORTED.to_string()),
        (0, total) if total < 4 * GB => Finding::is_unsafe(
            ABOUT,
            "none, with little memory: the system ends programs when it runs short".to_string(),
            "add 1 to 2 GB of swap on a disk, or zram",
        ),
        (0, _) => Finding::good(ABOUT, "none".to_string()),
        (all, _) if used > all / 2 => Finding::slow(
            ABOUT,
            format!("{} of {} are used", size(used), size(all)),
            "other programs need more memory than there is: stop some of them",
        ),
        (all, _) => Finding::good(ABOUT, size(all)),
    }
}

fn clock(look: &Look) -> Finding {
    const ABOUT: &str = "clock";
    let last = look.known.iter().filter_map(|known| match known.held {
        Held::Chain { time, .. } => Some(i64::from(time)),
        Held::Blocks | Held::InUse(_) | Held::Closed(_) => None,
    });
    let behind = last.max().unwrap_or(0) - look.now;
    if behind > BEHIND_MAX {
        Finding::is_unsafe(
            ABOUT,
            format!("{} h behind the last block", behind / 3600),
            "set it: blocks of the future are refused (timedatectl set-ntp true)",
        )
    } else if !look.clock_is_kept {
        Finding {
            level: Level::Unsure,
            about: ABOUT,
            found: "no program was found that keeps it right".to_string(),
            remedy: "install systemd-timesyncd or chrony, unless the machine's host does it",
        }
    } else {
        Finding::good(ABOUT, "kept right".to_string())
    }
}

fn processor(look: &Look) -> Finding {
    const ABOUT: &str = "processor";
    let of = &look.processor;
    let sha = if of.has_sha { "SHA-256 in hardware" } else { "SHA-256 in software" };
    let cores = if of.cores == 1 { "core" } else { "cores" };
    let found = format!("{} {cores}, {sha}, signatures checked {}", of.cores, of.kernel.words());
    match of.kernel {
        Kernel::Avx512 | Kernel::Avx2 | Kernel::Neon => Finding::good(ABOUT, found),
        _ if of.is_virtual => Finding::slow(
            ABOUT,
            found,
            "give the virtual machine the processor of its host (its type is called host)",
        ),
        _ => Finding::slow(
            ABOUT,
            found,
            "leave --assumevalid at its default, or sync on another machine: the directory can be \
             moved",
        ),
    }
}

fn open_files(look: &Look) -> Finding {
    let found = format!("{} may be open", thousands(look.open_files));
    if look.open_files < OPEN_FILES_MIN {
        Finding::slow(
            "files",
            found,
            "raise the limit (ulimit -n 4096, or LimitNOFILE= of the service)",
        )
    } else {
        Finding::good("files", found)
    }
}

fn owner(look: &Look) -> Finding {
    const ABOUT: &str = "directory";
    let path = look.datadir.display();
    let is_read = !matches!(look.held(), Some(Held::InUse(_) | Held::Closed(_)));
    if let (true, Some(why)) = (is_read, &look.volume.refused) {
        return Finding::is_unsafe(
            ABOUT,
            format!("{path} cannot be written to: {why}"),
            "mount its disk, run Apus as the user who owns it, or name another with --datadir",
        );
    }
    match look.held() {
        None => Finding::good(ABOUT, format!("{path} holds no blocks yet")),
        Some(Held::Chain { height, .. }) => {
            Finding::good(ABOUT, format!("{path} is at height {}", thousands(u64::from(*height))))
        }
        Some(Held::Blocks) => Finding::slow(
            ABOUT,
            format!("{path} holds block files, but no UTXO set"),
            "build the block index and the UTXO set from them (apus reindex --index)",
        ),
        Some(Held::InUse(by)) => {
            let by = by.as_ref().map_or_else(|| "another program".to_string(), Running::to_string);
            Finding::is_unsafe(
                ABOUT,
                format!("{path} is in use by {by}"),
                "stop it before a sync (bitcoin-cli stop): a directory has one owner at a time",
            )
        }
        Some(Held::Closed(why)) => Finding::is_unsafe(
            ABOUT,
            format!("{path} cannot be read: {why}"),
            "run Apus as the user who owns it, or repair it (apus verify, apus reindex --index)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use apus_wire::Network;

    use super::*;
    use crate::machine::look::Known;
    use crate::machine::measure::Speed;
    use crate::machine::memory::Memory;
    use crate::machine::mounts::Mount;
    use crate::machine::nodes::Place;
    use crate::machine::processor::Processor;
    use crate::machine::volume::Volume;

    fn options() -> Options {
        Options::new("/data".into(), Network::new(Chain::Main))
    }

    /// A machine about which nothing is wrong.
    fn good() -> Look {
        let mount = Mount {
            point: "/".into(),
            kind: "ext4".into(),
            source: "/dev/sda1".into(),
            options: vec!["rw".into()],
        };
        Look {
            now: 1_779_190_000,
            clock_is_kept: true,
            processor: Processor {
                cores: 4,
                kernel: Kernel::Avx2,
                has_sha: true,
                is_virtual: false,
                slowed: Vec::new(),
            },
            memory: Memory {
                total: 16 * GB,
                available: 8 * GB,
                cache: GB / 2,
                swap: 2 * GB,
                swap_free: 2 * GB,
            },
            datadir: "/data".into(),
            volume: Volume {
                path: "/data".into(),
                mount: Some(mount),
                medium: Medium::Solid,
                free: 2_000 * GB,
                refused: None,
            },
            speed: Some(Speed { written: 400e6, reads: 10_000.0 }),
            candidates: Vec::new(),
            running: Vec::new(),
            known: Vec::new(),
            open_files: 1 << 20,
        }
    }

    /// The one finding that is not good.
    fn bad(change: impl FnOnce(&mut Look)) -> (Level, &'static str, String) {
        let mut look = good();
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
        for finding in findings(&good(), &options()) {
            assert_eq!((finding.level, finding.remedy), (Level::Good, ""), "{finding:?}");
        }
    }

    /// Virtual disks are often reported as disks that turn.
    #[test]
    fn a_measured_disk_is_what_it_does_and_not_what_it_says() {
        for (reads, words) in [(10_605.0, "ext4 on a solid-state disk"), (90.0, "hard disk")] {
            let mut look = good();
            look.volume.medium = Medium::Rotating;
            look.measured(Speed { written: 400e6, reads });
            let found = findings(&look, &options());
            let file_system = found.iter().find(|finding| finding.about == "file system").unwrap();
            assert!(file_system.found.ends_with(words), "{file_system:?}");
        }
    }

    #[test]
    fn what_the_system_does_not_report_is_no_flaw() {
        let look = Look { memory: Memory::default(), ..good() };
        for finding in findings(&look, &options()) {
            assert_eq!(finding.level, Level::Good, "{finding:?}");
        }
    }

    #[test]
    fn each_flaw_is_found_and_has_a_remedy() {
        let kind = |kind: &'static str| {
            move |look: &mut Look| look.volume.mount.as_mut().unwrap().kind = kind.into()
        };
        let option = |option: &'static str| {
            move |look: &mut Look| look.volume.mount.as_mut().unwrap().options = vec![option.into()]
        };
        let medium = |medium: Medium| move |look: &mut Look| look.volume.medium = medium;
        let free = |gigabytes: u64| move |look: &mut Look| look.volume.free = gigabytes * GB;
        type Flaw = (Level, &'static str, Box<dyn FnOnce(&mut Look)>);
        let flaws: [Flaw; 18] = [
            (Level::Slow, "disk", Box::new(|look| look.speed.as_mut().unwrap().reads = 90.0)),
            (Level::Slow, "disk", Box::new(|look| look.speed.as_mut().unwrap().written = 9e6)),
            (Level::Unsafe, "file system", Box::new(kind("exfat"))),
            (Level::Slow, "file system", Box::new(kind("fuseblk"))),
            (Level::Unsafe, "file system", Box::new(option("ro"))),
            (Level::Slow, "file system", Box::new(option("sync"))),
            (Level::Unsafe, "file system", Box::new(medium(Medium::Network))),
            (Level::Unsafe, "file system", Box::new(medium(Medium::Memory))),
            (Level::Slow, "file system", Box::new(medium(Medium::Card))),
            (Level::Unsafe, "free space", Box::new(free(500))),
            (Level::Slow, "free space", Box::new(free(920))),
            (Level::Slow, "memory", Box::new(|look| look.memory.available = GB / 2)),
            (Level::Slow, "swap", Box::new(|look| look.memory.swap_free = GB / 2)),
            (Level::Unsure, "clock", Box::new(|look| look.clock_is_kept = false)),
            (Level::Slow, "processor", Box::new(|look| look.processor.kernel = Kernel::Library)),
            (Level::Slow, "throttling", Box::new(|look| look.processor.slowed = vec!["x".into()])),
            (Level::Slow, "files", Box::new(|look| look.open_files = 256)),
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
        let known =
            |held| Known { place: Place { of: "Umbrel", path: "/data".into(), owner: 0 }, held };
        let (level, about, found) = bad(|look| {
            let by = Running { name: "bitcoind".into(), pid: 7, datadir: None };
            look.known = vec![known(Held::InUse(Some(by)))];
            look.running = vec![Running { name: "bitcoind".into(), pid: 4, datadir: None }];
        });
        assert_eq!((level, about), (Level::Unsafe, "directory"));
        assert!(found.contains("in use by bitcoind (process 7)"), "{found}");
        let (.., found) = bad(|look| look.known = vec![known(Held::Closed("damaged".into()))]);
        assert!(found.ends_with("cannot be read: damaged"), "{found}");
        let (level, about, found) =
            bad(|look| look.volume.refused = Some("/data is not a directory".into()));
        assert_eq!((level, about), (Level::Unsafe, "directory"));
        assert_eq!(found, "/data cannot be written to: /data is not a directory");
        let (level, about, found) = bad(|look| {
            let time = look.now as u32 + 10 * 3600;
            look.known =
                vec![known(Held::Chain { height: 1, time, pruned: false, has_blocks: true })];
        });
        assert_eq!(
            (level, about, &found[..]),
            (Level::Unsafe, "clock", "10 h behind the last block")
        );
    }
}
