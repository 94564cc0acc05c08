//! The coins that a block spends, as `apus serve` sends them (draft BIP 455), against those that
//! rust-bitcoin finds in the blocks. They are read and written here by the tables of the draft
//! alone.

use std::collections::HashMap;
use std::sync::LazyLock;

use apus_hash::Hash;
use apus_net::{BLOCK_SPENT_COINS, Outgoing, Transport};
use apus_wire::message::{Command, GetSpentCoins, InventoryKind, Message};
use apus_wire::{Cursor, ParseError, put_compact_size};
use bitcoin::{Block, OutPoint, Script, ScriptBuf, consensus};

use super::client::{Client, Serving};
use super::{TRANSPORTS, WITNESS, large_block, pruned};
use crate::peers::world::world;
use crate::support::hash_of;
use crate::support::swift::small_chain;

/// A coin that a block spends.
#[derive(Clone, PartialEq, Debug)]
pub struct SpentCoin {
    /// The index of the input that spends it, without the coinbase's.
    pub index: u32,
    pub height: u32,
    pub is_coinbase: bool,
    pub script: Vec<u8>,
    pub amount: u64,
}

/// Of each block of [`world`], the coins that it spends.
pub static EXPECTED: LazyLock<Vec<Vec<SpentCoin>>> = LazyLock::new(|| {
    let mut created: HashMap<OutPoint, SpentCoin> = HashMap::new();
    let mut spent = Vec::new();
    for (height, bytes) in world().blocks.iter().enumerate() {
        let block: Block = consensus::deserialize(bytes).unwrap();
        let mut coins = Vec::new();
        for tx in &block.txdata {
            for input in tx.input.iter().filter(|_| !tx.is_coinbase()) {
                let coin = created[&input.previous_output].clone();
                coins.push(SpentCoin { index: coins.len() as u32, ..coin });
            }
            let txid = tx.compute_txid();
            for (vout, output) in (0..).zip(&tx.output) {
                let coin = SpentCoin {
                    index: 0,
                    height: height as u32,
                    is_coinbase: tx.is_coinbase(),
                    script: output.script_pubkey.to_bytes(),
                    amount: output.value.to_sat(),
                };
                created.insert(OutPoint { txid, vout }, coin);
            }
        }
        spent.push(coins);
    }
    spent
});

/// The coins in the payload of `bspent` for a block, by the draft's tables.
fn coins_in(payload: &[u8], block: Hash) -> Vec<SpentCoin> {
    let mut cursor = Cursor::new(payload);
    assert_eq!(cursor.array::<32>(), Ok(block.0));
    let count = cursor.compact_size().unwrap();
    let coins = (0..count).map(|_| coin(&mut cursor).unwrap()).collect();
    assert_eq!(cursor.remaining(), 0);
    coins
}

fn coin(cursor: &mut Cursor) -> Result<SpentCoin, ParseError> {
    let index = cursor.u32()?;
    let code = cursor.u32()?;
    let form = cursor.u8()?;
    let script = match form {
        0 => cursor.compact_bytes()?.to_vec(),
        1 => [&[0x76, 0xa9, 20], cursor.take(20)?, &[0x88, 0xac]].concat(),
        2 | 3 => [&[33, form], cursor.take(32)?, &[0xac]].concat(),
        4 => [&[65, 4], cursor.take(64)?, &[0xac]].concat(),
        5 => [&[0xa9, 20], cursor.take(20)?, &[0x87]].concat(),
        6 => [&[0, 32], cursor.take(32)?].concat(),
        7 => [&[0, 20], cursor.take(20)?].concat(),
        8 => [&[0x51, 32], cursor.take(32)?].concat(),
        other => panic!("{other}"),
    };
    if form == 0 {
        let script = ScriptBuf::from(script.clone());
        let has_form = script.is_p2pkh() || script.is_p2sh() || script.is_p2wpkh();
        assert!(!has_form && !script.is_p2wsh() && !script.is_p2tr());
    }
    let amount = decompressed(cursor.compact_u64()?);
    Ok(SpentCoin { index, height: code >> 1, is_coinbase: code & 1 == 1, script, amount })
}

/// The payload of `bspent` for a block, by the draft's tables.
pub fn payload(block: Hash, coins: &[SpentCoin]) -> Vec<u8> {
    let mut payload = block.0.to_vec();
    put_compact_size(&mut payload, coins.len() as u64);
    for coin in coins {
        payload.extend_from_slice(&coin.index.to_le_bytes());
        payload.extend_from_slice(&(coin.height << 1 | u32::from(coin.is_coinbase)).to_le_bytes());
        put_script(&coin.script, &mut payload);
        put_compact_size(&mut payload, compressed(coin.amount));
    }
    payload
}

/// Appends a script in the draft's reconstructable form.
fn put_script(script: &[u8], out: &mut Vec<u8>) {
    let is = Script::from_bytes(script);
    let len = script.len();
    let (form, part) = if is.is_p2pkh() {
        (1, 3..23)
    } else if is.is_p2sh() {
        (5, 2..22)
    } else if is.is_p2wsh() {
        (6, 2..34)
    } else if is.is_p2wpkh() {
        (7, 2..22)
    } else if is.is_p2tr() {
        (8, 2..34)
    } else if len == 35 && script[0] == 33 && matches!(script[1], 2 | 3) && script[34] == 0xac {
        (script[1], 2..34)
    } else if len == 67 && script[..2] == [65, 4] && script[66] == 0xac {
        (4, 2..66)
    } else {
        (0, 0..len)
    };
    out.push(form);
    if form == 0 {
        put_compact_size(out, len as u64);
    }
    out.extend_from_slice(&script[part]);
}

