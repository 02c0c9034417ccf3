//! The batch collector: worked examples, every small configuration, and how it ends.

#![allow(clippy::unwrap_used)]

#[path = "collector/game.rs"]
mod game;
#[path = "collector/run.rs"]
mod run;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cogrs::collector::context::Options;
use cogrs::collector::description::Reply;
use cogrs::error::Error;
use cogrs::spec::FieldSpec;
use game::{actor, collector, optimizer};
use proptest::prelude::*;
use run::{Run, options};

fn sorted(mut rows: Vec<run::Row>) -> Vec<run::Row> {
    rows.sort_by(|a, b| a["id"].partial_cmp(&b["id"]).unwrap());
    rows
}

#[test]
fn replying_collector_sees_terminal_states_too() {
    let run = Run::started(vec![actor(4)], options(4, 1), 5);
    for (k, batch) in run.collect("actor", 17).into_iter().enumerate() {
        let (k, episode) = ((k % 5) as f64, (k / 5) as f64);
        for (id, row) in sorted(batch).into_iter().enumerate() {
            assert_eq!(row["id"], [id as f64]);
            assert_eq!(row["seq"], [k]);
            assert_eq!(row["s"], [id as f64 * 10_000.0 + episode * 100.0 + k]);
            assert_eq!(row["last_r"], [k]);
            assert_eq!(row["last_terminal"], [f64::from(k == 0.0 && episode > 0.0)]);
            assert_eq!((&row["r"], &row["terminal"]), (&vec![0.0], &vec![0.0]));
        }
    }
}

/// A history: its states, and the keys that are not zero.
struct Expected {
    s: &'static [f64],
    r: &'static [f64],
    terminal: &'static [f64],
}

fn check_histories(batch_size: usize, length: i64, expected: &[Expected]) {
    let steps = expected[0].s.len();
    let run = Run::started(vec![actor(4), optimizer(batch_size, steps)], options(4, 1), length);
    for (row, expected) in run.histories("optimizer", 0.0, expected.len()).iter().zip(expected) {
        assert_eq!(row["s"], expected.s);
        assert_eq!(row["a"], expected.s);
        assert_eq!(row["r"], expected.r);
        assert_eq!(row["terminal"], expected.terminal);
        let seq: Vec<_> = expected.s.iter().map(|s| s % 100.0).collect();
        assert_eq!(row["seq"], seq);
        assert_eq!(row["last_r"], seq, "entering state k pays k in this game");
        let first = |&s: &f64| f64::from(s % 100.0 == 0.0 && s > 0.0);
        assert_eq!(row["last_terminal"], expected.s.iter().map(first).collect::<Vec<_>>());
    }
}

#[test]
fn pairs_share_one_state_and_cross_episodes() {
    let expected = |s, r, terminal| Expected { s, r, terminal };
    check_histories(
        3,
        5,
        &[
            expected(&[0.0, 1.0], &[1.0, 0.0], &[0.0, 0.0]),
            expected(&[1.0, 2.0], &[2.0, 0.0], &[0.0, 0.0]),
            expected(&[2.0, 3.0], &[3.0, 0.0], &[0.0, 0.0]),
            expected(&[3.0, 4.0], &[4.0, 0.0], &[0.0, 0.0]),
            expected(&[4.0, 100.0], &[0.0, 0.0], &[1.0, 0.0]),
            expected(&[100.0, 101.0], &[1.0, 0.0], &[0.0, 0.0]),
        ],
    );
}

