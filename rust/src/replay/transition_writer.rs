//! Transitions of several environments, as algorithms of other libraries add them: observation, action, reward, observation
//! after that. They become growing episodes, in which each observation is stored once.
//!
//! A long episode is written in pieces, so that the ring can drop its oldest steps: one begins with the whole stack of
//! frames, and takes the `multi_step - 1` steps of the next as entries of weight 0, so no sample is shortened by a cut.
//! The info of an entry is a number that says when and where it was added; see [`number`].

use crate::error::{Error, Result, short};
use crate::replay::growing::{Growing, GrowingStep};
use crate::replay::memory::{Memory, RESERVE};
use crate::replay::transition::Draws;
use crate::spec::{FIELDS, Field};

/// Bits of an entry's number that say how its step ended.
pub const END_BITS: u32 = 2;

/// The number of a step of environment `env` in call `call`: info of its entry. `end` is 0, 1 where the episode
/// terminated, 3 where it was truncated.
pub fn number(call: u64, num_envs: usize, env: usize, end: u64) -> u64 {
    (call * num_envs as u64 + env as u64) << END_BITS | end
}

/// A transition of each environment, as bytes, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Transitions<'a> {
    /// Stacks of frames, oldest frame first.
    pub states: &'a [u8],
    /// Likewise, after the action; the last ones of an episode where it ended.
    pub next_states: &'a [u8],
    /// Actions.
    pub actions: &'a [u8],
    /// Rewards, float32.
    pub rewards: &'a [u8],
    /// Whether the episode ended.
    pub done: &'a [bool],
    /// Whether it was truncated and has not terminated; counts where it ended.
    pub truncated: &'a [bool],
}

/// A growing episode, which may begin and end inside an episode of its environment.
#[derive(Debug, Clone, Copy)]
struct Piece {
    growing: Growing,
    /// Steps that it may still take.
    left: usize,
}

/// Room for drawn transitions, a row for each.
#[derive(Debug)]
pub struct Drawn<'a> {
    /// Stacks of frames.
    pub states: &'a mut [u8],
    /// Actions.
    pub actions: &'a mut [u8],
    /// Stacks of frames, `multi_step` steps later or where the episode ended before.
    pub next_states: &'a mut [u8],
    /// float32: 1 where the episode terminated by then, else 0.
    pub terminated: &'a mut [u8],
    /// float32: discounted sums of the rewards until then.
    pub returns: &'a mut [u8],
    /// float32: the discount factor to the power of the steps until then.
    pub discounts: &'a mut [u8],
}

impl Drawn<'_> {
    /// Copies transitions that were drawn from a memory.
    pub fn fill(self, memory: &Memory, draws: &Draws) {
        let Self { states, actions, next_states, terminated, returns, discounts } = self;
        let gamma = memory.settings().discount_factor[0];
        let one_step = memory.settings().multi_step == 1;
        let mut parts: [&mut [u8]; 2 * FIELDS] = Default::default();
        parts[Field::State.index()] = states;
        parts[Field::Action.index()] = actions;
        parts[FIELDS + Field::State.index()] = next_states;
        if one_step {
            parts[Field::Reward.index()] = returns;
            memory.gather_all(draws, &mut parts);
            let ended = |&slot: &u32| {
                memory.storage.field(Field::Info, slot as usize)[LOW_BYTE] & ENDS == 1
            };
            write_floats(
                terminated,
                draws.prev.iter().map(|slot| f32::from(u8::from(ended(slot)))),
            );
            write_floats(discounts, std::iter::repeat(gamma as f32));
        } else {
            memory.gather_all(draws, &mut parts);
            let [terminated, returns, discounts] =
                [terminated, returns, discounts].map(|part| part.as_chunks_mut::<4>().0.iter_mut());
            let mut rows = terminated.zip(returns).zip(discounts);
            memory.each_nstep(draws, |nstep| {
                let Some(((terminated, returns), discount)) = rows.next() else { return };
                *terminated = f32::from(u8::from(nstep.terminated)).to_ne_bytes();
                *returns = (nstep.sums[0] as f32).to_ne_bytes();
                *discount = (nstep.discounts[0] as f32).to_ne_bytes();
            });
        }
    }
}

