//! The built-in games: properties of all, and each against its rules.

#![allow(clippy::unwrap_used)]

mod board;
mod corridor;

use board::Board;
use cogrs::games::game_batch::GameItem;
use cogrs::games::{Action, BuiltinGame, Game, GameFactory, GameSpec, Outcome, catch};
use corridor::Corridor;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The value of each key of a state.
fn seen(game: &dyn Game, spec: &GameSpec) -> Vec<Vec<u8>> {
    let key = |(at, (_, field)): (usize, &(String, cogrs::spec::FieldSpec))| {
        // All of it is written over any contents.
        let [one, other] = [0x00, 0xff].map(|before| {
            let mut out = vec![before; field.nbytes()];
            game.write(at, &mut out);
            out
        });
        assert_eq!(one, other);
        one
    };
    spec.keys.iter().enumerate().map(key).collect()
}

fn act(game: &mut dyn Game, action: i64) -> cogrs::error::Result<Outcome> {
    game.step(Action(&action.to_ne_bytes()))
}

/// Bytes of an action that may be taken; for continuous ones also beyond the bounds.
fn draw(game: &dyn Game, spec: &GameSpec, rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    if spec.action.dtype == "<f4" {
        return rng.random_range(-4.0_f32..4.0).to_ne_bytes().into();
    }
    let mask = spec.keys.iter().position(|(key, _)| key == "action_mask");
    let may = |action: usize| mask.is_none_or(|at| seen(game, spec)[at][action] == 1);
    let choices: Vec<_> = (0..spec.num_action).filter(|&action| may(action)).collect();
    let at = rng.random_range(0..choices.len());
    (choices[at] as i64).to_ne_bytes().into()
}

/// Everything that shows of some episodes with drawn actions.
fn episodes(
    game: &mut dyn Game,
    spec: &GameSpec,
    seed: u64,
    limit: u64,
) -> Vec<(Vec<Vec<u8>>, Outcome)> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut all = Vec::new();
    for episode in 0..3 {
        game.reset(seed + episode);
        for step in 1.. {
            let action = draw(game, spec, &mut rng);
            let outcome = game.step(Action(&action)).unwrap();
            assert!(!outcome.truncated, "the collector truncates episodes");
            assert!(game.player() < spec.players.len());
            all.push((seen(game, spec), outcome));
            if outcome.terminated || step == limit {
                break;
            }
        }
    }
    all
}