#[test]
fn triples_share_one_state_and_cross_episodes() {
    let expected = |s, r, terminal| Expected { s, r, terminal };
    check_histories(
        4,
        5,
        &[
            expected(&[0.0, 1.0, 2.0], &[1.0, 2.0, 0.0], &[0.0, 0.0, 0.0]),
            expected(&[2.0, 3.0, 4.0], &[3.0, 4.0, 0.0], &[0.0, 0.0, 0.0]),
            expected(&[4.0, 100.0, 101.0], &[0.0, 1.0, 0.0], &[1.0, 0.0, 0.0]),
            expected(&[101.0, 102.0, 103.0], &[2.0, 3.0, 0.0], &[0.0, 0.0, 0.0]),
            expected(&[103.0, 104.0, 200.0], &[4.0, 0.0, 0.0], &[0.0, 1.0, 0.0]),
            expected(&[200.0, 201.0, 202.0], &[1.0, 2.0, 0.0], &[0.0, 0.0, 0.0]),
        ],
    );
}

#[test]
fn long_histories_hold_several_episodes() {
    let expected = |s, r, terminal| Expected { s, r, terminal };
    check_histories(
        2,
        3,
        &[
            expected(
                &[0.0, 1.0, 2.0, 100.0, 101.0, 102.0],
                &[1.0, 2.0, 0.0, 1.0, 2.0, 0.0],
                &[0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
            ),
            expected(
                &[102.0, 200.0, 201.0, 202.0, 300.0, 301.0],
                &[0.0, 1.0, 2.0, 0.0, 1.0, 0.0],
                &[1.0, 0.0, 0.0, 1.0, 0.0, 0.0],
            ),
        ],
    );
}

#[test]
fn reply_applies_to_one_state_only() {
    let run = Run::started(vec![actor(1)], options(1, 1), 5);
    for k in 0..5 {
        let taken = run.wait(None);
        if k == 0 {
            run.reply(taken, |_| 42);
        }
        run.context.answer(taken).unwrap();
    }
    let actions: Vec<_> = run.log.lock().unwrap().iter().map(|entry| entry.3).collect();
    assert_eq!(actions[..4], [42, 0, 0, 0]);
}

#[test]
fn truncated_ends_differ_from_terminal_ends() {
    let run = Run::new(vec![actor(1), optimizer(1, 2)], options(1, 1), 2, |game| game.cuts = true);
    let run = run.unwrap();
    run.context.start().unwrap();
    for (at, row) in run.histories("optimizer", 0.0, 12).iter().enumerate() {
        let end = at % 2 == 1;
        let cut = end && at / 2 % 3 == 2;
        assert_eq!(row["terminal"], [f64::from(end && !cut), 0.0]);
        assert_eq!(row["truncated"], [f64::from(cut), 0.0]);
        assert_eq!(row["last_terminal"][1], row["terminal"][0]);
        assert_eq!(row["last_truncated"][1], row["truncated"][0]);
    }
}

#[test]
fn replying_collector_with_history_sees_zeros_before_first_state() {
    let run = Run::started(vec![collector("actor", 1, 3, Some(&["a"]))], options(1, 1), 5);
    let rows: Vec<_> = run.collect("actor", 4).concat();
    assert_eq!(rows[0]["seq"], [-1.0, -1.0, 0.0]);
    assert_eq!(rows[1]["seq"], [-1.0, 0.0, 1.0]);
    assert_eq!(rows[3]["s"], [1.0, 2.0, 3.0]);
    assert_eq!(rows[3]["a"], [1.0, 2.0, 0.0]);
    assert_eq!(rows[3]["r"], [2.0, 3.0, 0.0]);
}

#[test]
fn later_of_two_repliers_wins_in_either_order_of_answers() {
    for first in [0, 1] {
        let two = vec![actor(1), collector("critic", 1, 1, Some(&["a"]))];
        let run = Run::started(two, options(1, 1), 5);
        let order = [first, 1 - first];
        let taken = order.map(|group| run.wait(Some(group)));
        for taken in taken {
            run.reply(taken, |_| 10 + taken.collector as i64);
            run.context.answer(taken).unwrap();
        }
        run.wait(None);
        assert_eq!(run.log.lock().unwrap()[0].3, 11);
    }
}

fn routed(
    name: &str,
    batch_size: usize,
    player: usize,
) -> cogrs::collector::description::Collector {
    let mut routed = collector(name, batch_size, 1, Some(&["a"]));
    routed.player = Some(player);
    routed
}

#[test]
fn collector_of_a_player_sees_states_of_that_player_only() {
    let mut listener = optimizer(1, 2);
    listener.player = Some(1);
    let run = Run::started(
        vec![routed("white", 1, 0), routed("black", 1, 1), listener],
        options(2, 1),
        5,
    );
    for _ in 0..40 {
        let taken = run.wait(None);
        for row in run.rows(taken) {
            let turn = row["seq"].iter().map(|seq| seq % 2.0);
            match taken.collector {
                0 => assert!(turn.eq([0.0])),
                1 => assert!(turn.eq([1.0])),
                _ => {
                    assert!(turn.eq([1.0, 1.0]));
                    // What was paid since the player's last state, the terminal state's included.
                    // Entering seq 2 and 3 pays 5; entering 4, 0 and 1 pays 4, 0 and 1.
                    assert_eq!(row["last_r"][1], 5.0);
                    assert_eq!(row["last_terminal"][1], f64::from(row["seq"] == [3.0, 1.0]));
                }
            }
        }
        run.context.answer(taken).unwrap();
    }
}

#[test]
fn replies_of_games_in_step_reach_histories_of_players() {
    let mut listener = optimizer(4, 2);
    listener.player = Some(1);
    let run = Run::started(vec![actor(4), listener], options(4, 1), 6);
    for batch in run.collect("optimizer", 10) {
        for row in batch {
            assert!(row["seq"].iter().all(|seq| seq % 2.0 == 1.0));
            assert_eq!(row["a"], row["s"]);
        }
    }
    run.context.stop();
}

/// Runs until every collector has delivered a number of batches, and checks their rows.
fn runs_on(games: usize, b: usize, listener: usize, steps: usize, threads: usize, slow: bool) {
    let what =
        format!("{games} games, actor {b}, optimizer {listener} T={steps}, {threads} threads");
    let collectors = vec![actor(b), optimizer(listener, steps)];
    let run = Run::new(collectors, options(games, threads), 4, |game| {
        game.slow = if slow && game.id == 0 { 20_000 } else { 0 };
    });
    let run = run.unwrap();
    run.context.start().unwrap();
    let mut seen = [0; 2];
    let mut next = vec![0; games];
    while seen.iter().any(|&count| count < 6) {
        let taken = run.wait(None);
        seen[taken.collector] += 1;
        for row in run.rows(taken) {
            if taken.collector == 0 {
                let id = row["id"][0] as usize;
                let expected = id * 10_000 + next[id] / 4 * 100 + next[id] % 4;
                assert_eq!(row["s"], [expected as f64], "{what}");
                next[id] += 1;
            }
        }
        if taken.collector == 0 {
            run.reply(taken, |row| row["s"][0] as i64);
        }
        run.context.answer(taken).unwrap();
    }
}

#[test]
fn small_configurations_never_starve() {
    for games in 1..=4 {
        for (b, listener) in (1..=games).flat_map(|b| (1..=4).map(move |other| (b, other))) {
            for (steps, threads) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)] {
                runs_on(games, b, listener, steps, threads, false);
            }
        }
    }
}

