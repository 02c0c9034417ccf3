//! Closing an episode: returns, weights, and the final state.

use std::ops::Range;
use std::sync::Arc;

use crate::available_memory::check_allocatable;
use crate::error::{Error, Result, short};
use crate::replay::compression::{EncodedRows, FrameStates};
use crate::replay::entry_weight::{EntryWeight, mixed_errors, sampling_weights};
use crate::replay::episode::{Bootstrap, Ending, Episode};
use crate::replay::finite::{check_finite, check_finite_from_end, check_non_negative};
use crate::replay::memory::{EntryRows, Memory};
use crate::replay::returns::lambda_returns;
use crate::replay::settings::NewPriority;
use crate::spec::Field;

/// How an episode is to be closed.
#[derive(Debug, Clone)]
pub struct CloseOptions<'a> {
    /// Factor of all weights of the episode.
    pub multiplier: f64,
    /// Compute qvest; otherwise it is zeros.
    pub values: bool,
    /// Compute weights from |q - v|, unless `new_priority` says otherwise; if false, the scaled initial weights.
    pub weights: bool,
    /// Value of the observation after the last action, when the episode was truncated.
    pub bootstrap: Option<Vec<f64>>,
    /// The observation after the last action, stored as one more entry.
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

/// A close whose arguments and results have been checked.
struct PreparedClose {
    ending: Ending,
    /// Initial weights times the multiplier.
    base: Vec<f32>,
    computed: ReturnsAndWeights,
}

/// Computes returns of an episode's entries, the final state's excepted, and weights of those in `steps`. Fails with
/// [`Error::Value`] when one of these is not finite in float32.
///
/// `base` has the initial weights times the episode's multiplier, `largest` is the memory's largest weight as a multiple of
/// those.
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
    let returns = returns_of(rewards, values, base.len(), ending);
    let base = &base[steps.clone()];
    let weights: Vec<f32> = match settings.new_priority {
        NewPriority::Returns if ending.weights => {
            let rows = steps.start * dims..steps.end * dims;
            let coeff = &settings.reward_coeff;
            let (returns, values) = (&returns[rows.clone()], &values[rows]);
            let mut errors = mixed_errors(returns, values, coeff, steps.len());
            let (epsilon, exponent) = (settings.priority_epsilon, settings.priority_exponent);
            sampling_weights(base.iter().copied(), &mut errors, epsilon, exponent).collect()
        }
        NewPriority::Returns => base.to_vec(),
        // The largest weight of entries with another initial weight can exceed float32 times this one.
        NewPriority::Max => scaled(base, largest).map(|weight| weight.min(f32::MAX)).collect(),
        NewPriority::Number(number) => scaled(base, number).collect(),
    };
    let returns: Vec<f32> = returns.into_iter().map(|q| q as f32).collect();
    let finite = check_finite_from_end("qvest", &returns, dims, 0)
        .and_then(|()| check_finite_from_end("weight", &weights, 1, steps.start));
    if finite.is_err() {
        // One value that is not finite makes many returns infinite or NaN: name the cause.
        check_finite("value", "finite numbers", values, dims, 0)?;
    }
    finite.map(|()| ReturnsAndWeights { returns, weights })
}

/// The returns of so many entries with an action; zeros where the episode was closed without.
pub(super) fn returns_of(
    rewards: &[f32],
    values: &[f32],
    entries: usize,
    ending: &Ending,
) -> Vec<f64> {
    let settings = &ending.settings;
    let dims = settings.discount_factor.len();
    let mut returns = vec![0.0; entries * dims];
    if ending.values {
        let zeros = vec![0.0; dims];
        let bootstrap = ending.bootstrap.as_deref().unwrap_or(&zeros);
        let gamma = &settings.discount_factor;
        lambda_returns(rewards, values, bootstrap, gamma, settings.mix_lambda, &mut returns);
    }
    returns
}

fn scaled(base: &[f32], factor: f64) -> impl Iterator<Item = f32> {
    base.iter().map(move |&base| (f64::from(base) * factor) as f32)
}

impl Memory {
    /// Closes an open episode, so that it can be sampled. Changes nothing and fails with [`Error::Value`] when an argument
    /// is out of range, or a return or a weight is not finite; with [`Error::State`] when the episode is not open, values
    /// are missing, or there is no room for the final state.
    pub fn close(&mut self, serial: u64, options: &CloseOptions<'_>) -> Result<()> {
        let (index, prepared) = self.prepare_close(serial, options)?;
        self.make_room(usize::from(prepared.ending.final_state))?;
        self.commit(index, prepared, options);
        Ok(())
    }

    /// The entries of an open episode. Fails with [`Error::State`] when it is not open.
    pub fn open_len(&self, serial: u64) -> Result<usize> {
        Ok(self.episodes[self.open_index(serial)? as usize].len())
    }

