"""Learn CartPole from what actors push, and publish the parameters: `python learner.py`.

A double DQN; the actors' priorities say which steps it sees. Exit codes: 0 the goal was reached,
130 Ctrl-C, 2 nothing could start.
"""

import sys
import threading
import time
from pathlib import Path

from shared import at, ctrl_c, make_parser, refuse, refuse_without

try:
    import numpy as np
    from dqn import BATCH_SIZE, DIMS, GAMMA, OPTIMIZER, update
    from parameters import load, publish

    from cogrs import Conn, RateLimiter, ReplayMemoryServer, importance_weights
except ModuleNotFoundError as missing:
    refuse_without(missing)

# Prioritized experience replay (Schaul et al. 2016); with epsilon every step can be drawn.
ALPHA, BETA, EPSILON = 0.6, 0.4, 0.01
MULTI_STEP = 3  # rewards that are summed before the target net is asked
CACHE_SIZE, N_CACHES = 256, 32  # samples are drawn from the newest 32 * 256
PUBLISH_EVERY = 50  # updates
SAMPLES_PER_STEP = 8
MIN_SIZE, BUFFER = 500, 500  # steps before the first batch, and that actors may then be ahead by


def serve(args):
    """Start a server where actors find it, or behind a proxy."""
    zero, state = np.float32(0), np.zeros(DIMS[0], np.float32)
    templates = (state, np.int32(0), zero, zero, zero, zero, np.zeros(0, np.float32))
    where = at(args.host, args.port)
    # The faster side waits, be it the actors or the learner (Cassirer et al. 2021, section 3.3).
    limiter = RateLimiter(SAMPLES_PER_STEP, MIN_SIZE, SAMPLES_PER_STEP * BUFFER)
    options = {"nstep": True, "insecure": args.insecure, "limiter": limiter}
    server = ReplayMemoryServer(*templates, 0, where, N_CACHES, **options)
    # Actors take these over.
    server.rem.discount_factor, server.rem.multi_step = GAMMA, MULTI_STEP
    server.rem.priority_exponent, server.rem.priority_epsilon = ALPHA, EPSILON
    server.rem.cache_size, server.rem.reuse_cache = CACHE_SIZE, True
    try:
        if args.proxy is None:
            return server.start(at(args.host, args.port + 1), at(args.host, args.port + 2))
        for work, port in ((server.rep_worker_main, 3), (server.pull_worker_main, 4)):
            where = at(args.proxy, args.port + port), Conn
            threading.Thread(target=work, args=where, daemon=True).start()
    except BaseException:
        server.close()
        raise
    return server


def main():
    """Learn until the goal is reached, or Ctrl-C; return the exit code."""
    parser = make_parser(__doc__.splitlines()[0])
    parser.add_argument("--proxy", metavar="HOST", help="the proxy's machine; without: none")
    parser.add_argument("--goal", type=float, default=195.0, help="mean return to reach")
    parser.add_argument("--file", type=Path, default=Path("parameters.bin"), help="keeps them")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    try:
        params = load(args.file, args.seed)
        server = serve(args)
    except (OSError, ValueError) as error:
        refuse(error)
    with server:
        return learn(server, params, args)


def learn(server, params, args):
    """Learn and publish, print one line every two seconds; return the exit code."""
    nets, updates = (params, params, OPTIMIZER.init(params)), 0
    publish(server, params, args.file)
    print(f"listening at {server.pub_endpoint}", flush=True)
    episodes, steps, due = 0, 0, time.monotonic() + 2
    while not ctrl_c.is_set():
        try:
            batch = server.get_batch(BATCH_SIZE, wait=0.5)
        except TimeoutError:  # too few caches so far, or too few steps for a batch more
            continue
        # Divided by the largest of the batch, so the number of steps falls out.
        weights = importance_weights(batch.weight, exponent=BETA, total=server.weight_sum, count=1)
        nets, loss = update(nets, batch, weights)
        updates += 1
        if updates % PUBLISH_EVERY == 0:
            publish(server, nets[0], args.file)
        new_episodes, new_steps = server.total_episodes - episodes, server.total_steps - steps
        if time.monotonic() >= due and new_episodes >= 20:
            mean, due = new_steps / new_episodes, time.monotonic() + 2  # each step earns 1
            episodes, steps = episodes + new_episodes, steps + new_steps
            limiter = server.stats().limiter
            print(
                f"update {updates}  steps {steps}  {limiter.samples_per_insert:.1f} samples per "
                f"step  waited: actors {limiter.insert_wait_seconds:.0f} s, learner "
                f"{limiter.sample_wait_seconds:.0f} s  loss {loss:.4f}  mean return {mean:.1f}",
                flush=True,
            )
            if mean >= args.goal:
                return 0
    return 130


if __name__ == "__main__":
    sys.exit(main())
