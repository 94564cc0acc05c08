//! Levels 0 to 2 of a verification, for one block in any order: checks that the block can be read,
//! keeps the rules that need no coins, and has undo data that fits it. Also collects what level 3
//! needs of the block.

use apus_chain::BlockId;
use apus_coins::{Coin, Heights, UndoError, for_each_spending_tx};
use apus_consensus::{CheckedBlock, is_bip30_unspendable};
use apus_disk::StoreError;
use apus_node::block::check::{History, check_view, parse};
use apus_node::block::prepare::{CoinSource, Prepared};
use apus_node::block::step::Step;
use apus_node::fault::Fault;
use apus_node::shared::Shared;
use apus_node::sources::{BlockBytes, BlockOrigin};
use apus_progress::clock::Stage;
use apus_store::{FlatFilePos, IndexRecord};
use apus_wire::OutPoint;

use super::report::Damage;

/// The findings of levels 0 to 2 on a block.
pub(super) struct Examined {
    pub id: BlockId,
    pub height: u32,
    pub bytes: u64,
    pub transactions: u64,
    pub damage: Option<Damage>,
    /// Whether damage was found, even if `damage` was taken since.
    pub is_damaged: bool,
    /// Whether its undo data is stored.
    pub has_undo: bool,
    /// What level 3 needs; `None` if level 3 is not asked for, or cannot be done.
    pub coins: Option<BlockCoins>,
}

/// The coins of a block to be disconnected, and what the tables have at their outpoints.
pub(super) struct BlockCoins {
    /// The coins that it creates and does not spend itself, the coinbase's first.
    pub created: Vec<(OutPoint, Coin)>,
    /// For each of `created`, whether the tables hold the same coin.
    pub is_stored: Vec<bool>,
    /// Number of coins in `created`, from the first on, that may be missing (BIP30).
    pub excused: usize,
    /// Where its undo data is.
    pub undo_pos: FlatFilePos,
    /// The coins of earlier blocks that it spends, from its undo data. Some may lack their height
    /// ([`Heights::Optional`]).
    pub spent: Vec<(OutPoint, Coin)>,
    /// For each of `spent`, whether the tables hold any coin there.
    pub spent_is_stored: Vec<bool>,
    /// The outputs that it creates and spends itself.
    pub inside: Vec<OutPoint>,
    /// For each of `inside`, whether the tables hold any coin there.
    pub inside_is_stored: Vec<bool>,
}

/// Examines the block `id` up to `level`. Reads nothing for level 3 unless `with_coins`.
pub(super) fn examine(
    shared: &Shared,
    id: BlockId,
    record: &IndexRecord,
    level: u8,
    with_coins: bool,
) -> Examined {
    let height = shared.tree.node(id).height;
    let has_undo = record.undo_pos().is_some();
    let mut examined = Examined {
        id,
        height,
        bytes: 0,
        transactions: 0,
        damage: None,
        is_damaged: false,
        has_undo,
        coins: None,
    };
    if let Err((level, error)) = levels(shared, record, level, with_coins, &mut examined) {
        let block = shared.tree.node(id).hash;
        examined.is_damaged = true;
        examined.damage = Some(Damage { level, height, block, error });
    }
    examined
}

/// The level that found damage, and the damage.
type FoundAt = (u8, StoreError);

fn levels(
    shared: &Shared,
    record: &IndexRecord,
    level: u8,
    with_coins: bool,
    examined: &mut Examined,
) -> Result<(), FoundAt> {
    let id = examined.id;
    let files = shared.files;
    let Some(pos) = record.block_pos() else {
        let path = files.block_path(record.file);
        let what = format!("block {} is not stored", shared.tree.node(id).hash);
        return Err((0, StoreError::new(path, what)));
    };
    let step = Step { id, place: BlockOrigin::Stored(pos), weight: 0 };
    let bytes = {
        let _timer = shared.clock.start(Stage::Read);
        files.read_block(pos).map_err(|error| (0, error))?
    };
    examined.bytes = bytes.len() as u64;
    let timer = shared.clock.start(Stage::Check);
    let of_block = |level| move |fault| (level, error_of(shared, pos, fault));
    let view = parse(shared.tree, step, bytes).map_err(of_block(0))?;
    examined.transactions = view.tx_count() as u64;
    if level == 0 {
        return Ok(());
    }
    let block = check_view(shared.tree, step, History::New, view).map_err(of_block(1))?;
    drop(timer);
    let Some(undo_pos) = record.undo_pos().filter(|_| level >= 2) else { return Ok(()) };
    let spent = spent_coins(shared, id, undo_pos, &block).map_err(|error| (2, error))?;
    if with_coins {
        let coins = coins_of(shared, examined.height, undo_pos, block, spent);
        examined.coins = Some(coins.map_err(|error| (3, error))?);
    }
    Ok(())
}

