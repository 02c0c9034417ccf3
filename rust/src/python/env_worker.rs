//! The calls of env workers, which step games written in Python.

use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::collector::context::WorkItem;
use crate::collector::step_buffer::Report;
use crate::error::Error;
use crate::games::{Action, Game, Outcome};
use crate::python::context::{CollectorContext, CollectorDelivery};
use crate::python::description::StepTensors;
use crate::python::tensor_spec::{TensorMemory, TensorSpec, array};
use crate::python::wait::{deadline, interruptible};

/// A state that a query asks about: the bytes of each key.
struct QueriedState(Vec<Vec<u8>>);

impl Game for QueriedState {
    fn reset(&mut self, _seed: u64) {}

    fn step(&mut self, _action: Action<'_>) -> Result<Outcome, Error> {
        Err(Error::State("a query has no next state".into()))
    }

    fn write(&self, key: usize, out: &mut [u8]) {
        out.copy_from_slice(&self.0[key]);
    }
}

#[pymethods]
impl CollectorContext {
    #[doc = stub_doc!(CollectorContext.step_buffer)]
    fn step_buffer<'a, 'py>(
        &'a self,
        py: Python<'py>,
        env_worker: usize,
    ) -> PyResult<(Bound<'py, PyList>, Vec<usize>)> {
        let missing = || Error::Index(format!("no env worker {env_worker}"));
        let step_buffer = self.context()?.step_buffers().get(env_worker).ok_or_else(missing)?;
        let StepTensors { action, keys } = self.step_tensors.as_ref().ok_or_else(missing)?;
        let memory = TensorMemory::new(py, step_buffer.memory())?;
        let plain = |code: &str| Ok::<_, PyErr>(PyArrayDescr::new(py, code)?.unbind());
        let (int, float, byte) = (plain("i8")?, plain("f8")?, plain("u1")?);
        let short = plain("i4")?;
        let of = |tensor: &'a TensorSpec| (&tensor.dtype, &tensor.spec.shape[..]);
        let fixed = [
            (&int, &[][..]),
            (&int, &[]),
            of(action),
            (&float, &[]),
            (&byte, &[]),
            (&short, &[]),
            (&short, &[]),
        ];
        let arrays = PyList::empty(py);
        for (part, (dtype, shape)) in fixed.into_iter().chain(keys.iter().map(of)).enumerate() {
            arrays.append(array(&memory, part, dtype, shape)?)?;
        }
        let offsets = (0..arrays.len()).map(|part| step_buffer.memory().offset(part)).collect();
        Ok((arrays, offsets))
    }

    #[doc = stub_doc!(CollectorContext.play)]
    #[pyo3(signature = (env_worker, begun, failed, timeout))]
    fn play(
        &self,
        py: Python<'_>,
        env_worker: usize,
        begun: usize,
        failed: Vec<(usize, String)>,
        timeout: &Bound<'_, PyAny>,
    ) -> PyResult<Option<usize>> {
        let context = self.context()?;
        let end = deadline(Some(timeout))?;
        let end =
            end.ok_or_else(|| Error::value("timeout", "seconds that a clock can hold", "more"))?;
        let report = Report { begun, broken_off: false, failed };
        Ok(py.detach(|| context.play(env_worker, report, end))?)
    }

    #[doc = stub_doc!(CollectorContext.attend)]
    #[pyo3(signature = (gid, timeout, progress, failed))]
    fn attend<'py>(
        slf: &Bound<'py, Self>,
        gid: Option<usize>,
        timeout: Option<&Bound<'py, PyAny>>,
        progress: &Bound<'py, PyList>,
        failed: Vec<(usize, String)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, context) = (slf.py(), slf.get().context()?);
        slf.get().check_gid(gid)?;
        let end = deadline(timeout)?;
        if context.is_moving() {
            slf.get().report(py, progress, failed)?;
        }
        match interruptible(py, end, |end| context.attend(gid, Some(end)))? {
            None => Ok(py.None().into_bound(py)),
            Some(WorkItem::Moves(count)) => {
                forget(progress)?;
                Ok(count.into_pyobject(py)?.into_any())
            }
            Some(WorkItem::Batch(taken)) => {
                let delivery = CollectorDelivery::new(slf, taken);
                Ok(Bound::new(py, delivery)?.into_any())
            }
        }
    }

    #[doc = stub_doc!(CollectorContext.is_moving)]
    fn is_moving(&self) -> PyResult<bool> {
        Ok(self.context()?.is_moving())
    }

    #[doc = stub_doc!(CollectorContext.report)]
    fn report(
        &self,
        py: Python<'_>,
        progress: &Bound<'_, PyList>,
        failed: Vec<(usize, String)>,
    ) -> PyResult<()> {
        let context = self.context()?;
        let (begun, ended): (usize, usize) =
            (progress.get_item(0)?.extract()?, progress.get_item(1)?.extract()?);
        // Before anything can interrupt the caller, so that nothing is reported twice.
        forget(progress)?;
        let report = Report { begun, broken_off: ended < begun, failed };
        Ok(py.detach(|| context.report(0, report))?)
    }

    #[doc = stub_doc!(CollectorContext.query)]
    fn query<'py>(
        &self,
        py: Python<'py>,
        game: usize,
        tid: usize,
        shown: Vec<Vec<u8>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let context = self.context()?;
        let keys = self.step_tensors.iter().flat_map(|tensors| &tensors.keys);
        let sizes: Vec<usize> = keys.map(|key| key.spec.nbytes()).collect();
        if !shown.iter().map(Vec::len).eq(sizes.iter().copied()) {
            let got = format!("{:?}", shown.iter().map(Vec::len).collect::<Vec<_>>());
            return Err(Error::value("shown", format!("bytes of {sizes:?}"), got).into());
        }
        let answers = py.detach(|| context.query(game, tid, Box::new(QueriedState(shown))))?;
        let found = PyDict::new(py);
        for (key, bytes) in answers {
            found.set_item(key, PyBytes::new(py, &bytes))?;
        }
        Ok(found)
    }

    #[doc = stub_doc!(CollectorContext.fail)]
    fn fail(&self, text: String) -> PyResult<()> {
        self.context()?.fail(Error::State(text));
        Ok(())
    }
}

/// Sets the numbers of moves that began and ended to 0.
fn forget(progress: &Bound<'_, PyList>) -> PyResult<()> {
    progress.set_item(0, 0)?;
    progress.set_item(1, 0)
}
