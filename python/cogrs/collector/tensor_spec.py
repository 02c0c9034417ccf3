"""The former module of `TensorSpec`, deprecated."""

from cogrs.deprecation import former_module

__getattr__ = former_module(__name__, "cogrs.collector.collectors")
