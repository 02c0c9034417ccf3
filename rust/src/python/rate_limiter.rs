//! `cogrs.RateLimiter`: options, and what they say about counts that Python gives.

use numpy::PyUntypedArray;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::python::args::{integer, number, wrong_type};
use crate::replay::rate_limiter::{ErrorBuffer, LimiterCounts, RateLimiter as Limiter, Ratio};

#[doc = stub_doc!(RateLimiter)]
#[pyclass(frozen, eq, module = "cogrs")]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimiter(pub(super) Limiter);

impl RateLimiter {
    fn ratio(&self) -> Option<&Ratio> {
        self.0.ratio()
    }
}

fn error_buffer(value: &Bound<'_, PyAny>) -> PyResult<ErrorBuffer> {
    const NAME: &str = "error_buffer";
    let wrong = || wrong_type(NAME, "a number or a pair (low, high)", value);
    match number(NAME, value) {
        Ok(number) => return Ok(ErrorBuffer::Around(number)),
        Err(error) if !error.is_instance_of::<PyTypeError>(value.py()) => return Err(error),
        Err(_) => {}
    }
    // Not of any other iterable: a set has no order, and bytes are no numbers.
    let is_pair = value.is_instance_of::<PyTuple>()
        || value.is_instance_of::<PyList>()
        || value.cast::<PyUntypedArray>().is_ok();
    if !is_pair {
        return Err(wrong());
    }
    let items: Vec<_> = value.try_iter().map_err(|_| wrong())?.take(3).collect::<PyResult<_>>()?;
    let [low, high] = &items[..] else { return Err(wrong()) };
    Ok(ErrorBuffer::Between(number("error_buffer[0]", low)?, number("error_buffer[1]", high)?))
}

/// The argument `limiter`; `TypeError` when it is not a `RateLimiter`.
pub(super) fn rate_limiter(value: &Bound<'_, PyAny>) -> PyResult<Limiter> {
    match value.cast::<RateLimiter>() {
        Ok(limiter) => Ok(limiter.get().0),
        Err(_) => Err(wrong_type("limiter", "a cogrs.RateLimiter or None", value)),
    }
}

/// The rate limiter of a loaded memory.
#[derive(Debug, Clone, Copy)]
pub enum LimiterOfFile {
    /// That of the file.
    File,
    /// That of an argument.
    Given(Option<Limiter>),
}

/// The argument `limiter` of `load`, for `from_py_with`.
pub(super) fn limiter_of_file(value: &Bound<'_, PyAny>) -> PyResult<LimiterOfFile> {
    if value.is_none() {
        return Ok(LimiterOfFile::Given(None));
    }
    if value.extract::<&str>().is_ok_and(|text| text == "file") {
        return Ok(LimiterOfFile::File);
    }
    match value.cast::<RateLimiter>() {
        Ok(limiter) => Ok(LimiterOfFile::Given(Some(limiter.get().0))),
        Err(_) => Err(wrong_type("limiter", "a cogrs.RateLimiter, None or 'file'", value)),
    }
}

fn counts(
    inserts: &Bound<'_, PyAny>,
    samples: &Bound<'_, PyAny>,
    removed: &Bound<'_, PyAny>,
) -> PyResult<LimiterCounts> {
    Ok(LimiterCounts {
        inserts: integer("inserts", inserts, 0)?,
        samples: integer("samples", samples, 0)?,
        removed: integer("removed", removed, 0)?,
    })
}

#[pymethods]
impl RateLimiter {
    #[new]
    fn new(
        samples_per_insert: &Bound<'_, PyAny>,
        min_size: &Bound<'_, PyAny>,
        error_buffer: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let samples_per_insert = number("samples_per_insert", samples_per_insert)?;
        let min_size = integer("min_size", min_size, 1)?;
        let error_buffer = self::error_buffer(error_buffer)?;
        Ok(Self(Limiter::new(samples_per_insert, min_size, error_buffer)?))
    }

