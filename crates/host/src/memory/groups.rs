//! The control groups of this process that count memory.

use std::path::{Path, PathBuf};

use crate::root::Root;

/// A control group that counts the memory of this process, among others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its directory.
    pub path: PathBuf,
    /// Whether it is of version 2.
    pub is_v2: bool,
}

impl Group {
    /// Returns the files that may hold a limit on the group's memory: in version 2 the one above
    /// which the system ends a process, and the one above which it slows the group down and takes
    /// memory from it.
    pub fn limit_files(&self) -> impl Iterator<Item = PathBuf> {
        let names: &[&str] =
            if self.is_v2 { &["memory.max", "memory.high"] } else { &["memory.limit_in_bytes"] };
        names.iter().map(|name| self.path.join(name))
    }
}

/// Returns the control group of this process and those above it, in version 2 and in version 1,
/// the lowest first.
pub fn groups(root: &Root) -> Vec<Group> {
    let read = |path: &str| root.read(path).unwrap_or_default();
    find(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
}

/// Finds the groups in the contents of `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn find(groups: &str, mounts: &str) -> Vec<Group> {
    let mut found = Vec::new();
    for line in groups.lines() {
        // Hierarchy, controllers, and the path of the group.
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (kind, option) = match controllers {
            "" => ("cgroup2", ""),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                ("cgroup", "memory")
            }
            _ => continue,
        };
        for (root, point) in mounts.lines().filter_map(|line| mount_of(line, kind, option)) {
            // In a namespace of its own, a process may be outside the mounted part (`/..`).
            let below = Path::new(group).strip_prefix(root).ok();
            let below = below.filter(|path| !path.starts_with(".."));
            let group = Path::new(point).join(below.unwrap_or(Path::new("")));
            let above = group.ancestors().take_while(|path| path.starts_with(point));
            let is_v2 = option.is_empty();
            found.extend(above.map(|path| Group { path: path.to_path_buf(), is_v2 }));
        }
    }
    found
}

/// Returns root and mount point of a line of mountinfo, if it is of this kind and has this option.
fn mount_of<'a>(line: &'a str, kind: &str, option: &str) -> Option<(&'a str, &'a str)> {
    let (mount, system) = line.split_once(" - ")?;
    let mut system = system.split(' ');
    let options = (system.next() == Some(kind)).then(|| system.nth(1)).flatten()?;
    if !option.is_empty() && !options.split(',').any(|known| known == option) {
        return None;
    }
    let mut mount = mount.split(' ').skip(3);
    Some((mount.next()?, mount.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(groups: &str, mounts: &str) -> Vec<String> {
        let files: Vec<_> = find(groups, mounts).iter().flat_map(Group::limit_files).collect();
        files.iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn every_group_above_counts_in_version_2() {
        let mounts = "24 1 0:22 / /proc rw - proc proc rw\n\
            35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let expected = [
            "/sys/fs/cgroup/user.slice/apus.scope/memory.max",
            "/sys/fs/cgroup/user.slice/apus.scope/memory.high",
            "/sys/fs/cgroup/user.slice/memory.max",
            "/sys/fs/cgroup/user.slice/memory.high",
            "/sys/fs/cgroup/memory.max",
            "/sys/fs/cgroup/memory.high",
        ];
        assert_eq!(paths("0::/user.slice/apus.scope\n", mounts), expected);
        assert_eq!(paths("0::/../outside\n", mounts), expected[4..]);
    }

    #[test]
    fn every_group_above_counts_in_version_1() {
        let groups = "9:name=systemd:/\n4:cpu,memory:/docker/37a20\n3:cpuset:/\n0::/\n";
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
            32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
            35 31 0:32 /docker /sys/fs/cgroup/memory rw - cgroup cgroup rw,cpu,memory\n";
        let expected = [
            "/sys/fs/cgroup/memory/37a20/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        ];
        assert_eq!(paths(groups, mounts), expected);
        assert!(paths("", mounts).is_empty() && paths(groups, "").is_empty());
        assert!(paths("4:memory", "a - b").is_empty());
    }
}