#[test]
#[ignore = "long form of the test above"]
fn no_configuration_of_up_to_six_games_stops() {
    for games in 1..=6 {
        for (b, listener) in (1..=games).flat_map(|b| (1..=7).map(move |other| (b, other))) {
            for (steps, threads) in (1..=5).flat_map(|steps| [(steps, 1), (steps, 2), (steps, 4)]) {
                runs_on(games, b, listener, steps, threads, false);
                runs_on(games, b, listener, steps, threads, true);
            }
        }
    }
}

/// Runs two players, whose collectors have these sizes, and a listener until each has delivered batches.
fn players_run_on(games: usize, b: [usize; 2], listener: usize, steps: usize, slow: bool) {
    let [white, black] = b;
    let collectors =
        vec![routed("white", white, 0), routed("black", black, 1), optimizer(listener, steps)];
    let run = Run::new(collectors, options(games, 2), 5, |game| {
        game.slow = if slow && game.id == 0 { 20_000 } else { 0 };
    });
    let run = run.unwrap();
    run.context.start().unwrap();
    let mut seen = [0; 3];
    while seen.iter().any(|&count| count < 4) {
        let taken = run.wait(None);
        seen[taken.collector] += 1;
        for row in run.rows(taken).iter().filter(|_| taken.collector < 2) {
            assert_eq!(row["seq"][0] % 2.0, taken.collector as f64, "{games} games, {b:?}");
        }
        run.context.answer(taken).unwrap();
    }
}

