//! Draws from the model, by each sampler, and evictions, by each remover.

use cogrs::replay::sampler::Sampler;
use cogrs::replay::settings::Remover;

use crate::model::{Entry, Model, Refusal};

/// An entry that can be drawn.
#[derive(Debug, Clone, Copy)]
pub struct Drawable {
    pub id: u64,
    pub weight: f32,
    pub times: u32,
}

impl Model {
    /// Whether an entry has been drawn as often as the limit allows.
    pub fn is_used_up(&self, entry: &Entry) -> bool {
        let limit = self.settings.max_times_sampled;
        limit > 0 && entry.times >= limit
    }

    /// The entries that can be drawn whatever their weights are, in the order of closing, then of steps.
    pub fn drawables(&self) -> Vec<Drawable> {
        let mut found = Vec::new();
        for episode in &self.closed {
            for (id, (step, entry)) in (episode.first_id..).zip(episode.entries.iter().enumerate())
            {
                let inside = episode.inside(step, &self.settings);
                if inside && entry.base > 0.0 && !self.is_used_up(entry) {
                    found.push(Drawable { id, weight: entry.weight, times: entry.times });
                }
            }
        }
        found
    }

    /// Whether a batch can be drawn.
    pub fn can_draw(&self, sampler: Sampler, count: usize) -> Result<(), Refusal> {
        let mut drawables = self.drawables();
        if sampler.is_weighted() {
            drawables.retain(|entry| entry.weight > 0.0);
        }
        let limit = self.settings.max_times_sampled as usize;
        let most = match sampler.is_ordered() {
            true => drawables.len(),
            false if limit > 0 => drawables.iter().map(|entry| limit - entry.times as usize).sum(),
            false => usize::MAX,
        };
        if drawables.is_empty() || most < count { Err(Refusal::State) } else { Ok(()) }
    }

    /// The ids that a sampler without chance gives.
    pub fn ordered(&self, sampler: Sampler, count: usize) -> Option<Vec<u64>> {
        let mut drawables = self.drawables();
        // Sorts that keep the order of equal ones.
        match sampler {
            Sampler::Fifo => {}
            Sampler::Lifo => drawables.reverse(),
            Sampler::Highest => drawables.sort_by(|one, two| two.weight.total_cmp(&one.weight)),
            Sampler::Lowest => drawables.sort_by(|one, two| one.weight.total_cmp(&two.weight)),
            _ => return None,
        }
        Some(drawables.iter().take(count).map(|entry| entry.id).collect())
    }

    /// Whether each of these ids lies in its stratum: one of equal parts of the sum of weights, oldest first.
    pub fn are_stratified(&self, ids: &[u64]) -> bool {
        let drawables = self.drawables();
        let total: f64 = drawables.iter().map(|entry| f64::from(entry.weight)).sum();
        let (part, slack) = (total / ids.len() as f64, total * 1e-9);
        ids.iter().enumerate().all(|(stratum, id)| {
            let before = drawables.iter().take_while(|entry| entry.id != *id);
            let begin: f64 = before.map(|entry| f64::from(entry.weight)).sum();
            let found = drawables.iter().find(|entry| entry.id == *id);
            let end = found.map_or(begin, |entry| begin + f64::from(entry.weight));
            let first = stratum as f64 * part;
            begin <= first + part + slack && end >= first - slack
        })
    }

    /// Which of the first `count` closed episodes the remover evicts.
    pub fn victim(&self, count: usize) -> usize {
        let mean = |at: &usize| {
            let entries = &self.closed[*at].entries[..self.closed[*at].actions()];
            let sum: f64 = entries.iter().map(|entry| f64::from(entry.weight)).sum();
            sum / entries.len().max(1) as f64
        };
        // Of equals the first one.
        let lowest = |one: usize, two: usize| if mean(&two) < mean(&one) { two } else { one };
        let highest = |one: usize, two: usize| if mean(&two) > mean(&one) { two } else { one };
        match self.settings.remover {
            Remover::Fifo => 0,
            Remover::Lifo => count - 1,
            Remover::Lowest => (0..count).reduce(lowest).unwrap_or(0),
            Remover::Highest => (0..count).reduce(highest).unwrap_or(0),
        }
    }

    /// Counts draws, and returns how often each had been drawn with that one.
    pub fn count(&mut self, ids: &[u64]) -> Vec<u32> {
        let counts = |id: &u64| {
            let episode = self.find_mut(*id)?;
            let step = (id - episode.first_id) as usize;
            episode.entries[step].times += 1;
            Some(episode.entries[step].times)
        };
        ids.iter().filter_map(counts).collect()
    }

    /// Changes the limit of draws. A count above it becomes the limit, and without one all are forgotten.
    pub fn set_limit(&mut self, limit: u32) {
        self.settings.max_times_sampled = limit;
        for entry in self.closed.iter_mut().flat_map(|episode| &mut episode.entries) {
            entry.times = entry.times.min(limit);
        }
    }
}
