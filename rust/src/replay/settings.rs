//! The settings of a memory.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, short};
use crate::replay::finite::check_non_negative;
use crate::replay::sampler::Sampler;
use crate::spec::FIELDS;

/// Flags of a cache: the seven fields of prev, then those of next.
pub const FLAGS: usize = 2 * FIELDS;

/// The source of a new entry's weight, which is multiplied by its initial weight.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub enum NewPriority {
    /// The error of its value against its return; 1 without `do_update_weight`.
    #[default]
    Returns,
    /// The largest weight that the memory ever gave (Schaul et al. 2016, algorithm 1).
    Max,
    /// A constant.
    Number(f64),
}

impl Display for NewPriority {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Returns => f.write_str("returns"),
            Self::Max => f.write_str("max"),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

/// The frames before the first of an episode in a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum FramePadding {
    /// Steps without a whole stack are not drawn.
    #[default]
    None,
    /// The first frame, repeated.
    Repeat,
    /// Zeros.
    Zero,
}

impl FramePadding {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::None, Self::Repeat, Self::Zero];
}

impl Display for FramePadding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Repeat => "repeat",
            Self::Zero => "zero",
        })
    }
}

/// The closed episode that is evicted first. One that has just been closed is evicted last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Remover {
    /// The oldest.
    #[default]
    Fifo,
    /// The newest.
    Lifo,
    /// The one with the lowest mean weight, of several the oldest.
    Lowest,
    /// The one with the highest mean weight, of several the oldest.
    Highest,
}

impl Remover {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Fifo, Self::Lifo, Self::Lowest, Self::Highest];
}

impl Display for Remover {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fifo => "fifo",
            Self::Lifo => "lifo",
            Self::Lowest => "lowest",
            Self::Highest => "highest",
        })
    }
}

/// The settings in force. An episode keeps those it was closed with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Exponent of the priority, alpha in the PER paper.
    pub priority_exponent: f64,
    /// Lambda of the multi-step return.
    pub mix_lambda: f64,
    /// States stacked in a sample.
    pub frame_stack: usize,
    /// Steps between prev and next.
    pub multi_step: usize,
    /// Samples in a cache.
    pub cache_size: usize,
    /// Closed episodes held at most; 0 for no limit.
    pub max_episode: usize,
    /// Whether a server gives samples of a cache more than once.
    pub reuse_cache: bool,
    /// Gamma of each reward dimension.
    pub discount_factor: Vec<f64>,
    /// Coefficient of each reward dimension in the priority.
    pub reward_coeff: Vec<f64>,
    /// Which fields samples carry.
    pub cache_flags: [bool; FLAGS],
    /// The source of a new entry's weight.
    pub new_priority: NewPriority,
    /// Added to each error before the exponent.
    pub priority_epsilon: f64,
    /// The frames before the first in a stack.
    pub frame_padding: FramePadding,
    /// The share of the largest error in the priority of a sequence, the rest is the mean's.
    pub sequence_eta: f64,
    /// How draws choose that name no sampler.
    pub sampler: Sampler,
    /// Draws after which an entry cannot be drawn any more; 0 for no limit.
    pub max_times_sampled: u32,
    /// The closed episode that is evicted first.
    pub remover: Remover,
}

impl Settings {
    /// The defaults.
    pub fn new(reward_dims: usize) -> Self {
        Self {
            priority_exponent: 0.5,
            mix_lambda: 1.0,
            frame_stack: 1,
            multi_step: 1,
            cache_size: 32,
            max_episode: 0,
            reuse_cache: false,
            discount_factor: vec![1.0; reward_dims],
            reward_coeff: vec![1.0; reward_dims],
            cache_flags: [true; FLAGS],
            new_priority: NewPriority::default(),
            priority_epsilon: 0.0,
            frame_padding: FramePadding::default(),
            sequence_eta: default_eta(),
            sampler: Sampler::default(),
            max_times_sampled: 0,
            remover: Remover::default(),
        }
    }

    /// Names of the settings that differ, with their values here and there.
    pub fn differences(&self, other: &Self) -> Vec<(&'static str, String, String)> {
        let mut found = Vec::new();
        macro_rules! compare {
            ($($name:ident: $told:expr;)*) => {$(
                if self.$name != other.$name {
                    let told = $told;
                    found.push((stringify!($name), told(&self.$name), told(&other.$name)));
                }
            )*};
        }
        compare! {
            priority_exponent: |value: &f64| value.to_string();
            mix_lambda: |value: &f64| value.to_string();
            frame_stack: |value: &usize| value.to_string();
            multi_step: |value: &usize| value.to_string();
            cache_size: |value: &usize| value.to_string();
            max_episode: |value: &usize| value.to_string();
            reuse_cache: |value: &bool| if *value { "True".to_owned() } else { "False".to_owned() };
            discount_factor: |value: &Vec<f64>| format!("{value:?}");
            reward_coeff: |value: &Vec<f64>| format!("{value:?}");
            cache_flags: |value: &[bool; FLAGS]| format!("{:?}", value.map(u8::from));
            new_priority: |value: &NewPriority| value.to_string();
            priority_epsilon: |value: &f64| value.to_string();
            sequence_eta: |value: &f64| value.to_string();
            frame_padding: |value: &FramePadding| value.to_string();
            sampler: |value: &Sampler| value.to_string();
            max_times_sampled: |value: &u32| value.to_string();
            remover: |value: &Remover| value.to_string();
        }
        found
    }

    /// Whether samples have the same arrays under both settings.
    pub fn has_layout_of(&self, other: &Self) -> bool {
        (self.frame_stack, self.cache_flags) == (other.frame_stack, other.cache_flags)
    }

