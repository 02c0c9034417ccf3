//! Games that share a lock, and their records.

use std::ops::Range;

use crate::collector::batch::{Batch, Rows};
use crate::collector::column::BuiltinColumn;
use crate::collector::copy_plan::{HistorySpec, Scatter};
use crate::collector::failure_policy::{Failed, passing_over};
use crate::collector::game_state::{Counts, GameState, Move, Override, RowRequest};
use crate::collector::gather;
use crate::collector::history_buffer::HistoryBuffer;
use crate::collector::plan::Plan;
use crate::collector::scheduler::bits;
use crate::collector::step_buffer::StepBuffer;
use crate::collector::work_batch::{Task, WorkBatch};
use crate::error::{Error, Result};
use crate::games::game_batch::{self, GameBatch};
use crate::games::{Game, Outcome};

/// Games that share a lock at most: what they are made of is still at hand when their rows are written.
pub const MOST: usize = 64;

/// Games that share a lock. What several of them do they do side by side, one part after the other.
pub struct Shard {
    /// The number of the first among all.
    first: u32,
    games: Games,
    /// Where each stands.
    each: Vec<GameState>,
    /// Those of all their states, and then those of single players, as the plan's tracks are numbered.
    pasts: Vec<History>,
}

/// Games, or what is known of them.
pub enum Games {
    /// Games that move here.
    Here(Box<dyn GameBatch>),
    /// What drivers have reported last of games that they move.
    Outside(Vec<Box<dyn Game>>),
}

/// The states of games, or of one of their players.
struct History {
    records: HistoryBuffer,
    /// For each game what happened since the newest of them.
    carried: Vec<Outcome>,
}

impl History {
    /// Remembers how a game's step ended, and what it paid.
    #[inline]
    fn pay(
        &mut self,
        at: usize,
        track: &HistorySpec,
        outcome: Outcome,
        game_batch: &dyn GameBatch,
    ) {
        let carried = &mut self.carried[at];
        carried.reward += match track.player {
            None => outcome.reward,
            Some(player) => game_batch.reward(at, outcome, player),
        };
        carried.terminated |= outcome.terminated;
        carried.truncated |= outcome.truncated;
    }
}

/// What a game does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It does nothing.
    Nothing,
    /// It waits for this.
    RowRequest(RowRequest),
    /// It takes a step.
    Step,
    /// It is in a new state already: it has begun an episode.
    Enter,
}

impl Shard {
    /// Games before their first states.
    pub fn new(first: u32, games: Games, slots: Vec<GameState>, plan: &Plan) -> Self {
        let past = |track: &HistorySpec| {
            let mut records = HistoryBuffer::new(plan.columns.size(), track.depth, slots.len());
            // These never change.
            records.fill(BuiltinColumn::Id, |at| slots[at].id.to_ne_bytes());
            records.fill(BuiltinColumn::Tid, |at| slots[at].tid.to_ne_bytes());
            History { records, carried: vec![Outcome::default(); slots.len()] }
        };
        let pasts = plan.tracks.iter().map(past).collect();
        Self { first, games, each: slots, pasts }
    }

    #[inline]
    fn at(&self, slot: u32) -> usize {
        (slot - self.first) as usize
    }

    /// Has games take what their rows of a batch were answered.
    pub fn take(&mut self, plan: &Plan, collector: usize, batch: &Batch, tasks: &[Task]) {
        let run = self.answered_at_once(tasks);
        for take in &plan.routes[collector].takes {
            let part = batch.rows_of(take.part);
            if let (0, Some((row, games))) = (take.later, run.clone()) {
                part.read_run(row, self.pasts[0].records.newest_run(&take.range, games));
                continue;
            }
            for task in tasks {
                if let Task::Answer { slot, row } = *task {
                    self.take_one(take, self.at(slot), part, row as usize);
                }
            }
        }
        for task in tasks {
            if let Task::Answer { slot, .. } = *task {
                let at = self.at(slot);
                self.each[at].answer(collector);
            }
        }
    }

