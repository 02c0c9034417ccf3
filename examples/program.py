"""What the examples have in common as programs: their options, and how they end."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # nets this small gain nothing from a GPU


class CtrlC:
    """Whether Ctrl-C came. An `Event` has a lock, which its handler may wait for."""

    def __init__(self):
        """Not yet."""
        self._came = False

    def hear(self, *_):
        """Take note of it."""
        self._came = True

    def is_set(self):
        """Tell whether it came."""
        return self._came


ctrl_c = CtrlC()


def hear_ctrl_c():
    """Have Ctrl-C set `ctrl_c`; before the imports, which take seconds."""
    signal.signal(signal.SIGINT, ctrl_c.hear)


def refuse(reason):
    """Leave with one line instead of a traceback."""
    print(" ".join(str(reason).split()), file=sys.stderr)
    sys.exit(2)


def refuse_without(missing, packages='".[demo]" in the checkout'):
    """Leave because a package is not installed."""
    refuse(f"{missing.name} is not installed: pip install {packages}")


def make_parser(description):
    """Make a parser of the options that all learners have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--goal", type=float, default=195.0, help="mean return to reach")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-seconds", type=float, default=120.0)
    return parser


def parse(parser):
    """Read the options."""
    args = parser.parse_args()
    if args.seed < 0:
        parser.error(f"--seed must be >= 0, got {args.seed}")
    return args


class Course:
    """How far a learner has come: a line a second, and in time the goal."""

    def __init__(self, args, window):
        """The mean of the last `window` episodes is held against the goal."""
        self._args, self._window = args, window
        self._start = self._told = time.monotonic()
        self.reached = False

    def goes_on(self, returns, steps):
        """Look at the returns of all episodes; tell whether there is time and something to do."""
        latest, now = returns[-self._window :], time.monotonic()
        mean = sum(latest) / max(len(latest), 1)
        self.reached = len(latest) == self._window and mean >= self._args.goal
        if steps and (self.reached or now - self._told >= 1):
            self._told = now
            print(f"{steps} steps  mean return {mean:.1f}", flush=True)
        return not self.reached and now - self._start < self._args.max_seconds

    def end(self, returns, title):
        """Say how it ended, draw the curve if that is asked for, and return the exit code."""
        if self._args.plot:
            from curve import save_curve

            save_curve(returns, self._window, self._args.goal, title, self._args.plot)
        seconds = time.monotonic() - self._start
        print(f"Goal {'reached' if self.reached else 'not reached'} after {seconds:.1f} s")
        return 0 if self.reached else 1


def add_plot(parser):
    """Add the option of a curve."""
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the learning curve there")


def run(main):
    """Run a program to its exit code: 130 after Ctrl-C."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
