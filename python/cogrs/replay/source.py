"""The former module of `SourceStats`, deprecated."""

from cogrs.deprecation import former_module

__getattr__ = former_module(__name__, "cogrs.replay.stats", "cogrs.replay")
