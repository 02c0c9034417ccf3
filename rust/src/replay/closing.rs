//! Closing an episode: returns, weights, and the final state.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result, short};
use crate::replay::column::check_allocatable;
use crate::replay::episode::{Bootstrap, Ending, Episode};
use crate::replay::finite::{all_finite, check_finite, finite_from_zero};
use crate::replay::memory::{Memory, Rows};
use crate::replay::priority::{Worth, mixed_errors, weights};
use crate::replay::returns::lambda_returns;
use crate::spec::Field;

/// How an episode is to be closed.
#[derive(Debug, Clone)]
pub struct Closing<'a> {
    /// Scales the weights of the episode.
    pub multiplier: f64,
    /// Compute qvest; otherwise it is zeros.
    pub values: bool,
    /// Compute weights from |q - v|; otherwise they are the initial weights, scaled.
    pub weights: bool,
    /// Value of the observation after the last action, when the episode was truncated.
    pub bootstrap: Option<Vec<f64>>,
    /// The observation after the last action, to be stored as one more entry.
    pub final_entry: Option<FinalEntry<'a>>,
}

impl Default for Closing<'_> {
    fn default() -> Self {
        Self { multiplier: 1.0, values: true, weights: true, bootstrap: None, final_entry: None }
    }
}

/// The entry of a final state.
#[derive(Debug, Clone, Copy)]
pub struct FinalEntry<'a> {
    /// Its state.
    pub state: &'a [u8],
    /// Its info; zeros when None.
    pub info: Option<&'a [u8]>,
}

/// What an episode's entries are worth. `returns` has shape (T, R), row by row.
pub(super) struct Appraisal {
    pub returns: Vec<f32>,
    pub weights: Vec<f32>,
}

/// A close that was found good.
struct Closed {
    ending: Ending,
    /// Initial weights times the multiplier.
    base: Vec<f32>,
    appraisal: Appraisal,
}

/// Computes returns and weights of an episode's entries, the final state's excepted.
///
/// `length` is the number of entries with the final state, which the borders count. `base` holds the
/// initial weights times the episode's multiplier.
///
/// # Errors
/// [`Error::Value`] when a return or a weight is not finite in float32.
pub(super) fn appraise(
    rewards: &[f32],
    values: &[f32],
    base: &[f32],
    ending: &Ending,
    length: usize,
) -> Result<Appraisal> {
    let settings = &ending.settings;
    let dims = settings.discount_factor.len();
    let mut returns = vec![0.0; base.len() * dims];
    if ending.values {
        let zeros = vec![0.0; dims];
        let bootstrap = ending.bootstrap.as_deref().unwrap_or(&zeros);
        let gamma = &settings.discount_factor;
        lambda_returns(rewards, values, bootstrap, gamma, settings.mix_lambda, &mut returns);
    }
    let mut made = vec![0.0; base.len()];
    let inside = settings.interior(length);
    if ending.weights {
        let rows = inside.start * dims..inside.end * dims;
        let mut errors =
            mixed_errors(&returns[rows.clone()], &values[rows], &settings.reward_coeff);
        let base = base[inside.clone()].iter().copied();
        let weights = weights(base, &mut errors, settings.priority_exponent);
        made[inside].iter_mut().zip(weights).for_each(|(made, weight)| *made = weight);
    } else {
        made[inside.clone()].copy_from_slice(&base[inside]);
    }
    let returns: Vec<f32> = returns.into_iter().map(|q| q as f32).collect();
    let sound = all_finite("qvest", &returns, dims).and_then(|()| all_finite("weight", &made, 1));
    if sound.is_err() {
        // What is made of values that are not finite is not either, in many steps: name the cause.
        check_finite("value", "finite numbers", values, dims, 0)?;
    }
    sound.map(|()| Appraisal { returns, weights: made })
}

