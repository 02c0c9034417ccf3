//! A context of scripted games, driven to the end of a test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cogrs::collector::context::{Context, Options, TakenBatch};
use cogrs::collector::description::Collector;
use cogrs::collector::failure_policy::OnError;
use cogrs::error::Result;

use crate::scripted_game::{self as game, Log, Script};

/// Far above any wait here: a test that reaches it hangs.
const LIMIT: Duration = Duration::from_secs(20);

pub fn options(games: usize, threads: usize) -> Options {
    Options {
        games,
        threads,
        buffers: None,
        memory: u64::MAX,
        seed: 1,
        deterministic: false,
        on_error: OnError::Raise,
        queries: 0,
    }
}

/// One row of a batch: the values of each key, oldest first.
pub type Row = BTreeMap<&'static str, Vec<f64>>;

pub struct Run {
    pub context: Arc<Context>,
    pub log: Log,
}

impl Run {
    pub fn new(
        collectors: Vec<Collector>,
        options: Options,
        length: i64,
        change: impl Fn(&mut Script),
    ) -> Result<Self> {
        let log = Log::default();
        let players = collectors.iter().filter_map(|each| each.player).max().unwrap_or(0) + 1;
        let mut spec = game::spec(players);
        let mut first = Script::new(0, length, &log);
        change(&mut first);
        spec.blocking = first.held.is_some();
        spec.max_steps = first.max_steps;
        let context = Context::new(&spec, collectors, options, |id| {
            let mut game = Script::new(id, length, &log);
            game.players = players;
            change(&mut game);
            Box::new(game)
        })?;
        Ok(Self { context: Arc::new(context), log })
    }

    pub fn started(collectors: Vec<Collector>, options: Options, length: i64) -> Self {
        let run = Self::new(collectors, options, length, |_| {}).unwrap();
        run.context.start().unwrap();
        run
    }

    pub fn wait(&self, only: Option<usize>) -> TakenBatch {
        let taken = self.context.wait(only, Some(Instant::now() + LIMIT)).unwrap();
        assert!(taken.is_some(), "no batch in time: the run hangs");
        taken.unwrap()
    }

    pub fn name(&self, taken: TakenBatch) -> String {
        self.context.collectors().nth(taken.collector).unwrap().name.clone()
    }

    pub fn rows(&self, taken: TakenBatch) -> Vec<Row> {
        let collector = self.context.collectors().nth(taken.collector).unwrap();
        let batch = &self.context.batches(taken.collector)[taken.buffer];
        let value = |row, step, name| {
            let input = game::key(name);
            let field = &collector.inputs[input].field;
            let mut bytes = vec![0; field.itemsize];
            batch.read(collector.input_part(step, input), row, &mut bytes);
            game::number(&field.dtype, &bytes)
        };
        let row = |row| {
            let steps = |name| (0..collector.steps).map(|step| value(row, step, name)).collect();
            game::KEYS.into_iter().map(|name| (name, steps(name))).collect()
        };
        (0..taken.rows).map(row).collect()
    }

    /// Writes `reply` of each row to the first key of the reply.
    pub fn reply(&self, taken: TakenBatch, reply: impl Fn(&Row) -> i64) {
        let collector = self.context.collectors().nth(taken.collector).unwrap();
        let batch = &self.context.batches(taken.collector)[taken.buffer];
        for (at, row) in self.rows(taken).iter().enumerate() {
            let part = collector.reply_part(collector.steps - 1, 0);
            batch.write(part, at, 0, &reply(row).to_ne_bytes());
        }
    }

    /// Runs until `count` batches of `name` have come, and replies `a = s`.
    pub fn collect(&self, name: &str, count: usize) -> Vec<Vec<Row>> {
        let mut batches = Vec::new();
        while batches.len() < count {
            let taken = self.wait(None);
            let replying = self.context.collectors().nth(taken.collector).unwrap().replying();
            if replying {
                self.reply(taken, |row| *row["s"].last().unwrap() as i64);
            }
            if self.name(taken) == name {
                batches.push(self.rows(taken));
            }
            self.context.answer(taken).unwrap();
        }
        batches
    }

    /// The first `count` histories of one game that a listener gets.
    pub fn histories(&self, name: &str, id: f64, count: usize) -> Vec<Row> {
        let mut found = Vec::new();
        while found.len() < count {
            let batch = self.collect(name, 1).remove(0);
            found.extend(batch.into_iter().filter(|row| row["id"].last() == Some(&id)));
        }
        found.truncate(count);
        found
    }
}
