"""What plugs into trials: environments, agents, clients, hooks, data logs, and what starts them."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cogrs.sdk.actor_session import ActorEvent, ActorSession
    from cogrs.sdk.agent import Action, Agent, FunctionAgent
    from cogrs.sdk.client import ClientActor, ClientSession, play
    from cogrs.sdk.controller import (
        StartedTrial,
        TrialController,
        TrialEnd,
        TrialFailedError,
        TrialState,
        run_trial,
    )
    from cogrs.sdk.datalog import DatalogSink, LoggedTrial, Sample
    from cogrs.sdk.datalog_file import JsonLinesSink, ParquetSink, read_log
    from cogrs.sdk.endpoint import (
        Endpoint,
        local_agents,
        local_datalog,
        local_environments,
        local_hooks,
        serve,
    )
    from cogrs.sdk.endpoint_handle import EndpointHandle, serve_endpoint
    from cogrs.sdk.environment import Environment, Update
    from cogrs.sdk.environment_session import Actions, EnvironmentEvent, EnvironmentSession
    from cogrs.sdk.gymnasium import GymnasiumEnvironment
    from cogrs.sdk.hook import NewTrial, PreTrialHook
    from cogrs.sdk.payload import (
        ArrayCodec,
        BytesCodec,
        Codec,
        Codecs,
        Decoded,
        MessageCodec,
        array_message,
        read_array_message,
    )
    from cogrs.sdk.pettingzoo import PettingZooEnvironment
    from cogrs.sdk.remote_call import RemoteCallError, UnreachableError
    from cogrs.sdk.space import SpaceCodec
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
    "Actions": "environment_session",
    "Actor": "trial",
    "ActorEvent": "actor_session",
    "ActorSession": "actor_session",
    "Agent": "agent",
    "ArrayCodec": "payload",
    "BytesCodec": "payload",
    "ClientActor": "client",
    "ClientSession": "client",
    "Codec": "payload",
    "Codecs": "payload",
    "DatalogSink": "datalog",
    "Decoded": "payload",
    "ENVIRONMENT": "trial",
    "Endpoint": "endpoint",
    "EndpointHandle": "endpoint_handle",
    "Environment": "environment",
    "EnvironmentEvent": "environment_session",
    "EnvironmentSession": "environment_session",
    "Final": "trial",
    "FunctionAgent": "agent",
    "GymnasiumEnvironment": "gymnasium",
    "JsonLinesSink": "datalog_file",
    "LoggedTrial": "datalog",
    "Message": "trial",
    "MessageCodec": "payload",
    "NOW": "trial",
    "NewTrial": "hook",
    "Observation": "trial",
    "ParquetSink": "datalog_file",
    "PettingZooEnvironment": "pettingzoo",
    "PreTrialHook": "hook",
    "ReceivedMessage": "trial",
    "ReceivedReward": "trial",
    "RemoteCallError": "remote_call",
    "Reward": "trial",
    "Sample": "datalog",
    "SpaceCodec": "space",
    "StartedTrial": "controller",
    "Trial": "trial",
    "TrialController": "controller",
    "TrialEnd": "controller",
    "TrialFailedError": "controller",
    "TrialState": "controller",
    "UnreachableError": "remote_call",
    "Update": "environment",
    "array_message": "payload",
    "local_agents": "endpoint",
    "local_datalog": "endpoint",
    "local_environments": "endpoint",
    "local_hooks": "endpoint",
    "play": "client",
    "read_array_message": "payload",
    "read_log": "datalog_file",
    "run_trial": "controller",
    "serve": "endpoint",
    "serve_endpoint": "endpoint_handle",
    "step_of_reward": "tick",
}

__all__ = [
    "ENVIRONMENT",
    "NOW",
    "Action",
    "Actions",
    "Actor",
    "ActorEvent",
    "ActorSession",
    "Agent",
    "ArrayCodec",
    "BytesCodec",
    "ClientActor",
    "ClientSession",
    "Codec",
    "Codecs",
    "DatalogSink",
    "Decoded",
    "Endpoint",
    "EndpointHandle",
    "Environment",
    "EnvironmentEvent",
    "EnvironmentSession",
    "Final",
    "FunctionAgent",
    "GymnasiumEnvironment",
    "JsonLinesSink",
    "LoggedTrial",
    "Message",
    "MessageCodec",
    "NewTrial",
    "Observation",
    "ParquetSink",
    "PettingZooEnvironment",
    "PreTrialHook",
    "ReceivedMessage",
    "ReceivedReward",
    "RemoteCallError",
    "Reward",
    "Sample",
    "SpaceCodec",
    "StartedTrial",
    "Trial",
    "TrialController",
    "TrialEnd",
    "TrialFailedError",
    "TrialState",
    "UnreachableError",
    "Update",
    "array_message",
    "local_agents",
    "local_datalog",
    "local_environments",
    "local_hooks",
    "play",
    "read_array_message",
    "read_log",
    "run_trial",
    "serve",
    "serve_endpoint",
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
