//! Encodes and decodes messages between peers: time, allocations and allocated bytes per message,
//! for Apus and for the crate `bitcoin`. This is a program of its own, since counting allocations
//! would slow down everything else.

use std::hint::black_box;
use std::process::ExitCode;

use allocation_counter::AllocationInfo;
use apus_bench::measure::Effort;
use apus_hash::{Hash, sha256d};
use apus_wire::message::{
    Command, ENVELOPE_BYTES, Envelope, Headers, Inventory, InventoryItem, InventoryKind, Message,
    Payload, Raw, Services, Transaction, TxInput, TxOutput, Version, encode,
};
use apus_wire::{BlockView, Chain, Header, Network, OutPoint, genesis_block, put_compact_size};
use bitcoin::consensus::{deserialize, serialize};
use bitcoin::p2p::message::RawNetworkMessage;

const MAGIC: [u8; 4] = [0xf9, 0xbe, 0xb4, 0xd9];
/// Bytes of messages in one measurement.
const BATCH_BYTES: usize = 200_000;

/// What dcrd's authors measured for the genesis coinbase on their machine (its `wire` package).
const DCRD: [(&str, &str); 2] = [
    ("encode", "dcrd WriteMessageN, published: 1094 ns, 2 allocations, 304 B"),
    ("decode", "dcrd ReadMessageN, published: 1423 ns, 9 allocations"),
];

fn main() -> ExitCode {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let effort = if quick { Effort::SMALL } else { Effort::FULL };
    println!("{:50} {:>10} {:>12} {:>12}", "", "ns", "allocations", "bytes");
    let block = genesis_block(&Network::new(Chain::Main));
    let genesis = BlockView::parse(&block[..]).expect("the built-in block parses");
    coinbase(effort, &genesis);
    let header = *genesis.header();
    version(effort);
    let hash = header.hash();
    let items = |kind| vec![InventoryItem { kind, hash }; 1000];
    measure(effort, "inv, 1000 items", &Inventory(Command::INV, &items(InventoryKind::TX)));
    let wanted = items(InventoryKind::WITNESS_BLOCK);
    measure(effort, "getdata, 16 blocks", &Inventory(Command::GETDATA, &wanted[..16]));
    measure(effort, "headers, 2000", &Headers(&chain(&header, 2000)));
    let large = large_block(&block, 1_500_000);
    measure(effort, "block, 1.5 MB", &Raw(Command::BLOCK, &large));
    for (what, figure) in DCRD {
        println!("{what} tx, for comparison: {figure}");
    }
    ExitCode::SUCCESS
}

/// Measures the coinbase of the genesis block, as dcrd's benchmark does.
fn coinbase(effort: Effort, genesis: &BlockView<&[u8]>) {
    let tx = genesis.tx(0);
    let input = tx.input(0);
    let output = tx.output(0);
    let inputs = [TxInput {
        outpoint: OutPoint { txid: Hash::ZERO, vout: u32::MAX },
        script: input.script_sig(),
        sequence: u32::MAX,
        witness: &[],
    }];
    let outputs = [TxOutput { value: output.value(), script: output.script() }];
    let ours = Transaction { version: 1, inputs: &inputs, outputs: &outputs, lock_time: 0 };
    measure(effort, "tx, genesis coinbase", &ours);
}

fn version(effort: Effort) {
    let version = Version {
        version: 70_016,
        services: Services::NETWORK,
        time: 1_700_000_000,
        receiver: [0; 26],
        nonce: 1,
        user_agent: b"/Apus:0.1.0/",
        start_height: 900_000,
        relay: false,
    };
    measure(effort, "version", &version);
}

/// Returns headers that build on each other.
fn chain(first: &Header, count: usize) -> Vec<Header> {
    std::iter::successors(Some(*first), |last| Some(Header { prev: last.hash(), ..*last }))
        .take(count)
        .collect()
}

/// Returns a block with its only transaction repeated.
fn large_block(genesis: &[u8], len: usize) -> Vec<u8> {
    let tx = &genesis[81..];
    let count = len / tx.len();
    let mut block = genesis[..80].to_vec();
    put_compact_size(&mut block, count as u64);
    (0..count).for_each(|_| block.extend_from_slice(tx));
    block
}

/// Prints the cost of encoding and decoding a message.
fn measure(effort: Effort, what: &str, payload: &impl Payload) {
    let mut bytes = Vec::new();
    encode(payload, MAGIC, &mut bytes);
    let theirs: RawNetworkMessage = deserialize(&bytes).expect("the crate reads what we write");
    assert_eq!(serialize(&theirs), bytes, "{what}");
    let batch = (BATCH_BYTES / bytes.len()).max(1);

    let mut buffer = Vec::with_capacity(bytes.len());
    show(effort, batch, &format!("encode {what}: Apus, same buffer"), || {
        buffer.clear();
        encode(payload, MAGIC, &mut buffer);
        black_box(&buffer);
    });
    show(effort, batch, "  Apus, new buffer", || {
        let mut buffer = Vec::new();
        encode(payload, MAGIC, &mut buffer);
        black_box(&buffer);
    });
    // The crate computes the checksum when it takes the payload, which is a copy here.
    let magic = *theirs.magic();
    let owned = theirs.payload();
    show(effort, batch, "  bitcoin 0.32, from a copy", || {
        black_box(serialize(&RawNetworkMessage::new(magic, owned.clone())));
    });
    show(effort, batch, &format!("decode {what}: Apus"), || {
        let (head, payload) = bytes.split_first_chunk::<ENVELOPE_BYTES>().expect("24 bytes");
        let envelope = Envelope::parse(head, MAGIC).expect("a message");
        let command = envelope.check(payload).expect("its checksum");
        black_box(Message::decode(command, payload).expect("its payload"));
    });
    show(effort, batch, "  bitcoin 0.32", || {
        black_box(deserialize::<RawNetworkMessage>(&bytes).expect("a message"));
    });
    let (time, _) = effort.time(|| {
        for _ in 0..batch {
            black_box(sha256d(black_box(&bytes[ENVELOPE_BYTES..])));
        }
    });
    println!("{:50} {:>10.0}", "  its checksum alone", time.as_nanos() as f64 / batch as f64);
}

fn show(effort: Effort, batch: usize, what: &str, mut run: impl FnMut()) {
    let (time, ()) = effort.time(|| (0..batch).for_each(|_| run()));
    let AllocationInfo { count_total, bytes_total, .. } = allocation_counter::measure(&mut run);
    let time = time.as_nanos() as f64 / batch as f64;
    println!("{what:50} {time:>10.0} {count_total:>12} {bytes_total:>12}");
}
