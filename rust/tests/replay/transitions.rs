//! Transitions of several environments, written into a memory, against a list of them.

use cogrs::replay::memory::Memory;
use cogrs::replay::rate_limiter::RateLimiter;
use cogrs::replay::sampler::Sampler;
use cogrs::replay::settings::Remover;
use cogrs::replay::transition_writer::{Drawn, TransitionWriter, Transitions};
use cogrs::replay::view::ViewSettings;
use cogrs::spec::{EntrySpec, Field, FieldSpec};
use proptest::prelude::*;
use proptest::sample::select;

use crate::fixtures::{compressed_memory, config, memory_of, set};

const FRAME: usize = 40;
const GAMMA: f64 = 0.5;

/// A step of one environment. Frames are made of numbers that no other step has.
#[derive(Debug, Clone)]
struct Step {
    state: Vec<u8>,
    next_state: Vec<u8>,
    action: i64,
    reward: f32,
    done: bool,
    truncated: bool,
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    envs: usize,
    stack: usize,
    steps: usize,
    capacity: usize,
    piece: usize,
    codec: Option<&'static str>,
}

impl Shape {
    fn memory(self) -> Memory {
        let field = FieldSpec::new;
        let spec = EntrySpec::new([
            field("|u1", 1, &[FRAME]),
            field("<i8", 8, &[]),
            field("<f4", 4, &[]),
            field("<f4", 4, &[]),
            field("<f4", 4, &[0]),
            field("<f4", 4, &[0]),
            field("<u8", 8, &[]),
        ]);
        let slots = self.capacity + 3 * self.piece / 2 + 2 * (self.stack + self.steps) + 4;
        let codes: Vec<_> = self.codec.map(|code| (Field::State, code)).into_iter().collect();
        let mut memory = compressed_memory(spec.unwrap(), &codes, None, self.envs * slots);
        set(&mut memory, |settings| {
            settings.sampler = Sampler::Uniform;
            settings.frame_stack = self.stack;
            settings.multi_step = self.steps;
            settings.discount_factor = vec![GAMMA];
        });
        memory
    }
}

/// What was added: steps of each environment.
struct Added {
    shape: Shape,
    envs: Vec<Vec<Step>>,
    frames: u32,
}

impl Added {
    fn new(shape: Shape) -> Self {
        Self { shape, envs: vec![Vec::new(); shape.envs], frames: 0 }
    }

    fn frame(&mut self) -> Vec<u8> {
        self.frames += 1;
        [&self.frames.to_ne_bytes()[..], &[7; FRAME]].concat()[..FRAME].to_vec()
    }

    /// Makes a step of each environment from a byte of chance.
    fn step(&mut self, chances: &[u8]) {
        for (env, &chance) in chances.iter().enumerate().take(self.shape.envs) {
            let goes_on =
                self.envs[env].last().filter(|last| !last.done && chance % 16 != 15).cloned();
            let state = goes_on.map_or_else(
                || (0..self.shape.stack).flat_map(|_| self.frame()).collect(),
                |last| last.next_state,
            );
            let next_state = [&state[FRAME..], &self.frame()].concat();
            let action = (env * 100_000 + self.envs[env].len()) as i64;
            let reward = f32::from(chance) - 100.0;
            let (done, truncated) = (chance % 5 == 0, chance % 2 == 0);
            self.envs[env].push(Step { state, next_state, action, reward, done, truncated });
        }
    }

    fn newest(&self) -> impl Iterator<Item = &Step> {
        self.envs.iter().filter_map(|steps| steps.last())
    }

    fn add_to(&self, memory: &mut Memory, writer: &mut TransitionWriter) {
        let bytes = |part: fn(&Step) -> Vec<u8>| self.newest().flat_map(part).collect::<Vec<u8>>();
        let flags = |part: fn(&Step) -> bool| self.newest().map(part).collect::<Vec<bool>>();
        let given = Transitions {
            states: &bytes(|step| step.state.clone()),
            next_states: &bytes(|step| step.next_state.clone()),
            actions: &bytes(|step| step.action.to_ne_bytes().to_vec()),
            rewards: &bytes(|step| step.reward.to_ne_bytes().to_vec()),
            done: &flags(|step| step.done),
            truncated: &flags(|step| step.truncated),
        };
        assert!(writer.add(memory, given).unwrap());
    }

