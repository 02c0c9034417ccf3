//! Closing an episode: returns, weights, and the final state.

use std::ops::Range;
use std::sync::Arc;

use crate::available_memory::check_allocatable;
use crate::error::{Error, Result, short};
use crate::replay::entry_weight::{EntryWeight, mixed_errors, sampling_weights};
use crate::replay::episode::{Bootstrap, Ending, Episode};
use crate::replay::finite::{all_finite, check_finite, check_non_negative};
use crate::replay::memory::{EntryRows, Memory};
use crate::replay::returns::lambda_returns;
use crate::replay::settings::NewPriority;
use crate::spec::Field;

/// How an episode is to be closed.
#[derive(Debug, Clone)]
pub struct CloseOptions<'a> {
    /// Scales the weights of the episode.
    pub multiplier: f64,
    /// Compute qvest; otherwise it is zeros.
    pub values: bool,
    /// Compute weights from |q - v|, unless `new_priority` says otherwise; if not, they are the initial
    /// weights, scaled.
    pub weights: bool,
    /// Value of the observation after the last action, when the episode was truncated.
    pub bootstrap: Option<Vec<f64>>,
    /// The observation after the last action, to be stored as one more entry.
    pub final_entry: Option<FinalEntry<'a>>,
}

impl Default for CloseOptions<'_> {
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

/// Returns and weights of an episode's entries. `returns` has shape (T, R), row by row.
pub(super) struct ReturnsAndWeights {
    pub returns: Vec<f32>,
    pub weights: Vec<f32>,
}

/// A close that was found good.
struct PreparedClose {
    ending: Ending,
    /// Initial weights times the multiplier.
    base: Vec<f32>,
    computed: ReturnsAndWeights,
}

/// Computes returns of an episode's entries, the final state's excepted, and weights of those in `steps`.
///
/// `base` holds the initial weights times the episode's multiplier, `largest` is the memory's largest weight
/// as a multiple of those.
///
/// # Errors
/// [`Error::Value`] when a return or a weight is not finite in float32.
pub(super) fn returns_and_weights(
    rewards: &[f32],
    values: &[f32],
    base: &[f32],
    ending: &Ending,
    largest: f64,
    steps: Range<usize>,
) -> Result<ReturnsAndWeights> {
    let settings = &ending.settings;
    let dims = settings.discount_factor.len();
    let mut returns = vec![0.0; base.len() * dims];
    if ending.values {
        let zeros = vec![0.0; dims];
        let bootstrap = ending.bootstrap.as_deref().unwrap_or(&zeros);
        let gamma = &settings.discount_factor;
        lambda_returns(rewards, values, bootstrap, gamma, settings.mix_lambda, &mut returns);
    }
    let base = &base[steps.clone()];
    let weights: Vec<f32> = match settings.new_priority {
        NewPriority::Returns if ending.weights => {
            let rows = steps.start * dims..steps.end * dims;
            let coeff = &settings.reward_coeff;
            let mut errors = mixed_errors(&returns[rows.clone()], &values[rows], coeff);
            let (epsilon, exponent) = (settings.priority_epsilon, settings.priority_exponent);
            sampling_weights(base.iter().copied(), &mut errors, epsilon, exponent).collect()
        }
        NewPriority::Returns => base.to_vec(),
        NewPriority::Max => scaled(base, largest).collect(),
        NewPriority::Number(number) => scaled(base, number).collect(),
    };
    let returns: Vec<f32> = returns.into_iter().map(|q| q as f32).collect();
    let sound = all_finite("qvest", &returns, dims, 0)
        .and_then(|()| all_finite("weight", &weights, 1, steps.start));
    if sound.is_err() {
        // What is made of values that are not finite is not either, in many steps: name the cause.
        check_finite("value", "finite numbers", values, dims, 0)?;
    }
    sound.map(|()| ReturnsAndWeights { returns, weights })
}

fn scaled(base: &[f32], factor: f64) -> impl Iterator<Item = f32> {
    base.iter().map(move |&base| (f64::from(base) * factor) as f32)
}

