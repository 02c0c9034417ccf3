//! The frames of journals of trials.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::store::journal_frames;

#[doc = stub_doc!(frames_of_samples)]
#[allow(clippy::needless_pass_by_value)]
#[pyfunction]
#[pyo3(signature = (samples))]
pub fn frames_of_samples(py: Python<'_>, samples: Vec<PyBackedBytes>) -> Bound<'_, PyBytes> {
    let made = py.detach(|| {
        let mut made = vec![];
        for sample in &samples {
            journal_frames::write(&mut made, sample);
        }
        made
    });
    PyBytes::new(py, &made)
}

#[doc = stub_doc!(samples_of_frames)]
#[pyfunction]
#[pyo3(signature = (data))]
pub fn samples_of_frames<'py>(
    py: Python<'py>,
    data: &[u8],
) -> (Vec<Bound<'py, PyBytes>>, usize, bool) {
    let found = py.detach(|| journal_frames::read(data));
    let samples = found.samples.iter().map(|sample| PyBytes::new(py, sample)).collect();
    (samples, found.size, found.damaged)
}
