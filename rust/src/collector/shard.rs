//! A shard: up to 64 adjacent games that share a lock, and their histories.
//!
//! All of this needs the lock of the shard. That lock is last in the order: nothing here takes another one, and no two shards
//! are locked together, so code that steps a game delays only the games of its shard.
//!
//! Games of a shard are one value of their type, so that a processor can step one while it waits for another, and advance
//! phase by phase: read replies, step, record, write rows. A history has all states of a game, or those in which one player
//! moves; that of a player adds up what the player was paid while others moved. A listener gets a history after the replies
//! to its last state, at every (T-1)th state, so histories share one state, and no transition is lost or doubled.

use std::ops::Range;

use crate::collector::batch::{Batch, BatchRows};
use crate::collector::context_plan::ContextPlan;
use crate::collector::copy_plan::Scatter;
use crate::collector::failure_policy::{FailedItems, skipping_failures};
use crate::collector::game_state::{Counts, GameState, Move, Override, RowRequest};
use crate::collector::gather::gather;
use crate::collector::history::History;
use crate::collector::scheduler::bits;
use crate::collector::step_buffer::StepBuffer;
use crate::collector::work_batch::{Task, WorkBatch};
use crate::error::{Error, Result};
use crate::games::Game;
use crate::games::game_batch::{GameBatch, GameItem};

/// Games of a shard at most: so many stay in the cache until their rows are written.
pub const SHARD_SIZE: usize = 64;

pub struct Shard {
    /// The number of the first game among all.
    first: u32,
    games: Games,
    states: Vec<GameState>,
    /// That of all states, then those of single players, as in [`ContextPlan::histories`].
    histories: Vec<History>,
}
pub enum Games {
    /// Stepped here.
    Here(Box<dyn GameBatch>),
    /// Stepped by env workers: their last reports.
    Outside(Vec<Box<dyn Game>>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Nothing,
    /// Wait for rows or a move.
    Request(RowRequest),
    Step,
    /// Enter a new state: the game has begun an episode.
    Enter,
}

impl Shard {
    pub fn new(first: u32, games: Games, states: Vec<GameState>, plan: &ContextPlan) -> Self {
        let history = |spec| History::new(spec, plan, &states);
        let histories = plan.histories.iter().map(history).collect();
        Self { first, games, states, histories }
    }

    fn at(&self, game: u32) -> usize {
        (game - self.first) as usize
    }

    /// Copies the replies in rows of a batch to the records of their games.
    pub fn scatter(&mut self, plan: &ContextPlan, collector: usize, batch: &Batch, tasks: &[Task]) {
        let run = self.adjacent_replies(tasks);
        for scatter in &plan.copy_plans[collector].scatters {
            let part = batch.rows_of(scatter.part);
            if let (0, Some((row, games))) = (scatter.later, run.clone()) {
                part.read_run(row, self.histories[0].records.newest_run(&scatter.range, games));
                continue;
            }
            for task in tasks {
                if let Task::Reply { game, row } = *task {
                    self.scatter_one(scatter, self.at(game), part, row as usize);
                }
            }
        }
        for task in tasks {
            if let Task::Reply { game, .. } = *task {
                let at = self.at(game);
                self.states[at].reply(collector);
            }
        }
    }

    /// The first row and the games, when adjacent rows reply to adjacent games whose newest records are adjacent too.
    fn adjacent_replies(&self, tasks: &[Task]) -> Option<(usize, Range<usize>)> {
        let adjacent = tasks.is_sorted_by(|one, other| match (*one, *other) {
            (Task::Reply { game, row }, Task::Reply { game: next, row: below }) => {
                game + 1 == next && row + 1 == below
            }
            _ => false,
        });
        let (&Task::Reply { game, row }, [history]) = (tasks.first()?, &self.histories[..]) else {
            return None;
        };
        let games = self.at(game)..self.at(game) + tasks.len();
        let adjacent = adjacent && history.records.in_step(games.clone()).is_some();
        adjacent.then_some((row as usize, games))
    }

    fn scatter_one(&mut self, scatter: &Scatter, at: usize, part: BatchRows<'_>, row: usize) {
        // Where a later collector has replied the same key, its reply stays.
        if self.states[at].has_reply_of(scatter.later) {
            return;
        }
        for (number, history) in self.histories.iter_mut().enumerate() {
            if self.states[at].is_in(number) {
                part.read(row, history.records.newest_mut(&scatter.range, at));
            }
        }
    }

