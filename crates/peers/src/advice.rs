//! Tells the user that few or slow peers hold up a sync, and what helps.

use std::collections::VecDeque;
use std::time::Duration;

use apus_net::PeerOptions;
use apus_progress::Download;
use apus_progress::words;

use super::dialer::OUTBOUND_MAX;

/// The download is observed for this long before the user is told.
const WINDOW: Duration = Duration::from_secs(60);
/// Time from one message to the next.
const WORDS_EVERY: Duration = Duration::from_secs(10 * 60);
/// Fewer peers that we connected to are few.
const OUTBOUND_MIN: usize = 4;
/// A download that takes longer is slow.
const TIME_MAX: Duration = Duration::from_secs(2 * 24 * 60 * 60);
/// A download that takes no longer is over before anything helps.
const TIME_MIN: Duration = Duration::from_secs(10 * 60);

/// Decides when the user is told that peers are few or slow.
pub(super) struct Advice {
    /// The remedy.
    remedy: String,
    /// The download of the last [`WINDOW`], and one state from before that.
    seen: VecDeque<(Duration, Download)>,
    /// Whether the user was told, and peers have been few or slow since.
    is_told: bool,
    /// When the user was last told.
    told: Option<Duration>,
}

impl Advice {
    /// Creates advice that fits the options.
    pub fn new(options: &PeerOptions) -> Self {
        Self { remedy: remedy(options), seen: VecDeque::new(), is_told: false, told: None }
    }

    /// Takes note of the state of the download at `now`, and returns what to tell the user: once
    /// the download has been the bottleneck for a minute, if there are few peers or two days of it
    /// are left, and not again before this has changed and ten minutes have passed.
    pub fn look(&mut self, now: Duration, download: Download) -> Option<String> {
        if download.left == 0 || download.peers == 0 {
            self.seen.clear();
            return None;
        }
        self.seen.push_back((now, download));
        while self.seen.get(1).is_some_and(|(at, _)| *at + WINDOW <= now) {
            self.seen.pop_front();
        }
        let (since, before) = self.seen[0];
        let elapsed = now.saturating_sub(since);
        let bytes = download.bytes.saturating_sub(before.bytes);
        if elapsed < WINDOW || bytes == 0 {
            return None;
        }
        let speed = bytes as f64 / elapsed.as_secs_f64();
        let time = Duration::try_from_secs_f64(download.left as f64 / speed);
        let time = time.unwrap_or(Duration::MAX);
        let is_few = download.outbound < OUTBOUND_MIN && time > TIME_MIN;
        if !is_few && time <= TIME_MAX {
            self.is_told = false;
            return None;
        }
        let waited = download.waited.saturating_sub(before.waited);
        let is_due = self.told.is_none_or(|told| now >= told + WORDS_EVERY);
        if waited * 2 <= elapsed || download.is_at_limit(speed) || self.is_told || !is_due {
            return None;
        }
        (self.is_told, self.told) = (true, Some(now));
        let peers = match download.peers {
            1 => "1 peer sends".to_string(),
            peers => format!("{peers} peers send"),
        };
        let speed = words::speed(speed);
        let time = words::about(time);
        let remedy = &self.remedy;
        Some(format!("{peers} {speed} in all: the download takes about {time} more. {remedy}"))
    }
}

/// Returns sentences that say what helps.
fn remedy(options: &PeerOptions) -> String {
    let mut remedy = "A node of your own is faster: name it with --connect or --addnode, or give \
                      its block files with --from"
        .to_string();
    if !options.connect.is_empty() {
        remedy +=
            ". With --connect no other peer is asked; with --addnode instead, others are, too";
    }
    if options.connect.is_empty() && options.maxconnections < OUTBOUND_MAX {
        let most = options.maxconnections;
        remedy += &format!(
            ". --maxconnections={most} allows only {most}; with {OUTBOUND_MAX} or more, Apus \
             connects to {OUTBOUND_MAX} peers"
        );
    }
    if options.connect.is_empty() && !options.onlynet.is_empty() {
        remedy += ". Without --onlynet, peers of other networks are asked, too";
    }
    if options.proxies.of_others().next().is_some() {
        remedy += ". Connections through --proxy are slower than direct ones, but these show your \
                   address to peers";
    }
    remedy
}

#[cfg(test)]
mod tests {
    use apus_net::{NetKind, Proxies, Proxy, Target};

    use super::*;