    /// The state that an n-step target continues from, whether the episode terminated by then, sum and discount.
    fn target(&self, env: usize, at: usize) -> (&[u8], bool, f32, f32) {
        let steps = &self.envs[env];
        let (mut sum, mut last) = (0.0, at);
        for (ahead, step) in steps[at..].iter().enumerate().take(self.shape.steps) {
            sum += GAMMA.powi(ahead as i32) * f64::from(step.reward);
            last = at + ahead;
            let follows = steps.get(last + 1).is_some_and(|next| next.state == step.next_state);
            if step.done || !follows {
                break;
            }
        }
        let terminated = steps[last].done && !steps[last].truncated;
        let discount = GAMMA.powi((last - at + 1) as i32) as f32;
        (&steps[last].next_state, terminated, sum as f32, discount)
    }
}

/// The environment and the number of the step of an action.
fn place(action: &[u8]) -> (usize, usize) {
    let action = i64::from_ne_bytes(action.try_into().unwrap()) as usize;
    (action / 100_000, action % 100_000)
}

fn check_draws(memory: &mut Memory, added: &Added, sampler: Sampler, rows: usize) {
    let draws = memory.draw_by(sampler, rows).unwrap();
    let shown = FRAME * added.shape.stack;
    let mut parts = [shown, 8, shown, 4, 4, 4].map(|size| vec![0xEE_u8; size * draws.prev.len()]);
    let [states, actions, next_states, terminated, returns, discounts] = &mut parts;
    Drawn { states, actions, next_states, terminated, returns, discounts }.fill(memory, &draws);
    for row in 0..rows {
        let (env, at) = place(&actions[row * 8..][..8]);
        let (next_state, ended, sum, discount) = added.target(env, at);
        assert_eq!(states[row * shown..][..shown], added.envs[env][at].state);
        assert_eq!(&next_states[row * shown..][..shown], next_state);
        let numbers = [&*terminated, &*returns, &*discounts]
            .map(|part| f32::from_ne_bytes(part[row * 4..][..4].try_into().unwrap()));
        assert_eq!(numbers, [f32::from(u8::from(ended)), sum, discount]);
    }
}