    /// The first row and the games, when rows one after the other answer neighbours in step with each other.
    fn answered_at_once(&self, tasks: &[Task]) -> Option<(usize, Range<usize>)> {
        let beside = tasks.is_sorted_by(|one, other| match (*one, *other) {
            (Task::Answer { slot, row }, Task::Answer { slot: next, row: below }) => {
                slot + 1 == next && row + 1 == below
            }
            _ => false,
        });
        let (&Task::Answer { slot, row }, [_]) = (tasks.first()?, &self.pasts[..]) else {
            return None;
        };
        let games = self.at(slot)..self.at(slot) + tasks.len();
        let at_once = beside && self.pasts[0].records.in_step(games.clone()).is_some();
        at_once.then_some((row as usize, games))
    }

    fn take_one(&mut self, take: &Scatter, at: usize, part: Rows<'_>, row: usize) {
        // Where a later collector has answered the same key, its answer stays.
        if self.each[at].has_answer_of(take.later) {
            return;
        }
        for (track, past) in self.pasts.iter_mut().enumerate() {
            if self.each[at].is_in(track) {
                part.read(row, past.records.newest_mut(&take.range, at));
            }
        }
    }

    /// Has games go on to where collectors are needed next. What they want, and which of them failed, is added to the
    /// chunk.
    pub fn go_on(
        &mut self,
        plan: &Plan,
        step_buffer: Option<&StepBuffer>,
        tasks: &[Task],
        chunk: &mut WorkBatch,
    ) {
        let mut entering = Vec::with_capacity(tasks.len());
        let mut steps = Vec::with_capacity(tasks.len());
        let failed = passing_over(|done| {
            for &task in &tasks[*done..] {
                let at = self.at(task.slot());
                match self.start(plan, step_buffer, task)? {
                    Next::Nothing => {}
                    Next::RowRequest(wish) => chunk.wish(wish, [task.slot()]),
                    Next::Enter => entering.push(at),
                    Next::Step => {
                        entering.push(at);
                        steps.push(game_batch::GameItem {
                            at,
                            item: self.pasts[0].records.item(at),
                        });
                    }
                }
                *done += 1;
            }
            Ok(())
        });
        chunk.crashes.extend(failed.into_iter().map(|(at, text)| (tasks[at].slot(), text)));
        let failed = self.step(plan, &steps);
        self.drop_failed(failed, &mut entering, chunk);
        let failed = self.enter(plan, &entering);
        self.drop_failed(failed, &mut entering, chunk);
        for alike in
            entering.chunk_by(|&one, &other| self.each[one].player == self.each[other].player)
        {
            let wish = self.each[alike[0]].asks(plan);
            chunk.wish(wish, alike.iter().map(|&at| self.first + at as u32));
        }
    }

    /// Games that failed, by their numbers here, enter nothing.
    fn drop_failed(&self, failed: Failed, entering: &mut Vec<usize>, chunk: &mut WorkBatch) {
        for (at, text) in failed {
            // One that fails twice, such as in two of its keys, is told of once.
            if let Some(place) = entering.iter().position(|&other| other == at) {
                entering.remove(place);
                chunk.crashes.push((self.first + at as u32, text));
            }
        }
    }

    /// Finds out what a task has its game do.
    #[inline]
    fn start(&mut self, plan: &Plan, step_buffer: Option<&StepBuffer>, task: Task) -> Result<Next> {
        let at = self.at(task.slot());
        Ok(match (task, step_buffer) {
            (Task::Advance(_) | Task::Answer { .. }, _) => self.next(plan, at),
            (Task::Report { row, .. }, Some(step_buffer)) => {
                self.show(at, step_buffer.report(row as usize)?);
                self.move_on(at)
            }
            _ => Next::Nothing,
        })
    }

    #[inline]
    fn next(&mut self, plan: &Plan, at: usize) -> Next {
        let slot = &mut self.each[at];
        match slot.detour() {
            Some(Override::Stay) => {
                slot.forget_answers();
                return Next::RowRequest(slot.asks(plan));
            }
            Some(Override::Begin(seed)) => self.begin_anew(at, seed),
            None => {}
        }
        let due = if self.each[at].tells() { self.due(plan, at) } else { 0 };
        match self.games {
            _ if due != 0 => Next::RowRequest(RowRequest::Tell(due)),
            Games::Here(_) => self.move_on(at),
            Games::Outside(_) => Next::RowRequest(RowRequest::Move),
        }
    }

