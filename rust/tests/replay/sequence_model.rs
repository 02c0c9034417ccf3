//! A memory of sequences beside a plain list of episodes.

use std::collections::HashMap;

use cogrs::replay::closing::{CloseOptions, FinalEntry};
use cogrs::replay::memory::Memory;
use cogrs::replay::recurrent::RecurrentSpec;
use cogrs::replay::sequence_priorities::SequenceErrors;
use cogrs::replay::sequence_window::{Border, EpisodeLength, SequenceShape};
use cogrs::replay::sequences::{SequenceDraws, SequenceFlags};
use cogrs::spec::{FIELDS, Field, FieldSpec};

use crate::fixtures::{Columns, bases, compression, rng, set, spec_with};
use crate::model::{DIMS, Entry};
use crate::sequence_window::{naive_anchors, naive_rows};

/// Bytes of a recurrent state.
pub const RECURRENT: usize = 3;
pub const INITIAL: [u8; RECURRENT] = [7, 8, 9];

pub struct Listed {
    pub first_id: u64,
    /// The final state's is the last, where it is stored.
    pub entries: Vec<Entry>,
    pub actions: usize,
    pub bootstrap: Option<f64>,
    pub recurrent: Vec<u8>,
    /// Priorities that a learner set, by step.
    pub set: HashMap<usize, f64>,
}

impl Listed {
    pub fn length(&self) -> EpisodeLength {
        EpisodeLength { actions: self.actions, entries: self.entries.len() }
    }

    /// The errors of all actions: |q - v| of both dimensions, for gamma 1 and lambda 1.
    fn errors(&self) -> Vec<f64> {
        let mut sums = [self.bootstrap.unwrap_or(0.0); DIMS];
        let mut errors = vec![0.0; self.actions];
        for step in (0..self.actions).rev() {
            let entry = &self.entries[step];
            for (dim, sum) in sums.iter_mut().enumerate() {
                *sum += f64::from(entry.reward[dim]);
                errors[step] += (*sum - f64::from(entry.value[dim])).abs();
            }
        }
        errors
    }
}

pub struct Sequenced {
    pub memory: Memory,
    pub episodes: HashMap<u64, Listed>,
    pub period: usize,
    made: u64,
    last_shape: Option<SequenceShape>,
}

impl Sequenced {
    pub fn new(state_size: usize, capacity: usize, period: usize) -> Self {
        Self::compressed(state_size, capacity, period, &[])
    }

    /// A memory that compresses fields.
    pub fn compressed(
        state_size: usize,
        capacity: usize,
        period: usize,
        codes: &[(Field, &str)],
    ) -> Self {
        let field = FieldSpec::new("|u1", 1, &[RECURRENT]);
        let recurrent = RecurrentSpec { field, initial: INITIAL.into(), period };
        let spec = spec_with(state_size, &[DIMS]);
        let compression = compression(&spec, codes, None);
        let memory =
            Memory::with_parts(spec, compression, Some(recurrent), None, capacity, rng(1), true)
                .unwrap();
        Self { memory, episodes: HashMap::new(), period, made: 0, last_shape: None }
    }

    /// Adds an episode in pieces of `piece` entries, between which another writer takes and gives back slots.
    pub fn add(&mut self, actions: usize, piece: usize, last: bool, bootstrap: Option<f64>) {
        let state_size = self.memory.spec()[Field::State].nbytes();
        let first = self.made;
        self.made += actions as u64 + 1;
        let mut entries: Vec<Entry> =
            (first..self.made).map(|number| Entry::numbered(number, state_size)).collect();
        let recurrent: Vec<u8> = (0..actions * RECURRENT).map(|at| (at * 31 + 5) as u8).collect();
        let serial = self.memory.open();
        let first_id = self.memory.id(serial, 0);
        for (at, entries) in entries[..actions].chunks(piece).enumerate() {
            let other = self.memory.open();
            let one = Columns::new(&entries[..1]);
            let states = Some(&recurrent[..RECURRENT]);
            if at % 2 == 0 {
                drop(self.memory.add_with(other, one.rows(), states, &[1.0]));
            }
            let states = &recurrent[at * piece * RECURRENT..][..entries.len() * RECURRENT];
            let columns = Columns::new(entries);
            let added = self.memory.add_with(serial, columns.rows(), Some(states), &bases(entries));
            self.memory.abort(other).unwrap();
            if added.is_err() {
                return self.memory.abort(serial).unwrap();
            }
        }
        let end = entries[actions].clone();
        let options = CloseOptions {
            bootstrap: bootstrap.map(|value| vec![value; DIMS]),
            final_entry: last.then_some(FinalEntry { state: &end.state, info: None }),
            ..CloseOptions::default()
        };
        if self.memory.close(serial, &options).is_err() {
            return self.memory.abort(serial).unwrap();
        }
        let value = [bootstrap.unwrap_or(0.0) as f32; DIMS];
        let zeros = Entry { action: 0, reward: [0.0; DIMS], prob: 0.0, value, info: 0, ..end };
        entries[actions] = zeros;
        entries.truncate(actions + usize::from(last));
        let set = HashMap::new();
        let listed = Listed { first_id, entries, actions, bootstrap, recurrent, set };
        self.episodes.insert(serial, listed);
    }

