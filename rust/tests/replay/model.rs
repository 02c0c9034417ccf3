//! The plainest memory of whole episodes: episodes are `Vec`s, searched from end to end.

use std::collections::VecDeque;

use cogrs::replay::corrections::PriorityKind;
use cogrs::replay::settings::{FramePadding, NewPriority, Settings};
use cogrs::spec::Field;

/// Dimensions of the reward.
pub const DIMS: usize = 2;

/// Why a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    State,
    Value,
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub state: Vec<u8>,
    pub action: i64,
    pub reward: [f32; DIMS],
    pub prob: f32,
    pub value: [f32; DIMS],
    pub qvest: [f32; DIMS],
    pub info: i64,
    /// The initial weight; times the episode's multiplier once that is closed.
    pub base: f32,
    /// The weight with which it is drawn inside the borders.
    pub weight: f32,
    /// How often it was drawn under a limit.
    pub times: u32,
}

impl Entry {
    /// An entry whose fields tell it from those of all other numbers.
    pub fn numbered(number: u64, state_size: usize) -> Self {
        let mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let eighth = |shift: u32| ((mixed >> shift) % 64) as f32 / 8.0 - 4.0;
        let bytes = mixed.to_le_bytes();
        Self {
            state: (0..state_size).map(|at| bytes[at % 8] ^ at as u8).collect(),
            action: mixed as i64,
            reward: [eighth(5), eighth(11)],
            prob: eighth(17).abs(),
            value: [eighth(23), eighth(29)],
            qvest: [0.0; DIMS],
            info: -(number as i64) - 1,
            base: [0.0, 0.5, 1.0, 3.0][(mixed >> 60) as usize % 4],
            weight: 0.0,
            times: 0,
        }
    }

    pub fn bytes(&self, field: Field) -> Vec<u8> {
        let floats = |values: &[f32]| values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        match field {
            Field::State => self.state.clone(),
            Field::Action => self.action.to_ne_bytes().into(),
            Field::Reward => floats(&self.reward),
            Field::Prob => floats(&[self.prob]),
            Field::Value => floats(&self.value),
            Field::Qvest => floats(&self.qvest),
            Field::Info => self.info.to_ne_bytes().into(),
        }
    }
}

/// How an episode is to be closed.
#[derive(Debug, Clone)]
pub struct How {
    pub multiplier: f64,
    pub values: bool,
    pub weights: bool,
    pub bootstrap: Option<[f64; DIMS]>,
    /// State and info of the final state, when there is one.
    pub last: Option<(Vec<u8>, Option<i64>)>,
}

#[derive(Debug, Clone)]
pub struct Episode {
    pub serial: u64,
    /// The id of step 0; the others follow.
    pub first_id: u64,
    pub entries: Vec<Entry>,
    /// None while it is open.
    pub ending: Option<(How, Settings)>,
}

impl Episode {
    fn holds(&self, id: u64) -> bool {
        (self.first_id..self.first_id + self.entries.len() as u64).contains(&id)
    }

    /// Whether the entry at `step` is a final state.
    fn is_final(&self, step: usize) -> bool {
        let last = self.ending.as_ref().is_some_and(|(how, _)| how.last.is_some());
        last && step + 1 == self.entries.len()
    }

    pub fn terminates_at(&self, step: usize) -> bool {
        let terminated = self.ending.as_ref().is_some_and(|(how, _)| how.bootstrap.is_none());
        terminated && self.is_final(step)
    }

    /// Entries with an action.
    pub fn actions(&self) -> usize {
        let last = self.ending.as_ref().is_some_and(|(how, _)| how.last.is_some());
        self.entries.len() - usize::from(last)
    }

    /// The step of the next of a transition from `step`, or None where it has none.
    pub fn next(&self, step: usize, multi_step: usize) -> Option<usize> {
        let last = self.entries.len() - 1;
        let after = step.saturating_add(multi_step);
        match self.actions() {
            actions if step >= actions => None,
            actions if actions == last => Some(after.min(last)),
            _ => Some(after).filter(|&after| after <= last),
        }
    }

