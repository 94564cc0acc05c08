//! Whether the clock is kept right.

use apus_node::root::Root;

/// Files and directories that exist while a program keeps the clock right: those of
/// systemd-timesyncd, chrony, ntpd, and the tools of virtual machines.
const KEEPERS: [&str; 6] = [
    "/run/systemd/timesync/synchronized",
    "/run/chrony/chronyd.pid",
    "/run/chronyd.pid",
    "/run/ntpd.pid",
    "/run/ntpd/ntpd.pid",
    "/dev/ptp0",
];

/// Returns whether a program here keeps the clock right.
pub fn is_kept(root: &Root) -> bool {
    KEEPERS.iter().any(|path| root.below(path).exists())
}
