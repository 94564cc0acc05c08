use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Once};

use apus_consensus::RuleClass;
use apus_hash::Hash;
use apus_wire::Chain;
use bitcoinkernel::prelude::*;
use bitcoinkernel::{
    Block, BlockHeader, BlockValidationResult, BlockValidationStateRef, ChainType,
    ChainstateManager, ChainstateManagerBuilder, Context, ContextBuilder, Log, Logger,
    ProcessBlockHeaderResult, ValidationMode,
};

use super::Place;

/// Lines of the engine's log that are kept.
const LOG_LINES: usize = 20;

/// Connects to the engine's log, which every engine of a process shares.
static CONNECTED: Once = Once::new();

thread_local! {
    /// The last lines that the engine logged in this thread.
    static LOGGED: RefCell<VecDeque<String>> = const { RefCell::new(VecDeque::new()) };
}

struct KeepLast;

impl Log for KeepLast {
    fn log(&self, message: &str) {
        // A thread that is ending no longer has lines.
        let _ = LOGGED.try_with(|logged| {
            let mut logged = logged.borrow_mut();
            if logged.len() == LOG_LINES {
                logged.pop_front();
            }
            logged.push_back(message.trim_end().to_owned());
        });
    }
}

/// The engine's verdict on a block: `None` if it connected the block, otherwise the class of the
/// fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    pub block: Hash,
    pub fault: Option<RuleClass>,
}

/// Bitcoin Core's engine over a data directory.
pub struct Judge {
    // The fields are dropped in this order.
    manager: ChainstateManager,
    _context: Context,
    verdicts: Arc<Mutex<Vec<Verdict>>>,
}

impl Judge {
    /// Opens the directory of `place`, or creates it. The engine verifies the last blocks in it.
    ///
    /// # Errors
    /// The last lines of the engine's log, if it refuses the directory.
    pub fn open(place: &Place) -> Result<Self, String> {
        // The connection lasts as long as the process.
        CONNECTED.call_once(|| std::mem::forget(Logger::new(KeepLast).unwrap()));
        LOGGED.take();
        let chain = match place.network.chain {
            Chain::Main => ChainType::Mainnet,
            Chain::Test => ChainType::Testnet,
            Chain::Testnet4 => ChainType::Testnet4,
            Chain::Signet => ChainType::Signet,
            Chain::Regtest => ChainType::Regtest,
        };
        let verdicts = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&verdicts);
        let context = ContextBuilder::new()
            .chain_type(chain)
            .with_block_checked_validation(move |block: Block, state: BlockValidationStateRef| {
                let block = Hash(block.hash().to_bytes());
                noted.lock().unwrap().push(Verdict { block, fault: fault(state) });
            })
            .build()
            .unwrap();
        let dir = place.network_dir();
        std::fs::create_dir_all(dir.join("blocks")).unwrap();
        let data = dir.to_str().unwrap();
        let blocks = dir.join("blocks");
        let manager = ChainstateManagerBuilder::new(&context, data, blocks.to_str().unwrap())
            .unwrap()
            .worker_threads(2)
            .build()
            .map_err(|_| Vec::from(LOGGED.take()).join("\n"))?;
        Ok(Self { manager, _context: context, verdicts })
    }

    /// Gives the engine a block. Returns the verdicts on it and on all blocks that the engine then
    /// tries to connect; `None` if the bytes are not a block.
    pub fn judge(&self, bytes: &[u8]) -> Option<Vec<Verdict>> {
        let block = Block::new(bytes).ok()?;
        self.verdicts.lock().unwrap().clear();
        let _ = self.manager.process_block(&block);
        Some(std::mem::take(&mut self.verdicts.lock().unwrap()))
    }

    /// Gives the engine a header. Returns the class of its fault, if it has one.
    pub fn judge_header(&self, bytes: &[u8]) -> Option<RuleClass> {
        let header = BlockHeader::new(&bytes[..80]).expect("80 bytes are a header");
        match self.manager.process_block_header(&header).expect("the engine works") {
            ProcessBlockHeaderResult::Valid => None,
            ProcessBlockHeaderResult::Invalid(state) => Some(class(state.result())),
        }
    }

    pub fn tip(&self) -> (u32, Hash) {
        let chain = self.manager.active_chain();
        let tip = chain.tip();
        (chain.height() as u32, Hash(tip.block_hash().to_bytes()))
    }

    /// Gives the engine blocks in order, and returns the number that were new to it.
    pub fn process<'a>(&self, blocks: impl IntoIterator<Item = &'a Vec<u8>>) -> usize {
        let is_new = |bytes: &&Vec<u8>| {
            let block = Block::new(bytes).expect("the block deserialises");
            self.manager.process_block(&block).is_new_block()
        };
        blocks.into_iter().filter(is_new).count()
    }

    /// Reads every block of the active chain and its undo data. Returns the number of coins in the
    /// undo data, and the sum of their amounts.
    pub fn read_everything(&self) -> (u64, i64) {
        let chain = self.manager.active_chain();
        let mut coins = 0;
        let mut amount = 0;
        for entry in chain.iter().skip(1) {
            let block = self.manager.read_block_data(&entry).expect("the block is readable");
            let spent = self.manager.read_spent_outputs(&entry).expect("undo data is readable");
            assert_eq!(spent.count() + 1, block.transaction_count());
            for (index, tx) in block.transactions().enumerate().skip(1) {
                let of_tx = spent.transaction_spent_outputs(index - 1).unwrap();
                assert_eq!(of_tx.count(), tx.input_count());
                for coin in of_tx.coins() {
                    coins += 1;
                    amount += coin.output().value();
                }
            }
        }
        (coins, amount)
    }
}

fn fault(state: BlockValidationStateRef) -> Option<RuleClass> {
    match state.mode() {
        ValidationMode::Valid => None,
        ValidationMode::Invalid => Some(class(state.result())),
        ValidationMode::InternalError => panic!("the engine failed"),
    }
}

fn class(result: BlockValidationResult) -> RuleClass {
    match result {
        BlockValidationResult::Consensus => RuleClass::Consensus,
        BlockValidationResult::CachedInvalid => RuleClass::CachedInvalid,
        BlockValidationResult::InvalidHeader => RuleClass::InvalidHeader,
        BlockValidationResult::Mutated => RuleClass::Mutated,
        BlockValidationResult::MissingPrev => RuleClass::MissingPrev,
        BlockValidationResult::InvalidPrev => RuleClass::InvalidPrev,
        BlockValidationResult::TimeFuture => RuleClass::TimeFuture,
        BlockValidationResult::HeaderLowWork => RuleClass::LowWork,
        BlockValidationResult::Unset => panic!("refused for no reason"),
    }
}