    /// Whether a stack ends and a transition begins at `step`.
    pub fn inside(&self, step: usize, settings: &Settings) -> bool {
        let padded = settings.frame_padding != FramePadding::None;
        let stacked = padded || step + 1 >= settings.frame_stack;
        stacked && self.next(step, settings.multi_step).is_some()
    }

    /// The discounted rewards from `step` to its next, and the discount of the value there.
    pub fn nstep(&self, step: usize, settings: &Settings, dim: usize) -> (f32, f32) {
        let next = self.next(step, settings.multi_step).unwrap();
        let gamma = settings.discount_factor[dim];
        let rewards = self.entries[step..next].iter().map(|entry| f64::from(entry.reward[dim]));
        let sum: f64 = rewards.enumerate().map(|(k, reward)| gamma.powi(k as i32) * reward).sum();
        let power = gamma.powi((next - step) as i32);
        (sum as f32, if self.terminates_at(next) { 0.0 } else { power as f32 })
    }

    /// This episode with the returns and weights of its ending.
    fn with_returns(&self, largest: f64) -> Result<Self, Refusal> {
        let mut made = self.clone();
        let Some((how, settings)) = &self.ending else { return Ok(made) };
        let mut ahead = how.bootstrap.unwrap_or_default();
        for step in (0..self.actions()).rev() {
            let entry = &mut made.entries[step];
            let mut error = 0.0;
            for (dim, ahead) in ahead.iter_mut().enumerate() {
                let value = f64::from(entry.value[dim]);
                let q = f64::from(entry.reward[dim]) + settings.discount_factor[dim] * *ahead;
                *ahead = settings.mix_lambda * q + (1.0 - settings.mix_lambda) * value;
                error += settings.reward_coeff[dim] * (q - value).abs();
                entry.qvest[dim] = if how.values { q as f32 } else { 0.0 };
            }
            let factor = match settings.new_priority {
                NewPriority::Returns if how.weights => {
                    let error = error.max(0.0) + settings.priority_epsilon;
                    error.powf(settings.priority_exponent)
                }
                NewPriority::Returns => 1.0,
                NewPriority::Max => largest,
                NewPriority::Number(number) => number,
            };
            entry.weight = (f64::from(entry.base) * factor) as f32;
            finite(&entry.qvest)?;
        }
        Ok(made)
    }

    /// This open episode as it is when closed.
    fn closed(&self, how: &How, settings: &Settings, largest: f64) -> Result<Self, Refusal> {
        if !how.multiplier.is_finite() || how.multiplier < 0.0 {
            return Err(Refusal::Value);
        }
        if how.weights && !how.values {
            return Err(Refusal::State);
        }
        let bootstrap = how.bootstrap.map(|values| values.map(|value| value as f32));
        finite(&bootstrap.unwrap_or_default())?;
        let mut made = self.clone();
        for entry in &mut made.entries {
            entry.base = (f64::from(entry.base) * how.multiplier) as f32;
        }
        if let Some((state, info)) = &how.last {
            made.entries.push(Entry {
                state: state.clone(),
                action: 0,
                reward: [0.0; DIMS],
                prob: 0.0,
                value: bootstrap.unwrap_or_default(),
                qvest: bootstrap.filter(|_| how.values).unwrap_or_default(),
                info: info.unwrap_or(0),
                base: 0.0,
                weight: 0.0,
                times: 0,
            });
        }
        made.ending = Some((how.clone(), settings.clone()));
        let made = made.with_returns(largest)?;
        made.entries.iter().try_for_each(|entry| finite(&[entry.base, entry.weight]))?;
        Ok(made)
    }

    /// The steps whose weights change with a late reward at `step`.
    fn reweighed(&self, step: usize, multi_step: usize) -> std::ops::Range<usize> {
        let Some((how, settings)) = &self.ending else { return 0..0 };
        match settings.new_priority {
            NewPriority::Returns if how.weights => 0..step + 1,
            NewPriority::Returns => 0..0,
            _ => (step + 1).saturating_sub(multi_step)..step + 1,
        }
    }
}

