//! A memory beside its model.

use std::collections::HashSet;
use std::fmt::Debug;

use cogrs::error::Error;
use cogrs::replay::closing::{CloseOptions, FinalEntry};
use cogrs::replay::corrections::PriorityKind;
use cogrs::replay::drawable::ZeroWeights;
use cogrs::replay::memory::Memory;
use cogrs::replay::sampler::Sampler;
use cogrs::replay::settings::FramePadding;
use cogrs::replay::transition::Draws;
use cogrs::spec::Field;
use proptest::sample::Index;

use crate::calls::{Call, Change, Flaw, Manner, Pick};
use crate::fixtures::{Columns, bases, gather, ids, memory_of, read, spec_with};
use crate::model::{DIMS, Entry, How, Model, Refusal};

/// A memory and its model, which get the same calls.
pub struct Pair {
    memory: Memory,
    model: Model,
    state_size: usize,
    /// Entries made so far.
    made: u64,
    given: Vec<u64>,
    unique: HashSet<u64>,
    /// An episode that is not open: none has this number before the first is closed.
    stale: u64,
}

impl Pair {
    pub fn new(state_size: usize, capacity: usize) -> Self {
        let memory = memory_of(spec_with(state_size, &[DIMS]), capacity, capacity as u64);
        Self::of(memory, state_size, capacity)
    }

    /// A memory without entries beside a model of it.
    pub fn of(memory: Memory, state_size: usize, capacity: usize) -> Self {
        Self {
            memory,
            model: Model::new(capacity),
            state_size,
            made: 0,
            given: Vec::new(),
            unique: HashSet::new(),
            stale: u64::MAX >> 32,
        }
    }

    pub fn make(&mut self, call: Call) {
        match call {
            Call::Open => self.open(),
            Call::Add { writer, count, flaw } => self.add(writer, count, flaw),
            Call::Close { writer, how } => self.close(writer, &how),
            Call::Abort { writer } => self.abort(writer),
            Call::AddEpisode { count, flaw, how } => self.add_episode(count, flaw, &how),
            Call::Set(change) => self.set(&change),
            Call::Priority(updates, absolute) => self.update_priority(updates, absolute),
            Call::Reward(pick, delta) => self.add_reward(&pick, delta),
            Call::Draw(sampler, count) => self.draw(sampler, count),
            Call::Clear => {
                self.memory.clear();
                self.model.clear();
            }
        }
        self.compare();
    }

    /// The memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Continues with another memory, which equals this one without its open episodes.
    pub fn replace(&mut self, make: impl FnOnce(&Memory) -> Memory) {
        self.memory = make(&self.memory);
        self.model.open.clear();
        self.compare();
    }

    fn entry(&mut self) -> Entry {
        self.made += 1;
        Entry::numbered(self.made, self.state_size)
    }

    fn entries(&mut self, count: usize, flaw: Flaw) -> Vec<Entry> {
        let mut entries: Vec<Entry> = (0..count).map(|_| self.entry()).collect();
        if let Some(last) = entries.last_mut() {
            match flaw {
                Flaw::None => {}
                Flaw::Huge => last.reward = [f32::MAX; DIMS],
                Flaw::Reward => last.reward[1] = f32::NAN,
                Flaw::Weight => last.base = -1.0,
            }
        }
        entries
    }

    fn serial(&self, writer: Option<Index>) -> u64 {
        match writer {
            Some(writer) if !self.model.open.is_empty() => writer.get(&self.model.open).serial,
            _ => self.stale,
        }
    }

    fn id(&self, pick: &Pick) -> u64 {
        match pick {
            Pick::Held(at) if self.model.used() > 0 => {
                let episodes = self.model.closed.iter().chain(&self.model.open);
                let ids = episodes
                    .flat_map(|each| each.first_id..each.first_id + each.entries.len() as u64);
                ids.clone().nth(at.index(ids.count())).unwrap()
            }
            Pick::Given(at) if !self.given.is_empty() => *at.get(&self.given),
            Pick::Held(_) | Pick::Given(_) => 0,
            Pick::Any(id) => *id,
        }
    }

