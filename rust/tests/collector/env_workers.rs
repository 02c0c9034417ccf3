//! Games that env workers step, and games that fail.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cogrs::collector::context::{Context, FailureCounts};
use cogrs::collector::description::Collector;
use cogrs::collector::failure_policy::OnError;
use cogrs::collector::step_buffer::Report;
use cogrs::error::Result;
use cogrs::games::{Action, Game, GameSpec, Outcome};

use crate::run::{Run, options};
use crate::scripted_game::{Log, actor, optimizer, spec};

/// Arrays of a step buffer.
const GAME: usize = 0;
const SEED: usize = 1;
const REWARD: usize = 3;
const END: usize = 4;
const PLAYER: usize = 5;
const S: usize = 7;

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(20)
}

/// The state of a query.
struct QueryState(i64);

impl Game for QueryState {
    fn reset(&mut self, _seed: u64) {}

    fn step(&mut self, _action: Action<'_>) -> Result<Outcome> {
        unreachable!("queries take no action")
    }

    fn write(&self, _key: usize, out: &mut [u8]) {
        out.copy_from_slice(&self.0.to_ne_bytes());
    }
}

/// Makes queries at the same time; the reply to each is its state, while the run continues.
fn ask(context: &Context, game: usize, state: i64, count: usize) {
    std::thread::scope(|scope| {
        for tid in 1..=count {
            scope.spawn(move || {
                let asked = state + 1_000_000 * tid as i64;
                match context.query(game, tid, Box::new(QueryState(asked))) {
                    Ok(answers) => {
                        let a = answers.into_iter().find(|(key, _)| key == "a").unwrap().1;
                        assert_eq!(a, asked.to_ne_bytes());
                    }
                    Err(_) => assert!(
                        context.wait(None, Some(Instant::now())).is_err(),
                        "only the end of the run leaves a query unanswered"
                    ),
                }
            });
        }
    });
}

/// Steps the scripted game of the other tests, whose episodes have `length` states, until the run is over. Games in
/// `fails` fail at every third move; all make `asks` queries at the same time before each report.
fn drive(context: &Context, env_worker: usize, length: i64, fails: &[i64], asks: usize) {
    let memory = context.step_buffers()[env_worker].memory();
    let read = |part, row| {
        let mut bytes = [0; 8];
        memory.read(part, row, &mut bytes);
        i64::from_ne_bytes(bytes)
    };
    let mut games = std::collections::BTreeMap::new();
    let mut report = Report::default();
    while let Some(count) = context.play(env_worker, std::mem::take(&mut report), soon()).unwrap() {
        for row in 0..count {
            let (episode, seq, moves) = games.entry(read(GAME, row)).or_insert((-1, 0, 0));
            *moves += 1;
            if fails.contains(&read(GAME, row)) && *moves % 3 == 0 {
                report.failed.push((row, "told to".into()));
            } else if read(SEED, row) < 0 {
                *seq += 1;
            } else {
                (*episode, *seq) = (*episode + 1, 0);
            }
            let state = read(GAME, row) * 10_000 + *episode * 100 + *seq;
            ask(context, read(GAME, row) as usize, state, asks);
            memory.write(REWARD, row, 0, &(*seq as f64).to_ne_bytes());
            memory.write(END, row, 0, &[u8::from(*seq == length - 1)]);
            memory.write(S, row, 0, &state.to_ne_bytes());
        }
        report.begun = count;
    }
}

/// A run whose games this many env workers step.
fn driven(
    collectors: Vec<Collector>,
    games: usize,
    env_workers: usize,
    on_error: OnError,
    fails: &'static [i64],
    asks: usize,
) -> (Run, Vec<std::thread::JoinHandle<()>>) {
    let mut options = options(games, 1);
    options.on_error = on_error;
    options.queries = asks;
    let files = vec![None; env_workers];
    let context = Context::with_env_workers(&spec(1), collectors, options, &files).unwrap();
    let run = Run { context: Arc::new(context), log: Log::default() };
    run.context.start().unwrap();
    let drive = |env_worker| {
        let context = Arc::clone(&run.context);
        std::thread::spawn(move || drive(&context, env_worker, 5, fails, asks))
    };
    let threads = (0..env_workers).map(drive).collect();
    (run, threads)
}

