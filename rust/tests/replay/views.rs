//! Weights of views against those of their memory.

use cogrs::replay::closing::CloseOptions;
use cogrs::replay::corrections::PriorityKind;
use cogrs::replay::memory::WRITTEN;
use cogrs::replay::sampler::Sampler;
use cogrs::replay::settings::NewPriority;
use cogrs::replay::view::ViewSettings;
use cogrs::spec::EntrySpec;
use proptest::prelude::*;

use crate::fixtures::{Columns, add_episode, bases, config, entries, memory_of, new_memory, set};
use crate::fixtures::{SMALL, spec_with};
use crate::model::Entry;

fn view(name: &str, priority_exponent: f64, max_times_sampled: u32) -> ViewSettings {
    let sampler = Sampler::Prioritized;
    ViewSettings { name: name.into(), priority_exponent, sampler, max_times_sampled }
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn view_of_the_same_exponent_weighs_as_its_memory_to_the_last_bit(
        rewards in proptest::collection::vec(-3.0..3.0_f32, 1..20),
        late in any::<proptest::sample::Index>(),
        exponent in proptest::sample::select(&[0.5, 0.6, 1.0][..]),
    ) {
        let mut memory = new_memory(40);
        set(&mut memory, |settings| {
            settings.priority_exponent = exponent;
            settings.discount_factor = vec![0.97, 0.99];
            settings.mix_lambda = 0.9;
        });
        let before = memory.add_view(view("before", exponent, 0)).unwrap();
        let rows: Vec<Entry> = entries(rewards.len())
            .into_iter()
            .zip(&rewards)
            .map(|(entry, &reward)| Entry { reward: [reward, 0.1 * reward], ..entry })
            .collect();
        let added = memory.add_episode(
            Columns::new(&rows).rows(),
            &bases(&rows),
            &CloseOptions::default(),
        );
        let first = added.unwrap();
        memory.add_reward(first + late.index(rows.len()) as u64, &[0.3, 0.7]).unwrap();
        let after = memory.add_view(view("after", exponent, 0)).unwrap();
        for key in [before, after] {
            let sum = memory.view(key).unwrap().weight_sum();
            prop_assert_eq!(sum.to_bits(), memory.weight_sum().to_bits());
        }
    }
}

#[test]
fn largest_priority_of_a_heavy_entry_is_the_largest_float() {
    let mut memory = new_memory(20);
    set(&mut memory, |settings| settings.new_priority = NewPriority::Max);
    let first = add_episode(&mut memory, 3);
    let largest = f64::from(f32::MAX) / 2.0;
    memory.update_priority(&[first], &[largest * largest], PriorityKind::Error).unwrap();
    let options = CloseOptions { multiplier: 4.0, weights: false, ..CloseOptions::default() };
    let columns = Columns::new(&entries(3));
    memory.add_episode(columns.rows(), &[1.0; 3], &options).unwrap();
    let episode = memory.episode(1).unwrap();
    let weights: Vec<f32> = memory.read_weights(episode).collect();
    assert_eq!(weights, [f32::MAX, f32::MAX, 0.0]);
}

#[test]
fn episode_of_rewards_without_dimensions_has_errors_of_zero() {
    let fields = spec_with(SMALL, &[0]).fields().clone();
    let [state, action, mut reward, prob, value, qvest, info] = fields;
    reward.shape = vec![0];
    let spec = EntrySpec::new([state, action, reward, prob, value, qvest, info]).unwrap();
    let mut memory = memory_of(spec.clone(), 10, 0);
    set(&mut memory, |settings| settings.priority_epsilon = 0.25);
    let rows = WRITTEN.map(|field| vec![0; 3 * spec[field].nbytes()]);
    let key = memory.add_view(view("other", 0.5, 0)).unwrap();
    let rows = rows.each_ref().map(Vec::as_slice);
    memory.add_episode(rows, &[2.0; 3], &CloseOptions::default()).unwrap();
    assert_eq!((memory.weight_sum(), memory.view(key).unwrap().weight_sum()), (2.0, 2.0));
}

#[test]
fn view_draws_an_entry_as_often_as_a_limit_above_a_byte_allows() {
    let mut memory = new_memory(4);
    add_episode(&mut memory, 2);
    let key = memory.add_view(view("other", 1.0, 300)).unwrap();
    for times in 1..=300 {
        assert_eq!(memory.draw_view(key, None, 1).unwrap().times, [times]);
    }
    assert!(memory.draw_view(key, None, 1).is_err());
    add_episode(&mut memory, 3);
    assert_eq!(memory.draw_view(key, None, 1).unwrap().times, [1]);
}
