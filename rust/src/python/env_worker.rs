//! Games that Python moves: what they look like, and the calls of their drivers.

use std::time::Duration;

use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::collector::failure_policy::OnError;
use crate::collector::step_buffer::{Report, SharedFile, WorkItem};
use crate::error::{Error, short};
use crate::games::{Action, Game, GameSpec, Outcome};
use crate::python::context::{CollectorContext, CollectorDelivery};
use crate::python::tensor::{TensorMemory, array, field};
use crate::python::wait::{interruptible, until};
use crate::spec::FieldSpec;

/// `cogrs.collector.description.Game`, and where the desks of its drivers lie.
#[derive(FromPyObject)]
pub struct GivenGame<'py> {
    keys: Bound<'py, PyDict>,
    action: (Bound<'py, PyAny>, Vec<usize>),
    num_action: usize,
    players: Vec<String>,
    files: Vec<Option<(i32, usize)>>,
}

/// dtypes and shapes of what lies on a desk beside the game's own books.
#[derive(Debug)]
pub struct Moved {
    action: (Py<PyArrayDescr>, Vec<usize>),
    keys: Vec<(Py<PyArrayDescr>, Vec<usize>)>,
    /// Bytes of each key.
    sizes: Vec<usize>,
}

/// A state that a game asks about: the bytes of each key.
struct Shown(Vec<Vec<u8>>);

impl Game for Shown {
    fn reset(&mut self, _seed: u64) {}

    fn step(&mut self, _action: Action<'_>) -> Result<Outcome, Error> {
        Err(Error::State("a query has no next state".into()))
    }

    fn write(&self, key: usize, out: &mut [u8]) {
        out.copy_from_slice(&self.0[key]);
    }
}

impl GivenGame<'_> {
    /// What the core knows of the game, the files of its desks, and what Python sees there.
    ///
    /// # Errors
    /// `TypeError` and `ValueError` as [`field`].
    pub fn resolve(self) -> PyResult<(GameSpec, Vec<Option<SharedFile>>, Moved)> {
        let mut keys: Vec<(String, FieldSpec)> = Vec::new();
        let mut seen = Vec::new();
        for (key, value) in self.keys.iter() {
            let (key, (dtype, shape)): (String, (Bound<'_, PyAny>, Vec<usize>)) =
                (key.extract()?, value.extract()?);
            let (dtype, field) = field(&key, &dtype, shape)?;
            seen.push((dtype, field.shape.clone()));
            keys.push((key, field));
        }
        let (dtype, shape) = self.action;
        let (dtype, action) = field("a", &dtype, shape)?;
        let sizes = keys.iter().map(|(_, field)| field.nbytes()).collect();
        let moved = Moved { action: (dtype, action.shape.clone()), keys: seen, sizes };
        let file = |(descriptor, size)| SharedFile { descriptor, size };
        let files = self.files.into_iter().map(|given| given.map(file)).collect();
        let Self { num_action, players, .. } = self;
        let spec = GameSpec { keys, action, num_action, players, blocking: false };
        Ok((spec, files, moved))
    }
}

/// What becomes of games that fail, by the name of the option.
///
/// # Errors
/// `ValueError` when there is no such policy, or a number is out of range.
pub fn policy(name: &str, most: u32, backoff: f64) -> PyResult<OnError> {
    match name {
        "raise" => Ok(OnError::Raise),
        "drop" => Ok(OnError::Drop),
        "restart" => {
            let rest = Duration::try_from_secs_f64(backoff);
            let backoff =
                rest.map_err(|_| Error::value("restart_backoff", "seconds >= 0", short(backoff)))?;
            Ok(OnError::Restart { most, backoff })
        }
        _ => {
            let got = format!("{name:?}");
            Err(Error::value("on_error", "'raise', 'restart' or 'drop'", got).into())
        }
    }
}

#[pymethods]
impl CollectorContext {
    /// The arrays of a driver's desk, and where each begins in its memory.
    fn step_buffer<'py>(
        &self,
        py: Python<'py>,
        env_worker: usize,
    ) -> PyResult<(Bound<'py, PyList>, Vec<usize>)> {
        let missing = || Error::Index(format!("no env worker {env_worker}"));
        let step_buffer = self.context()?.step_buffers().get(env_worker).ok_or_else(missing)?;
        let Moved { action, keys, .. } = self.moved.as_ref().ok_or_else(missing)?;
        let memory = TensorMemory::new(py, step_buffer.memory())?;
        let plain = |code: &str| Ok::<_, PyErr>((PyArrayDescr::new(py, code)?.unbind(), vec![]));
        let books = [plain("i8")?, plain("i8")?, clone(py, action), plain("f8")?, plain("u1")?];
        let arrays = PyList::empty(py);
        let all = books.into_iter().chain(keys.iter().map(|key| clone(py, key)));
        for (part, (dtype, shape)) in all.enumerate() {
            arrays.append(array(&memory, part, &dtype, &shape)?)?;
        }
        let offsets = (0..arrays.len()).map(|part| step_buffer.memory().offset(part)).collect();
        Ok((arrays, offsets))
    }

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
        let end = until(Some(timeout))?;
        let end = end.ok_or_else(|| Error::value("timeout", "seconds of a clock", "more"))?;
        let report = Report { begun, broken_off: false, failed };
        Ok(py.detach(|| context.play(env_worker, report, end))?)
    }

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
        let end = until(timeout)?;
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

    fn is_moving(&self) -> PyResult<bool> {
        Ok(self.context()?.is_moving())
    }

    fn report(
        &self,
        py: Python<'_>,
        progress: &Bound<'_, PyList>,
        failed: Vec<(usize, String)>,
    ) -> PyResult<()> {
        let context = self.context()?;
        let (begun, ended): (usize, usize) =
            (progress.get_item(0)?.extract()?, progress.get_item(1)?.extract()?);
        // At once: whatever interrupts the caller now, this is not told twice.
        forget(progress)?;
        let report = Report { begun, broken_off: ended < begun, failed };
        Ok(py.detach(|| context.report(0, report))?)
    }

    fn query<'py>(
        &self,
        py: Python<'py>,
        game: usize,
        tid: usize,
        shown: Vec<Vec<u8>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let context = self.context()?;
        let sizes = self.moved.as_ref().map_or(&[][..], |moved| &moved.sizes);
        if !shown.iter().map(Vec::len).eq(sizes.iter().copied()) {
            let got = format!("{:?}", shown.iter().map(Vec::len).collect::<Vec<_>>());
            return Err(Error::value("shown", format!("bytes of {sizes:?}"), got).into());
        }
        let answers = py.detach(|| context.query(game, tid, Box::new(Shown(shown))))?;
        let found = PyDict::new(py);
        for (key, bytes) in answers {
            found.set_item(key, PyBytes::new(py, &bytes))?;
        }
        Ok(found)
    }

    fn fail(&self, text: String) -> PyResult<()> {
        self.context()?.fail(Error::State(text));
        Ok(())
    }
}

/// No move was begun, and none ended.
fn forget(progress: &Bound<'_, PyList>) -> PyResult<()> {
    progress.set_item(0, 0)?;
    progress.set_item(1, 0)
}

fn clone(
    py: Python<'_>,
    (dtype, shape): &(Py<PyArrayDescr>, Vec<usize>),
) -> (Py<PyArrayDescr>, Vec<usize>) {
    (dtype.clone_ref(py), shape.clone())
}
