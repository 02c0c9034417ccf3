"""Learn CartPole from prioritized replay, in one process: `python replay_local.py --seed 1`.

A double DQN plays episodes into a `cogrs.ReplayMemory`, learns from batches that it samples there
and sends their errors back as priorities: see `make_memory`, `play_episode` and `learn`.
Exit codes: 0 the goal was reached, 1 it was not, 2 nothing could start, 130 Ctrl-C.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path


def refuse(reason):
    """Leave with one line instead of a traceback."""
    print(reason, file=sys.stderr)
    sys.exit(2)


ctrl_c = threading.Event()
signal.signal(signal.SIGINT, lambda *_: ctrl_c.set())  # before the imports: they take seconds
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # nets this small gain nothing from a GPU
try:
    import gymnasium as gym
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax
    from matplotlib.figure import Figure
    from rich.progress import BarColumn, Progress

    from cogrs import ReplayMemory, importance_weights
except ModuleNotFoundError as missing:
    refuse(f'{missing.name} is not installed: pip install ".[demo]" in the checkout')

# Prioritized experience replay, proportional variant (Schaul et al. 2016, sections 3.3, 3.4, 4).
ALPHA, BETA = 0.6, optax.linear_schedule(0.4, 1.0, 20_000)
PRIORITY_FLOOR = 0.01  # their epsilon: a step whose error is 0 must stay within reach
# Double DQN (van Hasselt et al. 2016), in the size of a small environment.
GAMMA, EPSILON = 0.99, optax.linear_schedule(1.0, 0.02, 3_000)
HIDDEN, OPTIMIZER = (64, 64), optax.adam(1e-3)
TARGET_RATE = 0.01  # the target net follows smoothly (Lillicrap et al. 2016, section 3)
# Mixed Monte Carlo update (Bellemare et al. 2016; Ostrovski et al. 2017): a little of the return
# that was really seen keeps bootstrapped values from drifting.
MONTE_CARLO = 0.1
MAX_STEP, BATCH_SIZE, WARM_UP = 50_000, 64, 200  # in steps
WINDOW = 20  # episodes in the mean return that is held against the goal
LINE = "episode {episode}  {rate:.0f} steps/s  replay {replay}  loss {loss}  mean return {mean:.1f}"


def make_memory(env, seed):
    """Make a memory; the templates say of which dtype and shape the fields of a step are."""
    state = np.zeros(env.observation_space.shape, env.observation_space.dtype)
    action, info = np.int32(0), np.zeros(0, np.float32)
    reward = prob = value = qvest = np.float32(0)
    rem = ReplayMemory(state, action, reward, prob, value, qvest, info, MAX_STEP, seed=seed)
    rem.discount_factor = GAMMA
    rem.priority_exponent = ALPHA
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
    # After a true end nothing follows. An episode that was merely cut off would have gone on: the
    # value of its last state stands for what was not seen.
    unseen = None if terminated else q_values(params, state).max()
    rem.close_episode(final_state=state, bootstrap_value=unseen)
    return rewards


def learn(nets, rem, beta):
    """Learn from one batch and send its errors back; return the new nets and the loss."""
    sample = rem.sample(BATCH_SIZE)
    weights = importance_weights(
        sample.weight, exponent=beta, total=rem.weight_sum, count=rem.num_sampleable
    )
    nets, loss, errors = update(nets, sample.prev, sample.next, sample.next_terminated, weights)
    rem.update_priority(sample.id, np.abs(errors) + PRIORITY_FLOOR)
    return nets, float(loss)


@jax.jit
def update(nets, prev, following, next_terminated, weights):
    """Take one step of double Q-learning; return new nets, the loss and the errors."""
    params, target, optimizer = nets
    # A sampled state is a stack of frames, oldest first: here always of one.
    state, next_state, rows = prev.state[:, 0], following.state[:, 0], jnp.arange(BATCH_SIZE)
    best = q_values(params, next_state).argmax(axis=1)
    future = jnp.where(next_terminated, 0.0, q_values(target, next_state)[rows, best])
    goal = (1 - MONTE_CARLO) * (prev.reward + GAMMA * future) + MONTE_CARLO * prev.qvest

    def loss_of(params):
        errors = goal - q_values(params, state)[rows, prev.action]
        return jnp.mean(weights * optax.losses.huber_loss(errors)), errors

    (loss, errors), slope = jax.value_and_grad(loss_of, has_aux=True)(params)
    change, optimizer = OPTIMIZER.update(slope, optimizer)
    params = optax.apply_updates(params, change)
    target = optax.incremental_update(params, target, TARGET_RATE)
    return (params, target, optimizer), loss, errors


@jax.jit
def q_values(params, states):
    """Return the value of each action, for one state or a batch."""
    for weight, bias in params[:-1]:
        states = jax.nn.relu(states @ weight + bias)
    return states @ params[-1][0] + params[-1][1]


def make_nets(env, seed):
    """Draw parameters; return them, those of the target net and the optimizer's state."""
    dims = (*env.observation_space.shape, *HIDDEN, int(env.action_space.n))
    draw = np.random.default_rng(seed).normal  # scaled for ReLU (He et al. 2015, section 2.2)
    params = [(jnp.array(draw(0, (2 / m) ** 0.5, (m, n))), jnp.zeros(n)) for m, n in pairwise(dims)]
    return params, params, OPTIMIZER.init(params)