fn check_spec(spec: &GameSpec) {
    assert_eq!(spec.keys[0].0, "s");
    assert!(spec.num_action >= 1 && !spec.players.is_empty());
    for field in spec.keys.iter().map(|(_, field)| field).chain([&spec.action]) {
        let itemsize: usize = field.dtype[2..].parse().unwrap();
        assert_eq!(field.itemsize, itemsize, "{field:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A seed and actions determine everything, after any earlier episodes.
    #[test]
    fn seeds_and_actions_determine_episodes(seed in 0..u64::MAX - 3, limit in 1..60_u64) {
        for name in GameFactory::names() {
            let kind = GameFactory::new(name, limit, &[]).unwrap();
            let (mut fresh, mut used) = (kind.game(), kind.game());
            check_spec(&kind.spec());
            prop_assert_eq!(kind.spec().max_steps, limit);
            episodes(&mut *used, &kind.spec(), seed / 2, limit);
            let [one, other] =
                [&mut fresh, &mut used].map(|game| episodes(&mut **game, &kind.spec(), seed, limit));
            prop_assert_eq!(one, other, "{}", name);
        }
    }

    #[test]
    fn invalid_action_changes_nothing(seed: u64, wrong in prop_oneof![i64::MIN..0, 7..i64::MAX]) {
        for name in GameFactory::names() {
            let kind = GameFactory::new(name, 10, &[]).unwrap();
            let (mut game, spec) = (kind.game(), kind.spec());
            game.reset(seed);
            let before = seen(&*game, &spec);
            let refused = |game: &mut dyn Game| if spec.action.dtype == "<f4" {
                game.step(Action(&[f32::NAN, f32::INFINITY][(seed % 2) as usize].to_ne_bytes()))
            } else {
                act(game, wrong)
            };
            let error = refused(&mut *game).unwrap_err().to_string();
            prop_assert!(error.starts_with("a: expected "), "{}", error);
            prop_assert_eq!(before, seen(&*game, &spec));
        }
    }

    /// Speeds and positions stay within the spaces of Gymnasium.
    #[test]
    fn observations_of_physics_games_are_bounded(seed in 0..u64::MAX - 3) {
        use std::f32::consts::PI;
        let bounds: [(&str, &[f32]); 4] = [
            ("acrobot", &[1.0, 1.0, 1.0, 1.0, 4.0 * PI, 9.0 * PI]),
            ("mountain_car", &[1.2, 0.07]),
            ("mountain_car_continuous", &[1.2, 0.07]),
            ("pendulum", &[1.0, 1.0, 8.0]),
        ];
        for (name, bounds) in bounds {
            let kind = GameFactory::new(name, 300, &[]).unwrap();
            for (state, _) in episodes(&mut *kind.game(), &kind.spec(), seed, 300) {
                let parts = state[0].as_chunks().0.iter().map(|part| f32::from_ne_bytes(*part));
                for (part, &bound) in parts.zip(bounds) {
                    prop_assert!(part.abs() <= bound, "{name}: {part} beyond {bound}");
                }
            }
        }
    }

    #[test]
    fn ball_is_caught_by_the_paddle_below_it(seed: u64, actions in prop::collection::vec(0..3_i64, 9)) {
        let kind = GameFactory::new("catch", 9, &[]).unwrap();
        let mut game = kind.game();
        game.reset(seed);
        let board = |game: &dyn Game| seen(game, &kind.spec()).remove(0);
        let ball = board(&*game)[..catch::COLUMNS].iter().position(|&cell| cell == 1).unwrap();
        let mut paddle = 2_i64;
        for (at, &action) in (1..).zip(&actions) {
            paddle = (paddle + action - 1).clamp(0, 4);
            let outcome = act(&mut *game, action).unwrap();
            let mut expected = vec![0; catch::ROWS * catch::COLUMNS];
            expected[at * catch::COLUMNS + ball] = 1;
            expected[(catch::ROWS - 1) * catch::COLUMNS + paddle as usize] = 1;
            prop_assert_eq!(board(&*game), expected);
            let paid = if at < 9 { 0.0 } else if paddle == ball as i64 { 1.0 } else { -1.0 };
            prop_assert_eq!(outcome, Outcome { reward: paid, terminated: at == 9, truncated: false });
        }
    }
}

/// Options of a game, by name.
fn options(given: &[(&str, f64)]) -> Vec<(String, f64)> {
    given.iter().map(|&(name, value)| (name.into(), value)).collect()
}

fn floats(game: &dyn Game, spec: &GameSpec) -> Vec<f32> {
    seen(game, spec)[0].as_chunks().0.iter().map(|part| f32::from_ne_bytes(*part)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn junction_of_the_tmaze_pays_by_the_cue_of_the_first_state(
        seed: u64, length in 1..30_u32, noise in 0.0..=1.0, actions in prop::collection::vec(0..3_i64, 120),
    ) {
        let given = options(&[("length", length.into()), ("noise", noise)]);
        let kind = GameFactory::new("tmaze", 500, &given).unwrap();
        let (mut game, spec) = (kind.game(), kind.spec());
        game.reset(seed);
        let goal = match floats(&*game, &spec)[..] {
            [1.0, 1.0, 0.0] => 0,
            [0.0, 1.0, 1.0] => 2,
            ref other => panic!("{other:?} is not a cue"),
        };
        let mut cell = 0;
        for action in actions {
            let over = cell == length && action != 1;
            let reward = if !over { 0.0 } else if action == goal { 1.0 } else { -1.0 };
            let outcome = act(&mut *game, action).unwrap();
            prop_assert_eq!(outcome, Outcome { reward, terminated: over, truncated: false });
            if over {
                break;
            }
            cell = (cell + u32::from(action == 1)).min(length);
            let shown = floats(&*game, &spec);
            if cell == length {
                prop_assert_eq!(shown, [0.0, 1.0, 0.0]);
            } else {
                let lowest = 1.0 - noise as f32;
                prop_assert!(shown[1] == 0.0 && [shown[0], shown[2]].iter().all(|&part| lowest <= part && part <= 1.0));
            }
        }
    }

    #[test]
    fn repeat_previous_pays_for_the_suit_shown_k_steps_before(
        seed: u64, num_decks in 1..4_usize, share in 0.0..1.0, actions in prop::collection::vec(0..4_i64, 155),
    ) {
        let cards = 52 * num_decks;
        let k = 1 + (share * (cards - 2) as f64) as usize;
        let given = options(&[("num_decks", num_decks as f64), ("k", k as f64)]);
        let kind = GameFactory::new("repeat_previous", 1000, &given).unwrap();
        let (mut game, spec) = (kind.game(), kind.spec());
        game.reset(seed);
        let suit = |game: &dyn Game| floats(game, &spec).iter().position(|&part| part == 1.0).unwrap();
        let mut suits = vec![suit(&*game)];
        let mut total = 0.0;
        for &action in &actions[..cards - 1] {
            let paid = match suits.len().checked_sub(k + 1) {
                None => 0.0,
                Some(at) if suits[at] == action as usize => 1.0 / (cards - 1 - k) as f32,
                Some(_) => -1.0 / (cards - 1 - k) as f32,
            };
            let outcome = act(&mut *game, action).unwrap();
            suits.push(suit(&*game));
            let terminated = suits.len() == cards;
            prop_assert_eq!(outcome, Outcome { reward: paid, terminated, truncated: false });
            total += paid;
        }
        prop_assert!(total.abs() < 1.0 + 1e-5);
        for each in 0..4 {
            prop_assert_eq!(suits.iter().filter(|&&suit| suit == each).count(), 13 * num_decks);
        }
    }
}

#[test]
fn wrong_option_of_a_game_is_refused_by_name() {
    let refused = |game, given: &[(&str, f64)]| {
        GameFactory::new(game, 1, &options(given)).err().unwrap().to_string()
    };
    assert_eq!(
        refused("tmaze", &[("length", 0.0)]),
        "length: expected an integer from 1 to 4294967295, got 0"
    );
    assert_eq!(
        refused("tmaze", &[("length", f64::NAN)]),
        "length: expected an integer from 1 to 4294967295, got NaN"
    );
    assert_eq!(
        refused("tmaze", &[("noise", -0.5)]),
        "noise: expected a number from 0 to 1, got -0.5"
    );
    assert_eq!(
        refused("repeat_previous", &[("k", 104.0), ("num_decks", 2.0)]),
        "k: expected an integer from 1 to 102 for num_decks=2, got 104"
    );
    for game in GameFactory::names() {
        let text = refused(game, &[("size", 1.0)]);
        assert_eq!(text, "options: expected options that the game has, got \"size\"");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn four_in_a_line_win_as_on_a_plain_board(columns in prop::collection::vec(0..7_usize, 42 * 6)) {
        let kind = GameFactory::new("connect_four", 42, &[]).unwrap();
        let (mut game, mut board) = (kind.game(), Board::default());
        game.reset(0);
        for column in columns {
            let mover = board.player();
            prop_assert_eq!(game.player(), mover);
            let state = seen(&*game, &kind.spec());
            let mask: Vec<_> = (0..7).map(|column| u8::from(board.has_room(column))).collect();
            prop_assert_eq!(&state[..2], [board.planes(), mask]);
            prop_assert_eq!(&state[2], &(mover as i32).to_ne_bytes());
            if !board.has_room(column) {
                let error = act(&mut *game, column as i64).unwrap_err().to_string();
                prop_assert_eq!(error, format!("a: expected a column that is not full, got {column}"));
                prop_assert_eq!(state, seen(&*game, &kind.spec()));
                continue;
            }
            let outcome = act(&mut *game, column as i64).unwrap();
            board.drop_disc(column);
            let (won, over) = (board.wins(mover), board.wins(mover) || board.full());
            let reward = f32::from(won);
            prop_assert_eq!(outcome, Outcome { reward, terminated: over, truncated: false });
            prop_assert_eq!(game.reward(outcome, mover), reward);
            prop_assert_eq!(game.reward(outcome, 1 - mover), -reward);
            if over {
                let state = seen(&*game, &kind.spec());
                prop_assert_eq!(&state[..2], [board.planes(), vec![0; 7]]);
                break;
            }
        }
    }
}

/// Columns whose discs, dropped by turns, fill the board without four in a line.
const DRAW: [i64; 42] = [
    0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 2, 3, 2, 3, 3, 2, 3, 2, 2, 3, 2, 3, 4, 5, 4, 5, 5, 4, 5, 4,
    4, 5, 4, 5, 6, 6, 6, 6, 6, 6,
];

#[test]
fn full_board_is_a_draw() {
    let kind = GameFactory::new("connect_four", 42, &[]).unwrap();
    let mut game = kind.game();
    game.reset(0);
    for (at, column) in (1..).zip(DRAW) {
        let outcome = act(&mut *game, column).unwrap();
        assert_eq!(outcome.reward, 0.0);
        assert_eq!(outcome.terminated, at == 42);
    }
}

#[test]
fn unknown_game_and_limit_of_zero_are_refused() {
    let error = GameFactory::new("chess", 1, &[]).err().unwrap().to_string();
    assert!(error.starts_with("game: expected one of [\"acrobot\", \"cartpole\""), "{error}");
    assert!(error.ends_with("got \"chess\""), "{error}");
    let error = GameFactory::new("catch", 0, &[]).err().unwrap().to_string();
    assert_eq!(error, "max_episode_steps: expected an integer >= 1, got 0");
}

#[test]
fn game_of_the_documentation_is_valid() {
    check_spec(&Corridor::spec());
    let mut game = Corridor::default();
    for seed in 0..8 {
        game.reset(seed);
        let mut steps = 0;
        while !act(&mut game, 1).unwrap().terminated {
            assert_eq!(
                seen(&game, &Corridor::spec())[0].iter().filter(|&&byte| byte != 0).count(),
                2
            );
            steps += 1;
        }
        assert_eq!(steps, 3 - seed % 4);
    }
    game.reset(1);
    assert_eq!(act(&mut game, 0).unwrap(), Outcome::default());
    assert!(act(&mut game, 2).is_err());
}

/// Games are stepped in fours where they can be, and one by one where they cannot.
#[test]
fn games_stepped_together_equal_games_stepped_alone() {
    const COUNT: usize = 7;
    for name in GameFactory::names() {
        let kind = GameFactory::new(name, 30, &[]).unwrap();
        let (spec, mut game_batch) = (kind.spec(), kind.game_batch(COUNT));
        let mut alone: Vec<_> = (0..COUNT).map(|_| kind.game()).collect();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        for (at, game) in alone.iter_mut().enumerate() {
            game_batch.reset(at, at as u64);
            game.reset(at as u64);
        }
        let places: Vec<_> = (0..COUNT).map(|at| GameItem { at, item: at }).collect();
        for step in 0..200 {
            let actions: Vec<_> = alone.iter().map(|game| draw(&**game, &spec, &mut rng)).collect();
            let mut outcomes = [None; COUNT];
            let size = spec.action.nbytes();
            let mut done = 0;
            game_batch.step(size, &actions.concat(), &places, &mut outcomes, &mut done).unwrap();
            assert_eq!(done, COUNT);
            for (at, game) in alone.iter_mut().enumerate() {
                let outcome = game.step(Action(&actions[at])).unwrap();
                assert_eq!(outcomes[at], Some(outcome), "{name} {step}");
                if outcome.terminated || step % 30 == 29 {
                    let seed = (step * COUNT + at) as u64;
                    game_batch.reset(at, seed);
                    game.reset(seed);
                }
            }
            for (key, (_, field)) in spec.keys.iter().enumerate() {
                let mut shown = vec![0; field.nbytes() * COUNT];
                game_batch.write(key, field.nbytes(), &mut shown, &places, &mut 0);
                let seen: Vec<_> =
                    alone.iter().map(|game| seen(&**game, &spec)[key].clone()).collect();
                assert_eq!(shown, seen.concat(), "{name} {step}");
            }
        }
    }
}

#[test]
fn games_before_an_invalid_action_have_stepped() {
    let kind = GameFactory::new("cartpole", 30, &[]).unwrap();
    let mut game_batch = kind.game_batch(4);
    (0..4).for_each(|at| game_batch.reset(at, 1));
    let places: Vec<_> = (0..4).map(|at| GameItem { at, item: at }).collect();
    let actions: Vec<u8> =
        [1_i64, 1, -1, 1].iter().flat_map(|action| action.to_ne_bytes()).collect();
    let (mut outcomes, mut done) = ([None; 4], 0);
    let error = game_batch.step(8, &actions, &places, &mut outcomes, &mut done).unwrap_err();
    assert!(error.to_string().contains("-1"), "{error}");
    assert_eq!((done, outcomes.map(|outcome| outcome.is_some())), (2, [true, true, false, false]));
}
