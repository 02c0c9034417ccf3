"""Pass requests and caches of actors on to a learner that need not listen: `python proxy.py`.

Start the learner with `--proxy`. Exit code: 130 Ctrl-C, 2 nothing could start.
"""

import sys

from shared import at, ctrl_c, make_parser, refuse, refuse_without

try:
    from cogrs.replay.proxy import ReplayProxy
except ModuleNotFoundError as missing:
    refuse_without(missing)


def main():
    """Pass messages on until Ctrl-C; return the exit code."""
    args = make_parser(__doc__.splitlines()[0]).parse_args()
    fronts, backs = (args.port + 1, args.port + 2), (args.port + 3, args.port + 4)
    # Requests and caches: the side of the actors, the side of the learner.
    ends = [at(args.host, port) for pair in zip(fronts, backs, strict=True) for port in pair]
    try:
        proxy = ReplayProxy(*ends, insecure=args.insecure)
    except (OSError, ValueError) as error:
        refuse(error)
    with proxy:
        print(f"passing on from {proxy.rep_front} and {proxy.pull_front}", flush=True)
        ctrl_c.wait()
    return 130


if __name__ == "__main__":
    sys.exit(main())
