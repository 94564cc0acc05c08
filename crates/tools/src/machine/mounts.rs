//! Mounted file systems.

use std::path::{Path, PathBuf};

use apus_node::root::Root;

/// A mounted file system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// The directory at which it is mounted.
    pub point: PathBuf,
    /// Its type, such as `ext4`.
    pub kind: String,
    /// The device, or what stands in its place.
    pub source: String,
    /// The options of the mount and of the file system.
    pub options: Vec<String>,
}

impl Mount {
    /// Returns whether it has an option.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|known| known == option)
    }
}

/// Returns the file systems that are mounted, in the order of their mounting.
pub fn mounts(root: &Root) -> Vec<Mount> {
    root.read("/proc/self/mountinfo").unwrap_or_default().lines().filter_map(parsed).collect()
}

/// Returns the file system that holds `path`, an absolute path without symbolic links.
pub fn holding<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    // Of those mounted at the same place, the last one is seen.
    above.max_by_key(|mount| mount.point.components().count())
}

/// Parses a line of `/proc/self/mountinfo`.
fn parsed(line: &str) -> Option<Mount> {
    let (mount, system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(4);
    let point = mount.next()?;
    let options = mount.next()?;
    let mut system = system.split(' ');
    let kind = system.next()?;
    let source = system.next()?;
    let options = options.split(',').chain(system.next().unwrap_or_default().split(','));
    Some(Mount {
        point: PathBuf::from(unescaped(point)),
        kind: kind.to_string(),
        source: unescaped(source),
        options: options.map(str::to_string).collect(),
    })
}

/// Replaces the escapes of white space and backslashes, three octal digits each.
fn unescaped(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_string(), |text, (escape, char)| text.replace(escape, char))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(mounts[1].has("noatime") && mounts[0].has("errors=remount-ro"));
    }
}
