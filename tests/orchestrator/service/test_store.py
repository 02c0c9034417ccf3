"""An orchestrator that logs into a store: its configuration, trials, late rewards, its end."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import cogrs
from cogrs import orchestrator, sdk
from cogrs.orchestrator.service.config import Config, read_config
from cogrs.store import open_store
from cogrs.store.location import Location
from cogrs.store.sqlite_index import NAME, SqliteIndex

if TYPE_CHECKING:
    from pathlib import Path


class Count(sdk.Environment):
    """Goes on for some ticks, and tells them."""

    inline = True
    ticks = 4

    def start(self, trial: sdk.Trial) -> sdk.Update:
        self.tick = 0
        return sdk.Update(np.int64(0))

    def step(self, actions: Any) -> sdk.Update:
        self.tick += 1
        rewards = dict.fromkeys(actions, 1.0)
        return sdk.Update(np.int64(self.tick), rewards, final=self.tick == self.ticks)


class Endless(Count):
    ticks = 10**9


def parts(environment: type[Count] = Count) -> dict[str, Any]:
    return {
        "env": sdk.local_environments({"": environment}),
        "agents": sdk.local_agents({"": lambda: sdk.FunctionAgent(lambda _: 1, inline=True)}),
    }


def config(folder: Path, *others: dict[str, Any], **fields: Any) -> dict[str, Any]:
    actor = {"name": "a", "actor_class": "player", "endpoint": "local://agents"}
    return {
        "trial_params": {"environment": {"endpoint": "local://env"}, "actors": [actor, *others]},
        "datalog": {"type": "store", "url": f"file:{folder}", **fields},
    }


async def listed(folder: Path, count: int = 1) -> list[Any]:
    """Wait until so many trials are listed."""
    end = time.monotonic() + 30
    while True:
        with open_store(folder) as store:
            found = list(store.trials())
        if len(found) >= count:
            return found
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


def test_trials_of_a_running_orchestrator_are_listed(tmp_path):
    async def play() -> Any:
        async with (
            await orchestrator.serve(config(tmp_path), port=0, local=parts()) as server,
            sdk.TrialController(f"127.0.0.1:{server.port}", user_id="ann") as controller,
        ):
            trials = [await controller.start_trial() for _ in range(3)]
            for trial in trials:
                await controller.wait_ended(trial.id)
            found = await listed(tmp_path, 3)
            stats = server.stats()
            assert (stats.log_waiting, stats.log_waiting_bytes, stats.log_lost) == (0, 0, 0)
            return {trial.id for trial in trials}, found

    ids, found = asyncio.run(play())
    assert {each.trial_id for each in found} == ids
    for each in found:
        assert (each.ticks, each.returns, each.user) == (4, {"a": 4.0}, "ann")
        assert (each.end_reason, each.partial) == ("environment: final update", False)
    with open_store(tmp_path) as store:
        assert list(store.verify()) == []
        samples = list(store.read(found[0].trial_id)[1])
    assert [int(each.observations["a"].value) for each in samples] == [0, 1, 2, 3, 4]
    assert [int(each.actions["a"]) for each in samples[:-1]] == [1, 1, 1, 1]


def test_late_reward_of_a_person_is_at_its_step(tmp_path):
    async def judge(session: sdk.ClientSession) -> None:
        async for event in session:
            if isinstance(event, sdk.Observation):
                rewards = [sdk.Reward("a", 5.0, tick=1)] if event.tick == 3 else []
                await session.act(sdk.Action(0, rewards=rewards))

    async def play() -> None:
        ada = {"name": "ada", "actor_class": "person", "endpoint": "client"}
        async with await orchestrator.serve(config(tmp_path, ada), port=0, local=parts()) as server:
            where = f"127.0.0.1:{server.port}"
            async with sdk.TrialController(where) as controller, sdk.ClientActor(where) as client:
                trial = await controller.start_trial()
                await client.play(judge, trial.id, name="ada")

    asyncio.run(play())
    with open_store(tmp_path) as store:
        (found,) = store.trials()
        assert (found.people, found.returns["a"]) == (True, 9.0)
        late = [
            (reward.tick, reward.value)
            for sample in store.read(found.trial_id)[1]
            for reward in sample.rewards["a"]
            if reward.sources[0].sender_name == "ada"
        ]
    assert late == [(1, 5.0)]


def test_stop_stores_trials_that_are_cut_short(tmp_path):
    steps: list[int] = []
    go_on = threading.Event()

    class Noted(Endless):
        def step(self, actions):
            steps.append(1)
            if len(steps) > 3:
                go_on.set()
            return super().step(actions)

    with cogrs.serve_orchestrator(config(tmp_path), port=0, local=parts(Noted)) as server:
        where = f"127.0.0.1:{server.port}"

        async def start() -> str:
            async with sdk.TrialController(where) as controller:
                return (await controller.start_trial()).id

        trial_id = asyncio.run(start())
        assert go_on.wait(60)
        began = time.monotonic()
        server.stop(1.0)
        assert time.monotonic() - began < 10
    with open_store(tmp_path) as store:
        (found,) = store.trials()
        assert found.trial_id == trial_id
        assert found.ticks > 0
        assert {each.kind for each in store.verify()} <= {"partial"}
    assert not list(tmp_path.glob("trials/*/lock"))


def test_fields_that_are_excluded_are_missing_from_the_store(tmp_path):
    given = config(tmp_path, fields={"exclude": ["user_id", "rewards"]})

    async def play() -> None:
        async with (
            await orchestrator.serve(given, port=0, local=parts()) as server,
            sdk.TrialController(f"127.0.0.1:{server.port}", user_id="ann") as controller,
        ):
            await controller.wait_ended((await controller.start_trial()).id)

    asyncio.run(play())
    with open_store(tmp_path) as store:
        (found,) = store.trials()
    assert (found.user, found.returns, found.ticks) == ("", {"a": 0.0}, 4)


def test_configuration_names_the_store(tmp_path):
    read = read_config({"datalog": {"type": "store", "url": "file:runs/trials"}})
    assert str(read.store.folder) == "runs/trials"
    assert read.log_url == ""
    read = read_config(
        {"datalog": {"type": "store", "url": "postgresql://h/d", "files": str(tmp_path)}}
    )
    assert read.store == Location(tmp_path, "postgresql://h/d")


@pytest.mark.parametrize(
    ("datalog", "text"),
    [
        ({"type": "store"}, "datalog.url: expected a store, such as file:runs/trials, got none"),
        ({"type": "store", "url": "http://x"}, "datalog.url: expected a folder, file:FOLDER or"),
        ({"type": "store", "url": "postgresql://h/d"}, "datalog.files: expected the folder"),
        ({"type": "store", "url": "x", "files": "y"}, "datalog.files: expected only beside"),
        ({"type": "stor", "url": "x"}, "datalog.type: expected 'grpc', 'store' or 'none', got"),
        ({"type": "store", "url": "x", "file": "y"}, "datalog.file: .*did you mean 'files'"),
        ({"type": "store", "url": 1}, "datalog.url: expected a string, got 1"),
    ],
    ids=["url", "scheme", "files", "both", "type", "misspelt", "number"],
)
def test_wrong_configuration_of_a_store_is_refused_by_name(datalog, text):
    with pytest.raises(ValueError, match=text):
        read_config({"datalog": datalog})


def test_store_and_data_log_together_are_refused(tmp_path):
    with pytest.raises(ValueError, match="store: expected either a store or a data log, got both"):
        Config(store=Location(tmp_path), log_url="local://log")


def test_orchestrator_whose_store_cannot_be_written_does_not_start(tmp_path):
    (tmp_path / "file").write_text("")

    async def start(folder: Path) -> None:
        async with await orchestrator.serve(config(folder), port=0, local=parts()):
            raise AssertionError("it started")

    with pytest.raises(OSError, match="file"):
        asyncio.run(start(tmp_path / "file"))
    index = SqliteIndex(tmp_path / NAME, create=True)
    index._query("UPDATE cogrs_store SET version = 2")
    index.close()
    with pytest.raises(ValueError, match="got version 2"):
        asyncio.run(start(tmp_path))


def test_orchestrator_that_cannot_start_leaves_no_session_in_the_store(tmp_path):
    async def start() -> None:
        given = config(tmp_path)
        given["trial"] = {"pre_hooks": ["local://missing"]}
        await orchestrator.serve(given, port=0, local=parts())

    with pytest.raises(ValueError, match="local://missing"):
        asyncio.run(start())
    end = time.monotonic() + 30
    while list(tmp_path.glob("trials/*/lock")):
        assert time.monotonic() < end
        time.sleep(0.02)
