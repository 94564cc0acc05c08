use std::hint::black_box;

use apus::swiftsync::hints::elias_fano::{BitOrder, decode};
use apus::swiftsync::hints::{Bip456, Format, Hints, encoder};
use hintsfile::{EliasFano, Hintsfile};

use super::figures::Amount::{Bytes, Records};
use super::figures::{Figures, Kind};
use crate::Result;
use crate::measure::{Effort, Random, digest};

const APUS: (Kind, &str) = (Kind::Apus, "Apus");
const CRATE: (Kind, &str) = (Kind::Other, "hintsfile 0.2.1");

/// Hints of blocks like today's: up to 7,000 outputs, of which one in twenty stays unspent.
fn blocks(count: u64) -> Vec<Vec<u32>> {
    let mut random = Random(9);
    let mut block = || {
        let outputs = 1 + random.below(7_000) as u32;
        (0..outputs).filter(|_| random.below(20) == 0).collect()
    };
    (0..count).map(|_| block()).collect()
}

/// The Elias-Fano code of draft BIP 456, and whole files of it, of so many blocks.
pub fn run(effort: Effort, count: u64, figures: &mut Figures) -> Result<()> {
    let blocks = blocks(count);
    let indices = blocks.iter().map(|block| block.len() as u64).sum();
    let file = encode_file(&blocks)?;

    let what = "encode hints, one index";
    let (time, ours) = effort.time(|| encode_file(black_box(&blocks)));
    figures.add(what, APUS, Records(indices), time, digest(&ours?))?;
    let (time, theirs) = effort.time(|| encode_file_with_crate(black_box(&blocks)));
    figures.add(what, CRATE, Records(indices), time, digest(&theirs?))?;

    for (what, amount) in [
        ("decode hints, one index", Records(indices)),
        ("decode hints, the file", Bytes(file.len())),
    ] {
        let (time, sum) = effort.time(|| decode_file(black_box(&file)));
        figures.add(what, APUS, amount, time, sum?)?;
        let (time, sum) = effort.time(|| decode_file_with_crate(black_box(&file)));
        figures.add(what, CRATE, amount, time, sum?)?;
    }

    let what = "open a hints file";
    let (time, height) = effort.time(|| Bip456::open(black_box(&file)).map(|hints| hints.height()));
    figures.add(what, APUS, Bytes(file.len()), time, u64::from(height?))?;
    let (time, read) = effort.time(|| Hintsfile::from_reader(&mut black_box(&file[..])));
    let height = read.map_err(|error| error.to_string())?.stop_height();
    figures.add(what, CRATE, Bytes(file.len()), time, u64::from(height))
}

fn encode_file(blocks: &[Vec<u32>]) -> Result<Vec<u8>> {
    let encoder = encoder(Format::Bip456);
    let mut file = Vec::new();
    encoder.put_head(blocks.len() as u32, &mut file);
    for block in blocks {
        encoder.put_block(block, block.last().map_or(0, |last| last + 1), &mut file)?;
    }
    encoder.put_tail(&mut file);
    Ok(file)
}

fn encode_file_with_crate(blocks: &[Vec<u32>]) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    let builder = hintsfile::HintsfileBuilder::new(&mut file);
    let mut builder = builder.initialize(blocks.len() as u32)?;
    for block in blocks {
        builder.append(EliasFano::compress(block))?;
    }
    builder.finish()?;
    Ok(file)
}

/// Magic, version, height.
const HEAD_BYTES: usize = 9;

/// The sum of all indices.
fn decode_file(file: &[u8]) -> Result<u64> {
    let (mut at, mut sum, mut unspent) = (HEAD_BYTES, 0, Vec::new());
    while at < file.len() {
        at += decode(&file[at..], BitOrder::Lsb, &mut unspent)?;
        sum += sum_of(&unspent);
    }
    Ok(sum)
}

fn decode_file_with_crate(file: &[u8]) -> Result<u64> {
    let (mut rest, mut sum) = (&file[HEAD_BYTES..], 0);
    while !rest.is_empty() {
        sum += sum_of(&EliasFano::from_reader(&mut rest)?.decompress());
    }
    Ok(sum)
}

fn sum_of(indices: &[u32]) -> u64 {
    indices.iter().map(|index| u64::from(*index)).sum()
}
