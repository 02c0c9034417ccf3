//! The bookkeeping of rows against a plain queue.

use std::collections::VecDeque;

use cogrs::collector::batch_queue::{BatchQueue, QueueRules, Row};
use proptest::prelude::*;
use proptest::sample::Index;

fn queue(batch_size: usize, buffers: usize, sorted: bool) -> BatchQueue<u32> {
    let order = sorted.then_some(u32::cmp as fn(&u32, &u32) -> std::cmp::Ordering);
    BatchQueue::new(QueueRules { batch_size, buffers, timeout: None, order })
}

#[derive(Debug, Clone)]
enum Step {
    Claim,
    Commit(Index),
    Take,
    Release(Index),
    PutBack(Index),
    Shorten,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => Just(Step::Claim),
        8 => any::<Index>().prop_map(Step::Commit),
        3 => Just(Step::Take),
        3 => any::<Index>().prop_map(Step::Release),
        1 => any::<Index>().prop_map(Step::PutBack),
        1 => Just(Step::Shorten),
    ];
    proptest::collection::vec(step, 0..300)
}

/// A queue, and the state that it should have.
struct Driven {
    queue: BatchQueue<u32>,
    batch_size: usize,
    next: u32,
    /// Rows assigned and not yet written.
    writing: Vec<Row>,
    ready: VecDeque<usize>,
    out: Vec<(usize, u64)>,
    /// Owners in the order of delivery, and whether their batch was full.
    delivered: Vec<u32>,
    shortened: usize,
    short: usize,
}

impl Driven {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Claim => {
                let row = self.queue.claim(self.next);
                self.writing.extend(row);
                self.next += 1;
                self.assign_waiting();
            }
            Step::Commit(at) if !self.writing.is_empty() => {
                let row = self.writing.swap_remove(at.index(self.writing.len()));
                self.queue.commit(row.buffer, 1);
                self.collect();
            }
            Step::Take => {
                if let Some(buffer) = self.ready.pop_front() {
                    let (_, serial) = self.queue.take(buffer);
                    self.out.push((buffer, serial));
                }
            }
            Step::PutBack(at) if !self.out.is_empty() => {
                let (buffer, serial) = self.out.swap_remove(at.index(self.out.len()));
                self.queue.put_back(buffer, serial).unwrap();
                assert!(self.queue.answer(buffer, serial).is_err());
                self.ready.push_front(buffer);
            }
            Step::Release(at) if !self.out.is_empty() => self.release(at.index(self.out.len())),
            Step::Shorten => {
                self.shortened += usize::from(self.queue.is_open());
                let writing = &mut self.writing;
                self.queue.shorten(|_, row| writing.push(row));
                self.collect();
            }
            _ => {}
        }
    }

    fn assign_waiting(&mut self) {
        let writing = &mut self.writing;
        self.queue.assign_waiting(|_, row| writing.push(row));
    }

    fn collect(&mut self) {
        while let Some(buffer) = self.queue.next_ready() {
            self.ready.push_back(buffer);
        }
    }

    fn release(&mut self, at: usize) {
        let (buffer, serial) = self.out.remove(at);
        let owners = self.queue.answer(buffer, serial).unwrap();
        assert!(!owners.is_empty() && owners.len() <= self.batch_size);
        self.short += usize::from(owners.len() < self.batch_size);
        self.delivered.extend(&owners);
        self.queue.release(buffer, owners);
        assert!(self.queue.put_back(buffer, serial).is_err());
        self.assign_waiting();
    }

    /// Writes all rows and takes all batches, in order.
    fn finish(&mut self) {
        loop {
            self.writing.drain(..).for_each(|row| self.queue.commit(row.buffer, 1));
            self.collect();
            while let Some(buffer) = self.ready.pop_front() {
                let (_, serial) = self.queue.take(buffer);
                self.out.push((buffer, serial));
            }
            if self.out.is_empty() && self.writing.is_empty() {
                return;
            }
            while !self.out.is_empty() {
                self.release(0);
            }
        }
    }
}

proptest! {
    /// Every row is delivered once, batches are full unless they were sent out short, and nothing stays
    /// behind but a batch that is not full.
    #[test]
    fn rows_are_delivered_once(
        steps in steps(), batch_size in 1..5_usize, buffers in 1..5_usize, sorted: bool,
    ) {
        let mut driven = Driven {
            queue: queue(batch_size, buffers, sorted),
            batch_size,
            next: 0,
            writing: Vec::new(),
            ready: VecDeque::new(),
            out: Vec::new(),
            delivered: Vec::new(),
            shortened: 0,
            short: 0,
        };
        for step in &steps {
            driven.step(step);
        }
        driven.finish();
        let left = driven.next as usize - driven.delivered.len();
        prop_assert!(left < batch_size);
        prop_assert_eq!(left > 0, driven.queue.is_open());
        prop_assert!(driven.short <= driven.shortened);
        driven.delivered.extend(driven.queue.abandon());
        driven.delivered.sort_unstable();
        prop_assert!(driven.delivered.into_iter().eq(0..driven.next));
    }
}

#[test]
fn batches_become_ready_in_the_order_in_which_they_were_filled() {
    let mut queue = queue(1, 3, false);
    let rows = [0, 1, 2].map(|owner| queue.claim(owner).unwrap());
    queue.commit(rows[1].buffer, 1);
    assert_eq!(queue.next_ready(), None, "the first is still being written");
    queue.commit(rows[0].buffer, 1);
    assert_eq!([queue.next_ready(), queue.next_ready()], [Some(0), Some(1)]);
    assert_eq!(queue.next_ready(), None);
}

#[test]
fn ordered_queue_sorts_rows_by_owner() {
    let mut queue = queue(3, 2, true);
    let mut rows = Vec::new();
    for owner in [5, 9, 2, 7] {
        assert!(queue.claim(owner).is_none());
        queue.assign_waiting(|&owner, row| rows.push((owner, row.row)));
    }
    assert_eq!(rows, [(2, 0), (5, 1), (9, 2)]);
    queue.shorten(|&owner, row| rows.push((owner, row.row)));
    assert_eq!(rows[3..], [(7, 0)]);
}
