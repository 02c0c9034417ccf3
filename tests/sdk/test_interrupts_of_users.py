"""A KeyboardInterrupt that a user's method raises, beside the Ctrl-C of the main thread."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

import cogrs
from cogrs import sdk
from tests.orchestrator.net import LIMIT
from tests.sdk.net import Counting, Echo, calls


class FailOnce:
    """Raises at the first call of all."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error: type[BaseException] | None = error

    def __call__(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error("no more")


def failing(base: type[Any], method: str, fail: FailOnce, how: str) -> type[Any]:
    """The class with a method that fails at the first call of all."""

    def plain(self: Any, *args: Any) -> Any:
        fail()
        return getattr(base, method)(self, *args)

    async def later(self: Any, *args: Any) -> Any:
        return plain(self, *args)

    return type("Failing", (base,), {method: later if how == "async" else plain, "inline": True})


def play_twice(environment: Any, agent: Any, *, served: bool, hook: Any = None) -> list[str]:
    """Run a trial that fails and one that does not, and return why each ended."""
    with ExitStack() as stack:
        local: dict[str, Any] = {}
        if served:
            hooks = None if hook is None else {"": hook}
            endpoint = stack.enter_context(
                sdk.serve_endpoint(environments={"": environment}, agents={"": agent}, hooks=hooks)
            )
            places = dict.fromkeys(("env", "agent", "hook"), endpoint.address)
        else:
            local["env"] = sdk.local_environments({"": environment})
            local["agent"] = sdk.local_agents({"": agent})
            if hook is not None:
                local["hook"] = sdk.local_hooks({"": hook})
            places = {name: f"local://{name}" for name in ("env", "agent", "hook")}
        actor = {"name": "a0", "actor_class": "player", "endpoint": places["agent"]}
        params = {"environment": {"endpoint": places["env"]}, "actors": [actor]}
        config: dict[str, Any] = {"trial_params": params}
        if hook is not None:
            config["trial"] = {"pre_hooks": [places["hook"]]}
        server = stack.enter_context(cogrs.serve_orchestrator(config, port=0, local=local))
        where = f"127.0.0.1:{server.port}"
        with pytest.raises((sdk.TrialFailedError, sdk.RemoteCallError)) as failure:
            sdk.run_trial(where, timeout=LIMIT)
        return [str(failure.value), sdk.run_trial(where, timeout=LIMIT).end_reason]


@pytest.mark.parametrize("served", [False, True])
@pytest.mark.parametrize(
    ("error", "how"),
    [(KeyboardInterrupt, "inline"), (GeneratorExit, "inline"), (KeyboardInterrupt, "async")],
)
@pytest.mark.parametrize("method", ["start", "step"])
def test_interrupt_of_an_environment_ends_its_trial_only(
    method: str, error: type[BaseException], how: str, served: bool
) -> None:
    environment = failing(Counting, method, FailOnce(error), how)
    bad, good = play_twice(lambda: environment(calls()), lambda: Echo(calls()), served=served)
    assert f"environment: {method} failed: " in bad
    assert error.__name__ in bad
    assert good == "environment: final update"


@pytest.mark.parametrize("served", [False, True])
@pytest.mark.parametrize(
    ("error", "how"),
    [(KeyboardInterrupt, "inline"), (GeneratorExit, "inline"), (KeyboardInterrupt, "async")],
)
@pytest.mark.parametrize("method", ["start", "act"])
def test_interrupt_of_an_agent_ends_its_trial_only(
    method: str, error: type[BaseException], how: str, served: bool
) -> None:
    agent = failing(Echo, method, FailOnce(error), how)
    bad, good = play_twice(lambda: Counting(calls()), lambda: agent(calls()), served=served)
    assert f"actor 'a0': {method} failed: " in bad
    assert error.__name__ in bad
    assert good == "environment: final update"


@pytest.mark.parametrize("served", [False, True])
def test_interrupt_of_a_function_over_a_session_ends_its_trial_only(served: bool) -> None:
    fail = FailOnce(KeyboardInterrupt)

    async def agent(session: sdk.ActorSession) -> None:
        async for event in session:
            if isinstance(event, sdk.Observation):
                fail()
                await session.act(0)

    bad, good = play_twice(lambda: Counting(calls()), agent, served=served)
    assert "KeyboardInterrupt" in bad
    assert good == "environment: final update"


@pytest.mark.parametrize("served", [False, True])
def test_interrupt_of_a_hook_refuses_its_trial_only(served: bool) -> None:
    fail = FailOnce(KeyboardInterrupt)

    async def hook(trial: sdk.NewTrial) -> None:
        del trial
        fail()

    bad, good = play_twice(
        lambda: Counting(calls()), lambda: Echo(calls()), served=served, hook=hook
    )
    assert "KeyboardInterrupt" in bad
    assert good == "environment: final update"