    /// Checks all numbers. Fails with [`Error::Value`] that names the setting.
    pub fn check(&self) -> Result<()> {
        check_non_negative("priority_exponent", self.priority_exponent)?;
        check_non_negative("priority_epsilon", self.priority_epsilon)?;
        if let NewPriority::Number(number) = self.new_priority
            && !(number >= 0.0 && (number as f32).is_finite())
        {
            let expected = "'returns', 'max' or a finite float32 number >= 0";
            return Err(Error::value("new_priority", expected, short(number)));
        }
        if !(0.0..=1.0).contains(&self.mix_lambda) {
            return Err(Error::value("mix_lambda", "a number in [0, 1]", short(self.mix_lambda)));
        }
        if !(0.0..=1.0).contains(&self.sequence_eta) {
            let got = short(self.sequence_eta);
            return Err(Error::value("sequence_eta", "a number in [0, 1]", got));
        }
        check_gamma(&self.discount_factor)?;
        check_coeff(&self.reward_coeff)
    }

    /// Sets gamma: one number for all dimensions, or the leading ones. Fails with [`Error::Value`] unless all are
    /// finite and >= 0 and there are not too many.
    pub fn set_discount_factor(&mut self, values: &Numbers) -> Result<()> {
        check_gamma(values.as_slice())?;
        values.write("discount_factor", &mut self.discount_factor)
    }

    /// Sets the coefficients of the priority: one number for all dimensions, or the leading ones. Fails with
    /// [`Error::Value`] unless all are finite and there are not too many.
    pub fn set_reward_coeff(&mut self, values: &Numbers) -> Result<()> {
        check_coeff(values.as_slice())?;
        values.write("reward_coeff", &mut self.reward_coeff)
    }

    /// Sets the leading cache flags. Fails with [`Error::Value`] for more than 14.
    pub fn set_cache_flags(&mut self, flags: &[bool]) -> Result<()> {
        let Some(leading) = self.cache_flags.get_mut(..flags.len()) else {
            let got = format!("{} flags", flags.len());
            return Err(Error::value("cache_flags", "at most 14 flags", got));
        };
        leading.copy_from_slice(flags);
        Ok(())
    }

    /// Whether every number could have been set, for a reward of so many dimensions.
    pub fn is_valid(&self, reward_dims: usize) -> bool {
        let dims = (self.discount_factor.len(), self.reward_coeff.len());
        self.check().is_ok()
            && dims == (reward_dims, reward_dims)
            && self.frame_stack.min(self.multi_step).min(self.cache_size) >= 1
    }

    /// The steps of an episode of `length` entries inside its borders: with a whole stack before them, padded or not, and
    /// a `next` after them. With a final state, where `multi_step` ends early, all actions have a `next`.
    pub fn interior(&self, length: usize, final_state: bool) -> std::ops::Range<usize> {
        let end = length.saturating_sub(if final_state { 1 } else { self.multi_step });
        (self.unpadded_stack() - 1).min(end)..end
    }

    /// Frames of a stack that must lie in its episode.
    pub fn unpadded_stack(&self) -> usize {
        if self.frame_padding == FramePadding::None { self.frame_stack } else { 1 }
    }

    /// Whether episodes have the same borders under both settings.
    pub fn has_borders_of(&self, other: &Self) -> bool {
        (self.unpadded_stack(), self.multi_step) == (other.unpadded_stack(), other.multi_step)
    }
}

/// Kapturowski et al. 2019, section 2.3.
fn default_eta() -> f64 {
    0.9
}

fn check_gamma(values: &[f64]) -> Result<()> {
    values.iter().try_for_each(|&value| check_non_negative("discount_factor", value).map(drop))
}

fn check_coeff(values: &[f64]) -> Result<()> {
    match values.iter().find(|value| !value.is_finite()) {
        Some(&value) => Err(Error::value("reward_coeff", "finite numbers", short(value))),
        None => Ok(()),
    }
}

/// One number or a list of them. Of a setting with a number per reward dimension a list sets the leading ones.
#[derive(Debug, Clone)]
pub enum Numbers {
    /// One number, for all.
    One(f64),
    /// A number for each.
    Many(Vec<f64>),
}

impl Numbers {
    fn as_slice(&self) -> &[f64] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }

    fn write(&self, name: &str, target: &mut [f64]) -> Result<()> {
        let dims = target.len();
        match self {
            Self::One(value) => target.fill(*value),
            Self::Many(values) => {
                let Some(leading) = target.get_mut(..values.len()) else {
                    let expected = format!("at most {dims} numbers, one per reward dimension");
                    return Err(Error::value(name, expected, format!("{} numbers", values.len())));
                };
                leading.copy_from_slice(values);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_frame_stack_and_cache_flags_change_the_layout() {
        let before = Settings::new(2);
        let mut others = Settings::new(2);
        others.priority_exponent = 0.1;
        others.mix_lambda = 0.2;
        others.multi_step = 3;
        others.cache_size = 4;
        others.max_episode = 5;
        others.reuse_cache = true;
        others.discount_factor = vec![0.6; 2];
        others.reward_coeff = vec![0.7; 2];
        others.new_priority = NewPriority::Max;
        others.priority_epsilon = 0.1;
        others.frame_padding = FramePadding::Zero;
        others.sequence_eta = 0.5;
        others.sampler = Sampler::Uniform;
        others.remover = Remover::Lifo;
        assert!(others.has_layout_of(&before));
        // All but frame_stack, cache_flags and max_times_sampled.
        assert_eq!(others.differences(&before).len(), 14);
        assert!(!Settings { frame_stack: 2, ..before.clone() }.has_layout_of(&before));
        assert!(!Settings { cache_flags: [false; FLAGS], ..before.clone() }.has_layout_of(&before));
    }
}
