//! The settable properties of `cogrs.ReplayMemory`: one table. How values are read is in `setting_value.rs`.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::python::memory::ReplayMemory;
use crate::python::setting_value::change;
use crate::replay::settings::{FLAGS, NewPriority, Settings};
use crate::spec::{FIELDS, Field};

impl ReplayMemory {
    fn settings(&self) -> PyResult<Arc<Settings>> {
        self.handle.check_process()?;
        Ok(self.handle.settings())
    }

    fn set(&self, py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.handle.check_process()?;
        let change = change(name, value)?;
        self.handle.change(py, change)
    }
}

/// Properties, each with the name of its setter's function, the type of its value, and how that is read.
macro_rules! settings {
    ($($name:ident, $setter:ident: $type:ty = |$settings:ident| $value:expr;)*) => {
        #[pymethods]
        impl ReplayMemory {$(
            #[doc = stub_doc!(ReplayMemory.$name)]
            #[getter]
            fn $name(&self) -> PyResult<$type> {
                let $settings = self.settings()?;
                Ok($value)
            }

            #[setter]
            fn $setter(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
                self.set(py, stringify!($name), value)
            }
        )*}
    };
}

settings! {
    priority_exponent, set_priority_exponent: f64 = |settings| settings.priority_exponent;
    mix_lambda, set_mix_lambda: f64 = |settings| settings.mix_lambda;
    frame_stack, set_frame_stack: usize = |settings| settings.frame_stack;
    multi_step, set_multi_step: usize = |settings| settings.multi_step;
    cache_size, set_cache_size: usize = |settings| settings.cache_size;
    max_episode, set_max_episode: usize = |settings| settings.max_episode;
    reuse_cache, set_reuse_cache: bool = |settings| settings.reuse_cache;
    discount_factor, set_discount_factor: Vec<f64> = |settings| settings.discount_factor.clone();
    reward_coeff, set_reward_coeff: Vec<f64> = |settings| settings.reward_coeff.clone();
    cache_flags, set_cache_flags: Vec<bool> = |settings| settings.cache_flags.to_vec();
    fields, set_fields: FieldLetters = |settings| FieldLetters::of(settings.cache_flags);
    new_priority, set_new_priority: TextOrNumber = |settings| match settings.new_priority {
        NewPriority::Number(number) => TextOrNumber::Number(number),
        named => TextOrNumber::Text(named.to_string()),
    };
    priority_epsilon, set_priority_epsilon: f64 = |settings| settings.priority_epsilon;
    frame_padding, set_frame_padding: String = |settings| settings.frame_padding.to_string();
    sequence_eta, set_sequence_eta: f64 = |settings| settings.sequence_eta;
    sampler, set_sampler: String = |settings| settings.sampler.to_string();
    max_times_sampled, set_max_times_sampled: u32 = |settings| settings.max_times_sampled;
    remover, set_remover: String = |settings| settings.remover.to_string();
}

#[derive(IntoPyObject)]
enum TextOrNumber {
    Text(String),
    Number(f64),
}

/// The cache flags by names: the letters of the fields of each end.
#[derive(IntoPyObject)]
struct FieldLetters {
    prev: String,
    next: String,
}

impl FieldLetters {
    fn of(flags: [bool; FLAGS]) -> Self {
        let (prev, next) = flags.split_at(FIELDS);
        let letters = |flags: &[bool]| {
            let named = Field::ALL.into_iter().zip(flags).filter(|(_, flag)| **flag);
            named.map(|(field, _)| field.letter()).collect()
        };
        Self { prev: letters(prev), next: letters(next) }
    }
}
