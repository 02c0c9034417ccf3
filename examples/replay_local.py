"""Learn CartPole from prioritized replay, in one process: `python replay_local.py --seed 1`.

A double DQN plays episodes into a `cogrs.ReplayMemory`, learns from batches that it samples there
and sends their errors back as priorities: see `make_memory`, `play_episode` and `learn`.
Exit codes: 0 the goal was reached, 1 it was not, 2 nothing could start, 130 Ctrl-C.
"""

from program import hear_ctrl_c, refuse_without, run

hear_ctrl_c()
try:
    import numpy as np
    from double_dqn import BATCH_SIZE, GAMMA, make_nets, q_values, update
    from optax import linear_schedule
    from report import Report, open_env, read_options

    from cogrs import ReplayMemory, importance_weights
except ModuleNotFoundError as missing:
    refuse_without(missing)

# Prioritized experience replay, proportional variant (Schaul et al. 2016, sections 3.3, 3.4, 4).
ALPHA, BETA = 0.6, linear_schedule(0.4, 1.0, 20_000)
PRIORITY_EPSILON = 0.01  # so that a step whose error is 0 can still be drawn
MULTI_STEP = 3  # rewards that are summed before the target net is asked
EPSILON = linear_schedule(1.0, 0.02, 3_000)
MAX_STEP, WARM_UP = 50_000, 200  # in steps
WINDOW = 20  # episodes in the mean return that is compared with the goal


def make_memory(env, seed):
    """Create a memory; the templates give dtype and shape of each field of a step."""
    state = np.zeros(env.observation_space.shape, env.observation_space.dtype)
    action, info = np.int32(0), np.zeros(0, np.float32)
    reward = prob = value = qvest = np.float32(0)
    rem = ReplayMemory(state, action, reward, prob, value, qvest, info, MAX_STEP, seed=seed)
    rem.discount_factor, rem.multi_step = GAMMA, MULTI_STEP
    # A new step gets the largest weight so far, so that it is soon drawn (algorithm 1 there).
    rem.priority_exponent, rem.priority_epsilon, rem.new_priority = ALPHA, PRIORITY_EPSILON, "max"
    return rem


def play_episode(env, rem, params, epsilon, rng, should_stop):
    """Play one episode into the memory; return its rewards."""
    n, rewards, terminated, truncated = int(env.action_space.n), [], False, False
    state, _ = env.reset()
    rem.new_episode()
    while not (terminated or truncated or should_stop()):
        values = np.asarray(q_values(params, state))
        action = rng.integers(n) if rng.random() < epsilon else values.argmax()
        prob = epsilon / n + (1 - epsilon) * (action == values.argmax())
        next_state, reward, terminated, truncated, _ = env.step(action + env.action_space.start)
        rem.add_entry(state, action, reward, prob, values.max(), i=(), init_w=1.0)
        rewards.append(float(reward))
        state = next_state
    # Nothing follows a state that terminated. A truncated episode would have gone on: the value of
    # its last state stands for the rewards that were not seen.
    unseen = None if terminated else q_values(params, state).max()
    rem.close_episode(final_state=state, bootstrap_value=unseen)
    return rewards


def learn(nets, rem, beta):
    """Learn from one batch and send its errors back; return the new nets and the loss."""
    sample = rem.sample(BATCH_SIZE, nstep_return=True)
    weights = importance_weights(
        sample.weight, exponent=beta, total=rem.weight_sum, count=rem.num_sampleable
    )
    ahead = sample.next, sample.nstep_return, sample.nstep_discount
    nets, loss, errors = update(nets, sample.prev, ahead, weights)
    rem.update_priority(sample.id, np.abs(errors))
    return nets, float(loss)


def train(env, seed, report):
    """Play an episode, learn from as many batches as it had steps, and repeat."""
    rem, nets, rng = make_memory(env, seed), make_nets(env, seed), np.random.default_rng(seed)
    steps, loss = 0, None
    while not report.is_over():
        rewards = play_episode(env, rem, nets[0], float(EPSILON(steps)), rng, report.is_over)
        steps += len(rewards)
        # Only closed episodes can be sampled, so the batches, one per new step, come after them.
        for _ in rewards:
            if rem.num_sampleable >= WARM_UP and not report.is_over():
                nets, loss = learn(nets, rem, float(BETA(steps)))
        report.note(sum(rewards), loss=loss and round(loss, 4), steps=steps, replay=len(rem))


def main():
    """Train until the goal is reached; return the exit code."""
    args = read_options(__doc__)
    env = open_env(args)
    with Report(args, WINDOW) as report:
        train(env, args.seed, report)
    return report.end()


if __name__ == "__main__":
    run(main)