    /// Lets games go on until collectors are needed. Adds their requests, and failed games, to the work batch.
    pub fn go_on(
        &mut self,
        plan: &ContextPlan,
        step_buffer: Option<&StepBuffer>,
        tasks: &[Task],
        work: &mut WorkBatch,
    ) {
        let mut entering = Vec::with_capacity(tasks.len());
        let mut steps = Vec::with_capacity(tasks.len());
        let failed = skipping_failures(|done| {
            for &task in &tasks[*done..] {
                let at = self.at(task.game());
                match self.start(plan, step_buffer, task)? {
                    Next::Nothing => {}
                    Next::Request(request) => work.request(request, [task.game()]),
                    Next::Enter => entering.push(at),
                    Next::Step => {
                        entering.push(at);
                        steps.push(GameItem { at, item: self.histories[0].records.item(at) });
                    }
                }
                *done += 1;
            }
            Ok(())
        });
        work.failures.extend(failed.into_iter().map(|(at, text)| (tasks[at].game(), text)));
        let failed = self.step(plan, &steps);
        self.drop_failed(failed, &mut entering, work);
        let failed = self.enter(plan, &entering);
        self.drop_failed(failed, &mut entering, work);
        let player = |at: usize| self.states[at].player;
        for alike in entering.chunk_by(|&one, &other| player(one) == player(other)) {
            let request = self.states[alike[0]].request_replies(plan);
            work.request(request, alike.iter().map(|&at| self.first + at as u32));
        }
    }

    /// Moves failed games from those that enter a state to the work batch's failures.
    fn drop_failed(&self, failed: FailedItems, entering: &mut Vec<usize>, work: &mut WorkBatch) {
        for (at, text) in failed {
            // A game that fails twice, such as in two keys, is reported once.
            if let Some(position) = entering.iter().position(|&other| other == at) {
                entering.remove(position);
                work.failures.push((self.first + at as u32, text));
            }
        }
    }

    /// Starts a task: the next thing that its game does.
    #[inline]
    fn start(
        &mut self,
        plan: &ContextPlan,
        step_buffer: Option<&StepBuffer>,
        task: Task,
    ) -> Result<Next> {
        let at = self.at(task.game());
        Ok(match (task, step_buffer) {
            (Task::Advance(_) | Task::Reply { .. }, _) => self.next(plan, at),
            (Task::Report { row, .. }, Some(step_buffer)) => {
                self.replace(at, step_buffer.report(row as usize)?);
                self.move_on(at)
            }
            _ => Next::Nothing,
        })
    }

    #[inline]
    fn next(&mut self, plan: &ContextPlan, at: usize) -> Next {
        let state = &mut self.states[at];
        match state.take_override() {
            Some(Override::Stay) => {
                state.forget_replies();
                return Next::Request(state.request_replies(plan));
            }
            Some(Override::Begin(seed)) => self.begin_anew(at, seed),
            None => {}
        }
        let due = if self.states[at].mark_replied() { self.due(plan, at) } else { 0 };
        match self.games {
            _ if due != 0 => Next::Request(RowRequest::Histories(due)),
            Games::Here(_) => self.move_on(at),
            Games::Outside(_) => Next::Request(RowRequest::Move),
        }
    }

    #[inline]
    fn move_on(&mut self, at: usize) -> Next {
        match self.states[at].next_move() {
            Move::Step => Next::Step,
            Move::Reset(seed) => {
                self.games.all_mut().reset(at, seed);
                self.states[at].begin();
                Next::Enter
            }
        }
    }

    /// The listening collectors that are to get a history, as bits.
    fn due(&self, plan: &ContextPlan, at: usize) -> u64 {
        let is_due = |&collector: &usize| {
            let copy_plan = &plan.copy_plans[collector];
            let count = self.histories[copy_plan.history].records.count(at);
            self.states[at].is_in(copy_plan.history) && copy_plan.collector.due(count)
        };
        bits(plan.listening).filter(is_due).fold(0, |due, collector| due | 1 << collector)
    }

    /// Steps games. Returns those that fail, by their positions in the shard.
    fn step(&mut self, plan: &ContextPlan, items: &[GameItem]) -> FailedItems {
        let Self { games, states, histories, .. } = self;
        let games = games.all_mut();
        let mut outcomes = vec![None; items.len()];
        let column = plan.columns.action();
        let actions = histories[0].records.column(column);
        let mut failed =
            skipping_failures(|done| games.step(column.len(), actions, items, &mut outcomes, done));
        let paid = skipping_failures(|done| {
            for (&GameItem { at, .. }, outcome) in items.iter().zip(&outcomes).skip(*done) {
                if let Some(outcome) = *outcome {
                    let turn = plan.has_agents.then(|| games.turn(at));
                    let outcome = match turn {
                        None => states[at].step(outcome, plan.max_steps),
                        Some(turn) => states[at].take_turn(outcome, turn),
                    };
                    let player = turn.map(|turn| turn.player);
                    for (history, spec) in histories.iter_mut().zip(&plan.histories) {
                        // An agent's outcome is its own alone.
                        if player.is_none() || spec.player.is_none() || spec.player == player {
                            history.add(at, spec, outcome, &*games);
                        }
                    }
                }
                *done += 1;
            }
            Ok(())
        });
        failed.extend(paid);
        failed.into_iter().map(|(item, text)| (items[item].at, text)).collect()
    }