/// Where the lowest byte of a number lies.
const LOW_BYTE: usize = if cfg!(target_endian = "little") { 0 } else { 7 };
const ENDS: u8 = (1 << END_BITS) - 1;

fn write_floats(out: &mut [u8], values: impl Iterator<Item = f32>) {
    for (out, value) in out.as_chunks_mut::<4>().0.iter_mut().zip(values) {
        *out = value.to_ne_bytes();
    }
}

/// What is being written of one environment.
#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    piece: Option<Piece>,
    /// The piece before, as long as it takes steps of weight 0.
    last: Option<Piece>,
}

/// Writes transitions into one memory, whose info is one 64-bit number.
#[derive(Debug)]
pub struct TransitionWriter {
    streams: Vec<Stream>,
    /// Calls whose steps are kept.
    capacity: u64,
    /// Steps of a piece at most.
    piece: usize,
    /// Slots of each environment that are kept free, so that it finds adjacent ones.
    ahead: usize,
    added: u64,
    /// Slots of the steps of one call.
    slots: Vec<u32>,
}

impl TransitionWriter {
    /// Steps of `num_envs` environments, of which the newest `capacity` of each are kept, in pieces of at most `piece`
    /// steps. `added` calls were made before. For each environment, half a piece of the memory stays free, up to 64 slots.
    pub fn new(num_envs: usize, capacity: usize, piece: usize, added: u64) -> Self {
        let streams = vec![Stream::default(); num_envs];
        let (piece, capacity) = (piece.max(1), capacity as u64);
        let ahead = (piece / 2).min(RESERVE as usize);
        Self { streams, capacity, piece, ahead, added, slots: Vec::new() }
    }

    /// Calls made.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// Environments.
    pub fn num_envs(&self) -> usize {
        self.streams.len()
    }

    /// Adds a step of each environment, or nothing.
    ///
    /// Returns false, and adds nothing, where the memory stacks frames and those of a transition do not overlap. Of a last
    /// observation after which nothing is estimated, only the newest frame is kept, so it need not overlap. Fails with
    /// [`Error::Value`] for a reward that is not finite or a memory that [`Memory::check_can_grow`] refuses, with [`Error::State`] when open episodes leave no room.
    pub fn add(&mut self, memory: &mut Memory, given: Transitions<'_>) -> Result<bool> {
        let envs = self.streams.len();
        let stack = memory.settings().frame_stack;
        memory.check_can_grow()?;
        check_rewards(given.rewards, envs)?;
        let frame = memory.spec()[Field::State].nbytes();
        let shown = frame * stack;
        let rows = |bytes| rows_of(bytes, shown, envs);
        let overlap = |(env, (state, next)): (usize, (&[u8], &[u8]))| {
            let terminated = given.done[env] && !given.truncated[env];
            terminated || state[frame..] == next[..shown - frame]
        };
        if stack > 1 && !rows(given.states).zip(rows(given.next_states)).enumerate().all(overlap) {
            return Ok(false);
        }
        memory.check_room(envs * (stack + 2))?;
        self.drop_old(memory);
        self.slots.clear();
        let action = memory.spec()[Field::Action].nbytes();
        let ahead = memory.settings().multi_step - 1;
        let steps = rows(given.states)
            .zip(rows(given.next_states))
            .zip(rows_of(given.actions, action, envs).zip(given.rewards.chunks_exact(4)))
            .zip(given.done.iter().zip(given.truncated));
        for (env, (((state, next_state), (action, reward)), (&done, &truncated))) in
            steps.enumerate()
        {
            let end = u64::from(done) | u64::from(done && truncated) << 1;
            let info = number(self.added, envs, env, end).to_ne_bytes();
            let next_info = number(self.added + 1, envs, env, 0).to_ne_bytes();
            let (next_state, init_w) = (&next_state[shown - frame..], 1.0);
            let (info, next_info) = (&info[..], &next_info[..]);
            let step = GrowingStep { action, reward, info, init_w, next_state, next_info };
            let frames = || rows_of(state, frame, stack);
            let stream = &mut self.streams[env];
            if stream.piece.is_some_and(|piece| !memory.grows_from(piece.growing, frames())) {
                stream.finish(memory, false)?;
            }
            if stream.piece.is_some_and(|piece| piece.left == 0) {
                stream.cut(memory, ahead)?;
            }
            if let Some(last) = &mut stream.last {
                memory.grow(last.growing, GrowingStep { init_w: 0.0, ..step })?;
                last.left -= 1;
                if last.left == 0 {
                    finish(memory, &mut stream.last, done && !truncated)?;
                }
            }
            if stream.piece.is_none() {
                let growing = memory.open_growing(frames(), info)?;
                stream.piece = Some(Piece { growing, left: self.piece });
            }
            if let Some(piece) = &mut stream.piece {
                self.slots.push(memory.grow(piece.growing, step)?);
                piece.left -= 1;
            }
            if done {
                stream.finish(memory, !truncated)?;
            }
        }
        memory.make_drawable(&self.slots);
        self.added += 1;
        Ok(true)
    }

