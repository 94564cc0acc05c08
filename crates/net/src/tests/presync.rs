use std::collections::BTreeSet;
use std::time::Duration;

use apus_consensus::{Work, block_work};
use apus_wire::{Chain, Header, Network};

use super::{headers_on, regtest, tree_of};
use crate::headers::begin_presync;
use crate::{HeaderChain, Presync, PresyncParams, PresyncStart, Presynced};

const MESSAGE: usize = 2000;
const PARAMS: PresyncParams = PresyncParams { commitment_period: 60, redownload_buffer_size: 1200 };

fn work_of(genesis: &Header, blocks: u32) -> Work {
    (0..=blocks).fold(Work::ZERO, |sum, _| sum.plus(block_work(genesis.bits)))
}

fn begin(minimum_blocks: u32, now: i64, secret: u8) -> (Presync, Header) {
    let (network, genesis) = regtest();
    let start = PresyncStart {
        hash: network.genesis_hash,
        height: 0,
        bits: genesis.bits,
        work: block_work(genesis.bits),
        median_time_past: genesis.time,
    };
    let minimum = work_of(&genesis, minimum_blocks);
    (Presync::new(&network, PARAMS, start, minimum, now, [secret; 16]), genesis)
}

/// Returns a time long after that of the genesis block.
fn later(genesis: &Header) -> i64 {
    i64::from(genesis.time) + 1_000_000
}

/// Answers each request from `chain`; returns the headers that were released, and how it ended.
fn serve(presync: &mut Presync, chain: &[Header]) -> (Vec<Header>, Result<(), &'static str>) {
    let mut released = Vec::new();
    loop {
        let at = chain.iter().position(|header| header.hash() == presync.last());
        let next = at.map_or(0, |at| at + 1);
        let message = &chain[next..chain.len().min(next + MESSAGE)];
        match presync.take(message, message.len() == MESSAGE) {
            Presynced::More(headers) => released.extend(headers),
            Presynced::Complete(headers) => {
                released.extend(headers);
                return (released, Ok(()));
            }
            Presynced::Ended(why) => return (released, Err(why)),
        }
    }
}

#[test]
fn a_chain_with_enough_work_is_released_in_order() {
    for (count, minimum) in [(1, 1), (1999, 1999), (2000, 2000), (2001, 2000), (9000, 8500)] {
        for secret in 0..3 {
            let (_, genesis) = regtest();
            let (mut presync, genesis) = begin(minimum, later(&genesis), secret);
            let chain = headers_on(&genesis, count, 1);
            let (released, end) = serve(&mut presync, &chain);
            assert_eq!(end, Ok(()), "{count}");
            assert!(chain.starts_with(&released), "{count}");
            assert!(released.len() as u32 >= minimum, "{count}: {}", released.len());
        }
    }
}

#[test]
fn a_chain_with_too_little_work_is_never_released() {
    for count in [1, 1999, 2000, 4000, 5000] {
        let (_, genesis) = regtest();
        let (mut presync, genesis) = begin(5001, later(&genesis), 1);
        let (released, end) = serve(&mut presync, &headers_on(&genesis, count, 1));
        assert!(released.is_empty());
        assert!(end.is_err(), "{count}");
    }
}

/// The second time, the peer sends another chain, which forks from the first at some height. Only
/// headers of the first chain are released, except for those that a few lucky bits let through.
#[test]
fn another_chain_the_second_time_is_found_out() {
    let mut found_out = 0;
    for secret in 0..40 {
        let (_, genesis) = regtest();
        let (mut presync, genesis) = begin(9000, later(&genesis), secret);
        let first = headers_on(&genesis, 9000, 1);
        let fork = 1500;
        let mut second = first[..fork].to_vec();
        second.extend(headers_on(&first[fork - 1], 9000, 2));
        for message in first.chunks(MESSAGE) {
            let more = presync.take(message, message.len() == MESSAGE);
            assert_eq!(more, Presynced::More(Vec::new()));
        }
        assert_eq!(presync.progress(), (0, true));
        let (released, end) = serve(&mut presync, &second);
        if end.is_err() {
            found_out += 1;
            assert!(second.starts_with(&released));
            assert!(released.len() <= fork, "released {} of the second chain", released.len());
        }
    }
    // 20 bits are kept in each 1,200 headers that are held back.
    assert_eq!(found_out, 40);
}

