"""Trials, a data set of Minari, a policy: `python behaviour_cloning.py --seed 1`.

A scripted policy plays CartPole in trials, which a store keeps. They are exported as a data set of
Minari, imported into a `cogrs.ReplayMemory`, and a net learns to act as the script did. With
`--dataset` the data set stays in Minari's folder; otherwise all is in a temporary one.
Exit codes: 0 the goal was reached, 1 it was not, 2 nothing could start, 130 Ctrl-C.
"""

import asyncio
import os
import tempfile
from contextlib import ExitStack

from program import Course, add_plot, hear_ctrl_c, make_parser, parse, refuse_without, run

hear_ctrl_c()
try:
    import gymnasium as gym
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax
    from double_dqn import make_nets, q_values

    import cogrs
    from cogrs import datasets, orchestrator, sdk
    from cogrs.store import open_store
except ModuleNotFoundError as missing:
    refuse_without(missing, '".[demo,minari,parquet]" in the checkout')

BATCH_SIZE, OPTIMIZER = 128, optax.adam(1e-3)
TESTED, TESTS = 250, 10  # batches from one test to the next, and episodes of a test


def script(seen):
    """Return the action that keeps the pole upright and the cart near the middle."""
    place, speed, angle, turn = seen.value
    return int(0.02 * place + 0.06 * speed + angle + 0.4 * turn > 0)


async def play(folder, trials, seed):
    """Play trials one after the other, into a store."""
    parts = {
        "cartpole": sdk.local_environments(
            {"": sdk.GymnasiumEnvironment.factory("CartPole-v1", seed=seed)}
        ),
        "script": sdk.local_agents({"": lambda: sdk.FunctionAgent(script, inline=True)}),
    }
    actor = {"name": "pole", "actor_class": "script", "endpoint": "local://script"}
    config = {
        "trial_params": {"environment": {"endpoint": "local://cartpole"}, "actors": [actor]},
        "datalog": {"type": "store", "url": f"file:{folder}"},
    }
    async with (
        await orchestrator.serve(config, port=0, local=parts) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
    ):
        for _ in range(trials):
            await controller.wait_ended((await controller.start_trial()).id)


@jax.jit
def update(params, optimizer, states, actions):
    """Take one step towards the logged actions: the scores of a net are their logits."""

    def loss_of(params):
        scores = q_values(params, states)
        return optax.softmax_cross_entropy_with_integer_labels(scores, actions).mean()

    loss, slope = jax.value_and_grad(loss_of)(params)
    change, optimizer = OPTIMIZER.update(slope, optimizer)
    return optax.apply_updates(params, change), optimizer, loss


def test(env, params, seed):
    """Return the returns of episodes without exploration."""
    paid = []
    for number in range(TESTS):
        state, over, total = env.reset(seed=10_000 + seed * TESTS + number)[0], False, 0.0
        while not over:
            action = int(jnp.argmax(q_values(params, state)))
            state, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
        paid.append(total)
    return paid


def main():
    """Play, export, import and learn; return the exit code."""
    parser = add_plot(make_parser(__doc__.splitlines()[0]))
    parser.add_argument("--trials", type=int, default=20, help="trials of the script")
    parser.add_argument("--dataset", metavar="ID", help="id of a data set that is kept")
    parser.set_defaults(goal=475.0)
    args = parse(parser)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        if args.dataset is None:
            os.environ["MINARI_DATASETS_PATH"] = f"{folder}/datasets"
        asyncio.run(play(f"{folder}/trials", args.trials, args.seed))
        with open_store(f"{folder}/trials") as store:
            name = args.dataset or "cartpole/script-v0"
            (made,) = datasets.to_minari(store, name, env="CartPole-v1")
        print(f"{made.dataset_id}: {made.episodes} episodes, {made.steps} steps", flush=True)

        env = gym.make("CartPole-v1")
        room = made.steps + made.episodes
        memory = cogrs.ReplayMemory.from_env(env, room, sampler="uniform", seed=args.seed)
        datasets.from_minari(made.dataset_id, memory, bootstrap=0.0)
    course, returns, batches = Course(args, TESTS), [], 0
    params, _, _ = make_nets(env, args.seed)
    optimizer = OPTIMIZER.init(params)
    while course.goes_on(returns, batches):
        for _ in range(TESTED):
            prev = memory.sample(BATCH_SIZE).prev
            params, optimizer, _ = update(params, optimizer, prev.state[:, 0], prev.action)
        batches += TESTED
        returns += test(env, params, args.seed)
    assert np.isfinite(returns).all()
    return course.end(returns, f"behaviour cloning of {made.steps} steps, seed {args.seed}")


if __name__ == "__main__":
    run(main)