    /// Closes all growing episodes, as if they had been truncated here.
    pub fn finish(&mut self, memory: &mut Memory) -> Result<()> {
        self.streams.iter_mut().try_for_each(|stream| stream.finish(memory, false))
    }

    /// Evicts pieces all of whose steps are older than the capacity allows when this call is over, and more of them until
    /// the slots ahead are free.
    fn drop_old(&self, memory: &mut Memory) {
        let envs = self.streams.len();
        if let Some(oldest) = (self.added + 1).checked_sub(self.capacity) {
            let first = number(oldest, envs, 0, 0);
            let is_old =
                |info: &[u8]| info.try_into().is_ok_and(|info| u64::from_ne_bytes(info) < first);
            while memory.oldest_info().is_some_and(is_old) && memory.drop_oldest() {}
        }
        let most = memory.max_step().saturating_sub(envs * self.ahead);
        while memory.num_entry() > most && memory.drop_oldest() {}
    }
}

impl Stream {
    /// Begins another piece with the next step.
    fn cut(&mut self, memory: &mut Memory, ahead: usize) -> Result<()> {
        finish(memory, &mut self.last, false)?;
        self.last = self.piece.take().map(|piece| Piece { left: ahead, ..piece });
        if ahead == 0 { finish(memory, &mut self.last, false) } else { Ok(()) }
    }

    fn finish(&mut self, memory: &mut Memory, terminated: bool) -> Result<()> {
        finish(memory, &mut self.last, terminated)?;
        finish(memory, &mut self.piece, terminated)
    }
}

/// Closes a piece, unless the memory was cleared since.
fn finish(memory: &mut Memory, piece: &mut Option<Piece>, terminated: bool) -> Result<()> {
    match piece.take().filter(|piece| memory.is_growing(piece.growing)) {
        Some(piece) => memory.finish_growing(piece.growing, terminated),
        None => Ok(()),
    }
}

/// `count` rows of `size` bytes each, which may be 0.
fn rows_of(
    bytes: &[u8],
    size: usize,
    count: usize,
) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
    (0..count).map(move |row| &bytes[row * size..(row + 1) * size])
}

fn check_rewards(rewards: &[u8], envs: usize) -> Result<()> {
    let words = rewards.as_chunks::<4>().0.iter().take(envs);
    let mut values = words.map(|word| f32::from_ne_bytes(*word)).enumerate();
    values.find(|(_, reward)| !reward.is_finite()).map_or(Ok(()), |(env, reward)| {
        let got = format!("{} of environment {env}", short(reward));
        Err(Error::value("reward", "finite numbers", got))
    })
}
