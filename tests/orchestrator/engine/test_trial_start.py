"""From StartTrial to RUNNING."""

from __future__ import annotations

from typing import Any

import pytest

from cogrs.api.common_pb2 import (
    ActorConfig,
    ActorParams,
    EnvironmentConfig,
    EnvironmentParams,
    TrialConfig,
    TrialParams,
)
from cogrs.api.environment_pb2 import EnvStartReply
from cogrs.api.hooks_pb2 import PreTrialContext
from cogrs.api.orchestrator_pb2 import TrialStartRequest
from cogrs.orchestrator.engine.errors import AbortedError, InvalidError, UnavailableError
from cogrs.orchestrator.engine.settings import Settings
from cogrs.orchestrator.engine.state import State
from tests.orchestrator.world import World, make_params, now, observation_set

ENV = EnvironmentParams(endpoint="grpc://environment:1")


def actor(name: str = "a", actor_class: str = "k", endpoint: str = "host:1") -> ActorParams:
    return ActorParams(name=name, actor_class=actor_class, endpoint=endpoint)


def test_start_replies_at_once_with_all_actors_in_order() -> None:
    world = World(agents=2, clients=1)
    assert [(each.name, each.actor_class) for each in world.reply.actors_in_trial] == [
        ("a0", "agent"),
        ("a1", "agent"),
        ("c0", "player"),
    ]
    assert world.trial.state is State.PENDING
    assert world.seen() == [State.INITIALIZING, State.PENDING]


def test_trial_ids_are_canonical_and_differ() -> None:
    world = World()
    first, second = world.trial.id, world.start().id
    assert first != second
    for trial_id in (first, second):
        assert len(trial_id) == 36
        assert trial_id[14] == "4"
        assert trial_id == trial_id.lower()


def test_environment_and_agents_are_started_in_parallel() -> None:
    world = World(agents=2)
    starts = [party.of("start") for party in (world.environment, *world.agents)]
    assert [len(calls) for calls in starts] == [1, 1, 1]
    for (request,) in starts:
        assert list(request.actors_in_trial) == list(world.reply.actors_in_trial)


@pytest.mark.parametrize("content", [None, b"", b"content"])
def test_absent_config_stays_absent_and_empty_config_stays_empty(content: bytes | None) -> None:
    config = {} if content is None else {"config": EnvironmentConfig(content=content)}
    agents = {} if content is None else {"config": ActorConfig(content=content)}
    world = World(
        environment=EnvironmentParams(endpoint="e:1", implementation="walls", **config),
        actors=[ActorParams(name="a0", endpoint="a:1", implementation="fast", **agents)],
    )
    (to_environment,) = world.environment.of("start")
    (to_agent,) = world.agent().of("start")
    assert (to_environment.impl_name, to_agent.impl_name) == ("walls", "fast")
    for request in (to_environment, to_agent):
        assert request.HasField("config") == (content is not None)
        assert request.config.content == (content or b"")


@pytest.mark.parametrize(
    ("request_config", "expected"), [(None, b"default"), (b"", b""), (b"mine", b"mine")]
)
def test_config_of_the_request_replaces_that_of_the_defaults(
    request_config: bytes | None, expected: bytes
) -> None:
    world = World(start=False, trial_config=TrialConfig(content=b"default"))
    request = TrialStartRequest()
    if request_config is not None:
        request.config.content = request_config
    trial = world.start(request)
    assert trial.params.trial_config.content == expected
    assert world.params.trial_config.content == b"default"


BAD: dict[str, tuple[TrialParams, str]] = {
    "no environment": (TrialParams(actors=[actor()]), "environment: expected an endpoint"),
    "no actor": (TrialParams(environment=ENV), "at least one"),
    "environment as client": (
        TrialParams(environment=EnvironmentParams(endpoint="client"), actors=[actor()]),
        "environment: expected endpoint",
    ),
    "class": (TrialParams(environment=ENV, actors=[actor(actor_class="z")]), "'z'"),
    "empty name": (TrialParams(environment=ENV, actors=[actor("")]), "printable ASCII"),
    "newline": (TrialParams(environment=ENV, actors=[actor("a\n")]), "printable ASCII"),
    "newline within": (TrialParams(environment=ENV, actors=[actor("a\nb")]), "printable ASCII"),
    "umlaut": (TrialParams(environment=ENV, actors=[actor("ä")]), "printable ASCII"),
    "space at the end": (TrialParams(environment=ENV, actors=[actor("a ")]), "printable ASCII"),
    "env": (TrialParams(environment=ENV, actors=[actor("env")]), "stands for the environment"),
    "double": (TrialParams(environment=ENV, actors=[actor(), actor()]), "duplicate"),
    **{
        repr(endpoint): (
            TrialParams(environment=ENV, actors=[actor(endpoint=endpoint)]),
            "actor 'a': expected endpoint",
        )
        for endpoint in ("", "host", "host:0", "host:65536", "http://host:1", "grpc://:1", "local:")
    },
}


