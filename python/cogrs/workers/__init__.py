"""Workers that join trials, batched policies, replay and learning."""

from typing import Any

from cogrs.deprecation import warn_renamed
from cogrs.workers.actor_worker import ActorWorker, Decision
from cogrs.workers.checkpoint import restore_episodes
from cogrs.workers.learner_worker import PARAMETERS, LearnerWorker
from cogrs.workers.parameters import pack_arrays, unpack_arrays
from cogrs.workers.player import Player
from cogrs.workers.replay_sink import PolicyAnnotation, ReplaySink, feed_log
from cogrs.workers.step_info import STEP_INFO, step_info, trial_number

__all__ = [
    "PARAMETERS",
    "STEP_INFO",
    "ActorWorker",
    "Decision",
    "LearnerWorker",
    "Player",
    "PolicyAnnotation",
    "ReplaySink",
    "feed_log",
    "pack_arrays",
    "restore_episodes",
    "step_info",
    "trial_number",
    "unpack_arrays",
]


def __getattr__(name: str) -> Any:
    if name != "Judgement":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn_renamed("cogrs.workers.Judgement", "cogrs.workers.PolicyAnnotation")
    return PolicyAnnotation
