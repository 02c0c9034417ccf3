"""What plugs into trials: environments, agents, and what starts them."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cogrs.sdk.agent import Action, Agent, FunctionAgent
    from cogrs.sdk.controller import StartedTrial, TrialController, TrialState, run_trial
    from cogrs.sdk.endpoint import Endpoint, local_agents, local_environments, serve
    from cogrs.sdk.environment import Environment, Update
    from cogrs.sdk.gymnasium import GymnasiumEnvironment
    from cogrs.sdk.payload import (
        ArrayCodec,
        BytesCodec,
        Codec,
        Codecs,
        Decoded,
        MessageCodec,
    )
    from cogrs.sdk.tick import step_of_reward
    from cogrs.sdk.trial import (
        ENVIRONMENT,
        NOW,
        Actor,
        Final,
        Message,
        Observation,
        ReceivedMessage,
        ReceivedReward,
        Reward,
        Trial,
    )

_HOMES = {
    "Action": "agent",
    "Actor": "trial",
    "Agent": "agent",
    "ArrayCodec": "payload",
    "BytesCodec": "payload",
    "Codec": "payload",
    "Codecs": "payload",
    "Decoded": "payload",
    "ENVIRONMENT": "trial",
    "Endpoint": "endpoint",
    "Environment": "environment",
    "Final": "trial",
    "FunctionAgent": "agent",
    "GymnasiumEnvironment": "gymnasium",
    "Message": "trial",
    "MessageCodec": "payload",
    "NOW": "trial",
    "Observation": "trial",
    "ReceivedMessage": "trial",
    "ReceivedReward": "trial",
    "Reward": "trial",
    "StartedTrial": "controller",
    "Trial": "trial",
    "TrialController": "controller",
    "TrialState": "controller",
    "Update": "environment",
    "local_agents": "endpoint",
    "local_environments": "endpoint",
    "run_trial": "controller",
    "serve": "endpoint",
    "step_of_reward": "tick",
}

__all__ = [
    "ENVIRONMENT",
    "NOW",
    "Action",
    "Actor",
    "Agent",
    "ArrayCodec",
    "BytesCodec",
    "Codec",
    "Codecs",
    "Decoded",
    "Endpoint",
    "Environment",
    "Final",
    "FunctionAgent",
    "GymnasiumEnvironment",
    "Message",
    "MessageCodec",
    "Observation",
    "ReceivedMessage",
    "ReceivedReward",
    "Reward",
    "StartedTrial",
    "Trial",
    "TrialController",
    "TrialState",
    "Update",
    "local_agents",
    "local_environments",
    "run_trial",
    "serve",
    "step_of_reward",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'cogrs.sdk' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"cogrs.sdk.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
