"""Progress of training as lines; at its end a file of metrics, a curve and a summary."""

import json
import sys
import time
from pathlib import Path

import gymnasium as gym
from curve import save_curve
from program import ctrl_c, make_parser, refuse
from rich.progress import BarColumn, Progress

LINE = "episode {episode}  {rate:.0f} steps/s  replay {replay}  loss {loss}  mean return {mean:.1f}"


def read_options(description):
    """Read the options of a run."""
    parser = make_parser(description.splitlines()[0])
    parser.add_argument("--env", default="CartPole-v1", help="flat Box in, discrete actions out")
    parser.add_argument("--out", type=Path, default=Path("runs", time.strftime("%Y%m%d-%H%M%S")))
    return parser.parse_args()


def open_env(args):
    """Create the environment, and the folder for the results."""
    try:
        env = gym.make(args.env)
        env.reset(seed=args.seed)
        kinds = (type(env.observation_space).__name__, type(env.action_space).__name__)
        if kinds != ("Box", "Discrete") or len(env.observation_space.shape) != 1:
            refuse(f"Cannot use {args.env}: it has no flat Box observation with discrete actions")
        args.out.mkdir(parents=True, exist_ok=True)
    except Exception as error:
        refuse(f"Cannot start {args.env}: {error}")
    return env


class Report:
    """The metrics of a run, one row per episode."""

    def __init__(self, args, window):
        """Compare the mean of the last `window` episodes with the goal."""
        self._args, self._window, self._rows, self._reached = args, window, [], False
        self._start = time.monotonic()
        self._bar = Progress("{task.description}", BarColumn(10), disable=not sys.stdout.isatty())

    def is_over(self):
        """Return whether the goal is reached, the time is up, or Ctrl-C was pressed."""
        late = time.monotonic() > self._start + self._args.max_seconds
        return self._reached or ctrl_c.is_set() or late

    def note(self, paid, **figures):
        """Record the return of an episode; one that the end interrupted does not count."""
        if self.is_over():
            return
        latest = [row["return"] for row in self._rows[1 - self._window :]] + [paid]
        episode, mean = len(self._rows) + 1, round(sum(latest) / len(latest), 3)
        seconds = round(time.monotonic() - self._start, 3)
        row = {"episode": episode, "return": paid, "mean": mean, "seconds": seconds, **figures}
        self._rows.append(row)
        self._reached = len(self._rows) >= self._window and mean >= self._args.goal
        self._show(row, self._rows[-2:][0], self._rows[0]["return"])

    def _show(self, row, before, start):
        """Draw the progress on a terminal; elsewhere print one line every two seconds."""
        line = LINE.format(**row, rate=row["steps"] / max(row["seconds"], 1e-9))
        if not self._bar.disable:
            total = max(self._args.goal - start, 1e-9)
            self._bar.update(0, description=line, completed=row["mean"] - start, total=total)
        elif row["seconds"] // 2 > before["seconds"] // 2:
            print(line, flush=True)

    def end(self):
        """Write the metrics and the learning curve, print the summary; return the exit code."""
        rows, args = self._rows, self._args
        (args.out / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        returns, path = [row["return"] for row in rows], args.out / "learning_curve.png"
        save_curve(returns, self._window, args.goal, f"{args.env}, seed {args.seed}", path)
        for name, value in rows[-1].items() if rows else ():
            print(f"{name:8}{value!s:>10}")
        print(f"See learning_curve.png and metrics.jsonl in {args.out}")
        print(f"Goal {'reached' if self._reached else 'not reached'}: mean return {args.goal:g}")
        return 0 if self._reached else 130 if ctrl_c.is_set() else 1

    def __enter__(self):
        """Start to show the progress."""
        self._bar.__enter__()
        self._bar.add_task("starting")
        return self

    def __exit__(self, *exc):
        """Stop showing the progress."""
        self._bar.__exit__(*exc)
