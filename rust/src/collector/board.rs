//! Which game does what next: everything of a context that its lock guards.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::collector::chunk::{Chunk, Grant, Role, Task};
use crate::collector::crash::{Crashes, OnError, Verdict};
use crate::collector::group::Group;
use crate::collector::life::Life;
use crate::collector::query::Queries;
use crate::collector::slot::Wish;
use crate::error::Result;

/// Time that a thread takes work for at once. Handing work to another thread costs some 10 us, so less
/// than a few of those is not worth it.
const CHUNK: Duration = Duration::from_micros(50);

/// Games in a chunk at most.
const CHUNK_GAMES: usize = 256;

/// A game that takes longer than this is left to the threads that have nothing else to do, one at a time:
/// who waits for a batch would miss its timeout while it steps such a game.
pub(super) const SLOW: Duration = Duration::from_millis(1);

/// What a collector has delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Batches answered or consumed.
    pub batches: u64,
    /// Their rows.
    pub rows: u64,
    /// Those that were not full.
    pub short: u64,
    /// States that no history shows, because their game failed first.
    pub lost: u64,
}

/// The bookkeeping of a context.
#[derive(Debug)]
pub struct Board {
    /// Whether it works.
    pub life: Life,
    /// A group for each collector.
    pub groups: Vec<Group<u32>>,
    /// Which of them hold a game until its batch is given back: those that answer, and others that ask for it.
    holding: u64,
    /// For each game, what it waits for: answers not given, or rows not written.
    ends: Vec<u32>,
    /// Work, but for that with slow games.
    queue: VecDeque<Task>,
    /// Slow games that are to go on.
    slow: VecDeque<u32>,
    /// Which games are slow, as far as is known: a game is taken for slow until it has been timed.
    is_slow: Vec<bool>,
    /// All games are to be taken for slow.
    blocking: bool,
    /// For each driver its games that are to move. None when games move here.
    pub(super) outside: Vec<VecDeque<u32>>,
    /// Who waits for batches moves them meanwhile, instead of their driver.
    pub(super) lent: bool,
    /// The games that failed.
    pub crashes: Crashes,
    /// Questions that games ask while they are moved.
    pub queries: Queries,
    ready: VecDeque<(usize, usize)>,
    /// Batches are delivered in the order in which their rows were given away, whichever is written first.
    pub in_turn: bool,
    /// Then: the groups of those that are being written, in that order.
    turns: VecDeque<usize>,
    /// Tasks in the hands of threads.
    pub(super) running: usize,
    /// Nanoseconds that a task of a quick game takes, smoothed.
    cost: f64,
    /// What was used for the work of an answer, and is used again: its vectors have grown.
    pub spare: Chunk,
    /// Threads that sleep until there is work.
    pub idle: usize,
    /// Threads that sleep until there is a batch.
    pub consumers: usize,
    /// The deadline by which those will wake of their own accord.
    pub alarm: Option<Instant>,
    /// What was delivered, by collector.
    pub delivered: Vec<Delivered>,
}

impl Board {
    /// A board of games none of which has begun.
    pub fn new(groups: Vec<Group<u32>>, holding: u64, games: usize, blocking: bool) -> Self {
        Self {
            life: Life::New,
            delivered: vec![Delivered::default(); groups.len()],
            groups,
            holding,
            ends: vec![0; games],
            queue: VecDeque::new(),
            slow: (0..games as u32).collect(),
            is_slow: vec![true; games],
            blocking,
            outside: Vec::new(),
            lent: false,
            crashes: Crashes::new(OnError::Raise, games),
            queries: Queries::new(games, 0, 0),
            ready: VecDeque::new(),
            in_turn: false,
            turns: VecDeque::new(),
            running: 0,
            cost: 0.0,
            spare: Chunk::default(),
            idle: 0,
            consumers: 0,
            alarm: None,
        }
    }

    /// Has so many drivers move the games, each its share of them.
    pub fn move_outside(&mut self, drivers: usize, slots: usize) {
        self.outside = vec![VecDeque::new(); drivers];
        self.ends.resize(slots, 0);
        self.queries = Queries::new(self.is_slow.len(), slots, drivers);
        self.is_slow.fill(false);
        self.queue.extend(self.slow.drain(..).map(Task::Advance));
    }