fn error_of(shared: &Shared, pos: FlatFilePos, fault: Fault) -> StoreError {
    let what = match fault {
        Fault::Store(error) => return error,
        Fault::Damaged(_, what) => what,
        Fault::Rule(_, error) => error.to_string(),
        _ => unreachable!("a stored block is read and checked"),
    };
    shared.files.block_error(pos, what)
}

/// Reads the coins of all inputs but the coinbase's, in order, from the block's undo data.
fn spent_coins(
    shared: &Shared,
    id: BlockId,
    pos: FlatFilePos,
    block: &CheckedBlock<BlockBytes>,
) -> Result<Vec<Coin>, StoreError> {
    let _timer = shared.clock.start(Stage::Undo);
    let undo = shared.files.read_undo(pos, &shared.tree.prev_hash(id))?;
    let mut spent = Vec::new();
    let parsed = for_each_spending_tx(&undo, block.view(), Heights::Optional, |_, coins| {
        spent.append(coins);
    });
    parsed.map_err(|error| shared.files.undo_error(pos, error))?;
    Ok(spent)
}

/// Collects the coins of a block whose inputs spend `spent`, and looks them up.
fn coins_of(
    shared: &Shared,
    height: u32,
    undo_pos: FlatFilePos,
    block: CheckedBlock<BlockBytes>,
    spent: Vec<Coin>,
) -> Result<BlockCoins, StoreError> {
    let prepared = {
        let _timer = shared.clock.start(Stage::Check);
        Prepared::new(block, height)
    };
    if let Some(missing) = prepared.missing_inside {
        let what = format!("the block spends {}, which does not exist", missing.outpoint);
        return Err(shared.files.undo_error(undo_pos, what));
    }
    let mut inside = Vec::new();
    let mut external = Vec::with_capacity(prepared.external.len());
    for (source, mut coin) in prepared.sources.iter().zip(spent) {
        match *source {
            CoinSource::External(_) => external.push(coin),
            CoinSource::Inside { tx, vout } => {
                let outpoint = OutPoint { txid: prepared.block.txid(tx as usize), vout };
                let created = prepared.coin_inside(tx, vout);
                if coin.height == 0 {
                    (coin.height, coin.is_coinbase) = (created.height, created.is_coinbase);
                }
                if created != coin {
                    return Err(shared.files.undo_error(undo_pos, UndoError::WrongCoin(outpoint)));
                }
                inside.push(outpoint);
            }
        }
    }
    let excused = if is_bip30_unspendable(height, prepared.block.hash()) {
        prepared.created_by_coinbase
    } else {
        0
    };
    let spent: Vec<(OutPoint, Coin)> = prepared.external.into_iter().zip(external).collect();
    look_up(
        shared,
        BlockCoins {
            created: prepared.created,
            is_stored: Vec::new(),
            excused,
            undo_pos,
            spent,
            spent_is_stored: Vec::new(),
            inside,
            inside_is_stored: Vec::new(),
        },
    )
}

/// Looks up the coins of a block in the tables.
fn look_up(shared: &Shared, mut coins: BlockCoins) -> Result<BlockCoins, StoreError> {
    let _timer = shared.clock.start(Stage::LookUp);
    let created = coins.created.iter().map(|(outpoint, _)| *outpoint);
    let spent = coins.spent.iter().map(|(outpoint, _)| *outpoint);
    let all: Vec<OutPoint> = created.chain(spent).chain(coins.inside.iter().copied()).collect();
    let mut found = shared.chainstate.get_many(&all)?.into_iter();
    let expected = coins.created.iter().zip(found.by_ref());
    coins.is_stored = expected.map(|((_, coin), found)| found.as_ref() == Some(coin)).collect();
    let is_some = |found: Option<Coin>| found.is_some();
    coins.spent_is_stored = found.by_ref().take(coins.spent.len()).map(is_some).collect();
    coins.inside_is_stored = found.map(is_some).collect();
    Ok(coins)
}
