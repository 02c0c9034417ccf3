//! `SampleColumns`: samples that an orchestrator serialized, as a Parquet file.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::store::payload::Form;
use crate::store::sample_columns::{Actor, Limits, SampleColumns as Columns};

#[doc = stub_doc!(SampleColumns)]
#[pyclass(module = "cogrs._core")]
#[derive(Debug)]
pub struct SampleColumns {
    columns: Columns,
    parse: Py<PyAny>,
}

/// What `parse` returns: kind, shape, whether terminated, truncated, head, data.
type Parsed<'py> = (String, Vec<u64>, bool, bool, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

#[pymethods]
impl SampleColumns {
    #[new]
    #[pyo3(signature = (trial_id, actors, parse, max_rows, max_bytes))]
    fn new(
        trial_id: String,
        actors: Vec<(String, String, bool)>,
        parse: Py<PyAny>,
        max_rows: usize,
        max_bytes: usize,
    ) -> Self {
        let actor = |(name, class, person)| Actor { name, class, person };
        let actors = actors.into_iter().map(actor).collect();
        let limits = Limits { rows: max_rows, bytes: max_bytes };
        Self { columns: Columns::new(trial_id, actors, limits), parse }
    }

    #[doc = stub_doc!(SampleColumns.add)]
    #[allow(clippy::needless_pass_by_value)]
    fn add<'py>(
        &mut self,
        py: Python<'py>,
        samples: Vec<PyBackedBytes>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let Self { columns, parse } = self;
        let made = py.detach(|| {
            for sample in &samples {
                columns.add(sample, &mut |content| parsed(parse, content))?;
            }
            PyResult::Ok(columns.take())
        })?;
        Ok(PyBytes::new(py, &made))
    }

    #[doc = stub_doc!(SampleColumns.finish)]
    #[allow(clippy::needless_pass_by_value)]
    fn finish<'py>(
        &mut self,
        py: Python<'py>,
        metadata: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let made = py.detach(|| self.columns.finish(&metadata))?;
        Ok(PyBytes::new(py, &made))
    }

    #[doc = stub_doc!(SampleColumns.summary)]
    fn summary(&self) -> (i64, Vec<f64>, bool, &str, &str, u64, u64) {
        let told = &self.columns.summary;
        let times = (told.first_timestamp, told.last_timestamp);
        let returns = told.returns.clone();
        (told.ticks, returns, told.people, &told.user, &told.end_reason, times.0, times.1)
    }
}

/// Has Python take a content apart whose form is new.
fn parsed(parse: &Py<PyAny>, content: &[u8]) -> PyResult<(Form, Vec<u8>)> {
    Python::attach(|py| {
        let parsed: Parsed<'_> = parse.bind(py).call1((PyBytes::new(py, content),))?.extract()?;
        let (kind, shape, terminated, truncated, head, data) = parsed;
        let head = head.as_bytes().to_vec();
        let form = Form { kind, shape, terminated, truncated, head };
        Ok((form, data.as_bytes().to_vec()))
    })
}