    fn held(&self) -> Vec<u64> {
        self.memory.closed_episodes().map(|episode| episode.serial).collect()
    }

    pub fn first_step(&self) -> usize {
        self.memory.settings().unpadded_stack() - 1
    }

    /// The weight of every anchor that is held, by its id.
    pub fn weights(&mut self, shape: &SequenceShape) -> HashMap<u64, f64> {
        let plain = |shape: &SequenceShape| match shape.border {
            Border::Drop => *shape,
            _ => SequenceShape { burn_in: 0, after: 0, border: Border::Clip, ..*shape },
        };
        if self.last_shape.as_ref().map(plain) != Some(plain(shape)) {
            self.episodes.values_mut().for_each(|episode| episode.set.clear());
        }
        self.last_shape = Some(*shape);
        let settings = self.memory.settings();
        let (eta, epsilon) = (settings.sequence_eta, settings.priority_epsilon);
        let exponent = settings.priority_exponent;
        let mut weights = HashMap::new();
        for serial in self.held() {
            let episode = &self.episodes[&serial];
            let errors = episode.errors();
            for anchor in naive_anchors(shape, episode.length(), self.first_step()) {
                let base = f64::from(episode.entries[anchor].base);
                let learned =
                    (anchor..anchor + shape.length).filter(|&step| step < episode.actions);
                let counted: Vec<f64> = learned
                    .filter(|&step| episode.entries[step].base > 0.0)
                    .map(|step| errors[step])
                    .collect();
                let largest = counted.iter().copied().fold(0.0, f64::max);
                let mean = counted.iter().sum::<f64>() / counted.len() as f64;
                let mixed = eta * largest + (1.0 - eta) * mean;
                let mixed = episode.set.get(&anchor).copied().unwrap_or(mixed);
                let weight = if base > 0.0 { base * (mixed + epsilon).powf(exponent) } else { 0.0 };
                weights.insert(episode.first_id + anchor as u64, weight);
            }
        }
        weights
    }

    /// Gives the sequences of a draw new errors, as a learner does.
    pub fn update(&mut self, draws: &SequenceDraws, shape: &SequenceShape) {
        let ids: Vec<u64> = draws.sequences.iter().map(|sequence| sequence.anchor).collect();
        let error_of = |id: u64, step: usize| ((id * 7 + step as u64 * 3) % 11) as f64 / 4.0;
        let errors: Vec<f64> = ids
            .iter()
            .flat_map(|&id| (0..shape.length).map(move |step| error_of(id, step)))
            .collect();
        let given = SequenceErrors { errors: &errors, steps: shape.length, mask: None };
        assert_eq!(self.memory.update_sequence_errors(&ids, given).unwrap(), 0);
        let eta = self.memory.settings().sequence_eta;
        for id in ids {
            let serial = self.serial_of(id);
            let episode = self.episodes.get_mut(&serial).unwrap();
            let anchor = (id - episode.first_id) as usize;
            let count = shape.length.min(episode.actions - anchor);
            let row: Vec<f64> = (0..count).map(|step| error_of(id, step)).collect();
            let largest = row.iter().copied().fold(0.0, f64::max);
            let mean = row.iter().sum::<f64>() / count as f64;
            episode.set.insert(anchor, eta * largest + (1.0 - eta) * mean);
        }
    }

    pub fn serial_of(&self, id: u64) -> u64 {
        let holds = |episode: &Listed| {
            (episode.first_id..episode.first_id + episode.entries.len() as u64).contains(&id)
        };
        *self.episodes.iter().find(|(_, episode)| holds(episode)).unwrap().0
    }