    fn chunk_size(&self) -> usize {
        let fitting = CHUNK.as_nanos() as f64 / self.cost.max(1.0);
        (fitting as usize).clamp(1, CHUNK_GAMES)
    }

    /// Threads that there is work for, but for one that takes work itself in this role.
    pub fn helpers(&self, role: Option<Role>) -> usize {
        let size = self.chunk_size();
        let chunks = self.queue.len().div_ceil(size);
        match role {
            // What is less than it costs to wake a thread can wait until somebody waits for a batch, if nobody
            // does so now.
            None if self.consumers == 0 && !self.has_drivers() => {
                self.queue.len() / size + self.slow.len()
            }
            None => chunks + self.slow.len(),
            Some(Role::Consumer) => chunks.saturating_sub(1) + self.slow.len(),
            Some(Role::Worker) => (chunks + self.slow.len()).saturating_sub(1),
        }
    }

    /// Takes work. Returns whether there is some.
    pub fn pick(&mut self, chunk: &mut Chunk, role: Role) -> bool {
        let slow = if role == Role::Worker { self.slow.pop_front() } else { None };
        chunk.tasks.clear();
        chunk.tasks.extend(slow.map(Task::Advance));
        if chunk.tasks.is_empty() {
            let count = self.chunk_size().min(self.queue.len());
            chunk.tasks.extend(self.queue.drain(..count));
        }
        self.running += chunk.tasks.len();
        !chunk.tasks.is_empty()
    }

    /// Has a game go on.
    pub(super) fn push(&mut self, slot: u32) {
        if self.is_slow[slot as usize] {
            self.slow.push_back(slot);
        } else {
            self.queue.push_back(Task::Advance(slot));
        }
    }

    /// Learns from how long a chunk took.
    fn learn(&mut self, chunk: &Chunk, took: Duration) {
        let slots = chunk.tasks.iter().filter_map(|task| match task {
            Task::Advance(slot) | Task::Answer { slot, .. } => Some(*slot as usize),
            _ => None,
        });
        // Which game of several it was shows when each is timed alone.
        let slow = self.outside.is_empty() && (self.blocking || took > SLOW);
        slots.for_each(|slot| self.is_slow[slot] = slow);
        if took <= SLOW {
            let each = took.as_nanos() as f64 / chunk.tasks.len().max(1) as f64;
            self.cost += (each - self.cost) / 8.0;
        }
    }

    /// Asks for the rows that games want; those that are there already become the chunk's grants.
    pub fn claim(&mut self, chunk: &mut Chunk) {
        if let Some((taken, owners)) = chunk.answered.take() {
            self.free(taken, owners);
        }
        for &(slot, wish) in &chunk.wishes {
            let groups = match wish {
                Wish::Ask(groups) | Wish::Tell(groups) => groups,
                Wish::Move => {
                    let driver = self.queries.driver_of(slot);
                    self.outside[driver].push_back(slot);
                    continue;
                }
            };
            self.ends[slot as usize] = groups.count_ones();
            if groups == 0 {
                self.go_on(slot);
            }
            for group in bits(groups) {
                match self.groups[group].claim(slot) {
                    Some(row) => {
                        chunk.grants.push(Grant { slot, group, row });
                        self.note(group);
                    }
                    None => self.grant(group),
                }
            }
        }
        chunk.wishes.clear();
    }

    /// Has rows written that somebody waited for.
    fn grant(&mut self, group: usize) {
        let queue = &mut self.queue;
        let mut write = |&slot: &u32, row| queue.push_back(Task::Write(Grant { slot, group, row }));
        self.groups[group].grants(&mut write);
        self.note(group);
    }

    /// Remembers whose turn it is after a group has given rows away.
    fn note(&mut self, group: usize) {
        if self.in_turn {
            let sealed = self.groups[group].sealed();
            self.turns.extend(std::iter::repeat_n(group, sealed));
        }
    }

    /// Says that the chunk is done, its rows written.
    pub fn finish(&mut self, chunk: &mut Chunk, took: Duration) {
        self.learn(chunk, took);
        let mut written = 0;
        for grant in chunk.grants.drain(..) {
            self.groups[grant.group].commit(grant.row);
            written |= 1 << grant.group;
            if self.holding >> grant.group & 1 == 0 {
                self.end(grant.slot);
            }
        }
        bits(written).for_each(|group| self.make_ready(group));
        self.running -= chunk.tasks.len();
        chunk.tasks.clear();
    }