    const MB: u64 = 1_000_000;
    const GB: u64 = 1000 * MB;

    /// Peers that send `speed` bytes a second; `left` bytes are to come at the start.
    struct World {
        advice: Advice,
        peers: usize,
        speed: u64,
        /// Milliseconds of each second in which threads wait for blocks.
        waits: u64,
        limit: Option<u64>,
        second: u64,
        download: Download,
    }

    impl World {
        fn new(peers: usize, speed: u64, left: u64) -> Self {
            let advice = Advice::new(&PeerOptions::new(0));
            let download = Download { left, ..Download::default() };
            Self { advice, peers, speed, waits: 900, limit: None, second: 0, download }
        }

        /// Lets this many seconds pass, and returns what the user is told, with the second.
        fn run(&mut self, seconds: u64) -> Vec<(u64, String)> {
            let mut told = Vec::new();
            for _ in 0..seconds {
                let now = Duration::from_secs(self.second);
                (self.download.peers, self.download.outbound) = (self.peers, self.peers);
                self.download.limit = self.limit;
                told.extend(self.advice.look(now, self.download).map(|words| (self.second, words)));
                self.second += 1;
                self.download.bytes += self.speed;
                self.download.left = self.download.left.saturating_sub(self.speed).max(1);
                self.download.waited += Duration::from_millis(self.waits);
            }
            told
        }
    }

    #[test]
    fn few_peers_are_named_once_after_a_minute() {
        let mut world = World::new(2, 400_000, 726 * GB);
        let told = world.run(3_600);
        let [(60, words)] = &told[..] else { panic!("{told:?}") };
        assert_eq!(
            words,
            "2 peers send 0.4 MB/s in all: the download takes about 21 days more. A node of your \
             own is faster: name it with --connect or --addnode, or give its block files with \
             --from"
        );
    }

    #[test]
    fn it_is_said_again_when_peers_are_few_again() {
        let mut world = World::new(2, 20 * MB, 700 * GB);
        assert_eq!(world.run(100).len(), 1);
        world.peers = 8;
        assert_eq!(world.run(100), []);
        world.peers = 1;
        let told = world.run(1_000);
        let [(660, words)] = &told[..] else { panic!("{told:?}") };
        assert!(words.starts_with("1 peer sends 20.0 MB/s in all: "), "{words}");
    }

    #[test]
    fn a_download_that_needs_no_help_is_no_news() {
        // Enough peers, and less than two days.
        assert_eq!(World::new(4, 5 * MB, 700 * GB).run(200), []);
        // More than two days, however many peers.
        assert_eq!(World::new(8, 4 * MB, 700 * GB).run(200).len(), 1);
        // Little is left.
        assert_eq!(World::new(1, 5 * MB, 2 * GB).run(200), []);
        // Threads have blocks to work on.
        let mut world = World { waits: 400, ..World::new(2, MB, 700 * GB) };
        assert_eq!(world.run(200), []);
        world.waits = 900;
        assert_eq!(world.run(200).len(), 1);
        // The user has limited the download.
        let limited = |limit| World { limit: Some(limit), ..World::new(2, MB, 700 * GB) };
        assert_eq!(limited(MB).run(200), []);
        assert_eq!(limited(2 * MB).run(200).len(), 1);
        // No block is wanted.
        assert_eq!(World::new(2, MB, 0).run(1), []);
    }

    #[test]
    fn the_remedy_fits_the_options() {
        let target = || Target::parse("127.0.0.1", 8333).unwrap();
        let usual = PeerOptions::new(0);
        let named = PeerOptions { connect: vec![target()], ..usual.clone() };
        let tor = PeerOptions {
            proxies: Proxies { ipv4: Some(Proxy::Host(target())), ..Proxies::default() },
            onlynet: vec![NetKind::Onion],
            maxconnections: 3,
            ..usual.clone()
        };
        for (options, words) in [
            (&named, &["With --connect no other peer is asked"][..]),
            (&tor, &["Without --onlynet", "through --proxy", "--maxconnections=3"]),
            (&usual, &[]),
        ] {
            let remedy = remedy(options);
            let all = ["With --connect", "--onlynet", "--proxy", "--maxconnections"];
            let found = all.iter().filter(|word| remedy.contains(**word)).count();
            assert_eq!(found, words.len(), "{remedy}");
            assert!(words.iter().all(|word| remedy.contains(word)), "{remedy}");
        }
    }
}
