use std::hint::black_box;

use apus_coins::CompactScript;
use bitcoin::secp256k1::{Secp256k1, SecretKey};

use super::figures::Amount::Records;
use super::figures::{Figures, Kind};
use crate::Result;
use crate::measure::{Effort, digest};

const APUS: (Kind, &str) = (Kind::Apus, "Apus");
/// The number of scripts that are timed together. One with an uncompressed key takes a hundred
/// times as long.
const SCRIPTS: u64 = 512;

/// Measures the compression of scripts to their form in the chainstate, and back.
pub fn run(effort: Effort, figures: &mut Figures) -> Result<()> {
    let key = SecretKey::from_slice(&[1; 32])?;
    let key = key.public_key(&Secp256k1::new()).serialize_uncompressed();
    let kinds = [
        ("compress P2WPKH script", "decompress P2WPKH script", [&[0, 20][..], &[5; 20]].concat()),
        (
            "compress P2PKH script",
            "decompress P2PKH script",
            [&[0x76, 0xa9, 20][..], &[5; 20], &[0x88, 0xac]].concat(),
        ),
        (
            "compress uncompressed P2PK script",
            "decompress uncompressed P2PK script",
            [&[65][..], &key, &[0xac]].concat(),
        ),
    ];
    for (compress, decompress, script) in kinds {
        let (time, compact) = effort.time(|| {
            (1..SCRIPTS).for_each(|_| drop(black_box(CompactScript::new(black_box(&script)))));
            CompactScript::new(&script)
        });
        let mut out = Vec::new();
        compact.decompress_into(&mut out);
        figures.add(compress, APUS, Records(SCRIPTS), time, digest(&out))?;
        let (time, out) = effort.time(|| {
            let mut out = Vec::new();
            for _ in 0..SCRIPTS {
                out.clear();
                black_box(&compact).decompress_into(&mut out);
            }
            out
        });
        figures.add(decompress, APUS, Records(SCRIPTS), time, digest(&out))?;
        if out != script {
            return Err(format!("{decompress}: the script has changed").into());
        }
    }
    Ok(())
}
