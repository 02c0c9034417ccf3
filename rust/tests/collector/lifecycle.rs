//! How a context starts, waits, fails and stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cogrs::collector::context::Options;
use cogrs::collector::description::Reply;
use cogrs::error::Error;
use cogrs::spec::FieldSpec;

use crate::run::{Run, options};
use crate::scripted_game::{actor, optimizer};

#[test]
fn batch_put_back_is_delivered_again_with_zero_replies() {
    let run = Run::started(vec![actor(2)], options(4, 1), 5);
    let first = run.wait(None);
    let rows = run.rows(first);
    run.reply(first, |_| 7);
    run.context.put_back(first).unwrap();
    let again = run.wait(None);
    assert_eq!((again.collector, again.buffer), (first.collector, first.buffer));
    assert_eq!(run.rows(again), rows);
    assert!(run.context.answer(first).is_err(), "the first delivery is over");
    run.context.answer(again).unwrap();
    assert!(run.context.answer(again).is_err());
    run.wait(None);
    run.wait(None);
    assert!(run.log.lock().unwrap().iter().all(|entry| entry.3 == 0));
}

#[test]
fn timeout_sends_batch_out_without_a_hanging_game() {
    let mut patient = actor(8);
    patient.timeout = Some(Duration::from_millis(1));
    let free = Arc::new(AtomicBool::new(false));
    let run = Run::new(vec![patient], options(8, 2), 5, |game| {
        game.held = (game.id == 0).then(|| Arc::clone(&free));
    });
    let run = run.unwrap();
    run.context.start().unwrap();
    let mut counts = [0; 8];
    let mut took = |run: &Run| {
        let taken = run.wait(None);
        run.rows(taken).iter().for_each(|row| counts[row["id"][0] as usize] += 1);
        run.context.answer(taken).unwrap();
        counts
    };
    while took(&run)[1..].iter().any(|&count| count < 20) {}
    assert_eq!(took(&run)[0], 1, "the first state was there before the step that hangs");
    free.store(true, Ordering::Relaxed);
    while took(&run)[0] < 3 {}
}

#[test]
fn wait_returns_none_at_its_limit() {
    let run = Run::started(vec![actor(1)], options(1, 1), 5);
    let taken = run.wait(None);
    let none = run.context.wait(None, Some(Instant::now() + Duration::from_millis(10)));
    assert_eq!(none, Ok(None), "the only game waits for its answer");
    run.context.answer(taken).unwrap();
}

#[test]
fn answer_wakes_another_waiting_thread() {
    for _ in 0..200 {
        let run = Run::started(vec![actor(1)], options(1, 1), 5);
        // Once its game is known to be quick, the thread that answers leaves the work to the one that waits.
        for _ in 0..10 {
            run.context.answer(run.wait(None)).unwrap();
        }
        let taken = run.wait(None);
        let waiter = Arc::clone(&run.context);
        let (done, is_done) = std::sync::mpsc::channel();
        let waits = std::thread::spawn(move || done.send(waiter.wait(None, None)).unwrap());
        std::thread::yield_now();
        run.context.answer(taken).unwrap();
        let found = is_done.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(found.unwrap().is_some());
        waits.join().unwrap();
    }
}

#[test]
fn stop_wakes_a_waiting_thread() {
    for _ in 0..50 {
        let run = Run::started(vec![actor(2)], options(2, 2), 5);
        let taken = run.wait(None);
        let waiter = Arc::clone(&run.context);
        let waits = std::thread::spawn(move || waiter.wait(None, None));
        run.context.stop();
        let error = waits.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("stopped"));
        run.context.answer(taken).unwrap();
        run.context.stop();
        assert!(run.context.start().is_err());
    }
}

#[test]
fn dropping_a_context_ends_its_games() {
    for _ in 0..50 {
        let run = Run::new(vec![actor(2)], options(8, 4), 5, |game| game.slow = 50_000).unwrap();
        run.context.start().unwrap();
        run.wait(None);
    }
}

#[test]
fn panic_or_error_of_a_game_ends_the_wait_with_its_text() {
    for panics in [true, false] {
        let run = Run::new(vec![actor(2)], options(4, 2), 5, |game| {
            if game.id == 3 {
                game.panics_at = panics.then_some(3);
                game.fails_at = (!panics).then_some(3);
            }
        });
        let run = run.unwrap();
        run.context.start().unwrap();
        let error = loop {
            match run.context.wait(None, None) {
                Ok(Some(taken)) => run.context.answer(taken).unwrap(),
                Ok(None) => unreachable!(),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("told to"), "{error}");
        assert!(error.contains("game 3"), "{error}");
        assert_eq!(run.context.wait(None, None).unwrap_err().to_string(), error);
    }
}

#[test]
fn panic_in_reward_ends_the_wait_with_its_text() {
    let mut listener = optimizer(2, 2);
    listener.player = Some(1);
    let run = Run::new(vec![actor(4), listener], options(4, 1), 5, |game| game.owes = game.id == 2);
    let run = run.unwrap();
    run.context.start().unwrap();
    run.context.answer(run.wait(None)).unwrap();
    let error = run.context.wait(None, None).unwrap_err().to_string();
    assert!(error.contains("told to"), "{error}");
    assert!(error.contains("game 2"), "{error}");
}

#[test]
fn wait_before_start_and_unfit_collectors_are_refused() {
    let run = Run::new(vec![actor(2)], options(2, 1), 5, |_| {}).unwrap();
    assert!(run.context.wait(None, None).unwrap_err().to_string().contains("Start"));
    run.context.start().unwrap();
    assert!(run.context.start().is_err());
    let misfit =
        |collectors, games| Run::new(collectors, options(games, 1), 5, |_| {}).err().unwrap();
    let text = misfit(vec![actor(3)], 2).to_string();
    assert_eq!(
        text,
        "_batchsize of \"actor\": expected at most num_games = 2, or a _timeout_usec, got 3"
    );
    misfit(vec![actor(1)], 0);
    misfit(vec![], 1);
    misfit(vec![actor(0)], 1);
    misfit(vec![optimizer(1, 0)], 1);
}

#[test]
fn too_much_memory_is_refused_before_allocation() {
    let refused = |collectors, options| {
        let error = Run::new(collectors, options, 5, |_| {}).err().unwrap();
        assert!(matches!(&error, Error::Memory(text) if text.contains("bytes")), "{error}");
    };
    let mut reply = actor(1);
    reply.replies.as_mut().unwrap()[0] =
        Reply { key: "pi".into(), field: FieldSpec::new("<f4", 4, &[1 << 40]) };
    refused(vec![reply], options(1, 1));
    refused(vec![optimizer(1, 1 << 38)], options(1, 1));
    refused(vec![optimizer(1 << 50, 1)], options(1, 1));
    refused(vec![actor(1)], Options { buffers: Some(1 << 50), ..options(1, 1) });
    refused(vec![actor(1)], Options { memory: 100, ..options(1, 1) });
}
