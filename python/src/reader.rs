//! A directory that stays open for reading.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};

use apus::tables::{BytesForm, Forms, HashForm};
use apus::{ExportTable, Hash, Observer, OutPoint, Progress, SyncError, options_in_process};
use apus_tables::{ArrowRows, ChainReader};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::block::{Block, Coin};
use crate::error::exception;
use crate::table::Table;

/// A synced directory that is open for reading.
#[pyclass(frozen, module = "apus._apus")]
pub struct Reader(Mutex<Option<Arc<ChainReader>>>);

/// Notes for the user, until they can be passed on.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Observer for Notes {
    fn observe(&self, _: &Progress) {}

    fn note(&self, text: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_string());
    }
}

#[pymethods]
impl Reader {
    /// Opens the directory that the arguments of `apus status` name. Calls `note` with each line
    /// for the user.
    #[new]
    fn open(py: Python<'_>, args: Vec<OsString>, note: &Bound<'_, PyAny>) -> PyResult<Self> {
        let notes = Notes::default();
        let opened = py.detach(|| {
            let options = options_in_process(args, &notes)?;
            ChainReader::open(&options, &notes)
        });
        for text in notes.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            note.call1((text,))?;
        }
        let reader = opened.map_err(|error| exception(py, &error))?;
        Ok(Self(Mutex::new(Some(Arc::new(reader)))))
    }

    /// Ends the reading: the lock is released once no table is being read any more.
    fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Returns the height of the best block.
    fn height(&self) -> PyResult<u32> {
        Ok(self.reader()?.chain.height())
    }

    fn network(&self) -> PyResult<&'static str> {
        Ok(self.reader()?.options.network.chain.name())
    }

    /// Returns the hash of the block at a height of the chain.
    fn hash(&self, height: u32) -> PyResult<String> {
        Ok(self.reader()?.chain.blocks[height as usize].hash.to_string())
    }

    fn block(&self, py: Python<'_>, height: u32) -> PyResult<Block> {
        let reader = self.reader()?;
        let mut bytes = Vec::new();
        working(py, || reader.block(height, &mut bytes))?;
        Block::new(py, height, &bytes)
    }

    /// Returns the coins that each transaction of a block but the coinbase spends.
    fn spent(&self, py: Python<'_>, height: u32) -> PyResult<Vec<Vec<Coin>>> {
        let reader = self.reader()?;
        let spent = working(py, || reader.spent(height))?;
        let of_tx = |coins: &Vec<_>| coins.iter().map(|coin| Coin::new(py, coin)).collect();
        Ok(spent.iter().map(of_tx).collect())
    }

    /// Returns a coin of the UTXO set, if it is unspent.
    fn coin(&self, py: Python<'_>, txid: &str, vout: u32) -> PyResult<Option<Coin>> {
        let reader = self.reader()?;
        let txid: Hash = txid.parse().map_err(|error| PyValueError::new_err(format!("{error}")))?;
        let found = working(py, || reader.coin(&OutPoint { txid, vout }))?;
        Ok(found.map(|coin| Coin::new(py, &coin)))
    }

    /// Returns a table of the blocks between two heights, both included.
    fn table(
        &self,
        py: Python<'_>,
        name: &str,
        heights: Option<(u32, u32)>,
        columns: Option<Vec<String>>,
        forms: (String, String),
    ) -> PyResult<Table> {
        let wrong = |what: String| exception(py, &SyncError::WrongOptions(what));
        let table = ExportTable::ALL.into_iter().find(|table| table.name() == name);
        let table = table.ok_or_else(|| wrong(format!("there is no table '{name}'")))?;
        let (txid, spk) = forms;
        let hash = match txid.as_str() {
            "hex" => HashForm::Hex,
            "raw" => HashForm::Raw,
            "rawle" => HashForm::RawReversed,
            _ => return Err(wrong(format!("txid='{txid}': give hex, raw or rawle"))),
        };
        let bytes = match spk.as_str() {
            "hex" => BytesForm::Hex,
            "raw" => BytesForm::Raw,
            _ => return Err(wrong(format!("spk='{spk}': give hex or raw"))),
        };
        let is_empty = heights.is_none();
        let (start_height, stop_height) = heights.unzip();
        let forms = Forms { hash, bytes };
        let rows = ArrowRows { table, columns, forms, start_height, stop_height };
        Table::new(py, self.reader()?, rows, is_empty)
    }
}

impl Reader {
    fn reader(&self) -> PyResult<Arc<ChainReader>> {
        let reader = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        reader.ok_or_else(|| PyValueError::new_err("the chain is closed"))
    }
}

/// Does `work` without the GIL.
fn working<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, SyncError> + Send,
) -> PyResult<T> {
    py.detach(work).map_err(|error| exception(py, &error))
}