    #[inline]
    fn move_on(&mut self, at: usize) -> Next {
        match self.each[at].next_move() {
            Move::Step => Next::Step,
            Move::Reset(seed) => {
                self.games.herd_mut().reset(at, seed);
                self.each[at].begin();
                Next::Enter
            }
        }
    }

    /// The listening collectors that are to get a row.
    fn due(&self, plan: &Plan, at: usize) -> u64 {
        let is_due = |&collector: &usize| {
            let route = &plan.routes[collector];
            let count = self.pasts[route.history].records.count(at);
            self.each[at].is_in(route.history) && route.collector.due(count)
        };
        bits(plan.listening).filter(is_due).fold(0, |due, collector| due | 1 << collector)
    }

    /// Has games take steps; those that fail are named by their numbers here.
    fn step(&mut self, plan: &Plan, places: &[game_batch::GameItem]) -> Failed {
        let Self { games, each, pasts, .. } = self;
        let game_batch = games.herd_mut();
        let mut outcomes = vec![None; places.len()];
        let column = plan.columns.action();
        let actions = pasts[0].records.column(column);
        let mut failed = passing_over(|done| {
            game_batch.step(column.len(), actions, places, &mut outcomes, done)
        });
        let paid = passing_over(|done| {
            for (&game_batch::GameItem { at, .. }, outcome) in
                places.iter().zip(&outcomes).skip(*done)
            {
                if let Some(outcome) = *outcome {
                    each[at].step(outcome);
                    for (past, track) in pasts.iter_mut().zip(&plan.tracks) {
                        past.pay(at, track, outcome, &*game_batch);
                    }
                }
                *done += 1;
            }
            Ok(())
        });
        failed.extend(paid);
        failed.into_iter().map(|(place, text)| (places[place].at, text)).collect()
    }

    /// Records the states that games are in; those that fail are named by their numbers here.
    fn enter(&mut self, plan: &Plan, games: &[usize]) -> Failed {
        let failed = passing_over(|done| {
            for &at in &games[*done..] {
                let player = if plan.has_turns { self.games.game_batch().player(at) } else { 0 };
                self.each[at].enter(player, plan.present(player));
                *done += 1;
            }
            Ok(())
        });
        let mut failed: Failed =
            failed.into_iter().map(|(place, text)| (games[place], text)).collect();
        for track in 0..self.pasts.len() {
            failed.extend(self.record(plan, track, games));
        }
        failed
    }

    /// Records the states that belong to a track.
    fn record(&mut self, plan: &Plan, track: usize, games: &[usize]) -> Failed {
        let Self { games: all, each: slots, pasts, .. } = self;
        let History { records, carried } = &mut pasts[track];
        let recorded = games.iter().copied().filter(|&at| slots[at].is_in(track));
        let mut places = Vec::with_capacity(games.len());
        places.extend(recorded.map(|at| game_batch::GameItem { at, item: records.push(at) }));
        records.put(plan, BuiltinColumn::Seq, &places, |at| slots[at].seq.to_ne_bytes());
        records.put(plan, BuiltinColumn::Episode, &places, |at| slots[at].episode.to_ne_bytes());
        records
            .put(plan, BuiltinColumn::LastReward, &places, |at| carried[at].reward.to_ne_bytes());
        // The other keys tell of the end of an episode in the first state after it.
        records.put(plan, BuiltinColumn::LastTerminal, &places, |at| {
            flag(!slots[at].over && carried[at].terminated)
        });
        records.put(plan, BuiltinColumn::LastTruncated, &places, |at| {
            flag(!slots[at].over && carried[at].truncated)
        });
        records.put(plan, BuiltinColumn::Ended, &places, |at| {
            flag(slots[at].over && carried[at].terminated)
        });
        records.put(plan, BuiltinColumn::Cut, &places, |at| {
            flag(slots[at].over && carried[at].truncated)
        });
        for place in &places {
            let end = &mut carried[place.at];
            let told = !slots[place.at].over;
            *end = Outcome {
                reward: 0.0,
                terminated: end.terminated && !told,
                truncated: end.truncated && !told,
            };
        }
        for (_, column) in plan.columns.replies() {
            records.clear_column(column, &places);
        }
        let game_batch = all.game_batch();
        let mut failed = Vec::new();
        for (key, column) in plan.columns.game_keys().enumerate() {
            let out = records.column_mut(column);
            let each = passing_over(|done| {
                game_batch.write(key, column.len(), out, &places, done);
                Ok(())
            });
            failed.extend(each.into_iter().map(|(place, text)| (places[place].at, text)));
        }
        failed
    }

