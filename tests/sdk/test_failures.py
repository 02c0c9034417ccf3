"""What fails ends its trial with a reason, and nothing else."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import numpy as np
import pytest

from cogrs import sdk
from tests.orchestrator.net import on_loop
from tests.sdk.net import LOST, Counting, Echo, calls, kinds, named, world


class FaultError(Exception):
    """What a user's code raises."""


class Panic(BaseException):
    """What extensions raise where Rust panics."""


BEYOND = [SystemExit, asyncio.CancelledError, Panic, StopIteration, StopAsyncIteration]
"""Exceptions that a loop, a task or a future takes for something other than a failure."""


def failing(
    base: type[Any],
    method: str,
    *,
    at: int = 1,
    wait: bool = False,
    error: type[BaseException] = FaultError,
) -> type[Any]:
    """The class with a method that fails at its n-th call, in the first of its objects only."""
    made = []

    def fail(self: Any, *args: Any) -> Any:
        if not made:
            made.append(self)
        self.number = getattr(self, "number", 0) + 1
        if made[0] is self and self.number == at:
            # What is to be written down is there only after a start.
            if not hasattr(self, "calls"):
                self.calls = self.all_calls["failed"]
            raise error("no more")
        return getattr(base, method)(self, *args)

    async def fail_later(self: Any, *args: Any) -> Any:
        await asyncio.sleep(0)
        return fail(self, *args)

    return type("Failing", (base,), {method: fail_later if wait else fail})


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize(("method", "at"), [("start", 1), ("step", 1), ("step", 3)])
@on_loop
async def test_failing_environment_ends_only_its_trial(method: str, at: int, wait: bool) -> None:
    told, heard = calls(), calls()
    environment = failing(Counting, method, at=at, wait=wait)
    async with world(lambda: environment(told), lambda: Echo(heard)) as net:
        bad = await net.play()
        good = await net.play()
        assert f"trial {bad}: environment: {method} failed: FaultError: no more" in net.reason(bad)
        assert net.reason(good) == "environment: final update"
        await net.freed()
    assert (told["failed"] or told[bad])[-1] == LOST
    assert kinds(told[good]) == ["start", *["step"] * 5]
    if method == "step":
        (final,) = named(heard[bad, "a0"], "end")
        assert final.observation is None


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize(("method", "at"), [("start", 1), ("act", 1), ("act", 3)])
@on_loop
async def test_failing_agent_ends_only_its_trial(method: str, at: int, wait: bool) -> None:
    told, heard = calls(), calls()
    agent = failing(Echo, method, at=at, wait=wait)
    async with world(lambda: Counting(told), lambda: agent(heard)) as net:
        bad = await net.play()
        good = await net.play()
        assert f"trial {bad}: actor 'a0': {method} failed: FaultError: no more" in net.reason(bad)
        assert net.reason(good) == "environment: final update"
        await net.freed()
    assert (heard["failed"] or heard[bad, "a0"])[-1] == LOST
    assert kinds(told[bad])[-1] == "end"


