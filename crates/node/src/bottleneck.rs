//! What limits the speed of the work.

use std::time::Duration;

use super::outcome::ThreadStates;

/// What would have to be faster for the work to end earlier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bottleneck {
    /// The download from peers.
    Peers,
    /// The limit that the user sets to it (`--maxdownload`).
    DownloadLimit,
    /// The disk.
    Disk,
    /// The processor.
    Processor,
}

impl Bottleneck {
    /// Returns what limited the work during `elapsed`: for `waited` of that time, at least one
    /// thread waited for a block from a peer; `seen` are the states of threads meanwhile. `None` if
    /// too little was seen to tell.
    pub fn of(elapsed: Duration, waited: Duration, seen: ThreadStates) -> Option<Self> {
        // A processor or a disk that is busy is no bottleneck while threads lack blocks.
        if waited * 2 > elapsed {
            return Some(Self::Peers);
        }
        let is_disk = seen.waits_for_disk();
        seen.blocked_percent().map(|_| if is_disk { Self::Disk } else { Self::Processor })
    }

    /// Returns its name, for a progress line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Peers => "peers",
            Self::DownloadLimit => "--maxdownload",
            Self::Disk => "disk",
            Self::Processor => "processor",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_lack_blocks_are_held_up_by_peers() {
        let seconds = Duration::from_secs;
        for (elapsed, waited, working, blocked, expected) in [
            (10, 6, 90, 10, Some("peers")),
            (10, 6, 0, 0, Some("peers")),
            (10, 5, 90, 10, Some("processor")),
            (10, 0, 10, 90, Some("disk")),
            (10, 0, 9, 10, None),
            (0, 0, 0, 0, None),
        ] {
            let seen = ThreadStates { working, blocked };
            let found = Bottleneck::of(seconds(elapsed), seconds(waited), seen);
            assert_eq!(found.map(Bottleneck::word), expected, "{elapsed} {waited} {seen:?}");
        }
    }
}
