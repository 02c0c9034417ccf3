"""The former module of `step_of_reward`, deprecated."""

from cogrs.deprecation import former_module

__getattr__ = former_module(__name__, "cogrs.sdk.trial")