@pytest.mark.parametrize("method", ["reward", "message", "end"])
@on_loop
async def test_agent_that_raises_outside_act_does_not_end_the_trial(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Talking(Counting):
        def step(self, actions: Any) -> Any:
            update = super().step(actions)
            update.messages = [sdk.Message("a0", sdk_message())]
            return update

    told, heard = calls(), calls()
    agent = failing(Echo, method)
    async with world(lambda: Talking(told), lambda: agent(heard)) as net:
        trial_id = await net.play()
        assert net.reason(trial_id) == "environment: final update"
    assert len(named(told[trial_id], "step")) == 5
    assert (LOST in heard[trial_id, "a0"]) is (method == "end")
    call = {"reward": "OnObservation", "message": "OnObservation", "end": "OnEnd"}[method]
    told_of = [each for each in caplog.records if each.name == "cogrs.orchestrator"]
    warned = [each.getMessage() for each in told_of if each.levelno >= logging.WARNING]
    assert len(warned) == 1
    assert f"trial {trial_id}: actor 'a0': {call}: " in warned[0]
    assert f"{method} failed: FaultError: no more" in warned[0]


def sdk_message() -> Any:
    from cogrs.api.common_pb2 import TrialActor

    return TrialActor(name="x")


@pytest.mark.parametrize("method", ["message", "end", "lost"])
@on_loop
async def test_environment_that_raises_outside_step_does_not_end_the_trial(method: str) -> None:
    class Talker(Echo):
        def act(self, observation: sdk.Observation) -> Any:
            value = super().act(observation)
            return sdk.Action(value, messages=[sdk.Message("env", sdk_message())])

    told, heard = calls(), calls()
    base = failing(Counting, "step", at=2) if method == "lost" else Counting
    environment = failing(base, method, at=3 if method == "lost" else 1)
    async with world(lambda: environment(told), lambda: Talker(heard), max_steps=3) as net:
        trial_id = await net.play()
        reason = net.reason(trial_id)
    if method == "lost":
        assert "step failed: FaultError" in reason
    else:
        assert "max_steps" in reason
    # A message or an end that failed costs the trial no data but its own.
    assert len(named(heard[trial_id, "a0"], "end")) == 1
    assert (LOST in told[trial_id]) is (method == "end")


class Returning(Counting):
    """An environment that returns what a test says."""

    def __init__(self, told: Any, at: str, what: Any) -> None:
        super().__init__(told)
        self.at, self.what = at, what

    def start(self, trial: sdk.Trial) -> Any:
        usual = super().start(trial)
        return self.what if self.at == "start" else usual

    def step(self, actions: Any) -> Any:
        usual = super().step(actions)
        return self.what if self.at == "step" else usual


UPDATE = sdk.Update({"a0": [1]})


@pytest.mark.parametrize(
    ("at", "what", "said"),
    [
        ("start", None, "TypeError: expected an Update to be returned, got NoneType"),
        ("step", [1], "TypeError: expected an Update to be returned, got list"),
        ("step", sdk.Update({"b": [1]}), "observations: expected one for each of a0; got b"),
        ("step", sdk.Update({}), "observations: expected one for each of a0; got an empty mapping"),
        ("step", sdk.Update("text"), "observation of 'a0': expected numbers or booleans, got str"),
        (
            "start",
            sdk.Update([1], {"a0": 1.0}),
            "expected observations and messages only at the start",
        ),
        (
            "start",
            sdk.Update([1], final=True),
            "expected observations and messages only at the start",
        ),
    ],
)
@on_loop
async def test_wrong_result_of_an_environment_fails_trial(at: str, what: Any, said: str) -> None:
    told, heard = calls(), calls()
    async with world(lambda: Returning(told, at, what), lambda: Echo(heard)) as net:
        trial_id = await net.play()
        reason = net.reason(trial_id)
    assert f"trial {trial_id}: environment: {at} failed" in reason
    assert said in reason


@on_loop
async def test_unencodable_action_names_the_actor() -> None:
    told = calls()
    async with world(lambda: Counting(told), lambda: sdk.FunctionAgent(lambda _: None)) as net:
        trial_id = await net.play()
        said = "actor 'a0': act failed: TypeError: action of 'a0': expected numbers or booleans"
        assert f"trial {trial_id}: {said}, got NoneType" in net.reason(trial_id)


@on_loop
async def test_undecodable_content_is_reported_with_actor_and_trial() -> None:
    told = calls()
    codec = sdk.Codecs(sdk.ArrayCodec(), Lying())
    act = sdk.FunctionAgent
    async with world(lambda: Counting(told), lambda: act(lambda _: 0), codec=codec) as net:
        trial_id = await net.play()
        said = "environment: step failed: ValueError: action of 'a0': expected better"
        assert f"trial {trial_id}: {said}" in net.reason(trial_id)
    codec = sdk.Codecs(Lying(), sdk.ArrayCodec())
    async with world(lambda: Counting(told), lambda: act(lambda _: 0), codec=codec) as net:
        trial_id = await net.play()
        said = "actor 'a0': act failed: ValueError: observation of 'a0' at tick 0: expected better"
        assert f"trial {trial_id}: {said}" in net.reason(trial_id)


class Lying(sdk.BytesCodec):
    """A codec that cannot read what it wrote."""

    def encode(self, value: Any, **flags: bool) -> bytes:
        return np.asarray(value).tobytes()

    def decode(self, content: bytes) -> sdk.Decoded:
        raise ValueError(f"expected better, got {len(content)} bytes")


@on_loop
async def test_long_error_text_does_not_break_the_call() -> None:
    class Loud(Counting):
        def step(self, actions: Any) -> Any:
            raise FaultError("x" * 100_000 + "\n\u2028")

    told, heard = calls(), calls()
    async with world(lambda: Loud(told), lambda: Echo(heard)) as net:
        assert "step failed: FaultError: xxx" in net.reason(await net.play())


@pytest.mark.parametrize("missing", ["start", "step", "act"])
@on_loop
async def test_methods_that_were_forgotten_are_named(missing: str) -> None:
    told, heard = calls(), calls()

    class Part(sdk.Environment):
        def start(self, trial: sdk.Trial) -> sdk.Update:
            if missing == "start":
                return super().start(trial)
            return sdk.Update([0])

    agent = sdk.Agent if missing == "act" else lambda: Echo(heard)
    environment = (lambda: Counting(told)) if missing == "act" else Part
    async with world(environment, agent) as net:
        assert f"NotImplementedError: {'Agent' if missing == 'act' else 'Part'}.{missing}" in (
            net.reason(await net.play())
        )


@pytest.mark.parametrize("error", BEYOND)
@pytest.mark.parametrize("method", ["start", "step", "end", "lost"])
@on_loop
async def test_environment_that_raises_any_exception_ends_only_its_trial(
    method: str, error: type[BaseException]
) -> None:
    told, heard = calls(), calls()
    base = failing(Counting, "step", at=2) if method == "lost" else Counting
    wait = error is not StopIteration
    environment = failing(base, method, at=3 if method == "lost" else 1, wait=wait, error=error)
    async with world(lambda: environment(told), lambda: Echo(heard), max_steps=3) as net:
        bad, good = await net.play(), await net.play()
        if method in ("start", "step"):
            assert f"trial {bad}: environment: {method} failed: " in net.reason(bad)
            assert error.__name__ in net.reason(bad)
        assert "max_steps" in net.reason(good)


@pytest.mark.parametrize("error", BEYOND)
@pytest.mark.parametrize("method", ["start", "act", "reward", "end"])
@on_loop
async def test_agent_that_raises_any_exception_ends_only_its_trial(
    method: str, error: type[BaseException]
) -> None:
    told, heard = calls(), calls()
    agent = failing(Echo, method, wait=error is not StopIteration, error=error)
    async with world(lambda: Counting(told), lambda: agent(heard)) as net:
        bad, good = await net.play(), await net.play()
        if method in ("start", "act"):
            assert f"trial {bad}: actor 'a0': {method} failed: " in net.reason(bad)
            assert error.__name__ in net.reason(bad)
        else:
            assert net.reason(bad) == "environment: final update"
        assert net.reason(good) == "environment: final update"


@pytest.mark.parametrize("error", BEYOND)
@on_loop
async def test_functions_over_a_session_may_raise_anything(error: type[BaseException]) -> None:
    async def plays(session: sdk.EnvironmentSession) -> None:
        await session.update(sdk.Update([0]))
        await anext(session)
        raise error("no more")

    async def acts(session: sdk.ActorSession) -> None:
        await anext(session)
        raise error("no more")

    async with world({"env": plays}, {"agent": sdk.FunctionAgent(lambda _: 0)}) as net:
        reason = net.reason(await net.play())
        assert "environment: step failed: " in reason
        assert error.__name__ in reason
    async with world(lambda: Counting(calls()), {"agent": acts}) as net:
        reason = net.reason(await net.play())
        assert "actor 'a0': act failed: " in reason
        assert error.__name__ in reason
