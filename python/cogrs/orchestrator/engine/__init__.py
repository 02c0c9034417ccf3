"""Trials as pure state: no gRPC, no event loop, no clock of its own.

Whatever happens outside comes in as a method call, whatever is to be done goes out through a port,
and time is asked of a `Clock`. So every rule can be tested without sockets and without waiting.
"""