    fn how(&mut self, manner: &Manner) -> How {
        let last = manner.last.map(|with_info| {
            let entry = self.entry();
            (entry.state, with_info.then_some(entry.info))
        });
        let (values, weights) = manner.updates;
        How { multiplier: manner.multiplier, values, weights, bootstrap: manner.bootstrap, last }
    }

    /// Notes ids that were given for the first time, and must never be again.
    fn give(&mut self, ids: std::ops::Range<u64>) {
        for id in ids {
            assert!(self.unique.insert(id), "id {id} was given before");
            self.given.push(id);
        }
    }

    fn open(&mut self) {
        let serial = self.memory.open();
        self.model.open(serial, self.memory.id(serial, 0));
    }

    fn add(&mut self, writer: Option<Index>, count: usize, flaw: Flaw) {
        let serial = self.serial(writer);
        let entries = self.entries(count, flaw);
        let columns = Columns::new(&entries);
        let result = self.memory.add(serial, columns.rows(), &bases(&entries));
        if let Some((first, step)) = same(result, self.model.add(serial, entries)) {
            assert_eq!(first, self.memory.id(serial, 0) + step as u64);
            self.give(first..first + count as u64);
        }
    }

    fn close(&mut self, writer: Option<Index>, manner: &Manner) {
        let serial = self.serial(writer);
        let how = self.how(manner);
        let result = closing(&how, |closing| self.memory.close(serial, closing));
        if same(result, self.model.close(serial, &how)).is_some() {
            self.stale = serial;
            let Some(episode) = self.model.closed.back() else { return };
            let end = episode.first_id + episode.entries.len() as u64;
            self.give(end - u64::from(how.last.is_some())..end);
        }
    }

    fn abort(&mut self, writer: Option<Index>) {
        let serial = self.serial(writer);
        if same(self.memory.abort(serial), self.model.abort(serial)).is_some() {
            self.stale = serial;
        }
    }

    fn add_episode(&mut self, count: usize, flaw: Flaw, manner: &Manner) {
        let entries = self.entries(count, flaw);
        let how = self.how(manner);
        let columns = Columns::new(&entries);
        let result = closing(&how, |closing| {
            self.memory.add_episode(columns.rows(), &bases(&entries), closing)
        });
        if let Some((first, ())) = same(result, self.model.add_episode(entries, &how)) {
            let newest = self.memory.closed_episodes().last().map(|episode| episode.serial);
            // One without entries need not be kept.
            let Some(serial) = newest.filter(|&serial| self.memory.id(serial, 0) == first) else {
                assert!(count == 0 && how.last.is_none());
                return;
            };
            let episode = self.model.closed.back_mut().unwrap();
            episode.serial = serial;
            episode.first_id = first;
            let len = episode.entries.len() as u64;
            self.give(first..first + len);
        }
    }

    fn set(&mut self, change: &Change) {
        let settings = &mut self.model.settings;
        match *change {
            Change::FrameStack(value) => settings.frame_stack = value,
            Change::MultiStep(value) => settings.multi_step = value,
            Change::MaxEpisode(value) => settings.max_episode = value,
            Change::Exponent(value) => settings.priority_exponent = value,
            Change::Coeff(values) => settings.reward_coeff = values.into(),
            Change::New(value) => settings.new_priority = value,
            Change::Epsilon(value) => settings.priority_epsilon = value,
            Change::Padding(value) => settings.frame_padding = value,
            Change::Remover(value) => settings.remover = value,
            Change::Limit(value) => self.model.set_limit(value),
            Change::Return(lambda, gamma) => {
                settings.mix_lambda = lambda;
                settings.discount_factor = gamma.into();
            }
        }
        self.memory.set_settings(self.model.settings.clone()).unwrap();
    }