/// The draft's `compress_amount`.
fn compressed(mut n: u64) -> u64 {
    if n == 0 {
        return 0;
    }
    let mut zeros = 0;
    while n.is_multiple_of(10) && zeros < 9 {
        n /= 10;
        zeros += 1;
    }
    if zeros < 9 { 1 + (n / 10 * 9 + n % 10 - 1) * 10 + zeros } else { 1 + (n - 1) * 10 + 9 }
}

/// The draft's `decompress_amount`.
fn decompressed(mut x: u64) -> u64 {
    if x == 0 {
        return 0;
    }
    x -= 1;
    let zeros = (x % 10) as u32;
    x /= 10;
    let n = if zeros < 9 { x / 9 * 10 + x % 9 + 1 } else { x + 1 };
    n * 10u64.pow(zeros)
}

pub fn request(block: Hash, cutoff: u32) -> Outgoing {
    Outgoing::new(&GetSpentCoins { block, cutoff })
}

#[test]
fn the_coins_of_each_block_are_sent_below_a_cutoff() {
    let served = world().in_order();
    let server = Serving::start(&served, &[]);
    let offer = [&[17], BLOCK_SPENT_COINS.as_bytes(), &[1, 0]].concat();
    assert!(EXPECTED.iter().flatten().count() > 1_000);
    for transport in TRANSPORTS {
        let mut client = Client::new(&served, server.address, transport);
        assert_eq!(client.features, [&offer[..]]);
        for (height, expected) in (0..).zip(EXPECTED.iter()).skip(1) {
            for cutoff in [0, 1, height / 2, height - 1, u32::MAX] {
                client.send(&request(world().hash(height), cutoff));
                let payload = client.next(Command::BSPENT).unwrap();
                let is_asked = |coin: &&SpentCoin| cutoff == 0 || coin.height < cutoff;
                let expected: Vec<_> = expected.iter().filter(is_asked).cloned().collect();
                assert_eq!(
                    coins_in(&payload, world().hash(height)),
                    expected,
                    "{height}, {cutoff}"
                );
            }
        }
    }
}

/// Blocks that peers may not have look like blocks that are not known.
#[test]
fn coins_that_cannot_be_sent_are_not_found() {
    let served = world().in_order();
    let server = Serving::start(&served, &[]);
    let mut client = Client::new(&served, server.address, Transport::V1);
    for block in [Hash([7; 32]), world().hash(0)] {
        let answers = client.answers(&request(block, 0)).unwrap();
        let Some((Command::NOTFOUND, payload)) = answers.last() else { panic!("{answers:?}") };
        let Ok(Message::NotFound(list)) = Message::decode(Command::NOTFOUND, payload) else {
            panic!("{payload:?}")
        };
        let items: Vec<_> = list.iter().map(|item| (item.kind, item.hash)).collect();
        assert_eq!(items, [(InventoryKind::BLOCK, block)]);
    }
    // A request that is too short is ignored, like others.
    let cut = Outgoing { command: Command::GETBSPENT, payload: vec![0; 35] };
    assert_eq!(client.answers(&cut), Some(Vec::new()));
}

/// As in BIP434, nothing of a feature is sent to a node that does not offer it.
#[test]
fn a_pruned_directory_does_not_offer_coins() {
    let (served, blocks) = pruned();
    let server = Serving::start(&served, &[]);
    let mut client = Client::new(&served, server.address, Transport::V1);
    assert!(client.features.is_empty());
    let last = hash_of(blocks.last().unwrap());
    assert!(client.block(WITNESS, last).is_some());
    client.send(&request(last, 0));
    assert!(client.is_hung_up_on());
}

/// Beyond the memory for blocks, they are sent in pieces.
#[test]
fn coins_come_in_pieces_where_other_peers_do_not_read() {
    let chain = small_chain(7, 60, 30_000);
    let large = large_block(&chain.parent(chain.height()));
    let served = world().place();
    served.sync_blocks("blocks", &[&world().blocks[..], std::slice::from_ref(&large)].concat());
    let server = Serving::start(&served, &[]);
    let slow = &|_| {
        let mut client = Client::new(&served, server.address, Transport::V1);
        client.ask(WITNESS, std::iter::repeat_n(hash_of(&large), 400));
        assert!(client.next(Command::BLOCK).is_some());
        client
    };
    let slow: Vec<Client> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..80).map(|number| scope.spawn(move || slow(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for transport in TRANSPORTS {
        let mut client = Client::new(&served, server.address, transport);
        for (height, expected) in (0..).zip(EXPECTED.iter()).skip(1) {
            client.send(&request(world().hash(height), 0));
            let payload = client.next(Command::BSPENT).unwrap();
            assert_eq!(coins_in(&payload, world().hash(height)), *expected, "{height}");
        }
        client.send(&request(Hash([7; 32]), 0));
        assert!(client.next(Command::NOTFOUND).is_some());
    }
    drop(slow);
}
