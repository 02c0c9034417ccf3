//! The bookkeeping of rows against a plain queue.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use cogrs::collector::batch_queue::{BatchQueue, Row, Rules};
use proptest::prelude::*;
use proptest::sample::Index;

fn group(batch_size: usize, buffers: usize, sorted: bool) -> BatchQueue<u32> {
    let order = sorted.then_some(u32::cmp as fn(&u32, &u32) -> std::cmp::Ordering);
    BatchQueue::new(Rules { batch_size, buffers, timeout: None, order })
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

/// A group, and what it should be doing.
struct Driven {
    group: BatchQueue<u32>,
    batch_size: usize,
    next: u32,
    /// Rows given and not yet written.
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
                let row = self.group.claim(self.next);
                self.writing.extend(row);
                self.next += 1;
                self.grant();
            }
            Step::Commit(at) if !self.writing.is_empty() => {
                let row = self.writing.swap_remove(at.index(self.writing.len()));
                self.group.commit(row);
                self.collect();
            }
            Step::Take => {
                if let Some(buffer) = self.ready.pop_front() {
                    let (_, serial) = self.group.take(buffer);
                    self.out.push((buffer, serial));
                }
            }
            Step::PutBack(at) if !self.out.is_empty() => {
                let (buffer, serial) = self.out.swap_remove(at.index(self.out.len()));
                self.group.put_back(buffer, serial).unwrap();
                assert!(self.group.answer(buffer, serial).is_err());
                self.ready.push_front(buffer);
            }
            Step::Release(at) if !self.out.is_empty() => self.release(at.index(self.out.len())),
            Step::Shorten => {
                self.shortened += usize::from(self.group.is_open());
                let writing = &mut self.writing;
                self.group.shorten(|_, row| writing.push(row));
                self.collect();
            }
            _ => {}
        }
    }

    fn grant(&mut self) {
        let writing = &mut self.writing;
        self.group.grants(|_, row| writing.push(row));
    }

    fn collect(&mut self) {
        while let Some(buffer) = self.group.next_ready() {
            self.ready.push_back(buffer);
        }
    }

    fn release(&mut self, at: usize) {
        let (buffer, serial) = self.out.remove(at);
        let owners = self.group.answer(buffer, serial).unwrap();
        assert!(!owners.is_empty() && owners.len() <= self.batch_size);
        self.short += usize::from(owners.len() < self.batch_size);
        self.delivered.extend(&owners);
        self.group.release(buffer, owners);
        assert!(self.group.put_back(buffer, serial).is_err());
        self.grant();
    }

    /// Writes and takes everything there is, in order.
    fn finish(&mut self) {
        loop {
            self.writing.drain(..).for_each(|row| self.group.commit(row));
            self.collect();
            while let Some(buffer) = self.ready.pop_front() {
                let (_, serial) = self.group.take(buffer);
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
            group: group(batch_size, buffers, sorted),
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
        prop_assert_eq!(left > 0, driven.group.is_open());
        prop_assert!(driven.short <= driven.shortened);
        driven.delivered.extend(driven.group.abandon());
        driven.delivered.sort_unstable();
        prop_assert!(driven.delivered.into_iter().eq(0..driven.next));
    }
}

#[test]
fn batches_become_ready_in_the_order_in_which_they_were_filled() {
    let mut group = group(1, 3, false);
    let rows = [0, 1, 2].map(|owner| group.claim(owner).unwrap());
    group.commit(rows[1]);
    assert_eq!(group.next_ready(), None, "the first is still being written");
    group.commit(rows[0]);
    assert_eq!([group.next_ready(), group.next_ready()], [Some(0), Some(1)]);
    assert_eq!(group.next_ready(), None);
}

#[test]
fn in_order_means_by_owner() {
    let mut group = group(3, 2, true);
    let mut rows = Vec::new();
    for owner in [5, 9, 2, 7] {
        assert!(group.claim(owner).is_none());
        group.grants(|&owner, row| rows.push((owner, row.row)));
    }
    assert_eq!(rows, [(2, 0), (5, 1), (9, 2)]);
    group.shorten(|&owner, row| rows.push((owner, row.row)));
    assert_eq!(rows[3..], [(7, 0)]);
}