    #[doc = stub_doc!(RateLimiter.min_size)]
    #[staticmethod]
    #[pyo3(name = "min_size")]
    fn of_min_size(m: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(Limiter::min_size(integer("min_size", m, 1)?)?))
    }

    #[doc = stub_doc!(RateLimiter.queue)]
    #[staticmethod]
    fn queue(size: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(Limiter::queue(integer("size", size, 1)?)?))
    }

    #[doc = stub_doc!(RateLimiter.samples_per_insert)]
    #[getter]
    fn samples_per_insert(&self) -> Option<f64> {
        self.ratio().map(|ratio| ratio.samples_per_insert)
    }

    #[doc = stub_doc!(RateLimiter.min_size_to_sample)]
    #[getter]
    fn min_size_to_sample(&self) -> u64 {
        self.0.min_size_to_sample()
    }

    #[doc = stub_doc!(RateLimiter.low)]
    #[getter]
    fn low(&self) -> Option<f64> {
        self.ratio().map(|ratio| ratio.low)
    }

    #[doc = stub_doc!(RateLimiter.high)]
    #[getter]
    fn high(&self) -> Option<f64> {
        self.ratio().map(|ratio| ratio.high)
    }

    #[doc = stub_doc!(RateLimiter.largest_batch)]
    #[getter]
    fn largest_batch(&self) -> Option<u64> {
        self.0.largest_batch()
    }

    #[doc = stub_doc!(RateLimiter._check_batch)]
    #[pyo3(signature = (n, name="batch_size"))]
    fn _check_batch(&self, n: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
        Ok(self.0.check_batch(name, integer("n", n, 1)?)?)
    }

    #[doc = stub_doc!(RateLimiter._sample_shortage)]
    fn _sample_shortage(
        &self,
        n: &Bound<'_, PyAny>,
        inserts: &Bound<'_, PyAny>,
        samples: &Bound<'_, PyAny>,
        removed: &Bound<'_, PyAny>,
    ) -> PyResult<Option<String>> {
        let n = integer("n", n, 1)?;
        Ok(self.0.sample_shortage(n, &counts(inserts, samples, removed)?))
    }

    #[doc = stub_doc!(RateLimiter._insert_shortage)]
    fn _insert_shortage(
        &self,
        inserts: &Bound<'_, PyAny>,
        samples: &Bound<'_, PyAny>,
        removed: &Bound<'_, PyAny>,
    ) -> PyResult<Option<String>> {
        Ok(self.0.insert_shortage(&counts(inserts, samples, removed)?))
    }

    #[doc = stub_doc!(RateLimiter._inserts_left)]
    fn _inserts_left(
        &self,
        inserts: &Bound<'_, PyAny>,
        samples: &Bound<'_, PyAny>,
        removed: &Bound<'_, PyAny>,
    ) -> PyResult<Option<u64>> {
        Ok(self.0.inserts_left(&counts(inserts, samples, removed)?))
    }

    fn __hash__(&self) -> u64 {
        // -0.0 equals 0.0.
        let bits = |number: f64| (number + 0.0).to_bits();
        let ratio = self
            .ratio()
            .map(|ratio| [bits(ratio.samples_per_insert), bits(ratio.low), bits(ratio.high)]);
        let of = (self.0.min_size_to_sample(), self.0.is_queue(), ratio);
        std::hash::BuildHasher::hash_one(&foldhash::fast::FixedState::default(), of)
    }

    pub(super) fn __repr__(&self) -> String {
        self.0.to_string()
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (class, limiter) = (slf.get_type(), slf.get());
        let py = slf.py();
        let min_size = limiter.0.min_size_to_sample();
        Ok(match limiter.ratio() {
            None => (class.getattr("min_size")?, (min_size,).into_pyobject(py)?),
            Some(ratio) if limiter.0.is_queue() => {
                (class.getattr("queue")?, (ratio.high as u64,).into_pyobject(py)?)
            }
            Some(ratio) => {
                let bounds = (ratio.low, ratio.high);
                (class.into_any(), (ratio.samples_per_insert, min_size, bounds).into_pyobject(py)?)
            }
        })
    }
}
