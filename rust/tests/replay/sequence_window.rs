//! Anchors and windows of sequences against a model that lists the steps of every row.

use cogrs::replay::sequence_window::{Border, EpisodeLength, SequenceShape, Window};
use proptest::prelude::*;
use proptest::sample::select;

use crate::fixtures::config;

/// Every start that the contract names, by looking at each step.
pub fn naive_anchors(shape: &SequenceShape, episode: EpisodeLength, first: usize) -> Vec<usize> {
    let (actions, entries) = (episode.actions, episode.entries);
    let is_start = |step: usize| {
        if actions < shape.length {
            return step == 0;
        }
        let last = actions - shape.length;
        step == last || (step <= last && step.is_multiple_of(shape.period))
    };
    let lies_inside = |step: usize| {
        actions >= shape.length
            && step >= shape.burn_in
            && step + shape.length + shape.after <= entries
    };
    let is_drawn = |step: usize| shape.border != Border::Drop || lies_inside(step);
    (first..actions).filter(|&step| is_start(step) && is_drawn(step)).collect()
}

/// The step of each row; None where the row holds no step of the episode.
pub fn naive_rows(
    shape: &SequenceShape,
    episode: EpisodeLength,
    anchor: usize,
    period: usize,
) -> Vec<Option<usize>> {
    let total = shape.burn_in + shape.length + shape.after;
    let mut start = anchor as i64 - shape.burn_in as i64;
    if shape.border == Border::Shift && episode.entries >= total {
        while start < 0 {
            start += 1;
        }
        while start + total as i64 > episode.entries as i64 {
            start -= 1;
        }
    }
    let mut begin = start.max(0);
    while begin % period as i64 != 0 {
        begin -= 1;
    }
    (0..total + period - 1)
        .map(|row| start - (period as i64 - 1) + row as i64)
        .map(|step| (begin..episode.entries as i64).contains(&step).then_some(step as usize))
        .collect()
}

fn rows_of(window: &Window, rows: usize) -> Vec<Option<usize>> {
    let lead = (0..window.lead).map(|_| None);
    let steps = window.steps.clone().map(Some);
    lead.chain(steps).chain(std::iter::repeat(None)).take(rows).collect()
}

pub fn shapes(longest: usize) -> impl Strategy<Value = SequenceShape> {
    let numbers = (1..=longest, 0..=longest, 0..=longest, 1..=longest + 2);
    (numbers, select(&Border::ALL[..])).prop_map(|((length, burn_in, after, period), border)| {
        SequenceShape { length, burn_in, after, period, border }
    })
}

pub fn episodes(longest: usize) -> impl Strategy<Value = EpisodeLength> {
    (0..=longest, any::<bool>())
        .prop_map(|(actions, last)| EpisodeLength { actions, entries: actions + usize::from(last) })
}

proptest! {
    #![proptest_config(config(3000))]

    #[test]
    fn anchors_of_an_episode_equal_those_found_step_by_step(
        shape in shapes(8),
        episode in episodes(24),
        first in 0..5_usize,
    ) {
        let anchors: Vec<usize> = shape.anchors(episode, first).collect();
        prop_assert_eq!(&anchors, &naive_anchors(&shape, episode, first));
        for step in 0..episode.entries {
            prop_assert_eq!(shape.has_anchor(episode, first, step), anchors.contains(&step));
        }
    }

    #[test]
    fn window_of_an_anchor_has_the_steps_found_row_by_row(
        shape in shapes(8),
        episode in episodes(24),
        period in 1..6_usize,
    ) {
        for anchor in shape.anchors(episode, 0) {
            let window = shape.window(episode, anchor, period);
            let rows = rows_of(&window, shape.rows(period));
            prop_assert_eq!(rows.len(), shape.steps() + period - 1);
            prop_assert_eq!(&rows, &naive_rows(&shape, episode, anchor, period));
            let learned: Vec<usize> =
                (anchor..anchor + shape.length).filter(|&step| step < episode.actions).collect();
            prop_assert_eq!(window.learn.clone().collect::<Vec<_>>(), learned);
            prop_assert!(window.learn.clone().all(|step| window.steps.contains(&step)));
            prop_assert!(window.lead + window.steps.len() <= rows.len());
        }
    }

    #[test]
    fn every_action_is_learned_by_a_sequence_where_none_is_dropped(
        shape in shapes(8),
        episode in episodes(24),
    ) {
        let border = if shape.border == Border::Drop { Border::Clip } else { shape.border };
        let shape = SequenceShape { period: shape.period.min(shape.length), border, ..shape };
        let anchors: Vec<usize> = shape.anchors(episode, 0).collect();
        for action in 0..episode.actions {
            let learned = |&anchor: &usize| shape.learned(episode.actions, anchor).contains(&action);
            prop_assert!(anchors.iter().any(learned));
        }
    }
}

#[test]
fn windows_of_the_documented_episode_are_the_documented_ones() {
    let shape = SequenceShape { length: 4, burn_in: 2, after: 1, period: 4, border: Border::Clip };
    let episode = EpisodeLength { actions: 10, entries: 10 };
    assert_eq!(shape.anchors(episode, 0).collect::<Vec<_>>(), [0, 4, 6]);
    assert_eq!(shape.window(episode, 4, 1), Window { lead: 0, steps: 2..9, learn: 4..8 });
    assert_eq!(shape.window(episode, 0, 1), Window { lead: 2, steps: 0..5, learn: 0..4 });
    assert_eq!(shape.window(episode, 6, 1), Window { lead: 0, steps: 4..10, learn: 6..10 });
    let shifted = SequenceShape { border: Border::Shift, ..shape };
    assert_eq!(shifted.window(episode, 0, 1), Window { lead: 0, steps: 0..7, learn: 0..4 });
    assert_eq!(shifted.window(episode, 6, 1), Window { lead: 0, steps: 3..10, learn: 6..10 });
}

#[test]
fn shape_with_a_number_out_of_range_is_refused_by_its_name() {
    let good = SequenceShape { length: 1, burn_in: 0, after: 0, period: 1, border: Border::Clip };
    assert!(good.check().is_ok());
    for (bad, name) in [
        (SequenceShape { length: 0, ..good }, "length"),
        (SequenceShape { period: 0, ..good }, "period"),
        (SequenceShape { burn_in: usize::MAX, ..good }, "burn_in"),
        (SequenceShape { after: usize::MAX, ..good }, "after"),
    ] {
        assert!(bad.check().unwrap_err().to_string().starts_with(name));
    }
}
