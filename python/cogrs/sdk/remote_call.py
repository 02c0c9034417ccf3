"""The former module of `RemoteCallError` and `UnreachableError`, deprecated."""

from cogrs.deprecation import former_module

__getattr__ = former_module(__name__, "cogrs.sdk.remote_errors")
