"""Floods from environments, agents and those who start trials, at the engine and over gRPC."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from cogrs.api import orchestrator_pb2 as api
from cogrs.api.agent_pb2 import AgentActionReply
from cogrs.api.common_pb2 import Message, ObservationData, Reward, RewardSource, TrialConfig
from cogrs.api.environment_pb2 import EnvActionReply, EnvStartReply
from cogrs.orchestrator import Settings, message_decoding
from cogrs.orchestrator.engine.errors import ExhaustedError, InvalidError
from cogrs.orchestrator.engine.state import State
from cogrs.orchestrator.message_decoding import TooManyFieldsError, decode
from tests.orchestrator.net import Net, on_loop
from tests.orchestrator.world import World, action, make_params, message, observation_set, reward

FEW = Settings(post_backlog=10)
MANY: dict[str, dict[str, list[Any]]] = {
    "rewards": {"rewards": [reward("a1", 1.0)] * 11},
    "sources": {"rewards": [Reward(receiver_name="a1", sources=[RewardSource()] * 11)]},
    "rewards without sources": {"rewards": [Reward(receiver_name="a1")] * 11},
    "messages": {"messages": [message("a1", "x")] * 11},
    "messages to nobody": {"messages": [message("nobody", "x")] * 11},
    "both": {"rewards": [reward("a1", 1.0)] * 6, "messages": [message("a1", "x")] * 5},
}


@pytest.mark.parametrize("sender", ["env", "a0"])
@pytest.mark.parametrize("kind", MANY)
def test_reply_with_too_much_is_dropped_whole(kind: str, sender: str, caplog: Any) -> None:
    world = World(agents=2, settings=FEW).run()
    for number in (1, 2, 3):
        if sender == "env":
            world.act()
            world.step(number, **MANY[kind])
        else:
            world.agent("a0").events.acted(action(**MANY[kind]))
            world.act(a1=b"x")
            world.step(number)
        period = world.agent("a1").of("deliver")[number]
        assert not period.rewards
        assert not period.messages
        assert len(period.observations) == 1
    for what in ("rewards", "messages"):
        assert world.trial.counts[f"dropped {what}"] == 3 * len(MANY[kind].get(what, []))
        told = [text for text in caplog.messages if f"{what[:-1]} from {sender!r}" in text]
        assert len(told) == (what in MANY[kind])
    assert world.trial.state is State.RUNNING


@pytest.mark.parametrize("sender", ["env", "a0"])
def test_reply_with_as_much_as_is_allowed_arrives(sender: str) -> None:
    world = World(agents=2, settings=FEW).run()
    sent = {"rewards": [reward("a1", 1.0)] * 5, "messages": [message("a1", "x")] * 5}
    if sender == "a0":
        world.agent("a0").events.acted(action(**sent))
        world.act(a1=b"x")
        world.step(1)
    else:
        world.act()
        world.step(1, **sent)
    period = world.agent("a1").of("deliver")[1]
    assert (len(period.rewards[0].sources), len(period.messages)) == (5, 5)
    assert not world.trial.counts


def test_items_without_bytes_count_as_waiting() -> None:
    world = World(agents=2, settings=Settings(post_backlog_bytes=2000)).run()
    empty = [Message(receiver_name="a1")] * 7
    world.orchestrator.send(world.trial.id, "a0", messages=empty)
    with pytest.raises(ExhaustedError, match=r"1\d\d\d bytes of 'a0' wait"):
        world.orchestrator.send(world.trial.id, "a0", messages=empty[:2])
    assert len(world.trial._router._messages._waiting["a1"]) == 7


def test_rewards_for_later_ticks_are_not_looked_at_before() -> None:
    world = World(agents=2).run()
    for tick in range(100, 200):
        world.orchestrator.send(world.trial.id, "a0", rewards=[reward("a1", 1.0, tick=tick)])
    waiting = world.trial._router._rewards._waiting["a1"]
    looked: list[int] = []
    waiting.by_tick = Looked(waiting.by_tick, looked)
    for number in range(1, 6):
        world.act()
        world.step(number)
    assert looked == []
    world.act()
    world.step(6, final_update=True)
    final = world.agent("a1").of("end")[0]
    assert [each.tick_id for each in final.rewards] == list(range(100, 200))


class Looked(dict[int, Any]):
    """Writes down what is taken out."""

    def __init__(self, content: Any, looked: list[int]) -> None:
        super().__init__(content)
        self._looked = looked

    def pop(self, key: int) -> Any:  # type: ignore[override]
        self._looked.append(key)
        return super().pop(key)


def test_environment_that_does_not_wait_for_the_start_is_bounded() -> None:
    world = World(agents=1, settings=Settings(client_backlog=5))
    world.environment.events.started(world.start_reply())
    for number in range(1, 6):
        world.step(number)
    assert world.trial.state is State.PENDING
    world.step(6)
    assert world.trial.state is State.TERMINATING
    assert world.trial.end_reason == ("environment: before the trial runs, 6 ticks wait to be read")
    assert "end" in world.environment.names
    assert len(world.trial._early_replies) == 0


def test_failed_start_does_not_count_as_a_trial() -> None:
    settings = Settings(max_trials=1, max_actors=2, max_waiting_trials=1, max_params_bytes=100)
    world = World(agents=0, clients=1, settings=settings, start=False)
    world.orchestrator._accept_params = True
    for _ in range(3):
        with pytest.raises(InvalidError, match="expected endpoint"):
            world.start(request_with(actors=[{"name": "c0", "endpoint": "nowhere"}]))
    first = world.start()
    with pytest.raises(ExhaustedError, match="trials"):
        world.start()
    first.end("it is over", forced=True)
    assert world.start() is not first


def request_with(**given: Any) -> api.TrialStartRequest:
    return api.TrialStartRequest(params=make_params(**{"agents": 0, **given}))


class Grower:
    """A hook that asks for more than the request did."""

    def __init__(self, **params: Any) -> None:
        self.params = params

    async def pre_trial(self, trial_id: str, context: Any) -> Any:
        context.params.CopyFrom(make_params(**self.params))
        return context


@pytest.mark.parametrize(
    ("params", "error", "text"),
    [
        (
            {"agents": 3},
            ExhaustedError,
            r"actors: expected at most 2, got 3; the trials that have not ended have 0, ",
        ),
        ({"clients": 1, "agents": 0}, ExhaustedError, "1 trials wait for clients to join"),
        (
            {"trial_config": TrialConfig(content=bytes(1000))},
            *(
                ExhaustedError,
                "params: expected at most .* bytes, got .*; the trials that have not ended have",
            ),
        ),
        ({"actors": [{"name": "x" * 1025}]}, InvalidError, r"actors\[0\]: name: expected at most"),
    ],
)
def test_parameters_of_hooks_are_bounded_too(
    params: Any, error: type[Exception], text: str
) -> None:
    settings = Settings(max_actors=2, max_waiting_trials=1, max_params_bytes=500)
    world = World(agents=0, clients=1, settings=settings)
    world.orchestrator._hooks = [Grower(**params)]
    if params.get("agents"):
        world.trial.end("it is over", forced=True)
    with pytest.raises(error, match=text):
        world.start()
    registry = world.orchestrator._trials
    assert registry.live == sum(trial.state is not State.ENDED for trial in registry)
    assert registry._actors == sum(
        len(trial.actors) for trial in registry if trial.state is not State.ENDED
    )


def test_latest_observations_beyond_the_largest_message_raise() -> None:
    world = World(settings=Settings(max_message=5000), start=False)
    for _ in range(3):
        world.start()
        made = world.observations(0, observations=[ObservationData(content=bytes(2000))])
        world.environment.events.started(EnvStartReply(observation_set=made))
        world.agent().events.started()
    assert len(world.orchestrator.info(None)) == 3
    assert len(world.orchestrator.info(world.trial.id, observation=True)) == 1
    with pytest.raises(
        ExhaustedError, match="get_latest_observation: the observations of 3 trials"
    ):
        world.orchestrator.info(None, observation=True)


@pytest.mark.parametrize("call", ["OnAction", "OnObservation"])
@on_loop
async def test_answer_with_a_flood_of_fields_fails_its_trial_alone(call: str) -> None:
    async with Net(agents=1) as net:
        other = await net.start()
        net.environment.length = 10**9
        flood = [reward("a0", 1.0)] * 100_000

        async def step(trial_id: str, number: int, request: Any) -> EnvActionReply:
            rewards = flood if trial_id != other and call == "OnAction" else []
            return EnvActionReply(observation_set=observation_set(1, number), rewards=rewards)

        async def act(trial_id: str, name: str, observation: Any) -> AgentActionReply:
            rewards = flood if trial_id != other and call == "OnObservation" else []
            return AgentActionReply(rewards=rewards)

        net.environment.step = step  # type: ignore[method-assign]
        net.agents.act = act  # type: ignore[method-assign]
        reason = await net.end_of(await net.start())
        assert f"{call}: its answer is too large: rewards" in reason
        assert "expected at most 131072 fields" in reason
        seen = len(net.agents.of(other, "a0", "observation"))
        while len(net.agents.of(other, "a0", "observation")) < seen + 5:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


KINDS = [api.TrialStartRequest, api.TrialRewardRequest, api.TrialMessageRequest, EnvActionReply]
requests = st.builds(
    lambda rewards, messages, actors, filters: (
        EnvActionReply(
            rewards=[reward("r" * n, 1.0, tick=-n) for n in rewards],
            messages=[message("m", "x" * n) for n in messages],
            observation_set={"actors_map": filters, "timestamp": 7},
        ),
        api.TrialStartRequest(params={"actors": [{"name": "a" * n} for n in actors]}),
    ),
    *[st.lists(st.integers(0, 300), max_size=8)] * 4,
)


@given(requests, st.integers(1, 60))
def test_field_count_equals_the_fields_in_the_message(made: tuple[Any, ...], most: int) -> None:
    for request in made:
        content = request.SerializeToString()
        count = _count(request)
        assert _is_refused(type(request), content, most) == (count > most), count


def _is_refused(kind: Any, content: bytes, most: int) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_decoding, "MOST_FIELDS", most)
        try:
            for _ in message_decoding._count_fields(
                content, message_decoding._shape(kind.DESCRIPTOR)
            ):
                pass
        except message_decoding.TooManyFieldsError:
            return True
        return False


def _count(request: Any) -> int:
    count = 0
    for field, value in request.ListFields():
        several = value if field.name in SEVERAL else [value]
        if field.name == "actors_map":
            count += 1 + len(b"".join(_varint(each) for each in value))  # packed: by its bytes
            continue
        for each in several:
            count += 1
            if field.message_type is not None:
                count += _count(each)
    return count


SEVERAL = ("rewards", "messages", "observations", "actors", "sources")


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + _varint(value >> 7)


@given(st.binary(max_size=200), st.sampled_from(KINDS))
def test_garbage_is_refused_as_the_decoder_does(content: bytes, kind: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_decoding, "SMALL", 0)
        patch.setattr(message_decoding, "MOST_FIELDS", 20)
        try:
            got = decode(kind, content)
        except (DecodeError, TooManyFieldsError):
            return
        assert got == kind.FromString(content)
