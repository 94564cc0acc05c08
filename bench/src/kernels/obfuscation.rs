use std::hint::black_box;

use apus_store::Obfuscation;

use super::Sample;
use super::figures::Amount::Bytes;
use super::figures::{Figures, Kind};
use crate::Result;
use crate::measure::{Effort, digest};

const KEY: [u8; 8] = [0x1f, 0x8b, 0xe6, 0x42, 0x90, 0x3c, 0x77, 0xd5];
/// The offset of the buffer in its file.
const OFFSET: u64 = 3;
/// The size of a buffer that fits into the processor's first-level cache, in bytes.
const CACHED_BYTES: usize = 16 << 10;
/// The number of passes over the small buffer that are timed together, since one pass is shorter
/// than the clock's resolution.
const PASSES: usize = 64;

/// Obfuscates the block and a small buffer, each byte by byte and in one pass.
pub fn run(effort: Effort, sample: &Sample, figures: &mut Figures) -> Result<()> {
    let in_cache = &sample.block[..CACHED_BYTES.min(sample.block.len())];
    for (what, plain, passes) in
        [("obfuscate block", &sample.block[..], 1), ("obfuscate 16 KiB in cache", in_cache, PASSES)]
    {
        let before = (Kind::Small, "byte by byte (Core before PR 31144)");
        let ours = (Kind::Apus, "Apus: one pass, 8 bytes at a time");
        let ways = [(before, byte_by_byte as fn(&mut [u8])), (ours, one_pass)];
        for (by, apply) in ways {
            let mut bytes = plain.to_vec();
            apply(&mut bytes);
            let hidden = digest(&bytes);
            let (time, ()) = effort.time(|| {
                for _ in 0..passes {
                    apply(black_box(&mut bytes));
                }
            });
            figures.add(what, by, Bytes(plain.len()), time / passes as u32, hidden)?;
        }
    }
    Ok(())
}

fn one_pass(bytes: &mut [u8]) {
    Obfuscation::new(KEY).apply(bytes, OFFSET);
}

/// Obfuscates byte by byte with a key whose length is known only at run time, as Core did before.
fn byte_by_byte(bytes: &mut [u8]) {
    let key = black_box(KEY.to_vec());
    let mut at = OFFSET as usize % key.len();
    for byte in bytes {
        *byte ^= key[at];
        at += 1;
        if at == key.len() {
            at = 0;
        }
    }
}