    fn update_priority(&mut self, updates: Vec<(Pick, f64)>, absolute: bool) {
        let kind = if absolute { PriorityKind::Weight } else { PriorityKind::Error };
        let updates: Vec<(u64, f64)> =
            updates.into_iter().map(|(pick, priority)| (self.id(&pick), priority)).collect();
        let (ids, priorities): (Vec<u64>, Vec<f64>) = updates.iter().copied().unzip();
        let result = self.memory.update_priority(&ids, &priorities, kind);
        if let Some((gone, expected)) = same(result, self.model.update_priority(&updates, kind)) {
            assert_eq!(gone, expected);
        }
    }

    fn add_reward(&mut self, pick: &Pick, delta: [f32; DIMS]) {
        let id = self.id(pick);
        let result = self.memory.add_reward(id, &delta);
        if let Some((found, expected)) = same(result, self.model.add_reward(id, delta)) {
            assert_eq!(found, expected);
        }
    }

    fn draw(&mut self, sampler: Sampler, count: usize) {
        let expected = self.model.can_draw(sampler, count);
        let before = self.model.drawables();
        let total = self.memory.weight_sum();
        let Some((draws, ())) = same(self.memory.draw_by(sampler, count), expected) else { return };
        assert_eq!(draws.prev.len(), count);
        let given = ids(&self.memory, &draws.prev);
        assert!(given.iter().all(|id| before.iter().any(|entry| entry.id == *id)));
        if let Some(expected) = self.model.ordered(sampler, count) {
            assert_eq!(given, expected);
        }
        let limit = self.model.settings.max_times_sampled;
        assert!(sampler != Sampler::Stratified || limit > 0 || self.model.are_stratified(&given));
        for (&weight, probability) in draws.weights.iter().zip(draws.probabilities()) {
            let expected = match sampler {
                Sampler::Uniform => 1.0 / before.len() as f64,
                _ if sampler.is_weighted() => f64::from(weight) / total,
                _ => 1.0,
            };
            assert_eq!(probability, expected);
            assert!(weight > 0.0 || !sampler.is_weighted());
        }
        self.compare_draws(&draws);
        let times = if limit > 0 { self.model.count(&given) } else { Vec::new() };
        assert!(times.iter().all(|&times| times <= limit));
        assert_eq!(draws.times, times);
    }

    fn compare_draws(&self, draws: &Draws) {
        let (prev, next) = (ids(&self.memory, &draws.prev), ids(&self.memory, &draws.next));
        let steps = self.model.settings.multi_step;
        let (mut terminated, mut nstep) = (Vec::new(), Vec::new());
        for ((&prev, &next), &weight) in prev.iter().zip(&next).zip(&draws.weights) {
            let (episode, step) = self.model.find(prev).unwrap();
            assert_close(weight, self.model.drawn_weight(episode, step));
            let ahead = episode.next(step, steps).unwrap();
            assert_eq!(next, prev + (ahead - step) as u64);
            terminated.push(episode.terminates_at(ahead));
            nstep.extend((0..DIMS).map(|dim| episode.nstep(step, &self.model.settings, dim)));
        }
        assert_eq!(self.memory.terminated(&draws.next).collect::<Vec<_>>(), terminated);
        let (mut returns, mut discounts) = (vec![0.0; nstep.len()], vec![0.0; nstep.len()]);
        let (sums, powers) = (&mut returns[..], &mut discounts[..]);
        let bytes = bytemuck::cast_slice_mut;
        self.memory.nstep(draws, bytes(sums), bytes(powers));
        for ((sum, power), expected) in returns.iter().zip(&discounts).zip(nstep) {
            assert_eq!((*sum, *power), expected);
        }
        for field in Field::ALL {
            assert_eq!(gather(&self.memory, field, &draws.prev), self.gathered(field, &prev));
            assert_eq!(gather(&self.memory, field, &draws.next), self.gathered(field, &next));
        }
    }