    /// Fails as [`Memory::close`] would, and changes nothing.
    pub fn check_close(&self, serial: u64, options: &CloseOptions<'_>) -> Result<()> {
        let (_, prepared) = self.prepare_close(serial, options)?;
        self.check_room(usize::from(prepared.ending.final_state))
    }

    fn prepare_close(
        &self,
        serial: u64,
        options: &CloseOptions<'_>,
    ) -> Result<(u32, PreparedClose)> {
        let index = self.open_index(serial)?;
        let episode = &self.episodes[index as usize];
        self.check_working_memory(episode.len())?;
        let rewards = self.floats(episode, Field::Reward);
        let values = self.floats(episode, Field::Value);
        let init_w: Vec<f64> = self.bases(episode).into_iter().map(f64::from).collect();
        Ok((index, self.prepare(&rewards, &values, &init_w, options)?))
    }

    /// Adds a whole closed episode, or nothing, and returns the id of its first entry. Fails as [`Memory::add`] and
    /// [`Memory::close`] do.
    pub fn add_episode(
        &mut self,
        rows: EntryRows<'_>,
        init_w: &[f64],
        options: &CloseOptions<'_>,
    ) -> Result<u64> {
        self.add_episode_with(rows, None, init_w, options)
    }

    /// Adds a closed episode with the recurrent states before its entries. Fails as [`Memory::add_with`] and
    /// [`Memory::close`] do.
    pub fn add_episode_with(
        &mut self,
        rows: EntryRows<'_>,
        recurrent: Option<&[u8]>,
        init_w: &[f64],
        options: &CloseOptions<'_>,
    ) -> Result<u64> {
        self.add_encoded_episode(rows, None, recurrent, init_w, options)
    }

    /// Adds a closed episode whose compressed fields may have been encoded already. Fails as
    /// [`Memory::add_episode_with`] does.
    pub fn add_encoded_episode(
        &mut self,
        rows: EntryRows<'_>,
        encoded: Option<EncodedRows>,
        recurrent: Option<&[u8]>,
        init_w: &[f64],
        options: &CloseOptions<'_>,
    ) -> Result<u64> {
        let prepared = self.prepare_episode(rows, recurrent, init_w, options)?;
        let compression = self.compression();
        let encoded = compression.map(|compression| {
            encoded.unwrap_or_else(|| compression.encode(&self.spec, rows, FrameStates::default()))
        });
        let last = usize::from(prepared.ending.final_state);
        let bytes = encoded.as_ref().map_or(0, EncodedRows::nbytes) + self.storage.largest(last);
        self.make_room_for(init_w.len() + last, bytes)?;
        let serial = self.open();
        let first = self.add_encoded(serial, rows, encoded, recurrent, init_w)?;
        let index = self.open_index(serial)?;
        self.commit(index, prepared, options);
        Ok(first)
    }

    /// Fails as [`Memory::add_episode`] would, and changes nothing.
    pub fn check_episode(
        &self,
        rows: EntryRows<'_>,
        recurrent: Option<&[u8]>,
        init_w: &[f64],
        options: &CloseOptions<'_>,
    ) -> Result<()> {
        let prepared = self.prepare_episode(rows, recurrent, init_w, options)?;
        self.check_room(init_w.len() + usize::from(prepared.ending.final_state))
    }

    fn prepare_episode(
        &self,
        rows: EntryRows<'_>,
        recurrent: Option<&[u8]>,
        init_w: &[f64],
        options: &CloseOptions<'_>,
    ) -> Result<PreparedClose> {
        self.check_rows(rows, init_w, 0)?;
        self.check_recurrent(recurrent, 0, init_w.len())?;
        self.check_working_memory(init_w.len())?;
        // Among the written fields value comes where qvest, which is not written, has not shifted it.
        let [rewards, values] = [Field::Reward, Field::Value]
            .map(|field| bytemuck::allocation::pod_collect_to_vec::<u8, f32>(rows[field.index()]));
        self.prepare(&rewards, &values, init_w, options)
    }

    /// Fails if too little memory is available to compute returns and weights of so many entries.
    pub(super) fn check_working_memory(&self, entries: usize) -> Result<()> {
        // Rewards, values and returns in both widths, and a few numbers per entry.
        let row = 24 * self.spec.reward_dims() + 32;
        check_allocatable(entries.saturating_mul(row))
    }

    /// The checks and computations of a close, which can fail.
    fn prepare(
        &self,
        rewards: &[f32],
        values: &[f32],
        init_w: &[f64],
        options: &CloseOptions<'_>,
    ) -> Result<PreparedClose> {
        let multiplier = check_non_negative("episodic_weight_multiplier", options.multiplier)?;
        self.check_options(options)?;
        let ending = Ending {
            settings: Arc::clone(&self.settings),
            values: options.values,
            weights: options.weights,
            bootstrap: options.bootstrap.as_deref().map(Bootstrap::from_slice),
            final_state: options.final_entry.is_some(),
        };
        let scaled = init_w.iter().map(|&weight| (f64::from(weight as f32) * multiplier) as f32);
        let base: Vec<f32> = scaled.collect();
        let product = "numbers whose product with episodic_weight_multiplier is finite in float32";
        check_finite("init_w", product, &base, 1, 0)?;
        let all = 0..base.len();
        let computed = returns_and_weights(rewards, values, &base, &ending, self.largest, all)?;
        Ok(PreparedClose { ending, base, computed })
    }

