"""The former module of `ActorWorker` and `Decision`, deprecated."""

from cogrs.deprecation import former_module

__getattr__ = former_module(__name__, "cogrs.workers.actor_worker")