    /// One field of each id's entry, one after the other; of the state with those before it.
    fn gathered(&self, field: Field, ids: &[u64]) -> Vec<u8> {
        let stack = if field == Field::State { self.model.settings.frame_stack } else { 1 };
        let of = |&id: &u64| {
            let (episode, step) = self.model.find(id).unwrap();
            let steps = (0..stack).map(move |at| (step + 1 + at).checked_sub(stack));
            let zero = self.model.settings.frame_padding == FramePadding::Zero;
            steps.flat_map(move |at| match at {
                None if zero => vec![0; episode.entries[0].bytes(field).len()],
                at => episode.entries[at.unwrap_or(0)].bytes(field),
            })
        };
        ids.iter().flat_map(of).collect()
    }

    fn compare(&self) {
        let (memory, model) = (&self.memory, &self.model);
        assert_eq!(memory.num_entry(), model.used());
        assert_eq!(memory.num_episode(), model.closed.len());
        assert!(memory.episode(model.closed.len()).is_none());
        assert!(model.open.iter().all(|episode| memory.is_open(episode.serial)));
        assert!(!memory.is_open(self.stale));
        let mut taken = HashSet::new();
        let mut positive: Vec<f32> = Vec::new();
        for (index, expected) in model.closed.iter().enumerate() {
            let episode = memory.episode(index).unwrap();
            assert_eq!(episode.serial, expected.serial);
            assert_eq!(episode.len(), expected.entries.len());
            assert_eq!(episode.slots().count(), episode.len());
            assert!(episode.slots().all(|slot| slot < model.capacity && taken.insert(slot)));
            for field in Field::ALL {
                let entries = expected.entries.iter();
                let bytes: Vec<u8> = entries.flat_map(|entry| entry.bytes(field)).collect();
                assert_eq!(read(memory, index, field), bytes, "{} of {index}", field.name());
            }
            for (step, weight) in memory.read_weights(episode).enumerate() {
                assert_close(weight, model.drawn_weight(expected, step));
                positive.extend(Some(weight).filter(|&weight| weight > 0.0));
            }
        }
        let sum: f64 = positive.iter().copied().map(f64::from).sum();
        assert!((memory.weight_sum() - sum).abs() <= sum * 1e-12);
        assert_eq!(memory.num_sampleable(), positive.len());
        let (drawable, zero) = model.drawable();
        assert_eq!(memory.num_drawable(), drawable);
        assert_eq!(memory.zero_weights(), ZeroWeights { zero, drawable });
        assert_eq!(memory.min_weight(), positive.into_iter().reduce(f32::min).unwrap_or(0.0));
    }
}

/// The results of both, or None when both refused for the same reason.
fn same<T: Debug, U: Debug>(got: Result<T, Error>, expected: Result<U, Refusal>) -> Option<(T, U)> {
    let got = got.map_err(|error| match error {
        Error::State(_) | Error::TooFew(_) => Refusal::State,
        Error::Value { .. } => Refusal::Value,
        other => panic!("{other}"),
    });
    match (got, expected) {
        (Ok(got), Ok(expected)) => Some((got, expected)),
        (Err(got), Err(expected)) if got == expected => None,
        (got, expected) => panic!("{got:?} where {expected:?} was due"),
    }
}

fn closing<T>(how: &How, call: impl FnOnce(&CloseOptions<'_>) -> T) -> T {
    let info = how.last.as_ref().and_then(|(_, info)| info.map(i64::to_ne_bytes));
    let info = info.as_ref().map(<[u8; 8]>::as_slice);
    call(&CloseOptions {
        multiplier: how.multiplier,
        values: how.values,
        weights: how.weights,
        bootstrap: how.bootstrap.map(Vec::from),
        final_entry: how.last.as_ref().map(|(state, _)| FinalEntry { state, info }),
    })
}

/// The same weight, zero for zero, but for how the power was computed.
fn assert_close(weight: f32, expected: f32) {
    let same = weight == expected || (weight - expected).abs() <= expected * 1e-6;
    assert!(same && (weight > 0.0) == (expected > 0.0), "{weight} against {expected}");
}
