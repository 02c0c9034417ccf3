//! Open episodes whose steps are drawn, beside samplers, views, limits of draws and evictions by weight.

use std::iter::once;

use cogrs::error::Error;
use cogrs::replay::corrections::PriorityKind;
use cogrs::replay::growing::{Growing, GrowingStep};
use cogrs::replay::memory::Memory;
use cogrs::replay::sampler::Sampler;
use cogrs::replay::settings::{NewPriority, Remover};
use cogrs::replay::view::ViewSettings;

use crate::fixtures::{SMALL, ids, new_memory, set};
use crate::model::DIMS;

/// Opens an episode that grows by as many steps, and returns their slots too.
fn grow(memory: &mut Memory, steps: usize) -> (Growing, Vec<u32>) {
    let (state, info) = ([7; SMALL], [0; 8]);
    let growing = memory.open_growing(once(&state[..]), &info).unwrap();
    let step = GrowingStep {
        action: &[0; 8],
        reward: &[0; 4 * DIMS],
        info: &info,
        init_w: 1.0,
        next_state: &state,
        next_info: &info,
    };
    let slots: Vec<u32> = (0..steps).map(|_| memory.grow(growing, step).unwrap()).collect();
    memory.make_drawable(&slots);
    (growing, slots)
}

fn set_weights(memory: &mut Memory, slots: &[u32], weight: f64) {
    let ids = ids(memory, slots);
    let weights = vec![weight; ids.len()];
    memory.update_priority(&ids, &weights, PriorityKind::Weight).unwrap();
}

fn distinct(mut slots: Vec<u32>) -> Vec<u32> {
    slots.sort_unstable();
    slots.dedup();
    slots
}

#[test]
fn steps_of_growing_episode_with_weight_0_are_drawn_uniformly_only() {
    let mut memory = new_memory(20);
    let (_, slots) = grow(&mut memory, 5);
    assert_eq!(distinct(memory.draw_by(Sampler::Prioritized, 500).unwrap().prev), slots);
    set_weights(&mut memory, &slots, 0.0);
    assert_eq!((memory.num_drawable(), memory.num_sampleable()), (5, 0));
    assert_eq!(distinct(memory.draw_by(Sampler::Uniform, 500).unwrap().prev), slots);
    assert!(matches!(memory.draw_by(Sampler::Prioritized, 1), Err(Error::TooFew(_))));
}

#[test]
fn samplers_with_an_order_refuse_growing_episodes_and_draw_them_once_finished() {
    let mut memory = new_memory(20);
    let (growing, slots) = grow(&mut memory, 5);
    let alike = [Sampler::Uniform, Sampler::Prioritized];
    let ordered = Sampler::ALL.into_iter().filter(|sampler| !alike.contains(sampler));
    for sampler in ordered.clone() {
        let error = memory.draw_by(sampler, 1).unwrap_err();
        assert!(matches!(error, Error::State(_)), "{error}");
        assert!(error.to_string().starts_with(&format!("sampler='{sampler}' cannot draw")));
    }
    memory.finish_growing(growing, true).unwrap();
    for sampler in ordered.filter(|sampler| sampler.is_ordered()) {
        assert_eq!(distinct(memory.draw_by(sampler, 5).unwrap().prev), slots);
    }
    assert_eq!(distinct(memory.draw_by(Sampler::Stratified, 500).unwrap().prev), slots);
}

#[test]
fn view_has_the_steps_of_a_growing_episode_from_its_end_on() {
    let mut memory = new_memory(20);
    let settings = ViewSettings {
        name: "other".into(),
        priority_exponent: 1.0,
        sampler: Sampler::Uniform,
        max_times_sampled: 0,
    };
    let key = memory.add_view(settings).unwrap();
    let (growing, _) = grow(&mut memory, 4);
    // New borders set all leaves anew.
    set(&mut memory, |settings| settings.frame_stack = 2);
    set(&mut memory, |settings| settings.frame_stack = 1);
    assert_eq!(memory.num_drawable(), 4);
    assert_eq!(memory.view(key).unwrap().num_drawable(), 0);
    memory.finish_growing(growing, true).unwrap();
    let view = memory.view(key).unwrap();
    assert_eq!((view.num_drawable(), view.weight_sum()), (4, 4.0));
}

#[test]
fn slots_of_a_dropped_growing_episode_begin_anew_under_a_limit_of_draws() {
    let mut memory = new_memory(5);
    set(&mut memory, |settings| settings.max_times_sampled = 1);
    grow(&mut memory, 4);
    assert_eq!(memory.draw_by(Sampler::Uniform, 4).unwrap().times, [1; 4]);
    assert_eq!(memory.num_drawable(), 0);
    memory.clear();
    grow(&mut memory, 4);
    assert_eq!(memory.num_drawable(), 4);
}

#[test]
fn priorities_of_a_growing_episode_do_not_disturb_evictions_by_weight() {
    let mut memory = new_memory(50);
    set(&mut memory, |settings| {
        settings.remover = Remover::Lowest;
        settings.max_episode = 2;
    });
    // The third evicts the first of these: from there on weights are kept in order.
    let closed = [1.0, 2.0, 1.5].map(|weight| {
        let (growing, slots) = grow(&mut memory, 4);
        set_weights(&mut memory, &slots, weight);
        let first = ids(&memory, &slots)[0];
        memory.finish_growing(growing, true).unwrap();
        first
    });
    let (_, slots) = grow(&mut memory, 4);
    set_weights(&mut memory, &slots, 0.5);
    let (last, slots) = grow(&mut memory, 4);
    let newest = ids(&memory, &slots)[0];
    memory.finish_growing(last, true).unwrap();
    let firsts = memory.closed_episodes().map(|episode| memory.id(episode.serial, 0));
    assert_eq!(firsts.collect::<Vec<_>>(), [closed[1], newest]);
}

#[test]
fn step_added_with_a_number_as_priority_is_the_largest_for_later_ones() {
    let mut memory = new_memory(20);
    for priority in [NewPriority::Number(3.0), NewPriority::Max] {
        set(&mut memory, |settings| settings.new_priority = priority);
        grow(&mut memory, 1);
    }
    assert_eq!(memory.weight_sum(), 6.0);
}