impl Memory {
    /// Closes an open episode: makes it one that can be sampled.
    ///
    /// # Errors
    /// [`Error::Value`] when an argument is out of range, or a return or a weight is not finite;
    /// [`Error::State`] when the episode is not open, values are missing, or there is no room for the
    /// final state. The episode stays open and nothing is changed.
    pub fn close(&mut self, serial: u64, closing: &CloseOptions<'_>) -> Result<()> {
        let index = self.open_index(serial)?;
        let episode = &self.episodes[index as usize];
        self.check_working_memory(episode.len())?;
        let rewards = self.floats(episode, Field::Reward);
        let values = self.floats(episode, Field::Value);
        let slots = episode.slots();
        let init_w: Vec<f64> = slots.map(|slot| f64::from(self.weights[slot].base)).collect();
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
        rows: EntryRows<'_>,
        init_w: &[f64],
        closing: &CloseOptions<'_>,
    ) -> Result<u64> {
        self.check_rows(rows, init_w, 0)?;
        self.check_working_memory(init_w.len())?;
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
    pub(super) fn check_working_memory(&self, entries: usize) -> Result<()> {
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
        closing: &CloseOptions<'_>,
    ) -> Result<PreparedClose> {
        let multiplier = check_non_negative("episodic_weight_multiplier", closing.multiplier)?;
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
        let computed =
            returns_and_weights(rewards, values, &base, &ending, self.largest, 0..base.len())?;
        Ok(PreparedClose { ending, base, computed })
    }

    /// All of a close that is then done; there is room for the final state.
    fn commit(&mut self, index: u32, closed: PreparedClose, closing: &CloseOptions<'_>) {
        let entries = closed.base.len();
        if let Some(entry) = closing.final_entry {
            self.add_final(index, entry, &closed.ending);
        }
        self.episodes[index as usize].ending = Some(closed.ending);
        self.write_returns(index, 0..entries, &closed.computed.returns);
        self.write_weights(index, 0..entries, &closed.base, &closed.computed.weights);
        self.drawable += self.count_drawable(&self.episodes[index as usize]);
        self.finish(index);
    }

    fn check_updates(&self, closing: &CloseOptions<'_>) -> Result<()> {
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
        self.weights[slot] = EntryWeight::default();
    }

    /// Weighs a loaded episode's entries outside of the borders that it was closed with, which had no
    /// weight in files before version 4.
    pub(super) fn weigh_borders(&mut self, index: u32) {
        let episode = &self.episodes[index as usize];
        let Some(ending) = &episode.ending else { return };
        let settings = Arc::clone(&ending.settings);
        let actions = episode.actions();
        let slots: Vec<usize> = episode.slots().take(actions).collect();
        let base: Vec<f32> = slots.iter().map(|&slot| self.weights[slot].base).collect();
        let mut made = base.clone();
        if ending.weights {
            let returns: Vec<f64> =
                self.floats(episode, Field::Qvest).into_iter().map(f64::from).collect();
            let values = self.floats(episode, Field::Value);
            let mut errors = mixed_errors(&returns, &values, &settings.reward_coeff);
            errors.truncate(actions);
            made = sampling_weights(
                base.iter().copied(),
                &mut errors,
                0.0,
                settings.priority_exponent,
            )
            .map(|weight| weight.min(f32::MAX))
            .collect();
        }
        let inside = settings.interior(episode.len(), false);
        for (step, slot) in slots.into_iter().enumerate().filter(|(step, _)| !inside.contains(step))
        {
            self.weights[slot].weight = made[step];
        }
        let weights: Vec<EntryWeight> =
            self.episodes[index as usize].slots().map(|s| self.weights[s]).collect();
        self.note_largest(weights[inside].iter().map(|entry| (&entry.base, &entry.weight)));
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
}

/// The slots of an episode's entries in `steps`, piece by piece, with the steps in each.
pub(super) fn pieces(
    episode: &Episode,
    steps: Range<usize>,
) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    episode.extents().iter().filter_map(move |extent| {
        let first = extent.first as usize;
        let part = steps.start.max(first)..steps.end.min(first + extent.run.len as usize);
        let offset = extent.run.start as usize;
        let slots = || part.start - first + offset..part.end - first + offset;
        (!part.is_empty()).then(|| (slots(), part.clone()))
    })
}