def train(env, seed, should_stop):
    """Play and learn by turns; yield the metrics of each episode."""
    rem, nets, rng = make_memory(env, seed), make_nets(env, seed), np.random.default_rng(seed)
    returns, steps, loss, start = [], 0, None, time.monotonic()
    while not should_stop():
        rewards = play_episode(env, rem, nets[0], float(EPSILON(steps)), rng, should_stop)
        steps, beta = steps + len(rewards), float(BETA(steps))
        # Only closed episodes can be sampled: so there is one batch for each new step here, and
        # none while an episode is played.
        for _ in rewards:
            if rem.num_sampleable >= WARM_UP and not should_stop():
                nets, loss = learn(nets, rem, beta)
        if should_stop():
            return
        returns.append(sum(rewards))
        yield {
            "episode": len(returns),
            "return": returns[-1],
            "mean": round(float(np.mean(returns[-WINDOW:])), 3),
            "loss": loss and round(loss, 4),
            "steps": steps,
            "seconds": round(time.monotonic() - start, 3),
            "replay": len(rem),
        }


def show(rows, goal, bar):
    """Draw the progress on a terminal; elsewhere print a line every two seconds."""
    row, before, start = rows[-1], rows[-2:][0], rows[0]["return"]
    line, total = LINE.format(**row, rate=row["steps"] / row["seconds"]), max(goal - start, 1e-9)
    if not bar.disable:
        bar.update(0, description=line, completed=row["mean"] - start, total=total)
    elif row["seconds"] // 2 > before["seconds"] // 2:
        print(line, flush=True)


def report(rows, args):
    """Write the metrics and the learning curve, and print the summary."""
    (args.out / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes, episodes = figure.subplots(), [row["episode"] for row in rows]
    axes.plot(episodes, [row["return"] for row in rows], ".", label="one episode")
    axes.plot(episodes, [row["mean"] for row in rows], label=f"mean of the last {WINDOW}")
    axes.axhline(args.goal, color="0.4", linestyle="--", label=f"goal {args.goal:g}")
    axes.set(xlabel="episode", ylabel="return", title=f"{args.env}, seed {args.seed}")
    axes.legend()
    figure.savefig(args.out / "learning_curve.png", dpi=150)
    for name, value in rows[-1].items() if rows else ():
        print(f"{name:8}{value!s:>10}")
    print(f"See learning_curve.png and metrics.jsonl in {args.out}")


def main():
    """Train until the goal is reached; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="CartPole-v1", help="flat Box in, discrete actions out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--goal", type=float, default=195.0, help="mean return to reach")
    parser.add_argument("--max-seconds", type=float, default=120.0)
    parser.add_argument("--out", type=Path, default=Path("runs", time.strftime("%Y%m%d-%H%M%S")))
    args = parser.parse_args()
    try:
        env = gym.make(args.env)
        env.reset(seed=args.seed)
        kinds = (type(env.observation_space).__name__, type(env.action_space).__name__)
        if kinds != ("Box", "Discrete") or len(env.observation_space.shape) != 1:
            refuse(f"Cannot use {args.env}: it has no flat Box observation with discrete actions")
        args.out.mkdir(parents=True, exist_ok=True)
    except Exception as error:
        refuse(" ".join(f"Cannot start {args.env}: {error}".split()))
    rows, reached, deadline = [], False, time.monotonic() + args.max_seconds
    with Progress("{task.description}", BarColumn(10), disable=not sys.stdout.isatty()) as bar:
        bar.add_task("starting")
        for row in train(env, args.seed, lambda: ctrl_c.is_set() or time.monotonic() > deadline):
            rows.append(row)
            show(rows, args.goal, bar)
            if reached := len(rows) >= WINDOW and row["mean"] >= args.goal:
                break
    report(rows, args)
    print(f"Goal {'reached' if reached else 'not reached'}: mean return {args.goal:g}")
    return 0 if reached else 130 if ctrl_c.is_set() else 1


if __name__ == "__main__":
    sys.exit(main())
