//! Requests of many threads, answered in batches.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use cogrs::collector::request_batcher::{RequestBatch, RequestBatcher};

type Batcher = RequestBatcher<Sender<u64>>;

const LIMIT: Duration = Duration::from_secs(20);

fn batcher(batch_size: usize, buffers: usize, timeout: Option<Duration>) -> Arc<Batcher> {
    Arc::new(Batcher::new(vec![8, 4], &[8], batch_size, buffers, timeout, u64::MAX).unwrap())
}

fn ask(batcher: &Batcher, number: u64) -> Receiver<u64> {
    let (answer, answers) = channel();
    batcher
        .put(answer, &[&number.to_ne_bytes(), &[1, 2, 3, 4]])
        .map_err(|(_, error)| error)
        .unwrap();
    answers
}

/// Answers a batch with `policy` of the numbers asked.
fn answer(batcher: &Batcher, asked: RequestBatch, policy: impl Fn(u64) -> u64) {
    let batch = &batcher.batches()[asked.buffer];
    let mut answers = Vec::new();
    for row in 0..asked.rows {
        let (mut number, mut other, mut reply) = ([0; 8], [0; 4], [9; 8]);
        batch.read(0, row, &mut number);
        batch.read(1, row, &mut other);
        batch.read(2, row, &mut reply);
        assert_eq!((other, reply), ([1, 2, 3, 4], [0; 8]));
        answers.push(policy(u64::from_ne_bytes(number)));
    }
    for (owner, answer) in batcher.release(asked).unwrap().into_iter().zip(answers) {
        // A caller that gave up has dropped its end.
        let _ = owner.send(answer);
    }
}

fn wait(batcher: &Batcher) -> RequestBatch {
    let asked = batcher.wait(Some(Instant::now() + LIMIT)).unwrap();
    assert!(asked.is_some(), "no batch in time");
    asked.unwrap()
}

#[test]
fn flush_sends_out_a_short_batch() {
    let batcher = batcher(4, 2, None);
    let first = ask(&batcher, 1);
    batcher.flush();
    let second = ask(&batcher, 2);
    // Another row came after all.
    assert!(batcher.wait(Some(Instant::now())).unwrap().is_none());
    batcher.flush();
    let asked = wait(&batcher);
    assert_eq!(asked.rows, 2);
    // The flush was for these rows only.
    answer(&batcher, asked, |number| number + 1);
    assert_eq!([first, second].map(|answers| answers.recv().unwrap()), [2, 3]);
    let third = ask(&batcher, 3);
    assert!(batcher.wait(Some(Instant::now())).unwrap().is_none());
    let waiting = {
        let batcher = Arc::clone(&batcher);
        thread::spawn(move || wait(&batcher))
    };
    while !waiting.is_finished() {
        batcher.flush();
        thread::yield_now();
    }
    answer(&batcher, waiting.join().unwrap(), |number| number + 1);
    assert_eq!(third.recv().unwrap(), 4);
}

#[test]
fn each_caller_gets_its_own_reply() {
    // Towards the end there are too few for a full batch.
    let batcher = batcher(4, 2, Some(Duration::from_millis(1)));
    let start = Arc::new(Barrier::new(8));
    let askers: Vec<_> = (0..8_u64)
        .map(|asker| {
            let (batcher, start) = (Arc::clone(&batcher), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                for round in 0..1_000 {
                    let number = asker * 10_000 + round;
                    assert_eq!(ask(&batcher, number).recv_timeout(LIMIT).unwrap(), number * 2);
                }
            })
        })
        .collect();
    let mut left = 8 * 1_000;
    while left > 0 {
        let asked = wait(&batcher);
        left -= asked.rows;
        answer(&batcher, asked, |number| number * 2);
    }
    for asker in askers {
        asker.join().unwrap();
    }
}

#[test]
fn rows_without_room_wait_in_order() {
    let batcher = batcher(2, 1, None);
    let answers: Vec<_> = (0..7).map(|number| ask(&batcher, number)).collect();
    for _ in 0..3 {
        answer(&batcher, wait(&batcher), |number| number + 100);
    }
    for (number, answers) in answers[..6].iter().enumerate() {
        assert_eq!(answers.try_recv(), Ok(number as u64 + 100));
    }
    assert!(answers[6].try_recv().is_err());
    assert_eq!(batcher.wait(Some(Instant::now())), Ok(None), "one row is not a batch of two");
}

#[test]
fn timeout_sends_out_a_short_batch() {
    let batcher = batcher(4, 2, Some(Duration::from_millis(2)));
    let sleeper = Arc::clone(&batcher);
    let waits = thread::spawn(move || wait(&sleeper));
    let answers: Vec<_> = (0..3).map(|number| ask(&batcher, number)).collect();
    let mut asked = waits.join().unwrap();
    let mut rows = asked.rows;
    answer(&batcher, asked, |number| number);
    while rows < 3 {
        asked = wait(&batcher);
        rows += asked.rows;
        answer(&batcher, asked, |number| number);
    }
    for (number, answers) in answers.iter().enumerate() {
        assert_eq!(answers.try_recv(), Ok(number as u64));
    }
}

#[test]
fn dropped_receiver_does_not_disturb_the_batch() {
    let batcher = batcher(2, 2, None);
    drop(ask(&batcher, 1));
    let stays = ask(&batcher, 2);
    answer(&batcher, wait(&batcher), |number| number);
    assert_eq!(stays.try_recv(), Ok(2));
}

#[test]
fn batch_put_back_is_delivered_again() {
    let batcher = batcher(1, 2, None);
    let answers = ask(&batcher, 5);
    let first = wait(&batcher);
    batcher.put_back(first).unwrap();
    let again = wait(&batcher);
    assert_eq!(first.buffer, again.buffer);
    assert!(batcher.release(first).is_err());
    answer(&batcher, again, |number| number);
    assert_eq!(answers.try_recv(), Ok(5));
}

#[test]
fn close_wakes_waiting_threads_and_returns_owners() {
    let batcher = batcher(2, 1, None);
    let _open: Vec<_> = (0..5).map(|number| ask(&batcher, number)).collect();
    let held = wait(&batcher);
    let sleeper = Arc::clone(&batcher);
    let waits = thread::spawn(move || sleeper.wait(None));
    assert_eq!(batcher.close().len(), 5);
    assert!(waits.join().unwrap().is_err());
    assert!(batcher.release(held).unwrap().is_empty());
    let (answer, _answers) = channel();
    assert!(batcher.put(answer, &[&[0; 8], &[0; 4]]).is_err());
    assert!(batcher.close().is_empty());
}
