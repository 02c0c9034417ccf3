//! Replies of several threads to the same games.

use std::sync::Barrier;
use std::thread;

use crate::run::{Run, options};
use crate::scripted_game::{actor, collector};

const GAMES: usize = 64;

/// Rounds in which both collectors reply to all games.
const ROUNDS: usize = 2_000;

#[test]
fn game_steps_only_after_replies_of_all_collectors() {
    let critic = collector("critic", GAMES, 1, Some(&["V"]));
    let run = Run::started(vec![actor(GAMES), critic], options(GAMES, 1), 90);
    // Both have a batch in hand before either answers, and then answer at the same time.
    let barrier = Barrier::new(2);
    let answers = |number: usize| {
        for _ in 0..ROUNDS {
            let taken = run.wait(Some(number));
            if number == 0 {
                run.reply(taken, |row| row["s"][0] as i64);
            }
            barrier.wait();
            run.context.answer(taken).unwrap();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| answers(1));
        answers(0);
    });
    run.context.stop();
    let log = run.log.lock().unwrap();
    assert!(log.len() > (ROUNDS - 2) * GAMES / 2);
    for &(id, episode, seq, action) in &*log {
        assert_eq!(action, id as i64 * 10_000 + episode * 100 + seq);
    }
}