fn check_held(memory: &Memory, added: &Added) {
    let shape = added.shape;
    let all = memory.all_steps();
    assert_eq!(all.prev.len(), memory.num_sampleable());
    assert_eq!(all.prev.len(), memory.num_drawable());
    let mut actions = vec![0; 8 * all.prev.len()];
    memory.gather(Field::Action, &all.prev, &mut actions);
    let mut held: Vec<(usize, usize)> = actions.chunks_exact(8).map(place).collect();
    held.sort_unstable();
    for (env, steps) in added.envs.iter().enumerate() {
        let numbers: Vec<usize> =
            held.iter().filter(|each| each.0 == env).map(|each| each.1).collect();
        // The newest ones, without a hole and none twice.
        let oldest = steps.len() - numbers.len();
        assert_eq!(numbers, (oldest..steps.len()).collect::<Vec<_>>());
        let age = steps.len() - oldest;
        assert!(age <= shape.capacity + shape.piece + shape.steps, "{age} steps");
        if shape.stack == 1 {
            assert!(age >= steps.len().min(shape.capacity / 2), "{age} steps");
        }
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let codec = select(&[None, Some("lz4"), Some("delta+lz4")][..]);
    (1..4_usize, 1..4_usize, 1..4_usize, 1..30_usize, 0..8_usize, codec).prop_map(
        |(envs, stack, steps, capacity, more, codec)| {
            let piece = 2 * (stack + steps) + more;
            Shape { envs, stack, steps, capacity, piece, codec }
        },
    )
}

proptest! {
    #![proptest_config(config(96))]

    #[test]
    fn steps_of_growing_and_closed_episodes_are_drawn_as_a_list_of_them_says(
        shape in shapes(),
        chances in prop::collection::vec(prop::array::uniform3(any::<u8>()), 1..120),
        finishes in any::<prop::sample::Index>(),
    ) {
        let mut memory = shape.memory();
        let mut writer = TransitionWriter::new(shape.envs, shape.capacity, shape.piece, 0);
        let mut added = Added::new(shape);
        for (call, chances) in chances.iter().enumerate() {
            added.step(chances);
            added.add_to(&mut memory, &mut writer);
            check_held(&memory, &added);
            for sampler in [Sampler::Uniform, Sampler::Prioritized] {
                check_draws(&mut memory, &added, sampler, 8);
            }
            if call == finishes.index(120) && shape.steps == 1 {
                // As before a checkpoint; with more steps it shortens the last targets.
                writer.finish(&mut memory).unwrap();
            }
        }
        prop_assert_eq!(writer.added(), chances.len() as u64);
        memory.clear();
        prop_assert_eq!(memory.num_sampleable(), 0);
        prop_assert_eq!(memory.num_drawable(), 0);
    }
}

/// Pieces per episode after the ring went round so often.
fn pieces_per_episode(envs: usize, length: u32, rounds: usize) -> f64 {
    let shape = Shape { envs, stack: 1, steps: 1, capacity: 300, piece: 32, codec: None };
    let mut memory = shape.memory();
    let mut writer = TransitionWriter::new(envs, shape.capacity, shape.piece, 0);
    let [states, actions, rewards] = [FRAME, 8, 4].map(|size| vec![0; size * envs]);
    let truncated = vec![false; envs];
    let mut chance = 1_u32;
    for _ in 0..rounds * shape.capacity {
        let done: Vec<bool> = (0..envs)
            .map(|_| {
                chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (chance >> 16).is_multiple_of(length)
            })
            .collect();
        let given = Transitions {
            states: &states,
            next_states: &states,
            actions: &actions,
            rewards: &rewards,
            done: &done,
            truncated: &truncated,
        };
        assert!(writer.add(&mut memory, given).unwrap());
    }
    let pieces: usize = memory.closed_episodes().map(|episode| episode.pieces().count()).sum();
    assert!(memory.num_entry() > memory.max_step() * 4 / 5);
    pieces as f64 / memory.num_episode() as f64
}

#[test]
fn episodes_of_many_environments_stay_in_few_pieces_however_often_the_ring_goes_round() {
    // Episodes of few steps have a last observation for each, so the ring is full before steps are old.
    for (envs, length, rounds) in [(3, 2, 5), (8, 9, 8), (8, 20, 4), (64, 9, 2)] {
        let pieces = pieces_per_episode(envs, length, rounds);
        assert!(pieces < 3.0, "{envs} envs, {length} steps: {pieces} pieces per episode");
    }
}

#[test]
fn settings_that_change_draw_the_same_steps_of_a_growing_episode() {
    let shape = Shape { envs: 1, stack: 2, steps: 2, capacity: 20, piece: 20, codec: None };
    let mut memory = shape.memory();
    let mut writer = TransitionWriter::new(1, 20, 20, 0);
    let mut added = Added::new(shape);
    for _ in 0..7 {
        added.step(&[1]);
        added.add_to(&mut memory, &mut writer);
    }
    set(&mut memory, |settings| settings.frame_stack = 5);
    assert_eq!(memory.num_sampleable(), 4);
    set(&mut memory, |settings| settings.frame_stack = 2);
    assert_eq!(memory.num_sampleable(), 7);
    check_held(&memory, &added);
}

#[test]
fn frames_that_do_not_overlap_are_refused_and_nothing_is_added() {
    let shape = Shape { envs: 1, stack: 2, steps: 1, capacity: 9, piece: 9, codec: None };
    let mut memory = shape.memory();
    let mut writer = TransitionWriter::new(1, 9, 9, 0);
    let rows = Transitions {
        states: &[1; 2 * FRAME],
        next_states: &[2; 2 * FRAME],
        actions: &[0; 8],
        rewards: &[0; 4],
        done: &[false],
        truncated: &[false],
    };
    assert!(!writer.add(&mut memory, rows).unwrap());
    assert_eq!((memory.num_entry(), writer.added()), (0, 0));
    // After an end nothing is estimated from the next observation.
    let ended = Transitions { done: &[true], ..rows };
    assert!(writer.add(&mut memory, ended).unwrap());
    memory.clear();
    let cut = Transitions { truncated: &[true], ..ended };
    assert!(!writer.add(&mut memory, cut).unwrap());
    assert_eq!((memory.num_entry(), writer.added()), (0, 1));
    let infinite = f32::INFINITY.to_ne_bytes();
    let wrong = Transitions { next_states: &[1; 2 * FRAME], rewards: &infinite, ..rows };
    let error = writer.add(&mut memory, wrong).unwrap_err();
    assert_eq!(error.to_string(), "reward: expected finite numbers, got inf of environment 0");
    assert_eq!((memory.num_entry(), writer.added()), (0, 1));
}

#[test]
fn memory_without_room_for_open_episodes_is_an_error_and_nothing_is_added() {
    let shape = Shape { envs: 1, stack: 1, steps: 1, capacity: 9, piece: 1000, codec: None };
    let spec = shape.memory().spec().clone();
    let mut memory = memory_of(spec, 6, 0);
    let mut writer = TransitionWriter::new(1, 9, 1000, 0);
    let mut added = Added::new(shape);
    for _ in 0..3 {
        added.step(&[1]);
        added.add_to(&mut memory, &mut writer);
    }
    let state = added.envs[0][2].next_state.clone();
    let rows = Transitions {
        states: &state,
        next_states: &state,
        actions: &[0; 8],
        rewards: &[0; 4],
        done: &[false],
        truncated: &[false],
    };
    assert!(writer.add(&mut memory, rows).is_err());
    check_held(&memory, &added);
}

#[test]
fn memory_with_limits_views_or_other_orders_refuses_steps_and_is_unchanged() {
    let check = |change: fn(&mut Memory), named: &str| {
        let shape = Shape { envs: 1, stack: 1, steps: 1, capacity: 20, piece: 20, codec: None };
        let (mut memory, mut added) = (shape.memory(), Added::new(shape));
        let mut writer = TransitionWriter::new(1, 20, 20, 0);
        added.step(&[1]);
        added.add_to(&mut memory, &mut writer);
        change(&mut memory);
        let before = (memory.num_entry(), memory.num_drawable(), writer.added());
        added.step(&[1]);
        let step = added.newest().next().unwrap();
        let given = Transitions {
            states: &step.state,
            next_states: &step.next_state,
            actions: &[0; 8],
            rewards: &[0; 4],
            done: &[false],
            truncated: &[false],
        };
        let error = writer.add(&mut memory, given).unwrap_err().to_string();
        assert!(error.starts_with("memory: expected one without limiter, views"), "{error}");
        assert!(error.ends_with(&format!("got {named}")), "{error}");
        assert_eq!((memory.num_entry(), memory.num_drawable(), writer.added()), before);
    };
    let limiter = |memory: &mut Memory| {
        memory.set_limiter(Some(RateLimiter::min_size(1).unwrap())).unwrap();
    };
    check(limiter, "one with a limiter");
    let view = |memory: &mut Memory| {
        let (name, sampler) = ("other".into(), Sampler::Uniform);
        let (priority_exponent, max_times_sampled) = (1.0, 0);
        let settings = ViewSettings { name, priority_exponent, sampler, max_times_sampled };
        memory.add_view(settings).unwrap();
    };
    check(view, "one with views");
    check(|memory| set(memory, |s| s.max_times_sampled = 2), "max_times_sampled=2");
    check(|memory| set(memory, |s| s.sampler = Sampler::Fifo), "sampler='fifo'");
    check(|memory| set(memory, |s| s.remover = Remover::Lowest), "remover='lowest'");
}