    /// The changes that a close makes to the memory. The caller has made room for the final state.
    fn commit(&mut self, index: u32, prepared: PreparedClose, options: &CloseOptions<'_>) {
        let PreparedClose { ending, base, computed } = prepared;
        if let Some(entry) = options.final_entry {
            self.add_final(index, entry, &ending);
        }
        self.episodes[index as usize].ending = Some(ending);
        self.write_returns(index, 0..base.len(), &computed.returns);
        self.write_weights(index, 0..base.len(), &base, &computed.weights);
        self.finish(index);
    }

    fn check_options(&self, options: &CloseOptions<'_>) -> Result<()> {
        let refused = |text: &str| Err(Error::State(text.into()));
        if options.weights && !options.values {
            return refused(
                "do_update_weight=True needs do_update_value=True: weights are computed from returns",
            );
        }
        if options.values && !self.spec.has_values() {
            return refused(
                "value_buf or qvest_buf has size 0: close with do_update_value=False and \
                 do_update_weight=False",
            );
        }
        let mut values = options.bootstrap.iter().flatten();
        values.find(|&&value| !(value as f32).is_finite()).map_or(Ok(()), |&value| {
            Err(Error::value("bootstrap_value", "finite float32 numbers", short(value)))
        })
    }

    /// Appends the entry of the final state: without reward and weight, with the bootstrap value.
    fn add_final(&mut self, index: u32, entry: FinalEntry<'_>, ending: &Ending) {
        let slot = self.take(index, 1).start as usize;
        for field in Field::ALL {
            self.storage.field_mut(field, slot).fill(0);
        }
        self.write_value(index, Field::State, slot, entry.state);
        if let Some(info) = entry.info {
            self.write_value(index, Field::Info, slot, info);
        }
        for field in [Field::Action, Field::Info] {
            if self.storage.is_compressed(field)
                && (field, entry.info.is_some()) != (Field::Info, true)
            {
                self.write_value(index, field, slot, &vec![0; self.spec[field].nbytes()]);
            }
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

    /// Computes weights of a loaded episode's entries outside the borders that it was closed with. Files before version 4
    /// have none for them.
    pub(super) fn weigh_borders(&mut self, index: u32) {
        let episode = &self.episodes[index as usize];
        let Some(ending) = &episode.ending else { return };
        let settings = Arc::clone(&ending.settings);
        let slots: Vec<usize> = episode.slots().collect();
        let base = &self.bases(episode)[..episode.actions()];
        let mut made = base.to_vec();
        if ending.weights {
            let returns: Vec<f64> =
                self.floats(episode, Field::Qvest).into_iter().map(f64::from).collect();
            let values = self.floats(episode, Field::Value);
            let coeff = &settings.reward_coeff;
            let mut errors = mixed_errors(&returns, &values, coeff, episode.len());
            errors.truncate(made.len());
            let exponent = settings.priority_exponent;
            made = sampling_weights(base.iter().copied(), &mut errors, 0.0, exponent)
                .map(|weight| weight.min(f32::MAX))
                .collect();
        }
        let inside = settings.interior(episode.len(), false);
        for (step, weight) in
            made.into_iter().enumerate().filter(|(step, _)| !inside.contains(step))
        {
            self.weights[slots[step]].weight = weight;
        }
        let weights: Vec<_> = slots[inside].iter().map(|&slot| self.weights[slot]).collect();
        self.note_largest(weights.iter().map(|entry| (&entry.base, &entry.weight)));
    }

    pub(super) fn floats(&self, episode: &Episode, field: Field) -> Vec<f32> {
        let mut out = vec![0.0; episode.len() * self.spec[field].elements()];
        self.read(episode, field, bytemuck::cast_slice_mut(&mut out));
        out
    }

    pub(super) fn bases(&self, episode: &Episode) -> Vec<f32> {
        episode.slots().map(|slot| self.weights[slot].base).collect()
    }

    pub(super) fn write_returns(&mut self, index: u32, steps: Range<usize>, returns: &[f32]) {
        let size = self.spec[Field::Qvest].nbytes();
        let bytes: &[u8] = bytemuck::cast_slice(returns);
        for (run, part) in self.episodes[index as usize].pieces_of(steps) {
            let part = part.start * size..part.end * size;
            self.storage.write_run(Field::Qvest, run.start, &bytes[part]);
        }
    }
}
