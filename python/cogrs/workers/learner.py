"""The former module of `LearnerWorker`, deprecated."""

from cogrs.deprecation import former_module

__getattr__ = former_module(__name__, "cogrs.workers.learner_worker")