    /// Compares everything that a draw gives with the list.
    pub fn check(&self, draws: &SequenceDraws, shape: &SequenceShape) {
        let rows = shape.rows(self.period);
        assert_eq!(draws.rows, rows);
        let n = draws.sequences.len();
        let fields = Field::ALL.map(|field| self.gather(draws, field));
        let mut flags: [Vec<u8>; 5] = std::array::from_fn(|_| vec![9; n * rows]);
        let [valid, learn, is_first, terminated, truncated] = &mut flags;
        let mut arrays = SequenceFlags { valid, learn, is_first, terminated, truncated };
        self.memory.sequence_flags(draws, &mut arrays);
        let ids: Vec<u64> = self.memory.sequence_ids(draws).collect();
        let mut recurrent = vec![0; n * RECURRENT];
        self.memory.gather_recurrent(draws, &mut recurrent);
        for (at, sequence) in draws.sequences.iter().enumerate() {
            let episode = &self.episodes[&self.serial_of(sequence.anchor)];
            let anchor = (sequence.anchor - episode.first_id) as usize;
            let steps = naive_rows(shape, episode.length(), anchor, self.period);
            let first = steps.iter().flatten().next().copied().unwrap();
            let last = steps.iter().flatten().last().copied().unwrap();
            let begin = steps.iter().position(Option::is_some).unwrap();
            for (row, &step) in steps.iter().enumerate() {
                let shown = step.unwrap_or(if row < begin { first } else { last });
                let cell = at * rows + row;
                for field in Field::ALL.into_iter().filter(|&field| field != Field::Qvest) {
                    let expected = self.record(episode, field, shown);
                    let found = &fields[field.index()][cell * expected.len()..][..expected.len()];
                    assert_eq!(found, expected, "{field:?} of row {row}");
                }
                assert_eq!(ids[cell], episode.first_id + shown as u64);
                let is = |wanted: bool| u8::from(step.is_some() && wanted);
                let learned =
                    shown >= anchor && shown < anchor + shape.length && shown < episode.actions;
                let ends = shown + 1 == episode.actions;
                let expected = [
                    is(true),
                    is(learned),
                    is(shown == 0),
                    is(ends && episode.bootstrap.is_none()),
                    is(ends && episode.bootstrap.is_some()),
                ];
                assert_eq!(flags.each_ref().map(|flag| flag[cell]), expected, "flags of row {row}");
            }
            let state = match first {
                0 => &INITIAL[..],
                step => &episode.recurrent[step * RECURRENT..][..RECURRENT],
            };
            assert_eq!(&recurrent[at * RECURRENT..][..RECURRENT], state);
        }
    }

    fn gather(&self, draws: &SequenceDraws, field: Field) -> Vec<u8> {
        let stack = if field == Field::State { self.memory.settings().frame_stack } else { 1 };
        let size = self.memory.spec()[field].nbytes() * stack;
        let mut bytes = vec![0xEE; draws.sequences.len() * draws.rows * size];
        let mut parts: [&mut [u8]; FIELDS] = std::array::from_fn(|_| &mut [][..]);
        parts[field.index()] = &mut bytes;
        self.memory.gather_sequences(draws, &mut parts);
        bytes
    }

    /// The bytes of a field; of the state with the frames before it, of which the first is repeated.
    fn record(&self, episode: &Listed, field: Field, step: usize) -> Vec<u8> {
        let stack = if field == Field::State { self.memory.settings().frame_stack } else { 1 };
        let steps = (0..stack).rev().map(|before| step.saturating_sub(before));
        steps.flat_map(|step| episode.entries[step].bytes(field)).collect()
    }

    /// The n-step return of one step of reward dimension `dim`, and the discount of the value behind it.
    pub fn nstep(&self, episode: &Listed, step: usize, dim: usize) -> (f64, f64) {
        let settings = self.memory.settings();
        let gamma = settings.discount_factor[dim];
        let count = settings.multi_step.min(episode.actions - step);
        let rewards = episode.entries[step..step + count].iter();
        let terms = rewards
            .enumerate()
            .map(|(k, entry)| gamma.powi(k as i32) * f64::from(entry.reward[dim]));
        let sum: f64 = terms.sum();
        let discount = gamma.powi(count as i32);
        match (step + count == episode.actions, episode.bootstrap) {
            (true, None) => (sum, 0.0),
            (true, Some(value)) if episode.entries.len() == episode.actions => {
                (sum + discount * value, 0.0)
            }
            _ => (sum, discount),
        }
    }

    pub fn set_eta(&mut self, eta: f64, epsilon: f64, exponent: f64, stack: usize) {
        set(&mut self.memory, |settings| {
            settings.sequence_eta = eta;
            settings.priority_epsilon = epsilon;
            settings.priority_exponent = exponent;
            settings.frame_stack = stack;
        });
    }
}