fn finite(values: &[f32]) -> Result<(), Refusal> {
    if values.iter().all(|value| value.is_finite()) { Ok(()) } else { Err(Refusal::Value) }
}

/// Whether new entries may be added.
fn sound(entries: &[Entry]) -> Result<(), Refusal> {
    for entry in entries {
        finite(&entry.reward)?;
        finite(&[entry.base])?;
        if entry.base < 0.0 {
            return Err(Refusal::Value);
        }
    }
    Ok(())
}

/// The memory.
#[derive(Debug)]
pub struct Model {
    pub capacity: usize,
    pub settings: Settings,
    pub open: Vec<Episode>,
    pub closed: VecDeque<Episode>,
    /// The largest weight ever drawn with, as a multiple of the initial one.
    pub largest: f64,
}

impl Model {
    pub fn new(capacity: usize) -> Self {
        let settings = Settings::new(DIMS);
        Self { capacity, settings, open: Vec::new(), closed: VecDeque::new(), largest: 1.0 }
    }

    fn used_by_open(&self) -> usize {
        self.open.iter().map(|episode| episode.entries.len()).sum()
    }

    pub fn used(&self) -> usize {
        self.used_by_open() + self.closed.iter().map(|episode| episode.entries.len()).sum::<usize>()
    }

    fn make_room(&mut self, count: usize) -> Result<(), Refusal> {
        if self.used_by_open() + count > self.capacity {
            return Err(Refusal::State);
        }
        while self.used() + count > self.capacity {
            let gone = self.victim(self.closed.len());
            self.closed.remove(gone);
        }
        Ok(())
    }

    fn position(&self, serial: u64) -> Result<usize, Refusal> {
        self.open.iter().position(|episode| episode.serial == serial).ok_or(Refusal::State)
    }

    pub fn open(&mut self, serial: u64, first_id: u64) {
        self.open.push(Episode { serial, first_id, entries: Vec::new(), ending: None });
    }

    /// Returns the step of the first entry.
    pub fn add(&mut self, serial: u64, entries: Vec<Entry>) -> Result<usize, Refusal> {
        let at = self.position(serial)?;
        sound(&entries)?;
        self.make_room(entries.len())?;
        let episode = &mut self.open[at];
        let first = episode.entries.len();
        episode.entries.extend(entries);
        Ok(first)
    }

    pub fn close(&mut self, serial: u64, how: &How) -> Result<(), Refusal> {
        let at = self.position(serial)?;
        let made = self.open[at].closed(how, &self.settings, self.largest)?;
        self.make_room(usize::from(how.last.is_some()))?;
        self.open.remove(at);
        self.push(made);
        Ok(())
    }

    /// Adds a closed episode, whose serial number and id are for the caller to fill in.
    pub fn add_episode(&mut self, entries: Vec<Entry>, how: &How) -> Result<(), Refusal> {
        sound(&entries)?;
        let episode = Episode { serial: 0, first_id: 0, entries, ending: None };
        let made = episode.closed(how, &self.settings, self.largest)?;
        self.make_room(made.entries.len())?;
        self.push(made);
        Ok(())
    }

    fn push(&mut self, episode: Episode) {
        let all = 0..episode.entries.len();
        self.note(&episode, all);
        self.closed.push_back(episode);
        while self.settings.max_episode > 0 && self.closed.len() > self.settings.max_episode {
            let newest = self.closed.len() - 1;
            let empty = |at: &usize| self.closed[*at].entries.is_empty();
            let oldest_empty = (0..newest).find(empty);
            let oldest_empty = oldest_empty.unwrap_or_else(|| self.victim(newest));
            let gone = if empty(&newest) { newest } else { oldest_empty };
            self.closed.remove(gone);
        }
    }

    /// Updates the largest weight by those of an episode's entries.
    fn note(&mut self, episode: &Episode, steps: std::ops::Range<usize>) {
        for step in steps.filter(|&step| episode.inside(step, &self.settings)) {
            let entry = &episode.entries[step];
            if entry.base > 0.0 {
                let times = f64::from(entry.weight) / f64::from(entry.base);
                self.largest = self.largest.max(times);
            }
        }
    }

