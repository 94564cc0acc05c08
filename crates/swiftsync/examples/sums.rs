//! Writes hints for two blocks (draft BIP 456), and proves them with a sum of outpoints in which
//! the order of blocks does not matter.
//!
//! `cargo run -p apus-swiftsync --example sums`

use std::error::Error;

use apus_swiftsync::hints::encoder;
use apus_swiftsync::{Aggregate, AggregateKind, Format, Salt, open};

fn main() -> Result<(), Box<dyn Error>> {
    // Output 1 of three of the first block, and output 0 of two of the second, stay unspent.
    let encoder = encoder(Format::Bip456);
    let mut file = Vec::new();
    encoder.put_head(2, &mut file);
    encoder.put_block(&[1], 3, &mut file)?;
    encoder.put_block(&[0], 2, &mut file)?;
    encoder.put_tail(&mut file);
    let hints = open(file)?;
    println!("hints up to height {}", hints.height());

    // Outputs without a hint are created and spent: txid and index, 36 bytes.
    let outpoint = |block: u8, output: u8| {
        let mut bytes = [block; 36];
        bytes[32] = output;
        bytes
    };
    // Real proofs take `Salt::random`.
    let salt = Salt::new([7; 64]);
    let mut first = Aggregate::new(AggregateKind::Sha256, &salt);
    first.create_outpoints(&[outpoint(1, 0), outpoint(1, 2)]);
    let mut second = Aggregate::new(AggregateKind::Sha256, &salt);
    second.create_outpoints(&[outpoint(2, 1)]);
    second.spend_outpoints(&[outpoint(1, 2), outpoint(2, 1), outpoint(1, 0)]);
    second.combine(&first);
    assert!(second.is_balanced(), "every output without a hint is spent once");
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