    /// One thing less that a game waits for.
    fn end(&mut self, slot: u32) {
        self.ends[slot as usize] -= 1;
        if self.ends[slot as usize] == 0 {
            self.go_on(slot);
        }
    }

    /// The batch that has been ready longest, of one group or of any.
    pub fn take(&mut self, only: Option<usize>) -> Option<Taken> {
        let at = self.ready.iter().position(|&(group, _)| only.is_none_or(|only| only == group))?;
        let (group, buffer) = self.ready.remove(at)?;
        let (rows, serial) = self.groups[group].take(buffer);
        Some(Taken { group, buffer, rows, serial })
    }

    /// Takes back a batch that is to be delivered again, before all others.
    ///
    /// # Errors
    /// [`Error::State`] when this delivery is over.
    pub fn put_back(&mut self, taken: Taken) -> Result<()> {
        self.groups[taken.group].put_back(taken.buffer, taken.serial)?;
        self.ready.push_front((taken.group, taken.buffer));
        Ok(())
    }

    /// Makes tasks of an answered batch, when it holds games that are quick and its answers are little work: then
    /// they are best taken and gone on with at once. Returns whether it did.
    pub fn answer_at_once(&mut self, chunk: &mut Chunk, taken: Taken, owners: &[u32]) -> bool {
        let holds = self.holding >> taken.group & 1 == 1;
        let quick = !self.blocking && !self.has_drivers() && owners.len() <= self.chunk_size();
        if !holds || !quick || owners.iter().any(|&slot| self.is_slow[slot as usize]) {
            return false;
        }
        chunk.tasks.clear();
        chunk.tasks.extend(owners.iter().enumerate().map(|(row, &slot)| {
            let ends = &mut self.ends[slot as usize];
            *ends -= 1;
            Task::Answer { slot, row, goes_on: *ends == 0 }
        }));
        self.running += chunk.tasks.len();
        true
    }

    /// Lets the games of an answered batch go on, and others have its rows.
    pub fn release(&mut self, taken: Taken, owners: Vec<u32>) {
        if self.holding >> taken.group & 1 == 1 {
            for &slot in &owners {
                self.end(slot);
            }
        }
        self.free(taken, owners);
    }

    /// Lets others have the rows of a batch.
    fn free(&mut self, taken: Taken, owners: Vec<u32>) {
        let group = &mut self.groups[taken.group];
        let full = group.batch_size();
        group.release(taken.buffer, owners);
        self.grant(taken.group);
        let delivered = &mut self.delivered[taken.group];
        delivered.batches += 1;
        delivered.rows += taken.rows as u64;
        delivered.short += u64::from(taken.rows < full);
    }

    /// Decides what becomes of a game that failed. Returns whether the whole run fails with it.
    pub fn crash(&mut self, slot: u32, lost: &[u64]) -> bool {
        self.count_lost(lost);
        self.crashes.decide(slot, Instant::now()) == Verdict::Fail
    }

    /// Whether all games were dropped, and what they left was delivered but for batches that are not full.
    pub fn is_over(&self) -> bool {
        let left = self.is_busy() || self.groups.iter().any(|group| group.out() > 0);
        self.crashes.live() == 0 && !left && self.ready.is_empty()
    }

    /// When all games were dropped, sends out short what listeners have got of them. Returns whether anything
    /// changed.
    pub fn clear_out(&mut self) -> bool {
        let over = self.is_over();
        let open = (0..self.groups.len()).find(|&group| over && self.groups[group].is_open());
        if let Some(group) = open {
            self.shorten(group);
        }
        open.is_some()
    }

