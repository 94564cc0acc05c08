//! Mounted file systems, that of a directory, and what it is on.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use apus_disk::FileSystem;
use apus_host::root::Root;
use rustix::fs::{Access, AtFlags, CWD, accessat};

/// A mounted file system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// The directory at which it is mounted.
    pub point: PathBuf,
    /// Its type, such as `ext4`.
    pub kind: String,
    /// The device, or what stands in its place.
    pub source: String,
    /// Whether nothing can be written to it.
    pub is_read_only: bool,
}

/// Returns the file systems that are mounted, in the order of their mounting.
pub fn mounts(root: &Root) -> Vec<Mount> {
    root.read("/proc/self/mountinfo").unwrap_or_default().lines().filter_map(parsed).collect()
}

/// Returns the file system that holds `path`, an absolute path without symbolic links.
fn holding<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    // Of those mounted at the same place, the last one is seen.
    above.max_by_key(|mount| mount.point.components().count())
}

/// Parses a line of `/proc/self/mountinfo`.
fn parsed(line: &str) -> Option<Mount> {
    let (mount, system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(4);
    let mut system = system.split(' ');
    Some(Mount {
        point: PathBuf::from(unescaped(mount.next()?)),
        kind: system.next()?.to_string(),
        source: unescaped(system.next()?),
        is_read_only: mount.next()?.split(',').any(|option| option == "ro"),
    })
}

/// Replaces the escapes of white space and backslashes, three octal digits each.
fn unescaped(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_string(), |text, (escape, char)| text.replace(escape, char))
}

/// The medium of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// A disk without moving parts.
    Solid,
    /// A disk that turns, by its measured speed.
    Rotating,
    /// A memory card.
    Card,
    /// Another machine.
    Network,
    /// Memory, which is empty after a restart.
    Memory,
    /// The system does not report it, or reports a disk that turns, as it does of virtual disks.
    Unknown,
}

impl Medium {
    fn of(root: &Root, mount: &Mount) -> Self {
        match &mount.kind[..] {
            "nfs" | "nfs4" | "cifs" | "smb3" | "smbfs" | "9p" | "fuse.sshfs" | "fuse.rclone"
            | "fuse.glusterfs" => return Self::Network,
            "tmpfs" | "ramfs" | "devtmpfs" => return Self::Memory,
            _ => {}
        }
        // The device by its own name, not by one of those below /dev/mapper or /dev/disk.
        let device = fs::canonicalize(root.below(&mount.source)).ok();
        let device = device.as_deref().unwrap_or(Path::new(&mount.source));
        let Some(name) = device.file_name().and_then(|name| name.to_str()) else {
            return Self::Unknown;
        };
        if name.starts_with("mmcblk") {
            return Self::Card;
        }
        // Of a partition, the disk is the directory above.
        let class = format!("/sys/class/block/{name}");
        let rotates = ["queue/rotational", "../queue/rotational"];
        match rotates.iter().find_map(|file| root.read(format!("{class}/{file}"))).as_deref() {
            Some("0") => Self::Solid,
            _ => Self::Unknown,
        }
    }
}

/// The file system of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Volume {
    /// The directory that was asked for; it need not exist.
    pub path: PathBuf,
    /// The mounted file system; `None` if the system does not report it.
    pub mount: Option<Mount>,
    /// Its medium.
    pub medium: Medium,
    /// Free bytes that this user may use.
    pub free: u64,
    /// Why this user can neither write in the directory nor make it; `None` if they can.
    pub refused: Option<String>,
}

impl Volume {
    /// Looks at the file system of `path` or, if that does not exist, of the nearest directory
    /// above it.
    pub fn of(root: &Root, mounts: &[Mount], path: &Path) -> Self {
        let there = path.ancestors().find(|path| root.below(path).exists()).unwrap_or(path);
        let there = fs::canonicalize(there).unwrap_or(there.to_path_buf());
        let mount = holding(mounts, &there).cloned();
        let medium = mount.as_ref().map_or(Medium::Unknown, |mount| Medium::of(root, mount));
        let free = FileSystem::of(&root.below(path)).map_or(0, |system| system.free);
        Self { path: path.to_path_buf(), mount, medium, free, refused: refused(root, path) }
    }

    /// Returns the file system in words: `ext4 on a solid-state disk`.
    pub fn words(&self) -> String {
        let kind = self.mount.as_ref().map_or("a file system", |mount| &mount.kind);
        let medium = match self.medium {
            Medium::Solid => "on a solid-state disk",
            Medium::Rotating => "on a hard disk",
            Medium::Card => "on a memory card",
            Medium::Network => "in the network",
            Medium::Memory => "in memory",
            Medium::Unknown => "on a disk",
        };
        format!("{kind} {medium}")
    }
}

/// Returns why this user can neither write in a directory nor make it.
fn refused(root: &Root, path: &Path) -> Option<String> {
    for above in path.ancestors() {
        let at = root.below(above);
        let shown = above.display();
        match fs::metadata(&at) {
            Ok(found) if !found.is_dir() => return Some(format!("{shown} is not a directory")),
            Ok(_) => {
                let access = Access::WRITE_OK | Access::EXEC_OK;
                let why = accessat(CWD, &at, access, AtFlags::EACCESS).err()?;
                return Some(format!("{shown}: {}", std::io::Error::from(why)));
            }
            // A link whose disk is not mounted: what is written must not land elsewhere.
            Err(why) => {
                if let Ok(to) = fs::read_link(&at) {
                    return Some(format!("{shown} is a link to {}: {why}", to.display()));
                }
            }
        }
    }
    None
}

