//! `SampleColumns`: samples that an orchestrator serialized, as buffers of Arrow.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::store::payload::Form;
use crate::store::sample_columns::{Actor, SampleColumns as Columns};

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
    #[pyo3(signature = (trial_id, actors, parse))]
    fn new(trial_id: String, actors: Vec<(String, String, bool)>, parse: Py<PyAny>) -> Self {
        let actor = |(name, class, person)| Actor { name, class, person };
        let actors = actors.into_iter().map(actor).collect();
        Self { columns: Columns::new(trial_id, actors), parse }
    }

    #[doc = stub_doc!(SampleColumns.add)]
    fn add(&mut self, py: Python<'_>, sample: &[u8]) -> PyResult<()> {
        let Self { columns, parse } = self;
        columns.add(sample, &mut |content: &[u8]| {
            let parsed: Parsed<'_> =
                parse.bind(py).call1((PyBytes::new(py, content),))?.extract()?;
            let (kind, shape, terminated, truncated, head, data) = parsed;
            let head = head.as_bytes().to_vec();
            let form = Form { kind, shape, terminated, truncated, head };
            PyResult::Ok((form, data.as_bytes().to_vec()))
        })
    }

    #[doc = stub_doc!(SampleColumns.take)]
    fn take<'py>(&mut self, py: Python<'py>) -> (usize, Vec<Option<Bound<'py, PyBytes>>>) {
        let rows = self.columns.rows;
        let bytes = |buffer: Option<Vec<u8>>| buffer.map(|bytes| PyBytes::new(py, &bytes));
        (rows, self.columns.take().into_iter().map(bytes).collect())
    }

    #[doc = stub_doc!(SampleColumns.summary)]
    fn summary(&self) -> (i64, Vec<f64>, bool, &str, &str, u64, u64) {
        let told = &self.columns.summary;
        let times = (told.first_timestamp, told.last_timestamp);
        let returns = told.returns.clone();
        (told.ticks, returns, told.people, &told.user, &told.end_reason, times.0, times.1)
    }

    #[doc = stub_doc!(SampleColumns.rows)]
    #[getter]
    fn rows(&self) -> usize {
        self.columns.rows
    }

    #[doc = stub_doc!(SampleColumns.size)]
    #[getter]
    fn size(&self) -> usize {
        self.columns.size
    }
}
