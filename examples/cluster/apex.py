"""Learn CartPole with two shards and four actors: `python apex.py`, or `python apex.py --ray`.

Exit codes: 0 all updates were made, 130 Ctrl-C.
"""

import argparse
import sys
from pathlib import Path

from cogrs import cluster

PLAN = Path(__file__).with_name("plan.toml")


def main():
    """Run the plan, and print a table every few seconds; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ray", action="store_true", help="on Ray instead of on this machine")
    parser.add_argument(
        "--address", help="of Ray's cluster, such as auto; without: Ray starts here"
    )
    parser.add_argument("--plan", type=Path, default=PLAN, help="file of the plan")
    parser.add_argument("--name", default="apex", help="name of the run")
    parser.add_argument("--resume", action="store_true", help="go on with its checkpoints")
    args = parser.parse_args()
    plan = cluster.Plan.from_toml(args.plan)
    if args.ray:
        from cogrs import ray

        # Small parts of CPUs, so that a laptop has room for all.
        cpus = {"learner": 0.5, "shard": 0.1, "actor": 0.1}
        options = {"address": args.address, "cpus": cpus}
        run = ray.launch(plan, name=args.name, resume=args.resume, **options)
    else:
        run = cluster.launch(plan, name=args.name, resume=args.resume)
    with run:
        try:
            while not run.wait(5.0):
                status = run.status()
                actors = [each for each in status.parts if each.role == "actor"]
                returns = [each.figures.get("mean_return") for each in actors]
                shown = ", ".join("-" if each is None else f"{each:.0f}" for each in returns)
                print(status, f"mean returns of the actors: {shown}", sep="\n", flush=True)
        except KeyboardInterrupt:
            return 130
    print(run.status())
    return 0


if __name__ == "__main__":
    sys.exit(main())
