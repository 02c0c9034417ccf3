//! A scripted game, whose states say which game, episode and step they are of.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use cogrs::collector::description::{Collector, Input, Reply};
use cogrs::error::{Error, Result};
use cogrs::games::{Action, Game, GameSpec, Outcome};
use cogrs::spec::FieldSpec;

/// The actions of all games: game, episode, step, action.
pub type Log = Arc<Mutex<Vec<(usize, i64, i64, i64)>>>;

/// `s = game * 10000 + episode * 100 + seq`; leaving state k pays k + 1; an episode has `length` states.
pub struct Script {
    pub id: usize,
    pub length: i64,
    pub log: Log,
    /// Panics or fails at the action with this number, counted from 1.
    pub panics_at: Option<usize>,
    pub fails_at: Option<usize>,
    /// Panics in `reward`.
    pub owes: bool,
    /// Every third episode is cut short.
    pub cuts: bool,
    /// Steps after which every episode is truncated.
    pub max_steps: u64,
    pub players: usize,
    /// Nanoseconds that a step takes.
    pub slow: u64,
    /// Takes no step until this is set.
    pub held: Option<Arc<AtomicBool>>,
    pub taken: usize,
    pub episode: i64,
    pub seq: i64,
    pub seed: u64,
}

impl Script {
    pub fn new(id: usize, length: i64, log: &Log) -> Self {
        Self {
            id,
            length,
            log: Arc::clone(log),
            panics_at: None,
            fails_at: None,
            owes: false,
            cuts: false,
            max_steps: u64::MAX,
            players: 1,
            slow: 0,
            held: None,
            taken: 0,
            episode: -1,
            seq: 0,
            seed: 0,
        }
    }
}

pub fn i8() -> FieldSpec {
    FieldSpec::new("<i8", 8, &[])
}

pub fn spec(players: usize) -> GameSpec {
    GameSpec {
        keys: vec![("s".into(), i8()), ("seed".into(), i8())],
        action: i8(),
        num_action: 2,
        players: ["white", "black"][..players].iter().map(ToString::to_string).collect(),
        max_steps: u64::MAX,
        blocking: false,
        has_agents: false,
    }
}

impl Game for Script {
    fn reset(&mut self, seed: u64) {
        self.episode += 1;
        self.seq = 0;
        self.seed = seed;
    }

    fn step(&mut self, action: Action<'_>) -> Result<Outcome> {
        self.log.lock().unwrap().push((self.id, self.episode, self.seq, action.index()));
        self.taken += 1;
        assert_ne!(self.panics_at, Some(self.taken), "told to");
        if self.fails_at == Some(self.taken) {
            return Err(Error::State("told to".into()));
        }
        while self.held.as_ref().is_some_and(|free| !free.load(Ordering::Relaxed)) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let start = std::time::Instant::now();
        while start.elapsed().as_nanos() < u128::from(self.slow) {
            std::hint::spin_loop();
        }
        self.seq += 1;
        let over = self.seq == self.length - 1;
        let cut = self.cuts && self.episode % 3 == 2;
        Ok(Outcome { reward: self.seq as f32, terminated: over && !cut, truncated: over && cut })
    }

    fn write(&self, key: usize, out: &mut [u8]) {
        let state = self.id as i64 * 10_000 + self.episode * 100 + self.seq;
        let value = if key == 0 { state } else { self.seed as i64 };
        out.copy_from_slice(&value.to_ne_bytes());
    }

    fn player(&self) -> usize {
        self.seq as usize % self.players
    }

    fn reward(&self, outcome: Outcome, _player: usize) -> f32 {
        assert!(!self.owes, "told to");
        outcome.reward
    }
}

fn field(key: &str) -> FieldSpec {
    let (dtype, itemsize) = match key {
        "id" | "seq" | "rv" | "tid" => ("<i4", 4),
        "s" | "a" | "seed" => ("<i8", 8),
        "last_terminal" | "last_truncated" => ("|u1", 1),
        _ => ("<f4", 4),
    };
    FieldSpec::new(dtype, itemsize, &[])
}

pub fn input(key: &str) -> Input {
    let shifted = matches!(key, "r" | "terminal" | "truncated");
    let column = if shifted { format!("last_{key}") } else { key.into() };
    Input { key: key.into(), field: field(&column), column, shifted, stack: 0 }
}

/// The inputs of [`collector`].
pub const KEYS: [&str; 13] = [
    "id",
    "seq",
    "s",
    "a",
    "rv",
    "r",
    "last_r",
    "terminal",
    "last_terminal",
    "truncated",
    "last_truncated",
    "seed",
    "V",
];

pub fn collector(
    name: &str,
    batch_size: usize,
    steps: usize,
    replies: Option<&[&str]>,
) -> Collector {
    let reply = |key: &&str| Reply { key: (*key).into(), field: field(key) };
    Collector {
        name: name.into(),
        batch_size,
        steps,
        timeout: None,
        player: None,
        inputs: KEYS.map(input).into(),
        replies: replies.map(|keys| keys.iter().map(reply).collect()),
        block: false,
    }
}

pub fn actor(batch_size: usize) -> Collector {
    collector("actor", batch_size, 1, Some(&["a"]))
}

/// A collector that replies to one player.
pub fn of_player(name: &str, batch_size: usize, player: usize) -> Collector {
    Collector { player: Some(player), ..collector(name, batch_size, 1, Some(&["a"])) }
}

pub fn optimizer(batch_size: usize, steps: usize) -> Collector {
    collector("optimizer", batch_size, steps, None)
}

/// The number of a key among the inputs of [`collector`].
pub fn key(key: &str) -> usize {
    KEYS.iter().position(|each| *each == key).unwrap()
}

pub fn number(dtype: &str, bytes: &[u8]) -> f64 {
    match dtype {
        "<i8" => i64::from_ne_bytes(bytes.try_into().unwrap()) as f64,
        "<i4" => f64::from(i32::from_ne_bytes(bytes.try_into().unwrap())),
        "<f4" => f64::from(f32::from_ne_bytes(bytes.try_into().unwrap())),
        _ => f64::from(bytes[0]),
    }
}
