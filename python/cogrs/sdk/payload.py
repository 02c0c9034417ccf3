"""The former module of the codecs, deprecated."""

from cogrs.deprecation import former_module

__getattr__ = former_module(__name__, "cogrs.sdk.codecs")