    /// Writes rows of a batch, from this one on, that were given to games.
    pub fn write(&self, plan: &Plan, collector: usize, batch: &Batch, first: usize, slots: &[u32]) {
        let route = &plan.routes[collector];
        let games = slots.iter().map(|&slot| self.at(slot));
        let beside = slots.is_sorted_by(|one, other| one + 1 == *other);
        let neighbours = slots.first().map(|&slot| self.at(slot)..self.at(slot) + slots.len());
        let neighbours = neighbours.filter(|_| beside);
        gather::fill(route, &self.pasts[route.history].records, batch, first, games, neighbours);
    }

    /// Has a query ask about a state that `shown` shows.
    ///
    /// # Errors
    /// [`Error::State`] when that fails.
    pub fn ask(&mut self, plan: &Plan, slot: u32, shown: Box<dyn Game>) -> Result<RowRequest> {
        let at = self.at(slot);
        self.show(at, shown);
        self.each[at].begin();
        match self.enter(plan, &[at]).pop() {
            None => Ok(self.each[at].asks(plan)),
            Some((_, text)) => Err(Error::State(text)),
        }
    }

    /// What the newest state was answered, for each key that anybody replies.
    pub fn answers(&self, plan: &Plan, slot: u32) -> Vec<(String, Vec<u8>)> {
        let at = self.at(slot);
        let part = |(key, column): (&str, &_)| {
            (key.into(), self.pasts[0].records.newest(column, at).into())
        };
        plan.columns.replies().map(part).collect()
    }

    /// Takes in what a game that moves outside has got to.
    fn show(&mut self, at: usize, shown: Box<dyn Game>) {
        if let Games::Outside(games) = &mut self.games {
            games[at] = shown;
        }
    }

    /// What a game's driver is to do, and the action for that.
    pub fn order(&self, plan: &Plan, slot: u32) -> (Move, &[u8]) {
        let at = self.at(slot);
        (self.each[at].next_move(), self.pasts[0].records.newest(plan.columns.action(), at))
    }

    /// Gives up an episode because the game failed: it is as if there had been no state before the next. Adds
    /// to `lost`, for each collector, the states that it has not got of this game and never will.
    pub fn crash(&mut self, plan: &Plan, slot: u32, lost: &mut [u64]) {
        let at = self.at(slot);
        for (route, lost) in plan.routes.iter().zip(lost) {
            if !route.collector.replying() {
                let states = self.pasts[route.history].records.count(at);
                *lost += route.collector.undelivered(states);
            }
        }
        self.begin_anew(at, None);
    }

    /// As if there had been no state before the next.
    fn begin_anew(&mut self, at: usize, seed: Option<u64>) {
        for History { records, carried } in &mut self.pasts {
            records.clear(at);
            carried[at] = Outcome::default();
        }
        self.each[at].begin_anew(seed);
    }

    /// Has a game do something else than its next step.
    pub fn divert(&mut self, slot: u32, detour: Override) {
        let at = self.at(slot);
        self.each[at].divert(detour);
    }

    /// What each has done.
    pub fn counts(&self) -> Vec<Counts> {
        self.each.iter().map(GameState::counts).collect()
    }
}

impl Games {
    #[inline]
    fn game_batch(&self) -> &dyn GameBatch {
        match self {
            Self::Here(game_batch) => &**game_batch,
            Self::Outside(games) => games,
        }
    }

    #[inline]
    fn herd_mut(&mut self) -> &mut dyn GameBatch {
        match self {
            Self::Here(game_batch) => &mut **game_batch,
            Self::Outside(games) => games,
        }
    }
}

fn flag(set: bool) -> [u8; 1] {
    [u8::from(set)]
}
