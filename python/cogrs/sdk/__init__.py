"""Environments, agents, clients, hooks and data logs for trials; and calls that start trials."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cogrs.sdk.actor_session import ActorEvent as ActorEvent
    from cogrs.sdk.actor_session import ActorSession as ActorSession
    from cogrs.sdk.agent import Action as Action
    from cogrs.sdk.agent import Agent as Agent
    from cogrs.sdk.agent import FunctionAgent as FunctionAgent
    from cogrs.sdk.client import ClientActor as ClientActor
    from cogrs.sdk.client import play as play
    from cogrs.sdk.client_session import ClientSession as ClientSession
    from cogrs.sdk.codecs import ArrayCodec as ArrayCodec
    from cogrs.sdk.codecs import BytesCodec as BytesCodec
    from cogrs.sdk.codecs import Codec as Codec
    from cogrs.sdk.codecs import Codecs as Codecs
    from cogrs.sdk.codecs import Decoded as Decoded
    from cogrs.sdk.codecs import MessageCodec as MessageCodec
    from cogrs.sdk.codecs import array_message as array_message
    from cogrs.sdk.codecs import read_array_message as read_array_message
    from cogrs.sdk.controller import StartedTrial as StartedTrial
    from cogrs.sdk.controller import TrialController as TrialController
    from cogrs.sdk.controller import TrialFailedError as TrialFailedError
    from cogrs.sdk.controller import run_trial as run_trial
    from cogrs.sdk.datalog import DatalogSink as DatalogSink
    from cogrs.sdk.datalog import LoggedTrial as LoggedTrial
    from cogrs.sdk.datalog import Sample as Sample
    from cogrs.sdk.datalog_jsonl import JsonLinesSink as JsonLinesSink
    from cogrs.sdk.datalog_parquet import ParquetSink as ParquetSink
    from cogrs.sdk.datalog_reader import read_log as read_log
    from cogrs.sdk.endpoint import Endpoint as Endpoint
    from cogrs.sdk.endpoint import local_agents as local_agents
    from cogrs.sdk.endpoint import local_datalog as local_datalog
    from cogrs.sdk.endpoint import local_environments as local_environments
    from cogrs.sdk.endpoint import local_hooks as local_hooks
    from cogrs.sdk.endpoint import serve as serve
    from cogrs.sdk.endpoint_handle import EndpointHandle as EndpointHandle
    from cogrs.sdk.endpoint_handle import serve_endpoint as serve_endpoint
    from cogrs.sdk.environment import Environment as Environment
    from cogrs.sdk.environment import Update as Update
    from cogrs.sdk.environment_session import Actions as Actions
    from cogrs.sdk.environment_session import EnvironmentEvent as EnvironmentEvent
    from cogrs.sdk.environment_session import EnvironmentSession as EnvironmentSession
    from cogrs.sdk.gymnasium import GymnasiumEnvironment as GymnasiumEnvironment
    from cogrs.sdk.hook import NewTrial as NewTrial
    from cogrs.sdk.hook import PreTrialHook as PreTrialHook
    from cogrs.sdk.pettingzoo import PettingZooEnvironment as PettingZooEnvironment
    from cogrs.sdk.remote_errors import RemoteCallError as RemoteCallError
    from cogrs.sdk.remote_errors import UnreachableError as UnreachableError
    from cogrs.sdk.space import SpaceCodec as SpaceCodec
    from cogrs.sdk.trial import ENVIRONMENT as ENVIRONMENT
    from cogrs.sdk.trial import NOW as NOW
    from cogrs.sdk.trial import Actor as Actor
    from cogrs.sdk.trial import Final as Final
    from cogrs.sdk.trial import Message as Message
    from cogrs.sdk.trial import Observation as Observation
    from cogrs.sdk.trial import ReceivedMessage as ReceivedMessage
    from cogrs.sdk.trial import ReceivedReward as ReceivedReward
    from cogrs.sdk.trial import Reward as Reward
    from cogrs.sdk.trial import Trial as Trial
    from cogrs.sdk.trial import step_of_reward as step_of_reward
    from cogrs.sdk.trial_state import TrialEnd as TrialEnd
    from cogrs.sdk.trial_state import TrialState as TrialState
    from cogrs.sdk.trials_report import TrialProgress as TrialProgress
    from cogrs.sdk.trials_report import TrialsReport as TrialsReport

_MODULES = {
    "actor_session": "ActorEvent ActorSession",
    "agent": "Action Agent FunctionAgent",
    "client": "ClientActor play",
    "client_session": "ClientSession",
    "codecs": "ArrayCodec BytesCodec Codec Codecs Decoded MessageCodec array_message "
    "read_array_message",
    "controller": "run_trial StartedTrial TrialController TrialFailedError",
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
    "trial_state": "TrialEnd TrialState",
    "trials_report": "TrialProgress TrialsReport",
}
"""The names that each module has for users; a module is imported when one of them is used."""

_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'cogrs.sdk' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"cogrs.sdk.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
