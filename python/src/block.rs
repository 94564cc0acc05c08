//! Blocks and their content as Python objects. Hashes are text, as Bitcoin Core shows them, and
//! amounts are in satoshi. Fields have the names of the tables' columns.

use apus_tables::script_type;
use apus_wire::{BlockView, InputView, OutputView, TxView};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple};

/// The header of a block.
#[pyclass(frozen, get_all, eq, module = "apus")]
#[derive(PartialEq)]
pub struct Header {
    version: i32,
    previous: String,
    merkle_root: String,
    time: u32,
    bits: u32,
    nonce: u32,
}

/// A block of the active chain. Its transactions are parsed when they are first asked for.
#[pyclass(frozen, module = "apus")]
pub struct Block {
    #[pyo3(get)]
    height: u32,
    #[pyo3(get)]
    hash: String,
    #[pyo3(get)]
    header: Py<Header>,
    #[pyo3(get)]
    raw: Py<PyBytes>,
    transactions: PyOnceLock<Py<PyTuple>>,
}

/// A transaction.
#[pyclass(frozen, get_all, module = "apus")]
pub struct Transaction {
    txid: String,
    wtxid: String,
    coinbase: bool,
    version: u32,
    locktime: u32,
    size: usize,
    weight: usize,
    vsize: usize,
    inputs: Py<PyTuple>,
    outputs: Py<PyTuple>,
    raw: Py<PyBytes>,
}

/// An input of a transaction; that of a coinbase spends nothing.
#[pyclass(frozen, get_all, module = "apus")]
pub struct Input {
    prev_txid: Option<String>,
    prev_vout: Option<u32>,
    sequence: u32,
    scriptsig: Py<PyBytes>,
    witness: Py<PyTuple>,
}

/// An output of a transaction.
#[pyclass(frozen, get_all, module = "apus")]
pub struct Output {
    value: i64,
    r#type: &'static str,
    scriptpubkey: Py<PyBytes>,
}

/// A coin: an output, and the block that created it.
#[pyclass(frozen, get_all, module = "apus")]
pub struct Coin {
    value: u64,
    r#type: &'static str,
    scriptpubkey: Py<PyBytes>,
    height: u32,
    coinbase: bool,
}

impl Block {
    /// Creates the block at `height` from its bytes.
    pub fn new(py: Python<'_>, height: u32, bytes: &[u8]) -> PyResult<Self> {
        let view = parse(bytes)?;
        let header = view.header();
        let header = Header {
            version: header.version,
            previous: header.prev.to_string(),
            merkle_root: header.merkle_root.to_string(),
            time: header.time,
            bits: header.bits,
            nonce: header.nonce,
        };
        Ok(Self {
            height,
            hash: view.hash().to_string(),
            header: Py::new(py, header)?,
            raw: PyBytes::new(py, bytes).unbind(),
            transactions: PyOnceLock::new(),
        })
    }
}

fn parse(bytes: &[u8]) -> PyResult<BlockView<&[u8]>> {
    BlockView::parse(bytes).map_err(|error| PyValueError::new_err(format!("not a block: {error}")))
}

#[pymethods]
impl Block {
    /// The transactions, in order; the first is the coinbase.
    #[getter]
    fn transactions<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyTuple>> {
        let made = self.transactions.get_or_try_init(py, || -> PyResult<_> {
            let view = parse(self.raw.as_bytes(py))?;
            let ids = view.txids().into_iter().zip(view.wtxids());
            let made = view.txs().zip(ids).enumerate().map(|(position, (tx, (txid, wtxid)))| {
                let txid = txid.to_string();
                let wtxid = wtxid.to_string();
                Py::new(py, Transaction::new(py, &tx, txid, wtxid, position == 0)?)
            });
            Ok(PyTuple::new(py, made.collect::<PyResult<Vec<_>>>()?)?.unbind())
        });
        Ok(made?.bind(py))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(parse(self.raw.as_bytes(py))?.tx_count())
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.raw.bind(py).clone()
    }

    fn __repr__(&self) -> String {
        format!("<apus.Block {}: {}>", self.height, self.hash)
    }
}

impl Transaction {
    fn new(
        py: Python<'_>,
        tx: &TxView,
        txid: String,
        wtxid: String,
        coinbase: bool,
    ) -> PyResult<Self> {
        let inputs = tx.inputs().map(|input| Input::new(py, &input, coinbase));
        let inputs = PyTuple::new(py, inputs.collect::<PyResult<Vec<_>>>()?)?;
        let outputs = tx.outputs().map(|output| Output::new(py, &output));
        let outputs = PyTuple::new(py, outputs.collect::<Vec<_>>())?;
        let size = tx.bytes().len();
        let weight = 3 * tx.base_size() + tx.bytes().len();
        Ok(Self {
            txid,
            wtxid,
            coinbase,
            version: tx.version(),
            locktime: tx.lock_time(),
            size,
            weight,
            vsize: weight.div_ceil(4),
            inputs: inputs.unbind(),
            outputs: outputs.unbind(),
            raw: PyBytes::new(py, tx.bytes()).unbind(),
        })
    }
}

#[pymethods]
impl Transaction {
    fn __repr__(&self) -> String {
        format!("<apus.Transaction {}>", self.txid)
    }
}

impl Input {
    fn new(py: Python<'_>, input: &InputView, coinbase: bool) -> PyResult<Self> {
        let outpoint = Some(input.outpoint()).filter(|_| !coinbase);
        let witness = input.witness().map(|item| PyBytes::new(py, item)).collect::<Vec<_>>();
        Ok(Self {
            prev_txid: outpoint.map(|outpoint| outpoint.txid.to_string()),
            prev_vout: outpoint.map(|outpoint| outpoint.vout),
            sequence: input.sequence(),
            scriptsig: PyBytes::new(py, input.script_sig()).unbind(),
            witness: PyTuple::new(py, witness)?.unbind(),
        })
    }
}

#[pymethods]
impl Input {
    fn __repr__(&self) -> String {
        match (&self.prev_txid, self.prev_vout) {
            (Some(txid), Some(vout)) => format!("<apus.Input of {txid}:{vout}>"),
            _ => "<apus.Input of a coinbase>".to_string(),
        }
    }
}

impl Output {
    fn new(py: Python<'_>, output: &OutputView) -> Self {
        Self {
            value: output.value(),
            r#type: script_type(output.script()),
            scriptpubkey: PyBytes::new(py, output.script()).unbind(),
        }
    }
}

#[pymethods]
impl Output {
    fn __repr__(&self) -> String {
        format!("<apus.Output {} satoshi, {}>", self.value, self.r#type)
    }
}

impl Coin {
    /// Creates a coin.
    pub fn new(py: Python<'_>, coin: &apus_coins::Coin) -> Self {
        let mut script = Vec::new();
        coin.script.decompress_into(&mut script);
        Self {
            value: coin.amount,
            r#type: script_type(&script),
            scriptpubkey: PyBytes::new(py, &script).unbind(),
            height: coin.height,
            coinbase: coin.is_coinbase,
        }
    }
}

#[pymethods]
impl Coin {
    fn __repr__(&self) -> String {
        let Self { value, r#type, height, .. } = self;
        format!("<apus.Coin {value} satoshi, {type}, of block {height}>")
    }
}