    /// Of the entries that could be drawn, how many there are and how many have weight 0.
    pub fn drawable(&self) -> (usize, usize) {
        let drawables = self.drawables();
        (drawables.len(), drawables.iter().filter(|entry| entry.weight <= 0.0).count())
    }

    pub fn abort(&mut self, serial: u64) -> Result<(), Refusal> {
        let at = self.position(serial)?;
        self.open.remove(at);
        Ok(())
    }

    pub fn clear(&mut self) {
        self.open.clear();
        self.closed.clear();
    }

    /// Episode and step of an id.
    pub fn find(&self, id: u64) -> Option<(&Episode, usize)> {
        let episode = self.closed.iter().chain(&self.open).find(|episode| episode.holds(id))?;
        Some((episode, (id - episode.first_id) as usize))
    }

    pub fn find_mut(&mut self, id: u64) -> Option<&mut Episode> {
        self.closed.iter_mut().chain(&mut self.open).find(|episode| episode.holds(id))
    }

    /// The weight with which an entry is drawn now.
    pub fn drawn_weight(&self, episode: &Episode, step: usize) -> f32 {
        let entry = &episode.entries[step];
        let inside = episode.ending.is_some() && episode.inside(step, &self.settings);
        if inside && !self.is_used_up(entry) { entry.weight } else { 0.0 }
    }

    /// Returns how many ids are gone.
    pub fn update_priority(
        &mut self,
        updates: &[(u64, f64)],
        kind: PriorityKind,
    ) -> Result<usize, Refusal> {
        let mut gone = 0;
        let mut made = Vec::new();
        for &(id, priority) in updates {
            if !priority.is_finite() || priority < 0.0 {
                return Err(Refusal::Value);
            }
            let Some((episode, step)) = self.find(id) else {
                gone += 1;
                continue;
            };
            if episode.ending.is_none() || step >= episode.actions() {
                continue;
            }
            let base = episode.entries[step].base;
            let weight = match kind {
                PriorityKind::Weight if base > 0.0 => priority as f32,
                PriorityKind::Weight => 0.0,
                PriorityKind::Error => {
                    let error = priority + self.settings.priority_epsilon;
                    (f64::from(base) * error.powf(self.settings.priority_exponent)) as f32
                }
            };
            finite(&[weight])?;
            made.push((id, step, weight));
        }
        for &(id, step, weight) in &made {
            if let Some(episode) = self.find_mut(id) {
                episode.entries[step].weight = weight;
            }
        }
        // Of an id given twice the last weight is the one that counts.
        for &(id, step, _) in &made {
            if let Some(episode) = self.find(id).map(|(episode, _)| episode.clone()) {
                self.note(&episode, step..step + 1);
            }
        }
        Ok(gone)
    }

    /// Returns whether the entry is there.
    pub fn add_reward(&mut self, id: u64, delta: [f32; DIMS]) -> Result<bool, Refusal> {
        let Some((episode, step)) = self.find(id) else { return Ok(false) };
        let mut changed = episode.clone();
        let reward = &mut changed.entries[step].reward;
        *reward = [reward[0] + delta[0], reward[1] + delta[1]];
        finite(reward)?;
        if episode.is_final(step) {
            return Err(Refusal::Value);
        }
        // Later entries keep their weights, such as a corrected priority, and so do those that are not recomputed.
        let reweighed = changed.reweighed(step, self.settings.multi_step);
        let mut made = changed.with_returns(self.largest)?;
        for (at, (entry, old)) in made.entries.iter_mut().zip(&episode.entries).enumerate() {
            if !reweighed.contains(&at) {
                entry.weight = old.weight;
            }
            if at > step {
                entry.qvest = old.qvest;
            }
            finite(&[entry.weight])?;
        }
        if made.ending.is_some() {
            self.note(&made, reweighed);
        }
        if let Some(episode) = self.find_mut(id) {
            *episode = made;
        }
        Ok(true)
    }
}
