//! The views of a memory: how they are made and drawn from, and how their weights follow those of entries.

use crate::error::{Error, Result};
use crate::replay::closing::returns_of;
use crate::replay::corrections::PriorityKind;
use crate::replay::entry_weight::{mixed_errors, sampling_weights};
use crate::replay::episode::Episode;
use crate::replay::memory::Memory;
use crate::replay::sampler::Sampler;
use crate::replay::sampling_index::SamplingIndex;
use crate::replay::settings::NewPriority;
use crate::replay::sum_tree::leaf;
use crate::replay::transition::Draws;
use crate::replay::view::{View, ViewSettings};
use crate::spec::Field;

impl Memory {
    /// The view of a name.
    pub fn view_of(&self, name: &str) -> Option<&View> {
        self.views.iter().find(|view| view.settings.name == name)
    }

    /// The view of a key; [`Error::State`] when it was closed.
    pub fn view(&self, key: u64) -> Result<&View> {
        self.views.iter().find(|view| view.key == key).ok_or_else(closed)
    }

    /// All views.
    pub fn views(&self) -> &[View] {
        &self.views
    }

    /// Creates a view, in which entries have the weights of their close, and returns its key. Fails with [`Error::Value`] when
    /// there is one of this name, with [`Error::Memory`] when the system refuses the memory. Takes O(`max_step`).
    pub fn add_view(&mut self, settings: ViewSettings) -> Result<u64> {
        settings.check()?;
        if self.view_of(&settings.name).is_some() {
            return Err(Error::value("name", "one that no view has", settings.name));
        }
        let key = self.next_view;
        let mut index = SamplingIndex::new(self.max_step())?;
        index.set_limit(settings.max_times_sampled)?;
        self.views.push(View { key, settings, index, largest: 1.0 });
        self.next_view += 1;
        let at = self.views.len() - 1;
        for position in 0..self.closed.len() {
            let episode = self.closed[position];
            let steps = 0..self.episodes[episode as usize].actions();
            self.weigh_in_view(at, episode, steps);
        }
        Ok(key)
    }

    /// Drops a view; [`Error::State`] when it was dropped before.
    pub fn close_view(&mut self, key: u64) -> Result<()> {
        let at = self.position_of_view(key)?;
        self.views.remove(at);
        Ok(())
    }

    pub(super) fn position_of_view(&self, key: u64) -> Result<usize> {
        self.views.iter().position(|view| view.key == key).ok_or_else(closed)
    }

    /// Draws from a view, as [`Memory::draw_by`] does from the memory; by the view's sampler where that is None.
    pub fn draw_view(&mut self, key: u64, sampler: Option<Sampler>, count: usize) -> Result<Draws> {
        let at = self.position_of_view(key)?;
        let sampler = sampler.unwrap_or(self.views[at].settings.sampler);
        // Out of the memory meanwhile, which reads no view.
        let mut index = std::mem::replace(&mut self.views[at].index, SamplingIndex::none());
        let drawn = self.draw_from(&mut index, sampler, count);
        self.views[at].index = index;
        drawn
    }

    /// Computes or sets weights in a view, as [`Memory::update_priority`] does in the memory.
    pub fn update_view(
        &mut self,
        key: u64,
        ids: &[u64],
        priorities: &[f64],
        kind: PriorityKind,
    ) -> Result<usize> {
        let at = self.position_of_view(key)?;
        let exponent = self.views[at].settings.priority_exponent;
        let update = self.prepare_update(ids, priorities, kind, exponent)?;
        let view = &mut self.views[at];
        let leaves = update.inside.iter().zip(&update.weights).zip(&update.bases);
        let mut leaves: Vec<f32> =
            leaves.map(|((inside, &weight), &base)| leaf(weight, *inside && base > 0.0)).collect();
        view.index.set_many(&update.slots, &mut leaves);
        let drawn = update.inside.iter().zip(&update.slots).zip(&update.bases);
        let drawn = drawn.filter(|((inside, _), _)| **inside);
        // The last weight of an id given twice counts here too.
        let pairs = drawn.map(|((_, &slot), &base)| (base, view.index.weight(slot as usize)));
        let pairs: Vec<_> = pairs.collect();
        view.note_largest(pairs.into_iter());
        Ok(update.gone)
    }

    /// Computes the weights of an episode's entries in `steps` in all views.
    pub(super) fn weigh_in_views(&mut self, index: u32, steps: std::ops::Range<usize>) {
        for at in 0..self.views.len() {
            self.weigh_in_view(at, index, steps.clone());
        }
    }

    fn weigh_in_view(&mut self, at: usize, index: u32, steps: std::ops::Range<usize>) {
        let episode = &self.episodes[index as usize];
        let made = self.weights_of_close(episode, steps.clone(), &self.views[at]);
        let inside = self.interior(episode);
        let pieces: Vec<_> = episode.pieces_of(steps.clone()).collect();
        let view = &mut self.views[at];
        for (slots, part) in pieces {
            let weights = &made[part.start - steps.start..part.end - steps.start];
            let bases = self.weights[slots.clone()].iter().map(|entry| entry.base);
            let drawn = part.clone().zip(bases.clone()).zip(weights);
            let drawn = drawn.filter(|((step, _), _)| inside.contains(step));
            view.note_largest(drawn.map(|((_, base), &weight)| (base, weight)));
            let leaves = slots.clone().zip(part).zip(weights).map(|((slot, step), &weight)| {
                leaf(weight, inside.contains(&step) && self.weights[slot].base > 0.0)
            });
            let leaves: Vec<f32> = leaves.collect();
            view.index.set_run(slots.start, leaves.into_iter());
        }
    }

    /// The weights that a close gives to an episode's entries in `steps` under a view's exponent, of those too large for
    /// float32 the largest number.
    fn weights_of_close(
        &self,
        episode: &Episode,
        steps: std::ops::Range<usize>,
        view: &View,
    ) -> Vec<f32> {
        let base = &self.bases(episode)[steps.clone()];
        let Some(ending) = &episode.ending else { return base.to_vec() };
        let scaled = |factor: f64| {
            base.iter().map(|&base| (f64::from(base) * factor) as f32).map(finite).collect()
        };
        match ending.settings.new_priority {
            NewPriority::Returns if ending.weights => {
                // Not those that are stored, in float32: a close computes errors in float64.
                let rewards = self.floats(episode, Field::Reward);
                let values = self.floats(episode, Field::Value);
                let returns = returns_of(&rewards, &values, episode.actions(), ending);
                let dims = ending.settings.reward_coeff.len();
                let rows = steps.start * dims..steps.end * dims;
                let coeff = &ending.settings.reward_coeff;
                let (returns, values) = (&returns[rows.clone()], &values[rows]);
                let mut errors = mixed_errors(returns, values, coeff, steps.len());
                let (epsilon, exponent) =
                    (ending.settings.priority_epsilon, view.settings.priority_exponent);
                sampling_weights(base.iter().copied(), &mut errors, epsilon, exponent)
                    .map(finite)
                    .collect()
            }
            NewPriority::Returns => base.to_vec(),
            NewPriority::Max => scaled(view.largest),
            NewPriority::Number(number) => scaled(number),
        }
    }
}

fn finite(weight: f32) -> f32 {
    weight.min(f32::MAX)
}

fn closed() -> Error {
    Error::State("this view was closed: ask its memory for it again, by view(name)".into())
}
