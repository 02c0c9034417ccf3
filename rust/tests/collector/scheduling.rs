//! Every small configuration keeps running, with full batches where there are enough games, and the same for one seed.

use crate::run::{Run, options};
use crate::scripted_game::{actor, collector, of_player, optimizer};

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
fn configurations_of_up_to_six_games_never_starve() {
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
    let collectors = vec![
        of_player("white", white, 0),
        of_player("black", black, 1),
        optimizer(listener, steps),
    ];
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
fn larger_configurations_with_players_never_starve() {
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
    let run =
        Run::started(vec![of_player("white", 2, 0), of_player("black", 3, 1)], options(3, 1), 4);
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
