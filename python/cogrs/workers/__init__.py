"""What joins the systems: trials, batched policies, replay, learning."""

from cogrs.workers.actor import ActorWorker, Decision
from cogrs.workers.checkpoint import restore_episodes
from cogrs.workers.datalog import Judgement, ReplaySink, feed_log
from cogrs.workers.learner import PARAMETERS, LearnerWorker
from cogrs.workers.parameters import pack_arrays, unpack_arrays
from cogrs.workers.player import Player
from cogrs.workers.step import STEP_INFO, step_info, trial_number

__all__ = [
    "PARAMETERS",
    "STEP_INFO",
    "ActorWorker",
    "Decision",
    "Judgement",
    "LearnerWorker",
    "Player",
    "ReplaySink",
    "feed_log",
    "pack_arrays",
    "restore_episodes",
    "step_info",
    "trial_number",
    "unpack_arrays",
]
