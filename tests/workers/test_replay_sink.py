"""The live path and the data log's path fill replay alike: late rewards, crashes and all."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cogrs import ReplayMemory, orchestrator, sdk
from cogrs.orchestrator import Config
from cogrs.workers import ActorWorker, PolicyAnnotation, ReplaySink, feed_log
from tests.orchestrator.net import on_loop
from tests.replay import network
from tests.sdk.net import actor_params, until
from tests.workers import world

if TYPE_CHECKING:
    from pathlib import Path

TRIALS = 1000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 100
LENGTH = 7


def annotate(state: Any, _action: Any) -> PolicyAnnotation:
    return PolicyAnnotation(world.prob_of(state[None])[0], world.value_of(state[None])[0])


async def late(environment: world.Environment, update: sdk.Update) -> None:
    """Rewards of earlier steps, in the midst and with the end; some worlds break."""
    number, tick = environment.number, environment.tick
    if number % 3 == 0 and tick in (4, LENGTH):
        update.rewards = [*update.rewards, sdk.Reward("*", number / 8, tick=1 + number % 3)]
    if number % 10 == 7 and tick == 5:
        raise ArithmeticError("the world is over")


class Crashes(sdk.Agent):
    """Fails at tick 3 of every seventh trial, once the others have acted."""

    def __init__(self, others_acted: Any) -> None:
        self.others_acted = others_acted

    def start(self, trial: sdk.Trial) -> None:
        self.id = trial.id

    async def act(self, observation: sdk.Observation) -> Any:
        number = int(observation.value[0])
        if observation.tick == 3 and number % 7 == 0:
            await until(lambda: self.others_acted(self.id))
            raise ArithmeticError("an agent is over")
        return 0


async def played(controller: sdk.TrialController) -> list[str]:
    """Play all trials, twenty at a time."""
    ids: list[str] = []
    for _ in range(TRIALS // 20):
        some = [(await controller.start_trial()).id for _ in range(20)]
        for trial_id in some:
            await controller.wait_ended(trial_id)
        ids += some
    return ids


class Both(sdk.DatalogSink):
    """Feeds a memory at once, and writes a file."""

    def __init__(self, rem: ReplayMemory, folder: Path, finished: set[str]) -> None:
        self.feed = ReplaySink(rem, annotate, actors=("a0", "a1"))
        self.file = sdk.JsonLinesSink(folder)
        self.finished = finished

    def start(self, trial: sdk.LoggedTrial) -> None:
        self.id = trial.id
        self.feed.start(trial)
        self.file.start(trial)

    async def sample(self, sample: sdk.Sample) -> None:
        await self.feed.sample(sample)
        self.file.sample(sample)

    def end(self) -> None:
        self.feed.end()
        self.file.end()
        self.finished.add(self.id)


@on_loop
async def test_both_paths_fill_replay_alike(tmp_path: Path, caplog: Any) -> None:
    caplog.set_level("CRITICAL")
    numbers = iter(range(1, TRIALS + 1))

    def decide(states: Any) -> Any:
        # A policy that fails takes its own actors' episodes along, on both paths.
        if ((states[:, 0] % 11 == 5) & (states[:, 2] == 2) & (states[:, 1] == 1)).any():
            raise ArithmeticError("cannot decide")
        return world.decide(states)

    def make() -> world.Environment:
        return world.Environment(next(numbers), LENGTH, terminates=True, hook=late)

    def others_acted(trial_id: str) -> bool:
        gathered = server._orchestrator._trials.get(trial_id)._gathering._actions
        return None not in gathered[:2]

    logged = world.memory()
    finished: set[str] = set()

    with (
        world.made_server() as replay,
        network.connected(replay, 1 << 15, timeout=10) as client,
        ActorWorker(client, decide, batch_size=1) as worker,
    ):
        client.rem.discount_factor = world.GAMMA
        parts = {
            "world": sdk.local_environments({"": make}),
            "policy": sdk.local_agents({"": worker.agent}),
            "crashes": sdk.local_agents({"": lambda: Crashes(others_acted)}),
            "log": sdk.local_datalog(lambda: Both(logged, tmp_path, finished)),
        }
        config = Config(log_url="local://log")
        config.params.environment.endpoint = "local://world"
        for name, target in (("a0", "policy"), ("a1", "policy"), ("c", "crashes")):
            config.params.actors.append(actor_params(name, f"local://{target}"))
        async with (
            await orchestrator.serve(config, port=0, local=parts) as server,
            sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        ):
            ids = await played(controller)
            await until(lambda: len(finished) == TRIALS)
        live = by_key(client.rem)
        assert len(live) > TRIALS
        assert len(live) < 2 * TRIALS, "some had no episode"
        assert_equal(live, by_key(logged))

        read = world.memory()
        paths = [tmp_path / f"{trial_id}.jsonl" for trial_id in ids]
        assert await feed_log(read, paths, annotate, actors=("a0", "a1")) == len(live)
        assert_equal(live, by_key(read))


def by_key(rem: ReplayMemory) -> dict[tuple[int, int], Any]:
    """Episodes by trial and actor: trials end in any order."""
    episodes = [rem.episode(index) for index in range(rem.num_episode())]
    found = {
        (int(each.entries.info["trial"][0]), int(each.entries.info["actor"][0])): each
        for each in episodes
    }
    assert len(found) == len(episodes)
    for (trial, actor), each in found.items():
        assert set(each.entries.info["trial"].tolist()) == {trial}
        assert set(each.entries.info["actor"].tolist()) == {actor}
    return found


def assert_equal(ours: dict[Any, Any], theirs: dict[Any, Any]) -> None:
    assert set(ours) == set(theirs)
    for key, episode in ours.items():
        other = theirs[key]
        assert episode.truncated == other.truncated
        assert episode.has_final_state == other.has_final_state
        np.testing.assert_allclose(episode.weight, other.weight, rtol=1e-6, atol=1e-6)
        for name in ("state", "action", "reward", "prob", "value", "qvest"):
            mine, theirs_ = getattr(episode.entries, name), getattr(other.entries, name)
            if name == "prob":  # a final state has none that is chosen
                mine, theirs_ = mine[:-1], theirs_[:-1]
            np.testing.assert_allclose(mine, theirs_, rtol=1e-6, atol=1e-6)
        assert episode.entries.info.tolist() == other.entries.info.tolist()


@pytest.mark.parametrize("broken", [True, False])
def test_interrupted_log_leaves_no_partial_episode(broken: bool) -> None:
    rem = world.memory()
    sink = ReplaySink(rem)
    sink.start(sdk.LoggedTrial("t", (sdk.Actor("a", "p"),), Config().params))

    async def feed() -> None:
        for tick in range(3):
            seen = sdk.Observation(tick, np.array([1, 0, tick], np.float32))
            await sink.sample(sdk.Sample(tick, {"a": seen}, {"a": np.int64(0)}))
        if not broken:
            seen = sdk.Observation(3, np.array([1, 0, 3], np.float32), terminated=True)
            await sink.sample(sdk.Sample(3, {"a": seen}, end_reason="environment: final update"))

    asyncio.run(feed())
    sink.lost()
    assert (rem.num_episode(), sink.episodes) == (int(not broken), int(not broken))
    assert rem.num_entry == (0 if broken else 4)


@pytest.mark.parametrize("agent_failed", [True, False])
def test_loss_after_an_actor_is_finished_keeps_its_episode(agent_failed: bool) -> None:
    rem = world.memory()
    sink = ReplaySink(rem)
    sink.lost()
    sink.start(sdk.LoggedTrial("t", (sdk.Actor("a", "p"), sdk.Actor("b", "p")), Config().params))

    async def feed() -> None:
        for tick in range(4):
            state = np.array([1, 0, tick], np.float32)
            seen = {
                "a": sdk.Observation(tick, state, terminated=tick == 2),
                "b": sdk.Observation(tick, state),
            }
            await sink.sample(sdk.Sample(tick, seen, dict.fromkeys("ab", np.int64(0))))
        if agent_failed:
            reason = "actor 'a' at 127.0.0.1:9: it raised an error"
            await sink.sample(sdk.Sample(4, seen, end_reason=reason))

    asyncio.run(feed())
    sink.lost()
    assert rem.num_entry == rem.total_steps + rem.num_episode()
    assert (rem.num_episode(), sink.episodes) == (1 + agent_failed, 1 + agent_failed)


def write_log(folder: Path, name: str, width: int = 3) -> Path:
    """A log of one episode of three steps."""
    sink = sdk.JsonLinesSink(folder)
    params = Config().params
    params.actors.add(name="a", actor_class="p")
    sink.start(sdk.LoggedTrial(name, (sdk.Actor("a", "p"),), params))

    async def write() -> None:
        for tick in range(4):
            seen = sdk.Observation(tick, np.ones(width, np.float32), terminated=tick == 3)
            actions = {"a": np.int64(0)} if tick < 3 else {}
            reason = "" if tick < 3 else "environment: final update"
            told = sink.sample(sdk.Sample(tick, {"a": seen}, actions, end_reason=reason))
            if told is not None:
                await told

    asyncio.run(write())
    sink.end()
    return folder / f"{name}.jsonl"


def test_broken_log_among_several_writes_nothing(tmp_path: Path) -> None:
    paths = [write_log(tmp_path, name) for name in ("one", "two", "three")]
    text = paths[2].read_text()
    paths[2].write_text(text[: len(text) // 2])
    rem = world.memory()
    with pytest.raises(ValueError, match="three"):
        asyncio.run(feed_log(rem, paths))
    with pytest.raises(OSError, match="four"):
        asyncio.run(feed_log(rem, [*paths[:2], tmp_path / "four.jsonl"]))
    assert (rem.num_episode(), rem.num_entry) == (0, 0)
    assert asyncio.run(feed_log(rem, paths[:2])) == 2


def test_log_that_does_not_fit_names_the_episodes_already_written(tmp_path: Path) -> None:
    paths = [write_log(tmp_path, "one"), write_log(tmp_path, "two", width=5)]
    rem = world.memory()
    with pytest.raises(ValueError, match="state: expected") as caught:
        asyncio.run(feed_log(rem, paths))
    assert caught.value.__notes__ == [f"{paths[1]}: 1 episodes were written before this"]
    assert (rem.num_episode(), rem.num_entry) == (1, 4)
    rem.new_episode()
