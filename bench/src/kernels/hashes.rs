use std::hint::black_box;

use apus_hash::{Elements, Hash, MuHash, sha256, sha256d_64, sha256d_pairs};
use apus_swiftsync::{Aggregate, AggregateKind, Salt};
use apus_testchain::Rng;
use bitcoin::hashes::{Hash as _, sha256 as theirs, sha256d as theirs_twice};

use super::figures::Amount::{Bytes, Records};
use super::figures::{Figures, Kind};
use crate::Result;
use crate::measure::{Effort, digest};

const APUS: (Kind, &str) = (Kind::Apus, "Apus (sha2, or its own)");
const BITCOIN: (Kind, &str) = (Kind::Other, "bitcoin_hashes 0.14 (of bitcoin 0.32)");
const LONG_BYTES: usize = 1 << 20;
/// The number of short messages that are timed together.
const PAIRS: usize = 4096;
/// The number of elements added to MuHash together, about as many as the statistics add at once.
const ELEMENTS: u64 = 2048;
/// The length of outpoint, height, amount and a short script, as in Core's MuHash of the UTXO set.
const ELEMENT_BYTES: usize = 80;
/// The length of outpoint, height and coinbase flag, amount and a typical script.
const COIN_BYTES: usize = 70;
/// The number of outpoints that a busy block creates.
const OUTPOINTS: usize = 8192;
const SUM_WHATS: [&str; 2] = ["SHA-256 aggregate: outpoint", "SHA-256 aggregate: coin of 70 bytes"];
const MUHASH_WHATS: [&str; 2] =
    ["MuHash aggregate: outpoint", "MuHash aggregate: coin of 70 bytes"];

/// Measures SHA-256 of long and short messages, and MuHash.
pub fn run(effort: Effort, figures: &mut Figures) -> Result<()> {
    let mut long = vec![0; LONG_BYTES];
    Rng::from_state(1).fill(&mut long);
    let (time, hash) = effort.time(|| sha256(black_box(&long)));
    figures.add("SHA-256 of 1 MiB", APUS, Bytes(LONG_BYTES), time, digest(&hash))?;
    let (time, hash) = effort.time(|| theirs::Hash::hash(black_box(&long)).to_byte_array());
    figures.add("SHA-256 of 1 MiB", BITCOIN, Bytes(LONG_BYTES), time, digest(&hash))?;

    let what = "double SHA-256 of 64 bytes";
    let amount = Records(PAIRS as u64);
    let pairs: Vec<&[u8; 64]> = long.as_chunks().0.iter().take(PAIRS).collect();
    let ours = || pairs.iter().map(|pair| sha256d_64(pair).0).collect::<Vec<_>>();
    let (time, hashes) = effort.time(ours);
    figures.add(what, APUS, amount, time, digest(hashes.as_flattened()))?;
    let level: Vec<Hash> =
        pairs.iter().flat_map(|pair| pair.as_chunks().0).map(|half| Hash(*half)).collect();
    let together = |mut level: Vec<Hash>| {
        sha256d_pairs(&mut level);
        level.truncate(PAIRS);
        level
    };
    let (time, hashes) = effort.time_with(|| level.clone(), together);
    let hashes: Vec<_> = hashes.iter().map(|hash| hash.0).collect();
    let lanes = (Kind::Apus, "Apus, side by side");
    figures.add(what, lanes, amount, time, digest(hashes.as_flattened()))?;
    let theirs = || pairs.iter().map(|pair| theirs_twice::Hash::hash(&pair[..]).to_byte_array());
    let (time, hashes) = effort.time(|| theirs().collect::<Vec<_>>());
    figures.add(what, BITCOIN, amount, time, digest(hashes.as_flattened()))?;

    muhash(effort, &long, figures)?;
    aggregates(AggregateKind::Sha256, effort, &long, OUTPOINTS, SUM_WHATS, figures)?;
    aggregates(AggregateKind::MuHash, effort, &long, ELEMENTS as usize, MUHASH_WHATS, figures)?;
    Ok(())
}

/// Measures MuHash of elements that are added together and one by one.
fn muhash(effort: Effort, bytes: &[u8], figures: &mut Figures) -> Result<()> {
    let elements: Vec<&[u8]> = bytes.chunks(ELEMENT_BYTES).take(ELEMENTS as usize).collect();
    type Insert<'a> = &'a dyn Fn(&mut MuHash);
    let ways: [(_, Insert); 2] = [
        ((Kind::Apus, "Apus, side by side"), &|hash| {
            hash.insert_many(elements.len(), |i| elements[i]);
        }),
        ((Kind::Other, "Apus, one by one"), &|hash| {
            elements.iter().for_each(|element| hash.insert(element));
        }),
    ];
    for (by, insert) in ways {
        let (time, hash) = effort.time(|| {
            let mut hash = MuHash::new();
            insert(black_box(&mut hash));
            hash
        });
        let result = digest(&hash.finalize().0);
        figures.add("MuHash element", by, Records(ELEMENTS), time, result)?;
    }
    Ok(())
}

/// Measures SwiftSync's aggregate: outpoints in batches and one by one, then coins.
fn aggregates(
    kind: AggregateKind,
    effort: Effort,
    bytes: &[u8],
    count: usize,
    whats: [&'static str; 2],
    figures: &mut Figures,
) -> Result<()> {
    let outpoints = &bytes.as_chunks::<36>().0[..count];
    let mut coins = Elements::default();
    bytes.chunks_exact(COIN_BYTES).take(count).for_each(|coin| coins.push(coin));
    let one_by_one: (Kind, &str) = (Kind::Other, "Apus, one by one");
    type Add<'a> = &'a dyn Fn(&mut Aggregate);
    let ways: [(_, _, Add); 4] = [
        (whats[0], APUS, &|sums| sums.create_outpoints(black_box(outpoints))),
        (whats[0], one_by_one, &|sums| outpoints.iter().for_each(|element| sums.create(element))),
        (whats[1], APUS, &|sums| sums.create_many(black_box(&coins))),
        (whats[1], one_by_one, &|sums| coins.iter().for_each(|element| sums.create(element))),
    ];
    for (what, by, add) in ways {
        let (time, sums) = effort.time(|| {
            let mut sums = Aggregate::new(kind, &Salt::new([5; 64]));
            add(&mut sums);
            sums
        });
        let result = digest(&sums.to_bytes());
        figures.add(what, by, Records(count as u64), time, result)?;
    }
    Ok(())
}