fn small_configurations_with_players(most: usize, steps: usize) {
    for games in 1..=most {
        for (white, black) in (1..=games).flat_map(|b| (1..=games).map(move |other| (b, other))) {
            for (listener, steps) in (1..=4).flat_map(|b| (1..=steps).map(move |t| (b, t))) {
                players_run_on(games, [white, black], listener, steps, false);
                if most > 3 {
                    players_run_on(games, [white, black], listener, steps, true);
                }
            }
        }
    }
}

#[test]
fn small_configurations_with_players_never_starve() {
    small_configurations_with_players(3, 3);
}

#[test]
#[ignore = "long form of the test above"]
fn no_configuration_with_players_stops() {
    small_configurations_with_players(5, 4);
}

#[test]
fn slow_game_does_not_stop_other_games() {
    for threads in [1, 2, 4] {
        runs_on(4, 2, 4, 3, threads, true);
    }
}

#[test]
fn batches_are_full_with_enough_games() {
    for (collectors, games) in [
        (vec![actor(2)], 3),
        (vec![actor(2), collector("critic", 3, 1, Some(&["V"]))], 4),
        (vec![actor(3), optimizer(2, 2)], 4),
    ] {
        let run = Run::started(collectors, options(games, 1), 5);
        for _ in 0..100 {
            let taken = run.wait(None);
            assert_eq!(taken.rows, run.context.batches(taken.collector)[taken.buffer].rows());
            run.context.answer(taken).unwrap();
        }
    }
}

#[test]
fn starving_run_sends_out_a_short_batch() {
    // An odd number of states to an episode takes the games out of step: white's and black's batches would
    // both wait for the same game.
    let mut counts = [0; 4];
    let run = Run::started(vec![routed("white", 2, 0), routed("black", 3, 1)], options(3, 1), 4);
    for _ in 0..200 {
        let taken = run.wait(None);
        counts[taken.rows] += 1;
        run.context.answer(taken).unwrap();
    }
    assert!(counts[1] > 0 && counts[2] > 0, "{counts:?}");
}

/// All steps of one game in a run with so many threads.
fn trajectories(threads: usize, seed: u64) -> Vec<Vec<(i64, i64, i64)>> {
    let mut options = options(6, threads);
    options.seed = seed;
    let run = Run::new(vec![actor(2)], options, 7, |_| {}).unwrap();
    run.context.start().unwrap();
    let mut seeds = vec![Vec::new(); 6];
    while seeds.iter().any(|seen| seen.len() < 40) {
        let taken = run.wait(None);
        for row in run.rows(taken) {
            let value = (row["s"][0] as i64, row["seed"][0] as i64, row["last_r"][0] as i64);
            seeds[row["id"][0] as usize].push(value);
        }
        run.context.answer(taken).unwrap();
    }
    seeds.into_iter().map(|seen| seen[..40].to_vec()).collect()
}

#[test]
fn trajectories_are_the_same_for_any_number_of_threads() {
    assert_eq!(trajectories(1, 5), trajectories(4, 5));
    assert_ne!(trajectories(1, 5), trajectories(1, 6));
}