    /// Sends out short what has waited its time, and has games begin again that have rested theirs. Returns
    /// whether anything changed.
    pub fn expire(&mut self) -> bool {
        let mut changed = false;
        while let Some(slot) = self.crashes.rested(Instant::now) {
            self.push(slot);
            changed = true;
        }
        for group in 0..self.groups.len() {
            let deadline = self.groups[group].deadline();
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                self.shorten(group);
                changed = true;
            }
        }
        changed
    }

    fn shorten(&mut self, group: usize) {
        let queue = &mut self.queue;
        let write = |&slot: &u32, row| queue.push_back(Task::Write(Grant { slot, group, row }));
        self.groups[group].shorten(write);
        self.note(group);
        self.make_ready(group);
    }

    /// Has batches delivered whose rows, of this group, were written.
    fn make_ready(&mut self, group: usize) {
        if self.in_turn {
            return self.make_ready_in_turn();
        }
        while let Some(buffer) = self.groups[group].next_ready() {
            self.ready.push_back((group, buffer));
        }
    }

    fn make_ready_in_turn(&mut self) {
        while let Some(&group) = self.turns.front()
            && let Some(buffer) = self.groups[group].next_ready()
        {
            self.turns.pop_front();
            self.ready.push_back((group, buffer));
        }
    }

    /// When the next batch is to go out short, or the next game to begin again.
    pub fn deadline(&self) -> Option<Instant> {
        let rest = self.crashes.next_rested();
        self.groups.iter().filter_map(Group::deadline).chain(rest).min()
    }

    /// When every game waits and nothing can wake one, sends out the oldest batch that holds games as it is. Returns
    /// whether anything changed.
    pub fn wake_from_quiescence(&mut self) -> bool {
        if !self.is_quiescent() {
            return false;
        }
        let open = bits(self.holding).filter_map(|at| Some((self.groups[at].since()?, at)));
        let oldest = open.min();
        if let Some((_, group)) = oldest {
            self.shorten(group);
        }
        oldest.is_some()
    }

    /// Whether nothing will happen but by a batch that is not complete.
    fn is_quiescent(&self) -> bool {
        !self.is_busy()
            && self.ready.is_empty()
            && !self.groups.iter().enumerate().any(|(at, group)| self.will_wake(at, group))
    }

    /// Whether games move, or are about to.
    fn is_busy(&self) -> bool {
        // A driver whose game waits for an answer does nothing until that comes.
        let moves = self.outside.iter().enumerate();
        let moves = moves.filter(|(driver, _)| !self.queries.holds_up(*driver));
        let moves = moves.map(|(_, games)| games.len()).sum::<usize>();
        let waiting = self.queue.is_empty() && self.slow.is_empty() && moves == 0;
        self.running > self.queries.held_up() || !waiting
    }

    /// Whether a batch that is out will let a game go on when it comes back.
    fn will_wake(&self, at: usize, group: &Group<u32>) -> bool {
        let holds = self.holding >> at & 1 == 1;
        group.holds_up() || (holds && group.out() > 0)
    }

    /// Whether whoever sleeps until a batch is there should look again.
    pub fn is_news(&self) -> bool {
        let changed = self.deadline() != self.alarm;
        !self.ready.is_empty() || changed || self.is_quiescent() || self.is_over()
    }
}

/// A batch in the hands of a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The collector.
    pub group: usize,
    /// Which of its batches.
    pub buffer: usize,
    /// Rows filled, from the first on.
    pub rows: usize,
    /// Which delivery of this batch.
    pub serial: u64,
}

/// The positions of the bits that are set.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        next
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::group::Rules;

    /// Two answering collectors whose batches have a row for each of two games.
    fn board(in_turn: bool) -> Board {
        let order: fn(&u32, &u32) -> std::cmp::Ordering = u32::cmp;
        let rules = Rules { batch_size: 2, buffers: 2, timeout: None, order: Some(order) };
        let mut board = Board::new(vec![Group::new(rules), Group::new(rules)], 0b11, 2, false);
        board.in_turn = in_turn;
        board
    }

    /// Has both games ask both, and the rows written, those of the group that answers last first.
    fn written_the_other_way_round(board: &mut Board) -> Vec<usize> {
        let wishes = vec![(1, Wish::Ask(0b11)), (0, Wish::Ask(0b11))];
        board.claim(&mut Chunk { wishes, ..Chunk::default() });
        let mut writes: Vec<_> = board.queue.drain(..).collect();
        writes.reverse();
        let mut order = Vec::new();
        for write in writes {
            let Task::Write(grant) = write else { continue };
            let mut chunk = Chunk { grants: vec![grant], ..Chunk::default() };
            board.finish(&mut chunk, Duration::ZERO);
            order.extend(std::iter::from_fn(|| board.take(None)).map(|taken| taken.group));
        }
        order
    }

    #[test]
    fn batches_are_delivered_in_turn_whichever_is_written_first() {
        assert_eq!(written_the_other_way_round(&mut board(false)), [1, 0]);
        assert_eq!(written_the_other_way_round(&mut board(true)), [0, 1]);
    }
}
