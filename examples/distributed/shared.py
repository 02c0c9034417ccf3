"""What learner, actors and proxy share: their endpoints, the net, and how they end."""

import argparse
import signal
import sys
import time

TOPIC = "parameters"


class CtrlC:
    """Whether Ctrl-C was pressed. An `Event` would not do: its handler may wait for its lock."""

    def __init__(self):
        """Handle SIGINT from now on."""
        self._came = False
        signal.signal(signal.SIGINT, self._hear)

    def _hear(self, *_):
        self._came = True

    def is_set(self):
        """Return whether the signal has come."""
        return self._came

    def wait(self):
        """Wait until the signal has come."""
        while not self._came:
            time.sleep(0.05)


ctrl_c = CtrlC()  # before the imports: they take seconds


def refuse(reason):
    """Exit with one line instead of a traceback."""
    print(" ".join(str(reason).split()), file=sys.stderr)
    sys.exit(2)


def refuse_without(missing):
    """Exit because a package is not installed."""
    refuse(f'{missing.name} is not installed: pip install ".[demo]" in the checkout')


def make_parser(description):
    """Create a parser with the options that all programs have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--host", default="127.0.0.1", help="where the learner is (%(default)s)")
    parser.add_argument(
        "--port",
        type=int,
        default=5550,
        help="first of five ports (%(default)s): the learner's parameters; requests; caches; a "
        "proxy's two backs, for requests and caches",
    )
    parser.add_argument(
        "--insecure", action="store_true", help="listen to other machines, though without keys"
    )
    return parser


def at(host, port):
    """Return a TCP endpoint."""
    return f"tcp://{host}:{port}"


def q_values(params, states):
    """Return the value of each action, for one state or a batch, of NumPy or of JAX."""
    *hidden, last = range(len(params) // 2)
    for layer in hidden:
        states = (states @ params[f"w{layer}"] + params[f"b{layer}"]).clip(0)
    return states @ params[f"w{last}"] + params[f"b{last}"]
