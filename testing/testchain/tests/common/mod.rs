//! Bitcoin Core's own validation, as the judge.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bitcoinkernel::prelude::*;
use bitcoinkernel::{
    Block, BlockValidationResult, BlockValidationStateRef, ChainType, ChainstateManager,
    ChainstateManagerBuilder, Context, Log, Logger, ValidationMode,
};

/// The log of Core's validation, which has the reject reasons; its API does not give them.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Log for Lines {
    fn log(&self, message: &str) {
        self.0.lock().unwrap().push(message.to_owned());
    }
}

/// Core has one log for the process, so there is one judge at a time.
static ALONE: Mutex<()> = Mutex::new(());

static LOG: OnceLock<Lines> = OnceLock::new();

fn log() -> &'static Lines {
    LOG.get_or_init(|| {
        let lines = Lines::default();
        // The connection ends with the process, as Core's log does.
        std::mem::forget(Logger::new(lines.clone()).unwrap());
        lines
    })
}

/// A verdict on one block.
#[derive(Debug, Default, Clone)]
pub struct Verdict {
    pub mode: Option<ValidationMode>,
    pub result: Option<BlockValidationResult>,
    /// Everything Core logged.
    pub log: String,
}

/// A node without a network, in a directory of its own.
pub struct Judge {
    manager: ChainstateManager,
    verdict: Arc<Mutex<Verdict>>,
    _directory: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Judge {
    pub fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        log();
        let verdict = Arc::new(Mutex::new(Verdict::default()));
        let noted = verdict.clone();
        let context = Context::builder()
            .chain_type(ChainType::Regtest)
            .with_block_checked_validation(move |_: Block, state: BlockValidationStateRef<'_>| {
                let mut verdict = noted.lock().unwrap();
                verdict.mode = Some(state.mode());
                verdict.result = Some(state.result());
            })
            .build()
            .unwrap();
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().to_str().unwrap().to_owned();
        let blocks = directory.path().join("blocks").to_str().unwrap().to_owned();
        let manager = ChainstateManagerBuilder::new(&context, &data, &blocks)
            .unwrap()
            .block_tree_db_in_memory(true)
            .chainstate_db_in_memory(true)
            .build()
            .unwrap();
        Judge { manager, verdict, _directory: directory, _alone: alone }
    }

    /// Passes a block to Core.
    pub fn process(&self, bytes: &[u8]) -> Verdict {
        *self.verdict.lock().unwrap() = Verdict::default();
        log().0.lock().unwrap().clear();
        let block = Block::new(bytes).expect("Core reads the block");
        let _ = self.manager.process_block(&block);
        let mut verdict = self.verdict.lock().unwrap().clone();
        verdict.log = log().0.lock().unwrap().concat();
        verdict
    }

    pub fn height(&self) -> i32 {
        self.manager.active_chain().height()
    }

    /// Returns the hash of the tip, in the byte order of the wire.
    pub fn tip(&self) -> [u8; 32] {
        self.manager.active_chain().tip().block_hash().to_bytes()
    }
}
