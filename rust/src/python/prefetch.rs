//! `ReplayMemory.prefetch`, whose thread is in `cogrs.replay.prefetcher`.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::python::args::{Normalize, normalize, nstep_return};
use crate::python::batch_kind::ImportanceOptions;
use crate::python::exit::call_python;
use crate::python::memory::ReplayMemory;
use crate::python::setting_value;

#[doc = stub_doc!(settings_version)]
#[pyfunction]
pub fn settings_version(memory: &Bound<'_, ReplayMemory>) -> PyResult<u64> {
    let handle = &memory.get().handle;
    handle.check_process()?;
    Ok(handle.settings_version())
}

// The signature is that of the published interface.
#[allow(clippy::too_many_arguments)]
#[pymethods]
impl ReplayMemory {
    #[doc = stub_doc!(ReplayMemory.prefetch)]
    #[pyo3(signature = (batch_size, depth=None, *, wait=None, nstep_return=None, beta=None, normalize=None,
                        sampler=None),
           text_signature = "($self, batch_size, depth=2, *, wait=None, nstep_return=False, beta=None, \
                             normalize='batch', sampler=None)")]
    fn prefetch<'py>(
        memory: &Bound<'py, Self>,
        batch_size: &Bound<'py, PyAny>,
        depth: Option<&Bound<'py, PyAny>>,
        wait: Option<&Bound<'py, PyAny>>,
        nstep_return: Option<&Bound<'py, PyAny>>,
        beta: Option<&Bound<'py, PyAny>>,
        normalize: Option<&Bound<'py, PyAny>>,
        sampler: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // Here, for the thread would raise the errors later.
        check(nstep_return, beta, normalize, sampler)?;
        let py = memory.py();
        let options = PyDict::new(py);
        let given = [
            ("nstep_return", nstep_return),
            ("beta", beta),
            ("normalize", normalize),
            ("sampler", sampler),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                options.set_item(name, value)?;
            }
        }
        let depth = depth.map_or_else(
            || 2_u32.into_pyobject(py).map(Bound::into_any),
            |depth| Ok(depth.clone()),
        )?;
        let arguments = (memory, batch_size, depth, wait, options);
        call_python!(py, "cogrs.replay.prefetcher", "Prefetcher", arguments)
    }
}

fn check(
    nstep: Option<&Bound<'_, PyAny>>,
    beta: Option<&Bound<'_, PyAny>>,
    by: Option<&Bound<'_, PyAny>>,
    sampler: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    nstep.map(nstep_return).transpose()?;
    let by = by.map_or(Ok(Normalize::Batch), normalize)?;
    ImportanceOptions::of(beta, by)?;
    sampler.map(|name| setting_value::sampler("sampler", name)).transpose()?;
    Ok(())
}