@pytest.mark.parametrize("case", BAD)
def test_bad_parameters_are_refused_by_name(case: str) -> None:
    params, text = BAD[case]
    world = World(start=False, classes=["k"])
    world.params.CopyFrom(params)
    with pytest.raises(InvalidError, match=text):
        world.start()
    (info,) = world.orchestrator.info(None)
    assert info.state == State.ENDED
    assert not world.links.environments


@pytest.mark.parametrize(
    "endpoint", ["grpc://host:1", "host:65535", "10.0.0.1:9000", "[::1]:9000", "client"]
)
def test_valid_endpoints_are_parsed(endpoint: str) -> None:
    World(actors=[actor(endpoint=endpoint)])


@pytest.mark.parametrize("order", ["environment last", "agent last", "client last"])
def test_trial_runs_when_all_have_started_and_joined(order: str) -> None:
    world = World(agents=1, clients=1)
    observations = observation_set(2, 0)
    steps = {
        "environment": lambda: world.environment.events.started(
            EnvStartReply(observation_set=observations)
        ),
        "agent": lambda: world.agent().events.started(),
        "client": lambda: world.client(),
    }
    last = order.split()[0]
    for name, step in steps.items():
        if name != last:
            step()
    assert world.trial.state is State.PENDING
    assert "deliver" not in world.agent().names
    steps[last]()
    assert world.seen() == [State.INITIALIZING, State.PENDING, State.RUNNING]
    (period,) = world.agent().of("deliver")
    assert [each.tick_id for each in period.observations] == [0]


@pytest.mark.parametrize("who", ["environment", "agent"])
@pytest.mark.parametrize("how", ["failed", "late"])
def test_start_that_fails_or_is_late_ends_the_trial(who: str, how: str) -> None:
    world = World(agents=2, settings=Settings(start_timeout=60))
    failing = world.environment if who == "environment" else world.agent("a0")
    parties = [world.environment, *world.agents]
    for party in parties:
        if party is not failing:
            reply = [EnvStartReply(observation_set=world.observations(0))]
            party.events.started(*(reply if party is world.environment else []))
    if how == "failed":
        failing.events.failed("OnStart", "UNKNOWN: no such implementation")
    else:
        world.clock.advance(59)
        assert world.trial.state is State.PENDING
        world.clock.advance(1)
    assert world.trial.state is State.TERMINATING
    world.drain()
    assert world.trial.state is State.ENDED
    for party in parties:
        assert party.names.count("end") == (party is not failing)
    where = "grpc://environment:1" if who == "environment" else "grpc://agents:1"
    what = "no such implementation" if how == "failed" else "no answer within 60 s"
    for text in (where, "OnStart", what):
        assert text in world.trial.end_reason


def test_joined_client_gets_final_data_when_the_start_fails() -> None:
    world = World(agents=1, clients=2)
    client = world.client("c0")
    world.environment.events.started(EnvStartReply(observation_set=world.observations(0)))
    world.agent().events.failed("OnStart", "x")
    world.drain()
    (last,) = client.read()
    assert last.final_data
    assert world.trial.state is State.ENDED


def test_joined_client_without_a_stream_finds_its_final_data() -> None:
    world = World(agents=1, clients=1)
    actor = world.orchestrator.client(world.trial.id, "c0")
    actor.join()
    world.agent().events.failed("OnStart", "x")
    world.environment.events.failed("OnStart", "x")
    assert world.trial.state is State.ENDED
    (last,) = world.client(join=False).read()
    assert last.final_data


def test_agent_that_starts_too_late_is_ended_as_well() -> None:
    world = World(agents=2)
    world.environment.events.started(EnvStartReply(observation_set=world.observations(0)))
    world.agent("a0").events.failed("OnStart", "x")
    world.drain()
    assert world.trial.state is State.TERMINATING
    world.agent("a1").events.started()
    assert world.agent("a1").names.count("end") == 1
    world.agent("a1").events.ended()
    assert world.trial.state is State.ENDED