impl Memory {
    /// Closes an open episode: makes it one that can be sampled.
    ///
    /// # Errors
    /// [`Error::Value`] when an argument is out of range, or a return or a weight is not finite;
    /// [`Error::State`] when the episode is not open, values are missing, or there is no room for the
    /// final state. The episode stays open and nothing is changed.
    pub fn close(&mut self, serial: u64, closing: &Closing<'_>) -> Result<()> {
        let index = self.open_index(serial)?;
        let episode = &self.episodes[index as usize];
        self.check_appraisable(episode.len())?;
        let rewards = self.floats(episode, Field::Reward);
        let values = self.floats(episode, Field::Value);
        let slots = episode.slots();
        let init_w: Vec<f64> = slots.map(|slot| f64::from(self.worths[slot].base)).collect();
        let closed = self.prepare(&rewards, &values, &init_w, closing)?;
        self.make_room(usize::from(closed.ending.final_state))?;
        self.commit(index, closed, closing);
        Ok(())
    }

    /// Adds a whole closed episode and returns the id of its first entry: all of it, or nothing.
    ///
    /// # Errors
    /// As [`Memory::add`] and [`Memory::close`].
    pub fn add_episode(
        &mut self,
        rows: Rows<'_>,
        init_w: &[f64],
        closing: &Closing<'_>,
    ) -> Result<u64> {
        self.check_rows(rows, init_w, 0)?;
        self.check_appraisable(init_w.len())?;
        let rewards: Vec<f32> =
            bytemuck::allocation::pod_collect_to_vec(rows[Field::Reward.index()]);
        // Among the written fields value comes where qvest, which is not written, has not shifted it.
        let values: Vec<f32> = bytemuck::allocation::pod_collect_to_vec(rows[Field::Value.index()]);
        let closed = self.prepare(&rewards, &values, init_w, closing)?;
        self.make_room(init_w.len() + usize::from(closed.ending.final_state))?;
        let serial = self.open();
        let first = self.add(serial, rows, init_w)?;
        let index = self.open_index(serial)?;
        self.commit(index, closed, closing);
        Ok(first)
    }

    /// Whether there is memory to compute returns and weights of so many entries.
    pub(super) fn check_appraisable(&self, entries: usize) -> Result<()> {
        // Rewards, values and returns in both widths, and a few numbers an entry.
        let row = 24 * self.spec.reward_dims() + 32;
        check_allocatable(entries.saturating_mul(row))
    }

    /// All of a close that can be refused.
    fn prepare(
        &self,
        rewards: &[f32],
        values: &[f32],
        init_w: &[f64],
        closing: &Closing<'_>,
    ) -> Result<Closed> {
        let multiplier = finite_from_zero("episodic_weight_multiplier", closing.multiplier)?;
        self.check_updates(closing)?;
        let ending = Ending {
            settings: Arc::clone(&self.settings),
            values: closing.values,
            weights: closing.weights,
            bootstrap: closing.bootstrap.as_deref().map(Bootstrap::from_slice),
            final_state: closing.final_entry.is_some(),
        };
        let scaled = init_w.iter().map(|&weight| (f64::from(weight as f32) * multiplier) as f32);
        let base: Vec<f32> = scaled.collect();
        let product = "a product with episodic_weight_multiplier that is finite in float32";
        check_finite("init_w", product, &base, 1, 0)?;
        let length = base.len() + usize::from(ending.final_state);
        let appraisal = appraise(rewards, values, &base, &ending, length)?;
        Ok(Closed { ending, base, appraisal })
    }

    /// All of a close that is then done; there is room for the final state.
    fn commit(&mut self, index: u32, closed: Closed, closing: &Closing<'_>) {
        let entries = closed.base.len();
        if let Some(entry) = closing.final_entry {
            self.add_final(index, entry, &closed.ending);
        }
        self.episodes[index as usize].ending = Some(closed.ending);
        self.write_returns(index, 0..entries, &closed.appraisal.returns);
        self.write_weights(index, 0..entries, &closed.base, &closed.appraisal.weights);
        self.finish(index);
    }