#[test]
fn the_number_of_headers_is_bounded_by_the_time_of_the_chain() {
    let (_, genesis) = regtest();
    let seconds = 1000;
    let (mut presync, genesis) = begin(u32::MAX >> 8, i64::from(genesis.time) + seconds, 1);
    let headers_max = 6 * (seconds as u32 + 7200);
    let chain = headers_on(&genesis, headers_max + 2 * PARAMS.commitment_period, 1);
    let (released, end) = serve(&mut presync, &chain);
    assert_eq!(end, Err("its chain is longer than its time allows"));
    assert!(released.is_empty());
    let (height, _) = presync.progress();
    assert!(height.abs_diff(headers_max) <= PARAMS.commitment_period, "{height}");
}

#[test]
fn headers_that_do_not_follow_end_it() {
    let (_, genesis) = regtest();
    let chain = headers_on(&genesis, 4000, 1);
    let (mut presync, _) = begin(4000, later(&genesis), 1);
    assert!(matches!(presync.take(&chain[1..2001], true), Presynced::Ended(_)));
    let (mut presync, _) = begin(4000, later(&genesis), 1);
    let mut broken = chain[..2000].to_vec();
    broken.remove(1000);
    assert!(matches!(presync.take(&broken, true), Presynced::Ended(_)));
    let (mut presync, _) = begin(4000, later(&genesis), 1);
    assert!(matches!(presync.take(&[], false), Presynced::Ended(_)));
}

/// The difficulty may not fall faster here than the rules for a whole chain allow, so that an
/// attacker cannot make cheaper headers.
#[test]
fn the_difficulty_may_not_change_faster_than_the_rules_allow() {
    let network = Network::new(Chain::Main);
    let (_, genesis) = regtest();
    let bits = 0x1b00_ffff;
    let begin = || {
        let start = PresyncStart {
            hash: genesis.hash(),
            height: 2013,
            bits,
            work: Work::ZERO,
            median_time_past: genesis.time,
        };
        let minimum = Work::from_halves([0, u64::MAX]);
        let params = PresyncParams::of(&network);
        Presync::new(&network, params, start, minimum, later(&genesis), [0; 16])
    };
    let chain = |bits: [u32; 3]| {
        let mut prev = genesis.hash();
        bits.map(|bits| {
            let header = Header { prev, bits, ..genesis };
            prev = header.hash();
            header
        })
    };
    // Height 2016 begins a period: the target may be four times as large or a fourth.
    for (last, is_allowed) in [
        (bits, true),
        (0x1b03_fffc, true),
        (0x1b03_fffd, false),
        (0x1a3f_ffc0, true),
        (0x1a3f_ffbf, false),
        (0x1d00_ffff, false),
    ] {
        let taken = begin().take(&chain([bits, bits, last]), true);
        assert_eq!(taken == Presynced::More(Vec::new()), is_allowed, "{last:x}: {taken:?}");
    }
    let taken = begin().take(&chain([bits, 0x1b01_0000, bits]), true);
    assert!(matches!(taken, Presynced::Ended(_)), "within a period");
}

/// A peer must not learn from one attempt which headers the next one keeps bits of.
#[test]
fn each_attempt_has_its_own_secret() {
    let mut tree = tree_of(&[]);
    let genesis = tree.genesis();
    let chain = HeaderChain::growing(&mut tree, genesis, 0, [7; 16]);
    let secret = |second| begin_presync(&chain, genesis, Duration::from_secs(second)).secret;
    let secrets: BTreeSet<[u8; 16]> = (0..20).map(secret).collect();
    assert_eq!(secrets.len(), 20);
}
