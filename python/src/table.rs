//! Tables by Arrow's C stream interface, which other libraries read without a copy.

use std::sync::Arc;
use std::thread::{self, ThreadId};

use apus_tables::{ArrowRows, ChainReader, RecordBatches};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::exception;

/// A table of a directory that is open for reading. Each stream reads it anew.
#[pyclass(frozen, module = "apus")]
pub struct Table {
    reader: Arc<ChainReader>,
    rows: ArrowRows,
    schema: SchemaRef,
    /// Whether it is of no block, and so has no rows.
    is_empty: bool,
}

/// The record batches of a stream, and their schema.
struct Stream {
    batches: RecordBatches,
    schema: SchemaRef,
    /// Python's main thread, if it has begun the stream: the one on which handlers of signals run.
    main: Option<ThreadId>,
}

impl Stream {
    /// Returns whether Ctrl-C was pressed. The library that reads the stream raises an exception of
    /// its own then, so the interrupt is made again, for Python to raise.
    fn is_interrupted(&self) -> bool {
        let is_main = self.main == Some(thread::current().id());
        is_main
            && Python::attach(|py| {
                let is_interrupted = py.check_signals().is_err();
                if is_interrupted && let Ok(thread) = py.import("_thread") {
                    // Without it, the exception of that library is all that the user gets.
                    let _ = thread.call_method0("interrupt_main");
                }
                is_interrupted
            })
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_interrupted() {
            return Some(Err(ArrowError::ExternalError("interrupted".into())));
        }
        let batch = self.batches.next()?;
        Some(batch.map_err(|error| ArrowError::ExternalError(Box::new(error))))
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Table {
    /// Creates the table of these rows, and checks that they can be read.
    pub fn new(
        py: Python<'_>,
        reader: Arc<ChainReader>,
        rows: ArrowRows,
        is_empty: bool,
    ) -> PyResult<Self> {
        let schema = rows.encoder(&reader).map_err(|error| exception(py, &error))?.schema();
        Ok(Self { reader, rows, schema, is_empty })
    }
}

#[pymethods]
impl Table {
    /// The name of the table.
    #[getter]
    fn name(&self) -> &'static str {
        self.rows.table.name()
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Returns a capsule of Arrow's C stream interface. The schema is that of the table, whatever
    /// is asked for, as the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        if self.is_empty {
            let none = RecordBatchIterator::new([], Arc::clone(&self.schema));
            let stream = FFI_ArrowArrayStream::new(Box::new(none));
            return PyCapsule::new_with_value(py, stream, c"arrow_array_stream");
        }
        let encoder = self.rows.encoder(&self.reader).map_err(|error| exception(py, &error))?;
        let schema = Arc::clone(&self.schema);
        let batches = RecordBatches::new(Arc::clone(&self.reader), self.rows.clone(), encoder);
        let threading = py.import("threading")?;
        let current = threading.call_method0("current_thread")?;
        let is_main = current.is(&threading.call_method0("main_thread")?);
        let main = is_main.then(|| thread::current().id());
        let stream = FFI_ArrowArrayStream::new(Box::new(Stream { batches, schema, main }));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Returns a capsule of Arrow's C data interface with the schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref());
        let schema = schema.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    fn __repr__(&self) -> String {
        format!("<apus.Table {}: {}>", self.name(), self.columns().join(", "))
    }
}