    fn check_updates(&self, closing: &Closing<'_>) -> Result<()> {
        if closing.weights && !closing.values {
            return Err(Error::State(
                "do_update_weight=True needs do_update_value=True: weights are made from returns"
                    .into(),
            ));
        }
        if closing.values && !self.spec.has_values() {
            return Err(Error::State(
                "value_buf or qvest_buf has size 0: close with do_update_value=False and \
                 do_update_weight=False"
                    .into(),
            ));
        }
        for &value in closing.bootstrap.iter().flatten() {
            if !(value as f32).is_finite() {
                return Err(Error::value(
                    "bootstrap_value",
                    "finite float32 numbers",
                    short(value),
                ));
            }
        }
        Ok(())
    }

    /// Appends the entry of the final state: no reward, no weight, and the bootstrap value.
    fn add_final(&mut self, index: u32, entry: FinalEntry<'_>, ending: &Ending) {
        let slot = self.take(index, 1).start as usize;
        for field in Field::ALL {
            self.storage.field_mut(field, slot).fill(0);
        }
        self.storage.field_mut(Field::State, slot).copy_from_slice(entry.state);
        if let Some(info) = entry.info {
            self.storage.field_mut(Field::Info, slot).copy_from_slice(info);
        }
        for (at, &value) in ending.bootstrap.iter().flatten().enumerate() {
            let bytes = (value as f32).to_ne_bytes();
            let at = at * size_of::<f32>()..(at + 1) * size_of::<f32>();
            if let Some(target) = self.storage.field_mut(Field::Value, slot).get_mut(at.clone()) {
                target.copy_from_slice(&bytes);
            }
            if ending.values {
                self.storage.field_mut(Field::Qvest, slot)[at].copy_from_slice(&bytes);
            }
        }
        self.worths[slot] = Worth::default();
    }

    /// One float32 field of an episode's entries.
    pub(super) fn floats(&self, episode: &Episode, field: Field) -> Vec<f32> {
        let mut out = vec![0.0; episode.len() * self.spec[field].elements()];
        self.read(episode, field, bytemuck::cast_slice_mut(&mut out));
        out
    }

    /// Writes returns of the entries in `steps`.
    pub(super) fn write_returns(&mut self, index: u32, steps: Range<usize>, returns: &[f32]) {
        let size = self.spec[Field::Qvest].nbytes();
        let bytes: &[u8] = bytemuck::cast_slice(returns);
        for (run, part) in pieces(&self.episodes[index as usize], steps) {
            let part = part.start * size..part.end * size;
            self.storage.write_run(Field::Qvest, run.start, &bytes[part]);
        }
    }

    /// Writes bases and weights of the entries in `steps`, which lie inside the present borders or have
    /// weight 0.
    pub(super) fn write_weights(
        &mut self,
        index: u32,
        steps: Range<usize>,
        base: &[f32],
        weights: &[f32],
    ) {
        let episode = &self.episodes[index as usize];
        let inside = self.settings.interior(episode.len());
        for (slots, part) in pieces(episode, steps) {
            let made = base[part.clone()].iter().zip(&weights[part.clone()]);
            for (worth, (&base, &weight)) in self.worths[slots.clone()].iter_mut().zip(made) {
                *worth = Worth { base, weight };
            }
            let drawn = part.map(|step| if inside.contains(&step) { weights[step] } else { 0.0 });
            self.tree.set_run(slots.start, drawn);
        }
    }
}

/// The slots of an episode's entries in `steps`, piece by piece, with the steps in each.
fn pieces(episode: &Episode, steps: Range<usize>) -> Vec<(Range<usize>, Range<usize>)> {
    let mut pieces = Vec::with_capacity(episode.extents().len());
    for extent in episode.extents() {
        let first = extent.first as usize;
        let part = steps.start.max(first)..steps.end.min(first + extent.run.len as usize);
        if !part.is_empty() {
            let offset = extent.run.start as usize;
            pieces.push((part.start - first + offset..part.end - first + offset, part));
        }
    }
    pieces
}
