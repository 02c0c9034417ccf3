//! The files of `cogrs.ReplayMemory`: what it saves and loads, and the folder that it keeps large fields in.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::python::args::{allow_overcommit, folder_of, path};
use crate::python::compression::compression_args;
use crate::python::memory::{ReplayMemory, of_fields};
use crate::python::memory_handle::LONG;
use crate::python::rate_limiter::{LimiterOfFile, limiter_of_file};
use crate::python::setting_value;
use crate::python::template::Template;
use crate::replay::checkpoint::{self, CheckpointFile};
use crate::replay::checkpoint_load::LoadOptions;
use crate::replay::disk_use::DiskUse;
use crate::spec::EntrySpec;

impl ReplayMemory {
    /// What lies on disk; None of a memory without a folder.
    pub(super) fn disk_use(&self, py: Python<'_>) -> PyResult<Option<DiskUse>> {
        if self.handle.folder.is_none() {
            return Ok(None);
        }
        self.handle.call(py, 0, |memory| Ok(memory.disk_use()))
    }
}

// The signatures are those of the published interface.
#[allow(clippy::needless_pass_by_value)]
#[pymethods]
impl ReplayMemory {
    #[doc = stub_doc!(ReplayMemory.storage)]
    #[getter]
    fn storage(&self) -> Option<PathBuf> {
        self.handle.folder.clone()
    }

    #[doc = stub_doc!(ReplayMemory.save)]
    fn save(&self, py: Python<'_>, #[pyo3(from_py_with = path)] path: PathBuf) -> PyResult<()> {
        self.handle.call(py, LONG, |memory| checkpoint::save(memory, self.uuid, &path))
    }

    #[doc = stub_doc!(ReplayMemory.load)]
    #[staticmethod]
    #[pyo3(signature = (path, *, allow_overcommit=false, limiter=LimiterOfFile::File, compress=None,
                        max_bytes=None, storage=None),
           text_signature = "(path, *, allow_overcommit=False, limiter='file', compress=None, \
                             max_bytes=None, storage=None)")]
    fn load(
        py: Python<'_>,
        #[pyo3(from_py_with = path)] path: PathBuf,
        #[pyo3(from_py_with = allow_overcommit)] allow_overcommit: bool,
        #[pyo3(from_py_with = limiter_of_file)] limiter: LimiterOfFile,
        compress: Option<&Bound<'_, PyAny>>,
        max_bytes: Option<&Bound<'_, PyAny>>,
        storage: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<Self>> {
        let saved = py.detach(|| CheckpointFile::open(&path))?;
        let templates =
            of_fields(|field| Template::saved(py, field.name(), &saved.fields()[field.index()]))?;
        let uuid = saved.uuid();
        let compression = match compress {
            None if max_bytes.is_none() => None,
            _ => {
                let spec = EntrySpec::new(saved.fields().clone())?;
                Some(compression_args(&spec, compress, max_bytes)?)
            }
        };
        let folder = folder_of(py, storage)?;
        let options = LoadOptions { compression, folder, overcommit: allow_overcommit };
        let mut memory = py.detach(|| saved.load(options))?;
        if let LimiterOfFile::Given(limiter) = limiter {
            memory.set_limiter(limiter)?;
        }
        let states = memory.recurrent_spec();
        let recurrent = states.map(|states| Template::saved(py, "recurrent", &states.field));
        Py::new(py, Self::assemble(memory, templates, recurrent.transpose()?, uuid))
    }

    #[doc = stub_doc!(ReplayMemory.restore)]
    #[pyo3(signature = (path, settings=None, *, allow_overcommit=false))]
    fn restore(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = path)] path: PathBuf,
        settings: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = allow_overcommit)] allow_overcommit: bool,
    ) -> PyResult<()> {
        let settings = setting_value::settings_of(settings)?;
        self.handle.check_process()?;
        let saved = py.detach(|| CheckpointFile::open(&path))?;
        self.handle.check_file(&saved, settings)?;
        self.handle.replace(py, |memory| memory.restore_from(saved, settings, allow_overcommit))
    }
}
