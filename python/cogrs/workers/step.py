"""The former module of `step_info` and `trial_number`, deprecated."""

from cogrs.deprecation import former_module

__getattr__ = former_module(__name__, "cogrs.workers.step_info")
