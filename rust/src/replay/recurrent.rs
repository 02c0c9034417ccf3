//! Recurrent states of the policy, stored before every `period`-th step of an episode but the first.
//!
//! Before the first step it is the template's value, which is stored once. So an episode of E entries has
//! `(E - 1) / period` rows, and all episodes together have at most a row per `period` slots.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::replay::mapped_array::MappedArray;
use crate::spec::{FieldSpec, MAX_DIMS, shape_text};

/// The recurrent state that a memory stores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecurrentSpec {
    /// Its dtype and shape.
    pub field: FieldSpec,
    /// The bytes that it has before the first step of an episode.
    pub initial: Vec<u8>,
    /// Steps from one stored state to the next; at least 1.
    pub period: usize,
}

impl RecurrentSpec {
    /// Checks the field. Fails with [`Error::Type`] for a dtype without a size.
    pub fn new(field: FieldSpec, initial: Vec<u8>, period: usize) -> Result<Self> {
        if field.itemsize == 0 || field.shape.len() > MAX_DIMS {
            let got = format!("{} {}", field.dtype, shape_text(&field.shape));
            let expected = format!("a dtype of fixed size and at most {MAX_DIMS} dimensions");
            return Err(Error::kind("recurrent", expected, got));
        }
        Ok(Self { field, initial, period })
    }

    /// Whether field, bytes and period fit together.
    pub(super) fn is_valid(&self) -> bool {
        let Self { field, initial, period } = self;
        *period > 0
            && field.itemsize > 0
            && field.shape.len() <= MAX_DIMS
            && field.checked_nbytes() == Some(initial.len())
    }

    /// The states that are stored of an episode of so many actions.
    pub(super) fn states_of(&self, actions: usize) -> usize {
        actions.saturating_sub(1) / self.period
    }

    /// Bytes that states and their bookkeeping take beside `max_step` entries, at most.
    pub fn nbytes(&self, max_step: usize) -> u128 {
        // A row, its place among the free ones, and in a list of rows that may have doubled; a list per episode.
        let row = self.initial.len() + 3 * size_of::<u32>();
        let rows = row as u128 * (max_step / self.period) as u128;
        rows + max_step as u128 * size_of::<Vec<u32>>() as u128 + self.initial.len() as u128
    }
}

/// The stored recurrent states.
#[derive(Debug)]
pub(super) struct RecurrentStates {
    pub spec: RecurrentSpec,
    rows: MappedArray<u8>,
    free: Vec<u32>,
    /// Rows that have been used, from the first on.
    used: u32,
    /// The rows of each episode by its index, in the order of its steps.
    of_episode: Vec<Vec<u32>>,
}

impl RecurrentStates {
    pub fn new(spec: RecurrentSpec, max_step: usize) -> Result<Self> {
        let rows = MappedArray::new((max_step / spec.period).saturating_mul(spec.initial.len()))?;
        Ok(Self { spec, rows, free: Vec::new(), used: 0, of_episode: Vec::new() })
    }

    /// The steps among `count` from `first` on that have a state of their own.
    fn stored_steps(&self, first: usize, count: usize) -> impl Iterator<Item = usize> + use<> {
        let period = self.spec.period;
        let multiples = first.max(1).div_ceil(period)..(first + count).div_ceil(period);
        multiples.map(move |multiple| multiple * period)
    }

    /// Checks the states that come with `count` entries from step `first` on. Fails with [`Error::Value`] when one that
    /// is needed is missing.
    pub fn check(&self, states: Option<&[u8]>, first: usize, count: usize) -> Result<()> {
        if states.is_some() {
            return Ok(());
        }
        let Some(step) = self.stored_steps(first, count).next() else { return Ok(()) };
        let expected = format!("the recurrent state before step {step}");
        Err(Error::value("recurrent", expected, "nothing or None"))
    }

    /// Stores the states of `count` entries of an episode, from step `first` on; there is room.
    pub fn write(&mut self, index: u32, states: &[u8], first: usize, count: usize) {
        let size = self.spec.initial.len();
        for step in self.stored_steps(first, count) {
            let row = self.add_row(index);
            let from = (step - first) * size;
            self.rows[row * size..][..size].copy_from_slice(&states[from..][..size]);
        }
    }

    fn add_row(&mut self, index: u32) -> usize {
        let row = self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        });
        let index = index as usize;
        if self.of_episode.len() <= index {
            self.of_episode.resize_with(index + 1, Vec::new);
        }
        self.of_episode[index].push(row);
        row as usize
    }

    /// Adds rows for an episode of so many actions, whose bytes the caller writes, and returns them.
    pub fn restore(&mut self, index: u32, actions: usize) -> Vec<u32> {
        (0..self.spec.states_of(actions)).map(|_| self.add_row(index) as u32).collect()
    }

    /// Drops the states of an episode.
    pub fn forget(&mut self, index: u32) {
        if let Some(rows) = self.of_episode.get_mut(index as usize) {
            self.free.append(&mut std::mem::take(rows));
        }
    }

    /// The state before a step of an episode; the step is a multiple of the period.
    pub fn before(&self, index: u32, step: usize) -> &[u8] {
        match step / self.spec.period {
            0 => &self.spec.initial,
            at => self.row(self.of_episode[index as usize][at - 1]),
        }
    }

    fn row(&self, row: u32) -> &[u8] {
        let size = self.spec.initial.len();
        &self.rows[row as usize * size..][..size]
    }

    /// The bytes of all states of an episode, in order.
    pub fn of_episode(&self, index: u32) -> impl Iterator<Item = &[u8]> {
        let rows = self.of_episode.get(index as usize);
        rows.into_iter().flatten().map(|&row| self.row(row))
    }

    /// The bytes of a row, to be written.
    pub fn row_mut(&mut self, row: u32) -> &mut [u8] {
        let size = self.spec.initial.len();
        &mut self.rows[row as usize * size..][..size]
    }
}
