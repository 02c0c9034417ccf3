"""The former module of `ReplaySink` and `feed_log`, deprecated."""

from cogrs.deprecation import former_module

__getattr__ = former_module(__name__, "cogrs.workers.replay_sink", "cogrs.workers")
