"""What the examples share as programs: their options, and how they end."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # nets this small gain nothing from a GPU


class CtrlC:
    """Whether Ctrl-C was pressed. An `Event` would not do: its handler may wait for its lock."""

    def __init__(self):
        """Create it for a signal that has not come."""
        self._came = False

    def hear(self, *_):
        """Remember the signal; the handler of SIGINT."""
        self._came = True

    def is_set(self):
        """Return whether the signal has come."""
        return self._came


ctrl_c = CtrlC()


def hear_ctrl_c():
    """Set `ctrl_c` on Ctrl-C from now on; call it before the imports, which take seconds."""
    signal.signal(signal.SIGINT, ctrl_c.hear)


def refuse(reason):
    """Exit with one line instead of a traceback."""
    print(" ".join(str(reason).split()), file=sys.stderr)
    sys.exit(2)


def refuse_without(missing, packages='".[demo]" in the checkout'):
    """Exit because a package is not installed."""
    refuse(f"{missing.name} is not installed: pip install {packages}")


def make_parser(description):
    """Create a parser with the options that all learners have."""
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
    """The progress of a learner: a line per second, and whether it has reached its goal."""

    def __init__(self, args, window):
        """Compare the mean of the last `window` episodes with the goal."""
        self._args, self._window = args, window
        self._start = self._told = time.monotonic()
        self.reached = False

    def goes_on(self, returns, steps):
        """Return whether to go on, by the returns of all episodes and the time left."""
        latest, now = list(returns)[-self._window :], time.monotonic()
        mean = sum(latest) / max(len(latest), 1)
        self.reached = len(latest) == self._window and mean >= self._args.goal
        if steps and (self.reached or now - self._told >= 1):
            self._told = now
            print(f"{steps} steps  mean return {mean:.2f}", flush=True)
        return not self.reached and now - self._start < self._args.max_seconds

    def end(self, returns, title):
        """Draw the curve if asked to, print how training ended, and return the exit code."""
        if self._args.plot:
            from curve import save_curve

            save_curve(returns, self._window, self._args.goal, title, self._args.plot)
        return self.tell_end()

    def tell_end(self):
        """Print how training ended, and return the exit code."""
        seconds = time.monotonic() - self._start
        print(f"Goal {'reached' if self.reached else 'not reached'} after {seconds:.1f} s")
        return 0 if self.reached else 1


def add_plot(parser):
    """Add the option `--plot`; return the parser."""
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the learning curve there")
    return parser


def run(main):
    """Run a program and exit with its code, or with 130 after Ctrl-C."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