#[test]
fn episodes_and_games_have_different_seeds() {
    let all = trajectories(1, 5);
    let mut seeds: Vec<_> = all.iter().flatten().map(|state| state.1).collect();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 6 * 6, "40 states are 6 episodes of 7, begun");
}

#[test]
fn deterministic_batches_are_sorted_and_delivered_in_order() {
    let order = |threads| {
        let mut options = options(6, threads);
        options.deterministic = true;
        let run = Run::started(vec![actor(6), optimizer(6, 3)], options, 4);
        let mut order = Vec::new();
        for _ in 0..60 {
            let taken = run.wait(None);
            let rows = run.rows(taken);
            let ids: Vec<_> = rows.iter().map(|row| row["id"][0]).collect();
            assert_eq!(ids, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
            order.push((
                taken.collector,
                rows.iter().map(|row| row["s"].clone()).collect::<Vec<_>>(),
            ));
            run.context.answer(taken).unwrap();
        }
        order
    };
    assert_eq!(order(1), order(4));
}

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
        assert_eq!(run.context.check().unwrap_err().to_string(), error);
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn joined_histories_are_the_run(
        games in 1..6_usize, listener in 1..7_usize, steps in 2..9_usize, length in 2..7_i64,
        threads in 1..4_usize, share in 1..6_usize,
    ) {
        put_together(games, listener, steps, length, threads, share, 12);
    }
}

/// For any T, the histories of a game without their last rows are all its states, and what is shifted fits.
/// Returns how many histories there were.
fn put_together(
    games: usize,
    listener: usize,
    steps: usize,
    length: i64,
    threads: usize,
    share: usize,
    batches: usize,
) -> usize {
    let collectors = vec![actor(share.min(games)), optimizer(listener, steps)];
    let run = Run::started(collectors, options(games, threads), length);
    let mut next = vec![0_i64; games];
    let rows = run.collect("optimizer", batches).concat();
    for row in &rows {
        let id = row["id"][0] as usize;
        for (at, s) in (next[id]..).zip(&row["s"]) {
            assert_eq!(*s, (id as i64 * 10_000 + at / length * 100 + at % length) as f64);
        }
        next[id] += steps as i64 - 1;
        assert_eq!(&row["a"], &row["s"]);
        for (now, later) in [("r", "last_r"), ("terminal", "last_terminal")] {
            assert_eq!(&row[now][..steps - 1], &row[later][1..]);
            assert_eq!(row[now][steps - 1], 0.0);
        }
    }
    rows.len()
}

#[test]
#[ignore = "long form of the property above"]
fn a_hundred_thousand_histories_put_together_are_the_runs() {
    let mut histories = 0;
    for (games, steps) in [(1, 2), (3, 5), (8, 3), (16, 9), (64, 20), (64, 2)] {
        for (length, threads) in [(2, 1), (3, 2), (7, 4)] {
            histories += put_together(games, 4, steps, length, threads, games / 2 + 1, 1_500);
        }
    }
    assert!(histories >= 100_000, "{histories}");
}

#[test]
fn too_much_memory_is_refused_before_allocation() {
    let refused = |collectors, options| {
        let error = Run::new(collectors, options, 5, |_| {}).err().unwrap();
        assert!(matches!(&error, Error::Memory(text) if text.contains("bytes")), "{error}");
    };
    let mut reply = actor(1);
    reply.replies.as_mut().unwrap()[0] = Reply {
        key: "pi".into(),
        field: FieldSpec { dtype: "<f4".into(), itemsize: 4, shape: vec![1 << 40] },
    };
    refused(vec![reply], options(1, 1));
    refused(vec![optimizer(1, 1 << 38)], options(1, 1));
    refused(vec![optimizer(1 << 50, 1)], options(1, 1));
    refused(vec![actor(1)], Options { buffers: Some(1 << 50), ..options(1, 1) });
    refused(vec![actor(1)], Options { memory: 100, ..options(1, 1) });
}
