"""Requests that flood an orchestrator, with what each is to be refused with."""

from __future__ import annotations

from typing import Any

import grpc

from cogrs.api import orchestrator_pb2 as api
from cogrs.api.common_pb2 import (
    ActorParams,
    EnvironmentParams,
    Message,
    Reward,
    RewardSource,
    TrialParams,
)

SENDS = "ClientActor/SendMessage"
REWARDS = "ClientActor/SendReward"
STARTS = "TrialLifecycle/StartTrial"
JOINS = "ClientActor/JoinTrial"
WATCHES = "TrialLifecycle/WatchTrials"
INFORMS = "TrialLifecycle/GetTrialInfo"
INVALID, EXHAUSTED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED
MEGABYTE = 1_000_000
MOST_GROWTH = 250.0
"""MB of memory that a flood may take for a while; each of them would take more without bounds."""
EMPTY = b"\x0a\x00"
"""An empty message in field 1."""
LONG = "x" * 2000
SOURCE = RewardSource(value=1, confidence=1)


def sends(*, count: int, receiver: str) -> api.TrialMessageRequest:
    return api.TrialMessageRequest(messages=[Message(receiver_name=receiver)] * count)


def starts(**fields: Any) -> api.TrialStartRequest:
    where = EnvironmentParams(endpoint="local://still")
    return api.TrialStartRequest(params=TrialParams(**{"environment": where, **fields}))


def one(**fields: Any) -> api.TrialStartRequest:
    return starts(actors=[ActorParams(**{"name": "c0", "endpoint": "client", **fields})])


FLOODS: dict[str, tuple[str, Any, grpc.StatusCode, str]] = {
    "200,000 messages to nobody": (
        *(SENDS, sends(count=200_000, receiver="nobody " * 3)),
        *(INVALID, "messages.* expected at most 131072 fields"),
    ),
    "20,000 messages to nobody": (
        *(SENDS, sends(count=20_000, receiver="nobody")),
        *(INVALID, "messages: expected at most 1000, got 20000"),
    ),
    "one message too many": (
        *(SENDS, sends(count=1001, receiver="c1")),
        *(INVALID, "messages: expected at most 1000, got 1001"),
    ),
    "300,000 empty messages": (SENDS, EMPTY * 300_000, INVALID, "messages: expected at most"),
    "100,000 empty messages": (
        *(SENDS, EMPTY * 100_000),
        *(INVALID, "messages: expected at most 1000, got 100000"),
    ),
    "300,000 empty rewards": (REWARDS, EMPTY * 300_000, INVALID, "rewards: expected at most"),
    "40,000 rewards": (
        *(
            REWARDS,
            [Reward(receiver_name="c1", tick_id=n, sources=[SOURCE]) for n in range(40_000)],
        ),
        *(INVALID, "rewards.* expected at most"),
    ),
    "rewards to everybody, by pattern": (
        *(REWARDS, [Reward(receiver_name="*", sources=[SOURCE])] * 1001),
        *(INVALID, "rewards: expected at most 1000 sources, got 1001"),
    ),
    "one reward of many sources": (
        *(REWARDS, [Reward(receiver_name="c1", sources=[SOURCE] * 1001)]),
        *(INVALID, "rewards: expected at most 1000 sources, got 1001"),
    ),
    "one reward of 200,000 sources": (
        *(REWARDS, [Reward(receiver_name="c1", sources=[SOURCE] * 200_000)]),
        *(INVALID, "rewards.sources.* expected at most"),
    ),
    "a user_id of 15 MB": (
        *(STARTS, api.TrialStartRequest(user_id="u" * 15 * MEGABYTE)),
        *(INVALID, "user_id: expected at most 1024 bytes, got 15000000"),
    ),
    "a request of 17 MB": (
        *(STARTS, api.TrialStartRequest(user_id="u" * 17 * MEGABYTE)),
        *(EXHAUSTED, "larger than max"),
    ),
    "5,000 actors": (
        *(
            STARTS,
            starts(actors=[ActorParams(name=f"c{k}", endpoint="client") for k in range(5000)]),
        ),
        *(INVALID, "actors: expected at most 4096, got 5000"),
    ),
    "200,000 actors": (
        *(STARTS, starts(actors=[ActorParams()] * 200_000)),
        *(INVALID, "params.actors: expected at most"),
    ),
    "many agents": (
        *(
            STARTS,
            starts(
                actors=[ActorParams(name=f"{k}", endpoint="local://agent") for k in range(2000)]
            ),
        ),
        *(INVALID, "actors: expected at most 134217728 bytes"),
    ),
    "many agents of long names": (
        *(
            STARTS,
            starts(actors=[ActorParams(name=f"{k}" * 200, endpoint="x:1") for k in range(1000)]),
        ),
        *(INVALID, "actors"),
    ),
    "300,000 configs": (STARTS, EMPTY * 300_000, INVALID, "config: expected at most"),
    "a name": (STARTS, one(name=LONG), INVALID, r"actors\[0\]: name: expected at most 1024 bytes"),
    "a class": (STARTS, one(actor_class=LONG), INVALID, r"actors\[0\]: actor_class: expected"),
    "an implementation": (STARTS, one(implementation=LONG), INVALID, r"\[0\]: implementation: exp"),
    "an endpoint": (
        STARTS,
        one(endpoint=LONG),
        INVALID,
        r"actors\[0\]: endpoint: expected at most",
    ),
    "an endpoint of the environment": (
        *(STARTS, starts(environment=EnvironmentParams(endpoint=LONG))),
        *(INVALID, "environment: endpoint: expected at most 1024 bytes, got 2000"),
    ),
    "an implementation of the environment": (
        *(STARTS, starts(environment=EnvironmentParams(endpoint="x:1", implementation=LONG))),
        *(INVALID, "environment: implementation: expected at most 1024 bytes, got 2000"),
    ),
    "a trial to join": (
        *(JOINS, api.TrialJoinRequest(trial_id=LONG * 1000, actor_name="c0")),
        *(INVALID, "trial_id: expected at most 1024 bytes, got 2000000"),
    ),
    "an actor to join as": (
        *(JOINS, api.TrialJoinRequest(actor_name="ä" * 513)),
        *(INVALID, "actor_name: expected at most 1024 bytes, got 1026"),
    ),
    "a class to join as": (
        *(JOINS, api.TrialJoinRequest(actor_class=LONG)),
        *(INVALID, "actor_class: expected at most 1024 bytes, got 2000"),
    ),
    "15 million states": (
        *(WATCHES, api.TrialListRequest(filter=[1] * 15 * MEGABYTE)),
        *(INVALID, "filter: expected at most"),
    ),
    "65 states": (
        *(WATCHES, api.TrialListRequest(filter=[1] * 65)),
        *(INVALID, "filter: expected at most 64 states, got 65"),
    ),
    "varints without end": (STARTS, b"\xff" * 15 * MEGABYTE, INVALID, "request: "),
    "groups in groups": (STARTS, b"\x0b" * 15 * MEGABYTE, INVALID, "request: "),
    "300,000 unknown fields": (
        STARTS,
        b"\xf8\x07\x00" * 300_000,
        INVALID,
        "unknown field 127",
    ),
}
