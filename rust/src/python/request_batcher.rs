//! `cogrs._core.RequestBatcher`. The lock is that of `collector::request_batcher`; no call attaches to the
//! interpreter while it holds it, and `send` is called after it was given back.

use std::time::Duration;

use numpy::PyUntypedArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::available_memory::available_memory;
use crate::collector::request_batcher::{self as core, RequestBatch};
use crate::error::Error;
use crate::python::args::{integer, size};
use crate::python::array::is_plain;
use crate::python::exit::{call_python, python_code};
use crate::python::fork_guard::ForkGuard;
use crate::python::tensor_spec::{TensorArg, TensorMemory, TensorSpec, arrays};
use crate::python::value_bytes::ValueBytes;
use crate::python::wait::{deadline, interruptible};

#[doc = stub_doc!(RequestBatcher)]
#[pyclass(frozen, module = "cogrs._core")]
#[derive(Debug)]
pub struct RequestBatcher {
    batcher: core::RequestBatcher<Py<PyAny>>,
    inputs: Vec<TensorSpec>,
    replies: Vec<TensorSpec>,
    fork_guard: ForkGuard,
}

impl TensorSpec {
    fn value<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<ValueBytes<'py>> {
        // Not a subclass, which may mean something else by its memory: a masked array does.
        match value.cast_exact::<PyUntypedArray>() {
            Ok(array) if is_plain(array, &self.dtype, &[], &self.spec.shape) => {
                Ok(ValueBytes::Array(array.clone()))
            }
            _ => self.convert(value),
        }
    }

    #[cold]
    fn convert<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<ValueBytes<'py>> {
        let py = value.py();
        let arguments = (&self.name, value, &self.dtype, PyTuple::new(py, &self.spec.shape)?);
        let array = call_python!(py, "cogrs.conversion", "convert", arguments)?;
        Ok(ValueBytes::Array(array.cast_into::<PyUntypedArray>()?))
    }
}

#[doc = stub_doc!(RequestDelivery)]
#[pyclass(frozen, module = "cogrs._core")]
#[derive(Debug)]
pub struct RequestDelivery {
    owner: Py<RequestBatcher>,
    batch: RequestBatch,
}

#[pymethods]
impl RequestDelivery {
    #[doc = stub_doc!(RequestDelivery.buffer)]
    #[getter]
    fn buffer(&self) -> usize {
        self.batch.buffer
    }

    #[doc = stub_doc!(RequestDelivery.rows)]
    #[getter]
    fn rows(&self) -> usize {
        self.batch.rows
    }
}

impl Drop for RequestDelivery {
    fn drop(&mut self) {
        if let Ok(batcher) = self.owner.get().batcher() {
            // An error says that it was released.
            let _ = batcher.put_back(self.batch);
        }
    }
}

/// Makes Python send the owners their replies, and again when Ctrl-C came in between, since nothing else will.
fn send_replies(owners: Vec<Py<PyAny>>, send: &Bound<'_, PyAny>) -> PyResult<()> {
    let owners = PyList::new(send.py(), owners)?;
    let send = || python_code(send.py(), || send.call1((&owners,)).map(drop));
    send().or_else(|error| {
        send()?;
        Err(error)
    })
}

impl RequestBatcher {
    fn batcher(&self) -> PyResult<&core::RequestBatcher<Py<PyAny>>> {
        self.fork_guard.check("RequestBatcher")?;
        Ok(&self.batcher)
    }

    /// The values of a row, in the order of the inputs.
    fn row<'py>(&self, inputs: &Bound<'py, PyDict>) -> PyResult<Vec<ValueBytes<'py>>> {
        let mut row = Vec::with_capacity(self.inputs.len());
        for tensor in &self.inputs {
            match inputs.get_item(&tensor.name)? {
                Some(value) => row.push(tensor.value(&value)?),
                None => return Err(self.misnamed(inputs)),
            }
        }
        if inputs.len() == row.len() { Ok(row) } else { Err(self.misnamed(inputs)) }
    }

    #[cold]
    fn misnamed(&self, inputs: &Bound<'_, PyDict>) -> PyErr {
        let names: Vec<_> = self.inputs.iter().map(|tensor| &tensor.name).collect();
        PyValueError::new_err(format!("inputs: expected {names:?}, got {}", inputs.keys()))
    }
}