fn end(run: &Run, threads: Vec<std::thread::JoinHandle<()>>) {
    run.context.stop();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn batches_show_what_env_workers_report() {
    for (games, batch_size, listener, steps, env_workers, asks) in [
        (1, 1, 1, 2, 1, 0),
        (4, 2, 4, 3, 1, 0),
        (4, 2, 4, 3, 3, 0),
        (3, 3, 2, 6, 3, 0),
        (5, 2, 1, 4, 2, 0),
        (1, 2, 1, 2, 1, 1),
        (4, 3, 4, 3, 1, 2),
        (4, 12, 2, 3, 2, 2),
        (5, 1, 1, 2, 3, 3),
    ] {
        let collectors = vec![actor(batch_size), optimizer(listener, steps)];
        let (run, threads) = driven(collectors, games, env_workers, OnError::Raise, &[], asks);
        let mut last = vec![None; games];
        for row in run.collect("optimizer", 12).concat() {
            let (id, states) = (row["id"][0] as usize, &row["s"]);
            assert_eq!(row["a"], *states);
            let steps: Vec<_> = states.iter().map(|s| s % 100.0).collect();
            assert_eq!(row["seq"], steps);
            assert_eq!(row["last_r"], steps);
            for at in 1..states.len() {
                let follows = if steps[at - 1] < 4.0 { 1.0 } else { 96.0 };
                assert_eq!(states[at] - states[at - 1], follows);
                assert_eq!(row["terminal"][at - 1], f64::from(steps[at - 1] == 4.0));
            }
            let before = last[id].replace(*states.last().unwrap());
            assert_eq!(states[0], before.unwrap_or(id as f64 * 10_000.0));
        }
        end(&run, threads);
    }
}

#[test]
fn wrong_reports_are_refused() {
    let spec = spec(1);
    let make = |files| Context::with_env_workers(&spec, vec![actor(1)], options(2, 1), files);
    assert!(make(&[]).is_err());
    assert!(make(&[None, None, None]).is_err());
    let context = make(&[None, None]).unwrap();
    let play = |env_worker, begun, failed| {
        context.play(env_worker, Report { begun, failed, ..Report::default() }, soon())
    };
    assert_eq!(play(0, 0, vec![]).unwrap(), None, "not started");
    context.start().unwrap();
    assert!(play(2, 0, vec![]).unwrap_err().to_string().starts_with("env_worker: expected"));
    assert_eq!(play(0, 0, vec![]).unwrap(), Some(1));
    assert_eq!(
        play(0, 0, vec![]).unwrap(),
        Some(1),
        "moves that were not begun are given out again"
    );
    assert!(play(0, 2, vec![]).unwrap_err().to_string().starts_with("begun: expected at most 1"));
    assert!(play(0, 1, vec![(1, String::new())]).is_err());
}

#[test]
fn unknown_end_in_a_report_fails_the_game() {
    let context =
        Context::with_env_workers(&spec(1), vec![actor(1)], options(1, 1), &[None]).unwrap();
    context.start().unwrap();
    assert_eq!(context.play(0, Report::default(), soon()).unwrap(), Some(1));
    context.step_buffers()[0].memory().write(END, 0, 0, &[3]);
    assert_eq!(context.play(0, Report { begun: 1, ..Report::default() }, soon()).unwrap(), None);
    let error = context.wait(None, None).unwrap_err().to_string();
    assert_eq!(error, "game 0: its env worker reported end 3, expected 0, 1 or 2");
    assert_eq!(context.failed_game(), Some(0));
}

/// The error after a report of this end and player, of a game whose two players have episodes of their own.
fn reported(end: u8, player: i32) -> Option<String> {
    let spec = GameSpec { has_agents: true, ..spec(2) };
    let context = Context::with_env_workers(&spec, vec![actor(1)], options(1, 1), &[None]).unwrap();
    context.start().unwrap();
    assert_eq!(context.play(0, Report::default(), soon()).unwrap(), Some(1));
    let memory = context.step_buffers()[0].memory();
    memory.write(END, 0, 0, &[end]);
    memory.write(PLAYER, 0, 0, &player.to_ne_bytes());
    context.play(0, Report { begun: 1, ..Report::default() }, soon()).unwrap();
    context.wait(None, Some(soon())).err().map(|error| error.to_string())
}

#[test]
fn end_of_a_player_whose_game_goes_on_is_known_and_an_unknown_player_fails_the_game() {
    for (end, player) in [(0, 0), (2, 1), (4, 0), (5, 1), (6, 0)] {
        assert_eq!(reported(end, player), None);
    }
    for player in [-1, 2] {
        let text = format!("game 0: its env worker reported player {player}, expected 0 to 1");
        assert_eq!(reported(0, player), Some(text));
    }
    for end in [3, 7, 8] {
        let text = format!("game 0: its env worker reported end {end}, expected 0, 1 or 2");
        assert_eq!(reported(end, 0), Some(text));
    }
}

#[test]
fn undelivered_states_of_a_failed_game_are_counted_as_lost() {
    let backoff = Duration::ZERO;
    let policy = OnError::Restart { most: 1_000, backoff };
    let collectors = vec![actor(2), optimizer(1, 2)];
    let (run, threads) = driven(collectors, 2, 1, policy, &[1], 0);
    // Every third move of game 1 fails: it resets and steps once, so no two histories share a state.
    for row in run.histories("optimizer", 1.0, 6) {
        assert_eq!((&row["seq"], &row["last_r"]), (&vec![0.0, 1.0], &vec![0.0, 1.0]));
        assert_eq!(row["last_terminal"], [0.0, 0.0]);
    }
    assert_eq!(run.histories("optimizer", 0.0, 1)[0]["id"], [0.0, 0.0]);
    let FailureCounts { failures, restarts, dropped } = run.context.failures();
    assert!(failures >= 5 && restarts == failures && dropped == 0);
    assert_eq!(run.context.delivered()[1].lost, 0, "each state was in a history");
    end(&run, threads);
}

#[test]
fn failed_games_are_dropped_until_the_last_ends_the_run() {
    let mut limits = options(3, 2);
    limits.on_error = OnError::Drop;
    let run = Run::new(vec![actor(3), optimizer(2, 3)], limits, 100, |game| {
        game.panics_at = (game.id == 0).then_some(4);
        game.fails_at = (game.id > 0).then_some(4 + game.id);
    });
    let run = run.unwrap();
    run.context.start().unwrap();
    let mut seen = [0; 3];
    let mut listened = 0;
    let error = loop {
        match run.context.wait(None, Some(Instant::now() + Duration::from_secs(20))) {
            Err(error) => break error.to_string(),
            Ok(taken) => {
                let taken = taken.unwrap();
                for row in run.rows(taken) {
                    if taken.collector == 0 {
                        seen[row["id"][0] as usize] += 1;
                    } else {
                        listened += 1;
                    }
                }
                run.context.answer(taken).unwrap();
            }
        }
    };
    assert_eq!(error, "all games were dropped, the last was game 2: told to");
    // A game fails at its n-th action, so it has shown n states.
    assert_eq!(seen, [4, 5, 6]);
    // Histories of 3 states share one: 4, 5 and 6 states are 1, 2 and 2 of them, and 1, 0 and 1 are lost.
    assert_eq!((listened, run.context.delivered()[1].lost), (5, 2));
    assert_eq!(run.context.failures(), FailureCounts { failures: 3, restarts: 0, dropped: 3 });
}

#[test]
fn game_that_panics_restarts() {
    let mut limits = options(1, 1);
    limits.on_error = OnError::Restart { most: 1, backoff: Duration::from_millis(1) };
    let run = Run::new(vec![actor(1)], limits, 100, |game| game.panics_at = Some(2)).unwrap();
    run.context.start().unwrap();
    let rows = run.collect("actor", 8).concat();
    let seen: Vec<_> = rows.iter().map(|row| (row["s"][0], row["last_r"][0])).collect();
    assert_eq!(seen[..4], [(0.0, 0.0), (1.0, 1.0), (100.0, 0.0), (101.0, 1.0)]);
    assert!(rows[0]["seed"] != rows[2]["seed"]);
}
