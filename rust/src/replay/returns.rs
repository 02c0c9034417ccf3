//! Multi-step returns.

/// Computes the lambda-return of every entry, per reward dimension.
///
/// With T entries, value estimates v and a bootstrap value b (0 for an episode that terminated):
///
/// ```text
/// q[T-1] = r[T-1] + gamma * b
/// q[t]   = r[t] + gamma * (lambda * q[t+1] + (1 - lambda) * v[t+1])
/// ```
///
/// (Sutton and Barto, *Reinforcement Learning*, section 12.1.) lambda 0 is TD(0), 1 is Monte Carlo.
/// `rewards`, `values` and `out` have shape (T, R), row by row; `gamma` and `bootstrap` have R numbers. Takes O(T R),
/// from the end to the front.
///
/// # Examples
/// ```
/// use cogrs::replay::returns::lambda_returns;
///
/// let mut q = [0.0; 3];
/// lambda_returns(&[1.0, 2.0, 4.0], &[0.5, 1.0, 2.0], &[0.0], &[0.5], 0.5, &mut q);
/// assert_eq!(q, [2.125, 3.5, 4.0]);
/// ```
pub fn lambda_returns(
    rewards: &[f32],
    values: &[f32],
    bootstrap: &[f64],
    gamma: &[f64],
    lambda: f64,
    out: &mut [f64],
) {
    let dims = gamma.len();
    if dims == 0 {
        return;
    }
    for (dim, (&gamma, &bootstrap)) in gamma.iter().zip(bootstrap).enumerate() {
        let mut ahead = bootstrap;
        for at in (dim..out.len()).step_by(dims).rev() {
            let q = f64::from(rewards[at]) + gamma * ahead;
            out[at] = q;
            ahead = lambda * q + (1.0 - lambda) * f64::from(values[at]);
        }
    }
}
