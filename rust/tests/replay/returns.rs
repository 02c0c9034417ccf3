//! The lambda-return against its definition as a mixture of n-step returns.

use cogrs::replay::returns::lambda_returns;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::fixtures::config;

/// An episode of one or more reward dimensions.
#[derive(Debug, Clone)]
struct Case {
    rewards: Vec<f32>,
    values: Vec<f32>,
    bootstrap: Vec<f64>,
    gamma: Vec<f64>,
    lambda: f64,
}

impl Case {
    fn dims(&self) -> usize {
        self.gamma.len()
    }

    fn steps(&self) -> usize {
        self.rewards.len() / self.dims()
    }

    fn returns(&self) -> Vec<f64> {
        let mut out = vec![f64::NAN; self.rewards.len()];
        let Self { rewards, values, bootstrap, gamma, lambda } = self;
        lambda_returns(rewards, values, bootstrap, gamma, *lambda, &mut out);
        out
    }

    /// One reward dimension as an episode of its own.
    fn alone(&self, dim: usize) -> Self {
        let every = |of: &[f32]| of.iter().copied().skip(dim).step_by(self.dims()).collect();
        Self {
            rewards: every(&self.rewards),
            values: every(&self.values),
            bootstrap: vec![self.bootstrap[dim]],
            gamma: vec![self.gamma[dim]],
            lambda: self.lambda,
        }
    }

    /// The n-step returns from `step` on, n = 1 and up, the last of them to the end of the episode. Of a
    /// case of one dimension.
    fn n_step_returns(&self, step: usize) -> Vec<f64> {
        let mut discounted = 0.0;
        let mut discount = 1.0;
        let mut returns = Vec::new();
        for at in step..self.steps() {
            discounted += discount * f64::from(self.rewards[at]);
            discount *= self.gamma[0];
            let ahead =
                self.values.get(at + 1).map_or(self.bootstrap[0], |&value| f64::from(value));
            returns.push(discounted + discount * ahead);
        }
        returns
    }

    /// `(1 - lambda) * sum of lambda^(n-1) * G_n`, with all the rest of the mixture on the last G. Of a
    /// case of one dimension.
    fn mixture(&self, step: usize) -> f64 {
        let returns = self.n_step_returns(step);
        let (last, shorter) = returns.split_last().unwrap();
        let share = |n: usize| self.lambda.powi(n as i32);
        let mixed =
            shorter.iter().enumerate().map(|(n, each)| (1.0 - self.lambda) * share(n) * each);
        mixed.sum::<f64>() + share(shorter.len()) * last
    }
}

fn cases() -> impl Strategy<Value = Case> {
    (1..=4_usize, 1..=60_usize).prop_flat_map(|(dims, steps)| {
        let reward = vec(-100.0..100.0_f32, dims * steps);
        let value = vec(-100.0..100.0_f32, dims * steps);
        let bootstrap = vec(prop_oneof![Just(0.0), -100.0..100.0], dims);
        let gamma = vec(prop_oneof![Just(0.0), Just(1.0), 0.0..1.0], dims);
        let lambda = prop_oneof![Just(0.0), Just(1.0), 0.0..1.0];
        (reward, value, bootstrap, gamma, lambda).prop_map(
            |(rewards, values, bootstrap, gamma, lambda)| Case {
                rewards,
                values,
                bootstrap,
                gamma,
                lambda,
            },
        )
    })
}

/// Equal but for rounding, among numbers of the size of these cases' sums.
fn close(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-8
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn every_return_is_the_mixture_of_n_step_returns(case in cases()) {
        let returns = case.returns();
        for dim in 0..case.dims() {
            let alone = case.alone(dim);
            for step in 0..case.steps() {
                let (q, mixture) = (returns[step * case.dims() + dim], alone.mixture(step));
                prop_assert!(close(q, mixture), "step {}: {} against {}", step, q, mixture);
            }
        }
    }

    #[test]
    fn lambda_zero_is_the_one_step_target(case in cases()) {
        let case = Case { lambda: 0.0, ..case.alone(0) };
        for (step, q) in case.returns().into_iter().enumerate() {
            prop_assert!(close(q, case.n_step_returns(step)[0]));
        }
    }

    #[test]
    fn lambda_one_is_the_discounted_sum_for_any_values(case in cases()) {
        let case = Case { lambda: 1.0, ..case.alone(0) };
        let gamma = case.gamma[0];
        for (step, q) in case.returns().into_iter().enumerate() {
            let rewards = case.rewards[step..].iter().copied().map(f64::from);
            let sum: f64 = rewards.enumerate().map(|(k, reward)| gamma.powi(k as i32) * reward).sum();
            let bootstrap = gamma.powi((case.steps() - step) as i32) * case.bootstrap[0];
            prop_assert!(close(q, sum + bootstrap));
        }
    }

    #[test]
    fn each_dimension_is_computed_as_if_alone(case in cases()) {
        let together = case.returns();
        for dim in 0..case.dims() {
            let part: Vec<f64> = together.iter().copied().skip(dim).step_by(case.dims()).collect();
            prop_assert_eq!(part, case.alone(dim).returns());
        }
    }

    #[test]
    fn bootstrap_reaches_back_discounted_by_gamma_and_lambda(case in cases()) {
        let with = case.alone(0);
        let without = Case { bootstrap: vec![0.0], ..with.clone() };
        let (gamma, lambda) = (with.gamma[0], with.lambda);
        for (step, (q, plain)) in with.returns().into_iter().zip(without.returns()).enumerate() {
            let after = (with.steps() - 1 - step) as i32;
            let share = gamma.powi(after + 1) * lambda.powi(after);
            prop_assert!(close(q - plain, share * with.bootstrap[0]));
        }
    }
}

#[test]
fn gamma_is_applied_to_a_bootstrap_once() {
    let mut q = [0.0; 3];
    lambda_returns(&[1.0; 3], &[0.0; 3], &[8.0], &[0.5], 1.0, &mut q);
    assert_eq!(q, [2.75, 3.5, 5.0]);
}

#[test]
fn without_entries_there_are_no_returns() {
    lambda_returns(&[], &[], &[1.0, 2.0], &[0.5, 0.5], 0.5, &mut []);
}

#[test]
fn without_reward_dimensions_there_are_no_returns() {
    lambda_returns(&[], &[], &[], &[], 0.5, &mut []);
}
