//! Drawing transitions and gathering their fields.

use rand::Rng;

use crate::error::{Error, Result};
use crate::replay::column::check_allocatable;
use crate::replay::memory::Memory;
use crate::spec::Field;

/// Bytes that a draw needs for each row, at most.
pub const DRAW: usize = 64;

/// One drawn entry, or its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Index of its episode.
    episode: u32,
    /// Step in the episode.
    step: u32,
    /// Slot of the entry.
    slot: u32,
}

/// Drawn transitions: valid until the memory is changed.
#[derive(Debug, Default)]
pub struct Draws {
    /// Where the action was taken.
    pub prev: Vec<Row>,
    /// `multi_step` steps later.
    pub next: Vec<Row>,
    /// Sampling weight of each prev.
    pub weights: Vec<f32>,
    /// Sum of all weights at the draw.
    pub total: f64,
}

impl Memory {
    /// Draws `count` transitions with replacement, each with probability weight / sum of weights.
    ///
    /// # Errors
    /// [`Error::State`] when nothing can be drawn, with the reason.
    ///
    /// # Complexity
    /// O(count log `max_step`).
    pub fn draw(&mut self, count: usize) -> Result<Draws> {
        self.check_drawable()?;
        check_allocatable(count.saturating_mul(DRAW))?;
        let total = self.weight_sum();
        let targets: Vec<f64> = (0..count).map(|_| unit(&mut self.rng) * total).collect();
        let mut slots = Vec::new();
        self.tree.find(&targets, &mut slots);
        let prev: Vec<Row> = slots.into_iter().map(|slot| self.row(slot)).collect();
        let next = prev.iter().map(|row| self.later(*row)).collect();
        let weights = prev.iter().map(|row| self.tree.get(row.slot as usize)).collect();
        Ok(Draws { prev, next, weights, total })
    }

    /// Whether anything can be drawn.
    ///
    /// # Errors
    /// [`Error::State`] with the reason when nothing can.
    pub fn check_drawable(&self) -> Result<()> {
        if self.num_sampleable() > 0 { Ok(()) } else { Err(Error::State(self.why_nothing())) }
    }

    fn row(&self, slot: u32) -> Row {
        let place = self.places[slot as usize];
        Row { episode: (place >> 32) as u32, step: place as u32, slot }
    }

    fn later(&self, row: Row) -> Row {
        let step = row.step + self.settings.multi_step as u32;
        let slot = self.episodes[row.episode as usize].slot_of(step) as u32;
        Row { step, slot, ..row }
    }

    fn why_nothing(&self) -> String {
        if self.closed.is_empty() {
            return "nothing to sample: no episode has been closed yet".into();
        }
        let (stack, steps) = (self.settings.frame_stack, self.settings.multi_step);
        let longest = self.closed.iter().map(|&at| self.episodes[at as usize].len()).max();
        let needed = stack.saturating_add(steps);
        if longest.unwrap_or(0) < needed {
            return format!(
                "nothing to sample: frame_stack={stack} and multi_step={steps} need an episode of at \
                 least {needed} entries, the longest has {}",
                longest.unwrap_or(0)
            );
        }
        "nothing to sample: all weights are 0. An entry whose value equals its return has weight 0 unless \
         priority_exponent is 0; close_episode(do_update_weight=False) weighs by init_w alone"
            .into()
    }

    /// Copies one field of each row into `out`, one after the other; the state with the
    /// `frame_stack - 1` states before it, oldest first.
    pub fn gather(&self, field: Field, rows: &[Row], out: &mut [u8]) {
        let stack = self.settings.frame_stack;
        let size = self.spec[field].nbytes() * stack;
        if field != Field::State || stack == 1 {
            self.storage.gather(field, rows.iter().map(|row| row.slot as usize), out);
        } else if size > 0 {
            for (row, out) in rows.iter().zip(out.chunks_exact_mut(size)) {
                self.gather_stack(*row, stack, out);
            }
        }
    }

    fn gather_stack(&self, row: Row, stack: usize, out: &mut [u8]) {
        let episode = &self.episodes[row.episode as usize];
        let first = row.step + 1 - stack as u32;
        if episode.extent_of(row.step).first <= first {
            let slot = row.slot as usize + 1 - stack;
            self.storage.read_run(Field::State, slot, stack, out);
            return;
        }
        let slots = (first..=row.step).map(|step| episode.slot_of(step));
        self.storage.gather(Field::State, slots, out);
    }

    /// The ids of rows.
    pub fn ids<'a>(&'a self, rows: &'a [Row]) -> impl Iterator<Item = u64> + 'a {
        rows.iter().map(|row| self.id(self.episodes[row.episode as usize].serial, row.step))
    }

    /// Whether each row is the final state of an episode that terminated.
    pub fn terminated<'a>(&'a self, rows: &'a [Row]) -> impl Iterator<Item = bool> + 'a {
        rows.iter().map(|row| self.episodes[row.episode as usize].terminates_at(row.step))
    }
}

/// A uniform number in [0, 1) with 53 random bits.
pub(super) fn unit(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}
