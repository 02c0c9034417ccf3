"""Play CartPole with the newest parameters and push what happens: `python actor.py`.

Run many, before the learner or after it. Exit codes: 130 Ctrl-C, 2 nothing could start.
"""

import contextlib
import sys

from shared import TOPIC, at, ctrl_c, make_parser, q_values, refuse, refuse_without

try:
    import gymnasium as gym
    import numpy as np

    from cogrs import ReplayMemoryClient
    from cogrs.workers import unpack_arrays
except ModuleNotFoundError as missing:
    refuse_without(missing)

MAX_STEP = 10_000  # steps that this actor remembers, and draws its caches from


def find_learner(client):
    """Create a memory like the learner's; return whether a learner answered."""
    while not ctrl_c.is_set():
        try:
            client.sync_sizes(MAX_STEP)
            return True
        except TimeoutError as error:
            print(f"still waiting: {error}", flush=True)
    return False


def newest(client, params):
    """Return the newest parameters that have come; else the given ones."""
    with contextlib.suppress(TimeoutError):
        # A learner publishes its first parameters when it starts; only those are waited for.
        while not ctrl_c.is_set():
            timeout = 0.0 if params else 1.0
            params = unpack_arrays(client.sub_bytes(TOPIC, timeout=timeout, last=True))
    return params


def play_episode(env, rem, params, epsilon, rng):
    """Play one episode into the memory; without parameters at random."""
    n, terminated, truncated = int(env.action_space.n), False, False
    state, _ = env.reset()
    rem.new_episode()
    while not (terminated or truncated or ctrl_c.is_set()):
        values = q_values(params, state) if params else np.zeros(n, np.float32)
        action = rng.integers(n) if rng.random() < epsilon else values.argmax()
        prob = epsilon / n + (1 - epsilon) * (action == values.argmax())
        next_state, reward, terminated, truncated, _ = env.step(action)
        rem.add_entry(state, action, reward, prob, values.max(), i=(), init_w=1.0)
        state = next_state
    # Actors set the first priorities (Horgan et al. 2018, section 3): here from return and value
    # of each step. A value of the last state says that the episode was truncated, and has not
    # terminated.
    unseen = None if terminated else q_values(params, state).max() if params else 0.0
    rem.close_episode(final_state=state, bootstrap_value=unseen)


def main():
    """Play until Ctrl-C; return the exit code."""
    parser = make_parser(__doc__.splitlines()[0])
    parser.add_argument("--proxy", metavar="HOST", help="where the proxy is, if not at --host")
    parser.add_argument("--seed", type=int, help="of the environment and of exploration")
    args = parser.parse_args()
    proxy = args.proxy or args.host
    try:
        client = ReplayMemoryClient(
            at(args.host, args.port),
            at(proxy, args.port + 1),
            at(proxy, args.port + 2),
            timeout=1.0,  # so that Ctrl-C is soon heard
            sub_hwm=1,  # the newest parameters are enough
        )
        env, rng = gym.make("CartPole-v1"), np.random.default_rng(args.seed)
        env.reset(seed=args.seed)
    except Exception as error:
        refuse(error)
    params = None
    with client:
        if find_learner(client):
            print(f"found the learner, as actor {client.uuid:08x}", flush=True)
        while not ctrl_c.is_set():
            # Tells the counts of the last episode, and waits while the learner has too many steps,
            # or is not there; the next call makes up for counts that were lost.
            if not client.wait_to_insert(timeout=1.0):
                continue
            params = newest(client, params)
            # As with many actors (Horgan et al. 2018, section 4.1), some episodes explore more.
            epsilon = 0.4 ** (1 + 7 * rng.random()) if params else 1.0
            play_episode(env, client.rem, params, epsilon, rng)
            # Without a learner it gives up after a second, and the cache is lost.
            with contextlib.suppress(TimeoutError):
                client.push_cache()
    return 130


if __name__ == "__main__":
    sys.exit(main())