    /// Records the states of games. Returns those that fail, by their positions in the shard.
    fn enter(&mut self, plan: &ContextPlan, games: &[usize]) -> FailedItems {
        let failed = skipping_failures(|done| {
            for &at in &games[*done..] {
                let player = if plan.has_turns { self.games.all().player(at) } else { 0 };
                self.states[at].enter(player, plan.present(player));
                *done += 1;
            }
            Ok(())
        });
        let mut failed: FailedItems =
            failed.into_iter().map(|(position, text)| (games[position], text)).collect();
        for history in 0..self.histories.len() {
            failed.extend(self.record(plan, history, games));
        }
        failed
    }

    fn record(
        &mut self,
        plan: &ContextPlan,
        history_number: usize,
        entering: &[usize],
    ) -> FailedItems {
        let Self { games, states, histories, .. } = self;
        let history = &mut histories[history_number];
        let recorded = entering.iter().copied().filter(|&at| states[at].is_in(history_number));
        let items = history.push(plan, states, recorded);
        let records = &mut history.records;
        let games = games.all();
        let mut failed = Vec::new();
        for (key, column) in plan.columns.game_keys().enumerate() {
            let out = records.column_mut(column);
            let each = skipping_failures(|done| {
                games.write(key, column.len(), out, &items, done);
                Ok(())
            });
            failed.extend(each.into_iter().map(|(item, text)| (items[item].at, text)));
        }
        failed
    }

    /// Writes adjacent rows of a batch, from `first` on, that are assigned to games.
    pub fn gather(
        &self,
        plan: &ContextPlan,
        collector: usize,
        batch: &Batch,
        first: usize,
        games: &[u32],
    ) {
        let copy_plan = &plan.copy_plans[collector];
        let places = games.iter().map(|&game| self.at(game));
        let adjacent = games.is_sorted_by(|one, other| one + 1 == *other);
        let run = games.first().map(|&game| self.at(game)..self.at(game) + games.len());
        let run = run.filter(|_| adjacent);
        let records = &self.histories[copy_plan.history].records;
        gather(copy_plan, records, batch, first, places, run);
    }

    /// Enters the state that a query asks about and returns its request. Fails when the game fails to show it.
    pub fn query(
        &mut self,
        plan: &ContextPlan,
        query: u32,
        shown: Box<dyn Game>,
    ) -> Result<RowRequest> {
        let at = self.at(query);
        self.replace(at, shown);
        self.states[at].begin();
        match self.enter(plan, &[at]).pop() {
            None => Ok(self.states[at].request_replies(plan)),
            Some((_, text)) => Err(Error::State(text)),
        }
    }

    pub fn replies(&self, plan: &ContextPlan, game: u32) -> Vec<(String, Vec<u8>)> {
        let at = self.at(game);
        let part = |(key, column): (&str, &_)| {
            (key.into(), self.histories[0].records.newest(column, at).into())
        };
        plan.columns.replies().map(part).collect()
    }

    /// Replaces a game that an env worker steps by its report.
    fn replace(&mut self, at: usize, shown: Box<dyn Game>) {
        if let Games::Outside(games) = &mut self.games {
            games[at] = shown;
        }
    }

    pub fn next_move(&self, plan: &ContextPlan, game: u32) -> (Move, &[u8]) {
        let at = self.at(game);
        (self.states[at].next_move(), self.histories[0].records.newest(plan.columns.action(), at))
    }

    /// Abandons the episode of a failed game. Adds to `lost`, by collector, the states that will be in no history.
    pub fn abandon_episode(&mut self, plan: &ContextPlan, game: u32, lost: &mut [u64]) {
        let at = self.at(game);
        for (copy_plan, lost) in plan.copy_plans.iter().zip(lost) {
            if !copy_plan.collector.replying() {
                let states = self.histories[copy_plan.history].records.count(at);
                *lost += copy_plan.collector.undelivered(states);
            }
        }
        self.begin_anew(at, None);
    }

    /// Forgets a game's past states; its next move begins an episode.
    fn begin_anew(&mut self, at: usize, seed: Option<u64>) {
        self.histories.iter_mut().for_each(|history| history.forget(at));
        self.states[at].begin_anew(seed);
    }

    pub fn override_step(&mut self, game: u32, by: Override) {
        let at = self.at(game);
        self.states[at].override_step(by);
    }

    pub fn counts(&self) -> Vec<Counts> {
        self.states.iter().map(|state| state.counts).collect()
    }
}

impl Games {
    #[inline]
    fn all(&self) -> &dyn GameBatch {
        match self {
            Self::Here(games) => &**games,
            Self::Outside(games) => games,
        }
    }

    #[inline]
    fn all_mut(&mut self) -> &mut dyn GameBatch {
        match self {
            Self::Here(games) => &mut **games,
            Self::Outside(games) => games,
        }
    }
}