@pytest.mark.parametrize("when", ["while the environment ends", "while others take their ends"])
def test_agent_that_starts_after_the_start_timeout_is_ended(when: str) -> None:
    world = World(agents=2, settings=Settings(start_timeout=5.0))
    world.environment.events.started(world.start_reply())
    world.agent("a1").events.started()
    world.clock.advance(5.0)
    assert "no answer within 5 s" in world.trial.end_reason
    if when == "while the environment ends":
        world.agent("a0").events.started()
        world.environment.events.ended(world.end_reply())
    else:
        world.environment.events.ended(world.end_reply())
        world.agent("a0").events.started()
    assert world.agent("a1").names.count("end") == 1
    assert world.agent("a0").names.count("end") == 1
    world.agent("a0").events.ended()
    world.agent("a1").events.ended()
    assert world.trial.state is State.ENDED
    assert world.agent("a0").of("close") == [world.trial._settings.close_grace]


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (EnvStartReply(), "no observation set"),
        (EnvStartReply(observation_set={}), "actors_map: expected 1 entries, got 0"),
        (EnvStartReply(observation_set={"actors_map": [0]}), "indexes of 0 observations, got 0"),
    ],
)
def test_start_without_good_observations_ends_the_trial(reply: EnvStartReply, text: str) -> None:
    world = World()
    world.environment.events.started(reply)
    world.agent().events.started()
    assert world.environment.names.count("end") == 1
    world.drain()
    assert world.seen()[2:] == [State.TERMINATING, State.ENDED]
    assert text in world.trial.end_reason


# --- hooks -----------------------------------------------------------------------------------


class Hook:
    def __init__(self, change: Any) -> None:
        self.change = change
        self.calls: list[tuple[str, PreTrialContext]] = []

    async def pre_trial(self, trial_id: str, context: PreTrialContext) -> PreTrialContext:
        got = PreTrialContext()
        got.CopyFrom(context)
        self.calls.append((trial_id, got))
        return self.change(context) or context


def test_each_hook_gets_the_parameters_of_the_hook_before() -> None:
    def first(context: PreTrialContext) -> None:
        context.params.max_steps = 7
        context.params.environment.implementation = "other"
        context.user_id, context.impl_name = "ignored", "ignored"

    def second(context: PreTrialContext) -> PreTrialContext:
        return PreTrialContext(params=make_params(2, max_steps=context.params.max_steps + 1))

    hooks = [Hook(first), Hook(second), Hook(lambda _: None)]
    world = World(agents=1, hooks=hooks)
    contexts = [hook.calls[0][1] for hook in hooks]
    assert [context.params.max_steps for context in contexts] == [0, 7, 8]
    assert contexts[1].params.environment.implementation == "other"
    assert {context.user_id for context in contexts} == {"user"}
    assert {hook.calls[0][0] for hook in hooks} == {world.trial.id}
    assert len(world.reply.actors_in_trial) == 2
    assert world.params.max_steps == 0


def test_hooks_may_set_all_parameters() -> None:
    made = make_params(
        *(2, 1),
        environment=EnvironmentParams(endpoint="grpc://other:1", implementation="walls"),
        trial_config=TrialConfig(content=b"made"),
        max_steps=7,
        max_inactivity=9,
    )
    world = World(start=False, hooks=[Hook(lambda _: PreTrialContext(params=made))])
    # Nothing could run with these.
    world.params.Clear()
    assert world.start().params == made


@pytest.mark.parametrize("error", [AbortedError, UnavailableError])
def test_hook_that_fails_ends_the_trial(error: type[Exception]) -> None:
    def fail(context: PreTrialContext) -> None:
        raise error("hook: no")

    after = Hook(lambda _: None)
    world = World(start=False, hooks=[Hook(fail), after])
    with pytest.raises(error, match="hook: no"):
        world.start()
    assert not after.calls
    (info,) = world.orchestrator.info(None)
    assert info.state == State.ENDED


def test_trial_that_is_ended_while_a_hook_works_does_not_start() -> None:
    world = World(start=False, hooks=[Hook(lambda _: end())])

    def end() -> None:
        (info,) = world.orchestrator.info(None)
        assert info.state == State.INITIALIZING
        world.orchestrator.terminate(info.trial_id)

    with pytest.raises(AbortedError, match="before it started"):
        world.start()
    assert not world.links.environments


def test_start_after_the_stop_of_the_orchestrator_raises() -> None:
    world = World()
    world.orchestrator.begin_stop()
    with pytest.raises(UnavailableError, match="stops"):
        now(world.orchestrator.start(TrialStartRequest()))