/// Returns the volumes on which a data directory could be: local disks that can be written to, the
/// one with the most free space first.
pub fn candidates(root: &Root, mounts: &[Mount]) -> Vec<Volume> {
    const KINDS: [&str; 6] = ["ext4", "xfs", "btrfs", "f2fs", "zfs", "ext3"];
    let is_small =
        |point: &Path| ["/boot", "/etc", "/var/lib/docker"].iter().any(|at| point.starts_with(at));
    let local = mounts.iter().filter(|mount| {
        KINDS.contains(&&mount.kind[..]) && !mount.is_read_only && !is_small(&mount.point)
    });
    let mut volumes: Vec<Volume> =
        local.map(|mount| Volume::of(root, mounts, &mount.point)).collect();
    volumes.sort_by_key(|volume| std::cmp::Reverse(volume.free));
    let mut seen = HashSet::new();
    volumes.retain(|volume| seen.insert(volume.mount.as_ref().map(|mount| mount.source.clone())));
    volumes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(point: &str, kind: &str, source: &str) -> Mount {
        let is_read_only = false;
        Mount { point: point.into(), kind: kind.into(), source: source.into(), is_read_only }
    }

    #[test]
    fn a_partition_is_on_what_its_disk_is() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("sys/devices/sda/queue/rotational", "1\n");
        write("sys/devices/sda/sda1/start", "2048\n");
        write("sys/devices/nvme0n1/queue/rotational", "0\n");
        let class = dir.path().join("sys/class/block");
        std::fs::create_dir_all(&class).unwrap();
        for (name, to) in [("sda1", "sda/sda1"), ("nvme0n1", "nvme0n1")] {
            std::os::unix::fs::symlink(dir.path().join("sys/devices").join(to), class.join(name))
                .unwrap();
        }
        let root = Root::new(dir.path());
        for (kind, source, medium) in [
            ("ext4", "/dev/sda1", Medium::Unknown),
            ("xfs", "/dev/nvme0n1", Medium::Solid),
            ("ext4", "/dev/mmcblk0p2", Medium::Card),
            ("nfs4", "nas:/volume", Medium::Network),
            ("tmpfs", "tmpfs", Medium::Memory),
            ("overlay", "overlay", Medium::Unknown),
        ] {
            assert_eq!(Medium::of(&root, &mount("/", kind, source)), medium, "{source}");
        }
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink(at("unmounted/bitcoin"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("loop"), at("loop")).unwrap();
        std::os::unix::fs::symlink(dir.path(), at("good")).unwrap();
        let refused = |name: &str| Volume::of(&Root::new("/"), &[], &at(name)).refused;
        for name in ["", "new", "new/deep", "good", "good/new"] {
            assert_eq!(refused(name), None, "{name}");
        }
        for (name, why) in [
            ("file", "file is not a directory"),
            ("file/new", "file is not a directory"),
            ("link", "unmounted/bitcoin: No such file"),
            ("link/new", "unmounted/bitcoin: No such file"),
            ("loop", "Too many levels of symbolic links"),
        ] {
            let refused = refused(name).unwrap();
            assert!(refused.contains(why), "{name}: {refused}");
        }
        // Even root writes nothing there.
        assert!(Volume::of(&Root::new("/"), &[], Path::new("/proc/1/apus")).refused.is_some());
    }

    #[test]
    fn only_local_disks_are_candidates() {
        let root = Root::new("/");
        let mounts = [
            mount("/", "ext4", "/dev/sda1"),
            mount("/boot/efi", "ext4", "/dev/sda2"),
            mount("/tmp", "tmpfs", "tmpfs"),
            mount("/home", "ext4", "/dev/sda1"),
        ];
        let found = candidates(&root, &mounts);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].words().starts_with("ext4 on a "), "{}", found[0].words());
    }

    #[test]
    fn the_innermost_and_last_mount_holds_a_path() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        let text = "25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n\
            40 25 8:17 / /mnt/my\\040disk rw,noatime - xfs /dev/sdb1 rw\n\
            41 25 0:50 / /mnt/my\\040disk ro - tmpfs tmpfs rw\n\
            broken\n";
        std::fs::write(dir.path().join("proc/self/mountinfo"), text).unwrap();
        let mounts = mounts(&Root::new(dir.path()));
        assert_eq!(mounts.len(), 3);
        let kind = |path: &str| holding(&mounts, Path::new(path)).unwrap().kind.clone();
        assert_eq!(kind("/home/x"), "ext4");
        assert_eq!(kind("/mnt/my disk/bitcoin"), "tmpfs");
        assert_eq!(kind("/mnt/my"), "ext4");
        assert_eq!(
            mounts.iter().map(|mount| mount.is_read_only).collect::<Vec<_>>(),
            [false, false, true]
        );
    }
}
