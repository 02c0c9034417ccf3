//! Random calls of a memory, valid ones and some that must be refused.

use cogrs::replay::sampler::Sampler;
use cogrs::replay::settings::{FramePadding, NewPriority, Remover};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::model::DIMS;

/// One call; its targets are chosen among existing entries when it is made.
#[derive(Debug, Clone)]
pub enum Call {
    Open,
    Add { writer: Option<Index>, count: usize, flaw: Flaw },
    Close { writer: Option<Index>, how: Manner },
    Abort { writer: Option<Index> },
    AddEpisode { count: usize, flaw: Flaw, how: Manner },
    Clear,
    Set(Change),
    Priority(Vec<(Pick, f64)>, bool),
    Reward(Pick, [f32; DIMS]),
    Draw(Sampler, usize),
}

/// The flaw of the last of some new entries.
#[derive(Debug, Clone, Copy)]
pub enum Flaw {
    None,
    /// Nothing yet, but a return made from it may be infinite.
    Huge,
    Reward,
    Weight,
}

/// How an episode is to be closed, without the bytes of a final state.
#[derive(Debug, Clone)]
pub struct Manner {
    pub multiplier: f64,
    pub updates: (bool, bool),
    pub bootstrap: Option<[f64; DIMS]>,
    pub last: Option<bool>,
}

#[derive(Debug, Clone)]
pub enum Change {
    FrameStack(usize),
    MultiStep(usize),
    MaxEpisode(usize),
    Exponent(f64),
    Return(f64, [f64; DIMS]),
    Coeff([f64; DIMS]),
    New(NewPriority),
    Epsilon(f64),
    Padding(FramePadding),
    Limit(u32),
    Remover(Remover),
}

#[derive(Debug, Clone)]
pub enum Pick {
    Held(Index),
    Given(Index),
    Any(u64),
}

fn manners() -> impl Strategy<Value = Manner> + Clone {
    let multiplier = prop_oneof![
        20 => select(vec![1.0, 0.5, 0.0, 2.0]),
        1 => select(vec![-1.0, f64::NAN, f64::INFINITY, 1e300]),
    ];
    let updates = prop_oneof![
        12 => Just((true, true)),
        3 => Just((true, false)),
        3 => Just((false, false)),
        1 => Just((false, true)),
    ];
    let bootstrap = prop_oneof![
        10 => Just(None),
        9 => select(vec![[8.0, -1.5], [0.0, 0.0], [1e-3, 7.0]]).prop_map(Some),
        1 => select(vec![[f64::NAN, 0.0], [0.0, 1e300]]).prop_map(Some),
    ];
    let last = prop_oneof![2 => Just(None), 3 => any::<bool>().prop_map(Some)];
    let parts = (multiplier, updates, bootstrap, last);
    parts.prop_map(|(multiplier, updates, bootstrap, last)| Manner {
        multiplier,
        updates,
        bootstrap,
        last,
    })
}

fn changes() -> impl Strategy<Value = Change> {
    let border = || prop_oneof![6 => Just(1), 6 => 2..=4_usize, 1 => select(vec![40, 500])];
    let step = || prop_oneof![12 => border(), 1 => select(vec![1 << 31, usize::MAX])];
    let gammas = select(vec![[1.0, 1.0], [0.5, 0.75], [0.0, 1.0]]);
    let mixes = select(vec![0.0, 0.5, 1.0]);
    prop_oneof![
        3 => border().prop_map(Change::FrameStack),
        3 => step().prop_map(Change::MultiStep),
        2 => (0..=6_usize).prop_map(Change::MaxEpisode),
        2 => select(vec![0.0, 0.5, 0.7, 1.0]).prop_map(Change::Exponent),
        2 => (mixes, gammas).prop_map(|(mix, gamma)| Change::Return(mix, gamma)),
        1 => select(vec![[1.0, 1.0], [0.25, 2.0], [1.0, -3.0]]).prop_map(Change::Coeff),
        2 => select(vec![NewPriority::Returns, NewPriority::Max, NewPriority::Number(0.75)])
            .prop_map(Change::New),
        1 => select(vec![0.0, 0.5]).prop_map(Change::Epsilon),
        2 => select(vec![FramePadding::None, FramePadding::Repeat, FramePadding::Zero])
            .prop_map(Change::Padding),
        2 => select(vec![0, 1, 2, 3, 255, 256]).prop_map(Change::Limit),
        2 => select(&Remover::ALL[..]).prop_map(Change::Remover),
    ]
}

fn picks() -> impl Strategy<Value = Pick> {
    prop_oneof![
        12 => any::<Index>().prop_map(Pick::Held),
        3 => any::<Index>().prop_map(Pick::Given),
        1 => any::<u64>().prop_map(Pick::Any),
    ]
}

pub fn calls(most: usize) -> impl Strategy<Value = Call> {
    let writer = || prop::option::weighted(0.95, any::<Index>());
    let count = || prop_oneof![4 => 0..=4_usize, 3 => 0..=most];
    let flaw = || {
        let flaws = select(vec![Flaw::Huge, Flaw::Reward, Flaw::Weight]);
        prop_oneof![24 => Just(Flaw::None), 2 => flaws]
    };
    let priority = prop_oneof![
        30 => 0.0..10.0_f64,
        3 => Just(0.0),
        1 => select(vec![-1.0, f64::NAN, 1e300]),
    ];
    let delta = prop_oneof![
        12 => (-8..=8_i8, -8..=8_i8).prop_map(|(one, two)| [f32::from(one), f32::from(two)]),
        1 => select(vec![[f32::MAX, 0.0], [0.0, f32::NAN]]),
    ];
    prop_oneof![
        1 => Just(Call::Clear),
        20 => Just(Call::Open),
        40 => (writer(), count(), flaw())
            .prop_map(|(writer, count, flaw)| Call::Add { writer, count, flaw }),
        18 => (writer(), manners()).prop_map(|(writer, how)| Call::Close { writer, how }),
        4 => writer().prop_map(|writer| Call::Abort { writer }),
        8 => (count(), flaw(), manners())
            .prop_map(|(count, flaw, how)| Call::AddEpisode { count, flaw, how }),
        8 => changes().prop_map(Call::Set),
        8 => (vec((picks(), priority), 0..8), any::<bool>())
            .prop_map(|(updates, absolute)| Call::Priority(updates, absolute)),
        8 => (picks(), delta).prop_map(|(pick, delta)| Call::Reward(pick, delta)),
        20 => (select(&Sampler::ALL[..]), 0..=12_usize)
            .prop_map(|(sampler, count)| Call::Draw(sampler, count)),
    ]
}