#[pymethods]
impl RequestBatcher {
    #[new]
    #[pyo3(signature = (inputs, replies, batch_size, *, timeout_usec, num_buffers))]
    fn new(
        inputs: Vec<TensorArg<'_>>,
        replies: Vec<TensorArg<'_>>,
        batch_size: &Bound<'_, PyAny>,
        timeout_usec: &Bound<'_, PyAny>,
        num_buffers: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let tensors = |given: Vec<TensorArg<'_>>| given.into_iter().map(TensorSpec::new).collect();
        let (inputs, replies): (PyResult<Vec<_>>, PyResult<Vec<_>>) =
            (tensors(inputs), tensors(replies));
        let (inputs, replies) = (inputs?, replies?);
        let sizes =
            |tensors: &[TensorSpec]| tensors.iter().map(|each| each.spec.nbytes()).collect();
        let usec = integer("timeout_usec", timeout_usec, 0)?;
        let answers: Vec<usize> = sizes(&replies);
        let batcher = core::RequestBatcher::new(
            sizes(&inputs),
            &answers,
            size("batch_size", batch_size, 1)?,
            size("num_buffers", num_buffers, 1)?,
            (usec > 0).then(|| Duration::from_micros(usec)),
            available_memory(),
        )?;
        Ok(Self { batcher, inputs, replies, fork_guard: ForkGuard::here() })
    }

    #[doc = stub_doc!(RequestBatcher.put)]
    fn put(&self, inputs: &Bound<'_, PyDict>, owner: Py<PyAny>) -> PyResult<()> {
        let batcher = self.batcher()?;
        let row = self.row(inputs)?;
        let mut bytes = Vec::with_capacity(row.len());
        for (given, tensor) in row.iter().zip(&self.inputs) {
            bytes.push(given.exactly(&tensor.name, tensor.spec.nbytes())?);
        }
        Ok(batcher.put(owner, &bytes).map_err(|(_, error)| error)?)
    }

    #[doc = stub_doc!(RequestBatcher.wait)]
    #[pyo3(signature = (timeout=None))]
    fn wait(
        slf: &Bound<'_, Self>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<RequestDelivery>> {
        let batcher = slf.get().batcher()?;
        let batch = interruptible(slf.py(), deadline(timeout)?, |end| batcher.wait(Some(end)))?;
        Ok(batch.map(|batch| RequestDelivery { owner: slf.clone().unbind(), batch }))
    }

    #[doc = stub_doc!(RequestBatcher.flush)]
    fn flush(&self) -> PyResult<()> {
        self.batcher()?.flush();
        Ok(())
    }

    #[doc = stub_doc!(RequestBatcher.put_back)]
    fn put_back(&self, delivery: &RequestDelivery) -> PyResult<()> {
        Ok(self.batcher()?.put_back(delivery.batch)?)
    }

    #[doc = stub_doc!(RequestBatcher.release)]
    fn release(&self, delivery: &RequestDelivery, send: &Bound<'_, PyAny>) -> PyResult<()> {
        send_replies(self.batcher()?.release(delivery.batch)?, send)
    }

    #[doc = stub_doc!(RequestBatcher.close)]
    fn close(&self, send: &Bound<'_, PyAny>) -> PyResult<()> {
        // No thread waits in a forked child, and it may be on its way out with an exception of its own.
        if !self.fork_guard.is_here() {
            return Ok(());
        }
        send_replies(self.batcher()?.close(), send)
    }

    #[doc = stub_doc!(RequestBatcher.batch)]
    fn batch<'py>(
        &self,
        py: Python<'py>,
        buffer: usize,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
        let missing = || Error::Index(format!("no batch {buffer}"));
        let memory = self.batcher()?.batches().get(buffer).ok_or_else(missing)?;
        let memory = TensorMemory::new(py, memory)?;
        let inputs = arrays(&memory, 0, &self.inputs)?;
        Ok((inputs, arrays(&memory, self.inputs.len(), &self.replies)?))
    }
}
