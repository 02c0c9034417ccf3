"""What plugs into trials: environments, agents, clients, hooks, data logs, and what starts them."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cogrs.sdk.actor_session import ActorEvent, ActorSession
    from cogrs.sdk.agent import Action, Agent, FunctionAgent
    from cogrs.sdk.client import ClientActor, play
    from cogrs.sdk.client_session import ClientSession
    from cogrs.sdk.codecs import (
        ArrayCodec,
        BytesCodec,
        Codec,
        Codecs,
        Decoded,
        MessageCodec,
        array_message,
        read_array_message,
    )
    from cogrs.sdk.controller import (
        StartedTrial,
        TrialController,
        TrialEnd,
        TrialFailedError,
        TrialState,
        run_trial,
    )
    from cogrs.sdk.datalog import DatalogSink, LoggedTrial, Sample
    from cogrs.sdk.datalog_jsonl import JsonLinesSink
    from cogrs.sdk.datalog_parquet import ParquetSink
    from cogrs.sdk.datalog_reader import read_log
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
    from cogrs.sdk.pettingzoo import PettingZooEnvironment
    from cogrs.sdk.remote_errors import RemoteCallError, UnreachableError
    from cogrs.sdk.space import SpaceCodec
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
        step_of_reward,
    )

_MODULES = {
    "actor_session": "ActorEvent ActorSession",
    "agent": "Action Agent FunctionAgent",
    "client": "ClientActor play",
    "client_session": "ClientSession",
    "codecs": "ArrayCodec BytesCodec Codec Codecs Decoded MessageCodec array_message "
    "read_array_message",
    "controller": "run_trial StartedTrial TrialController TrialEnd TrialFailedError TrialState",
    "datalog": "DatalogSink LoggedTrial Sample",
    "datalog_jsonl": "JsonLinesSink",
    "datalog_parquet": "ParquetSink",
    "datalog_reader": "read_log",
    "endpoint": "Endpoint local_agents local_datalog local_environments local_hooks serve",
    "endpoint_handle": "EndpointHandle serve_endpoint",
    "environment": "Environment Update",
    "environment_session": "Actions EnvironmentEvent EnvironmentSession",
    "gymnasium": "GymnasiumEnvironment",
    "hook": "NewTrial PreTrialHook",
    "pettingzoo": "PettingZooEnvironment",
    "remote_errors": "RemoteCallError UnreachableError",
    "space": "SpaceCodec",
    "trial": "ENVIRONMENT NOW Actor Final Message Observation ReceivedMessage ReceivedReward "
    "Reward Trial step_of_reward",
}
"""The names that each module has for users; a module is imported when one of them is used."""

_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

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
