"""Data logs: what they are told is what happened; what files keep is what they were told."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from cogrs import orchestrator, sdk
from cogrs.api.any import pack
from cogrs.api.common_pb2 import Message, RewardSource, TrialParams
from cogrs.api.datalog_pb2 import DatalogSample, LogExporterSampleRequest
from cogrs.sdk.datalog_row import Packed
from tests.orchestrator.net import on_loop
from tests.sdk.array_values import NAMED, assert_same
from tests.sdk.net import Counting, Echo, calls, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SINKS = {".jsonl": sdk.JsonLinesSink, ".parquet": sdk.ParquetSink}


class Kept(sdk.DatalogSink):
    """Keeps what it is told."""

    def __init__(self, logs: defaultdict[str, list[Any]]) -> None:
        self.logs = logs

    def start(self, trial: sdk.LoggedTrial) -> None:
        self.trial = trial
        self.logs[trial.id].append(trial)

    async def sample(self, sample: sdk.Sample) -> None:
        self.logs[self.trial.id].append(sample)

    def end(self) -> None:
        self.logs[self.trial.id].append("end")

    def lost(self) -> None:
        self.logs[self.trial.id].append("lost")


class Talks(Echo):
    """Speaks to all at tick 1, and rewards the step before it at tick 3."""

    def act(self, observation: sdk.Observation) -> Any:
        late = [sdk.Reward("*", 4.0, tick=1)] if observation.tick == 3 else []
        words = [sdk.Message("*", RewardSource(value=7))] if observation.tick == 1 else []
        words += [sdk.Message("env", RewardSource(value=8))] if observation.tick == 1 else []
        return sdk.Action(super().act(observation), late, words)


@asynccontextmanager
async def logged(
    make: Any, *, local: bool = False, agent: Any = Talks, url: str = ""
) -> AsyncIterator[tuple[sdk.TrialController, orchestrator.Server]]:
    environments = {"": lambda: Counting(calls())}
    agents = {"": lambda: agent(calls())}
    async with await sdk.serve(environments=environments, agents=agents, datalog=make) as endpoint:
        actors = [
            {"name": name, "actor_class": "p", "endpoint": endpoint.address} for name in ("a", "b")
        ]
        config = {
            "trial_params": {"environment": {"endpoint": endpoint.address}, "actors": actors},
            "datalog": {"type": "grpc", "url": "local://log" if local else url or endpoint.address},
        }
        parts = {"log": sdk.local_datalog(make)}
        async with (
            await orchestrator.serve(config, port=0, local=parts) as server,
            sdk.TrialController(f"127.0.0.1:{server.port}", user_id="ada") as controller,
        ):
            yield controller, server


async def played(controller: sdk.TrialController, trials: int) -> list[str]:
    ids = [(await controller.start_trial()).id for _ in range(trials)]
    for trial_id in ids:
        await controller.wait_ended(trial_id)
    return ids


def assert_whole(trial: sdk.LoggedTrial, samples: list[sdk.Sample]) -> None:
    """A trial of five steps with two actors that echo."""
    assert [actor.name for actor in trial.actors] == ["a", "b"]
    assert [actor.name for actor in trial.params.actors] == ["a", "b"]
    assert [sample.tick for sample in samples] == list(range(6))
    for tick, sample in enumerate(samples):
        assert sample.user_id == "ada"
        for index, name in enumerate("ab"):
            seen = sample.observations[name]
            assert seen.value.tolist() == [tick, index]
            assert (seen.tick, seen.terminated, seen.timestamp > 0) == (tick, tick == 5, True)
            if tick < 5:
                assert sample.actions[name].tolist() == [tick, index]
            gained = [(each.tick, each.value) for each in sample.rewards.get(name, ())]
            # Both send 4 for tick 1, which is one reward of its own.
            late = [(1, 4.0)] if tick == 4 else []
            assert gained == ([*late, (tick, 1.0)] if tick else [])
            words = sample.messages.get(name, ())
            assert sorted(each.sender for each in words) == (["a", "b"] if tick == 2 else [])
    assert len(samples[1].messages["env"]) == 2
    assert samples[5].actions == {}
    assert [bool(sample.end_reason) for sample in samples] == [False] * 5 + [True]


@pytest.mark.parametrize("local", [False, True])
@on_loop
async def test_log_gets_all_samples_of_its_trials(local: bool) -> None:
    logs: defaultdict[str, list[Any]] = defaultdict(list)
    async with logged(lambda: Kept(logs), local=local) as (controller, _):
        ids = await played(controller, 6)
        await until(lambda: all(logs[each][-1:] == ["end"] for each in ids))
    assert set(logs) == set(ids)
    for trial, *samples, end in logs.values():
        assert_whole(trial, samples)
        assert end == "end"


@pytest.mark.parametrize("suffix", SINKS)
@on_loop
async def test_log_file_reads_back_as_logged(suffix: str, tmp_path: Path) -> None:
    async with logged(lambda: SINKS[suffix](tmp_path / "logs")) as (controller, _):
        ids = await played(controller, 3)
        paths = [tmp_path / "logs" / f"{each}{suffix}" for each in ids]
        await until(lambda: all(path.exists() for path in paths))
    assert len(ids) == 3
    for trial_id, path in zip(ids, paths, strict=True):
        trial, samples = sdk.read_log(path)
        assert trial.id == trial_id
        assert_whole(trial, list(samples))


@on_loop
async def test_failing_log_harms_no_trial(caplog: Any) -> None:
    class Fails(Kept):
        async def sample(self, sample: sdk.Sample) -> None:
            if sample.tick == 2:
                raise OSError("disk full")
            await super().sample(sample)

    logs: defaultdict[str, list[Any]] = defaultdict(list)
    async with logged(lambda: Fails(logs)) as (controller, server):
        (trial_id,) = await played(controller, 1)
        await until(lambda: logs[trial_id][-1] == "lost")
        reason = server._orchestrator._trials.get(trial_id).end_reason
    assert reason == "environment: final update"
    assert "data log: sample failed: OSError: disk full" in caplog.text


@on_loop
async def test_log_is_lost_when_its_server_stops() -> None:
    class Waits(Echo):
        async def act(self, observation: sdk.Observation) -> Any:
            if observation.tick == 2:
                await asyncio.Event().wait()
            return super().act(observation)

    logs: defaultdict[str, list[Any]] = defaultdict(list)
    async with (
        await sdk.serve(datalog=lambda: Kept(logs)) as log,
        logged(lambda: Kept(calls()), agent=Waits, url=log.address) as (controller, server),
    ):
        trial = (await controller.start_trial()).id
        await until(lambda: len(logs[trial]) == 3)
        await log.stop(0)
        assert logs[trial][-1] == "lost"
        await server.stop(0)


VALUES = st.one_of(NAMED, st.binary())
TICKS = st.integers(0, 2**31 - 1)
FLOATS = st.floats(width=32, allow_nan=False)
REWARDS = st.builds(
    lambda tick, value: sdk.ReceivedReward(
        tick, value, (RewardSource(sender_name="x", value=value, confidence=1),)
    ),
    TICKS,
    st.floats(width=32, allow_nan=False, allow_infinity=False),
)
MESSAGES = st.builds(
    lambda tick, value: sdk.ReceivedMessage("env", pack(RewardSource(value=value)), tick),
    TICKS,
    FLOATS,
)


@st.composite
def samples(draw: Any) -> sdk.Sample:
    tick = draw(TICKS)
    names = st.sampled_from(["a", "b"])
    observation = st.builds(
        sdk.Observation,
        st.just(tick),
        VALUES,
        st.booleans(),
        st.booleans(),
        timestamp=st.integers(0, 2**64 - 1),
    )
    return sdk.Sample(
        tick,
        {name: draw(observation) for name in ("a", "b")},
        draw(st.dictionaries(names, VALUES)),
        draw(st.dictionaries(names, st.lists(REWARDS, max_size=2).map(tuple))),
        draw(st.dictionaries(st.sampled_from(["a", "env"]), st.lists(MESSAGES).map(tuple))),
        draw(st.text(max_size=3)),
        draw(st.text(max_size=3)),
    )


@pytest.mark.parametrize("suffix", SINKS)
@given(told=st.lists(samples(), max_size=3))
@hypothesis_settings(max_examples=40)
def test_samples_that_are_written_are_read_back(
    tmp_path_factory: Any, suffix: str, told: list[sdk.Sample]
) -> None:
    folder = tmp_path_factory.mktemp("log")
    params = TrialParams(max_steps=3)
    for name in ("a", "b"):
        params.actors.add(name=name, actor_class="p").config.content = b"\0\xff"
    actors = (sdk.Actor("a", "p"), sdk.Actor("b", "p"))
    sink = SINKS[suffix](folder)
    sink.start(sdk.LoggedTrial("t", actors, params))
    for sample in told:
        sink.sample(sample)
    sink.end()
    trial, read = sdk.read_log(folder / f"t{suffix}")
    assert (trial.id, trial.actors, trial.params) == ("t", actors, params)
    for ours, theirs in zip(read, told, strict=True):
        assert set(ours.observations) == set(theirs.observations)
        for name, seen in theirs.observations.items():
            assert_value(ours.observations[name].value, seen.value)
            assert replace(ours.observations[name], value=0) == replace(seen, value=0)
        assert set(ours.actions) == set(theirs.actions)
        for name, action in theirs.actions.items():
            assert_value(ours.actions[name], action)
        for each in ("rewards", "messages"):
            full = {name: value for name, value in getattr(theirs, each).items() if value}
            assert {n: v for n, v in getattr(ours, each).items() if v} == full
        assert (ours.tick, ours.user_id, ours.end_reason) == (
            theirs.tick,
            theirs.user_id,
            theirs.end_reason,
        )


def assert_value(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, bytes):
        assert ours == theirs
    else:
        assert_same(ours, theirs)


@pytest.mark.parametrize("suffix", SINKS)
def test_user_messages_are_decoded_if_their_class_is_given(suffix: str, tmp_path: Path) -> None:
    value = Message(sender_name="x")
    sink = SINKS[suffix](tmp_path)
    sink.start(sdk.LoggedTrial("t", (sdk.Actor("a", "p"),), TrialParams(actors=[{"name": "a"}])))
    sink.sample(sdk.Sample(0, {"a": sdk.Observation(0, value)}))
    sink.end()
    path = tmp_path / f"t{suffix}"
    (sample,) = sdk.read_log(path, [Message])[1]
    assert sample.observations["a"].value == value
    (sample,) = sdk.read_log(path)[1]
    assert sample.observations["a"].value == value.SerializeToString()


def test_lines_are_json_that_people_can_read(tmp_path: Path) -> None:
    sink = sdk.JsonLinesSink(tmp_path)
    sink.start(sdk.LoggedTrial("t", (sdk.Actor("a", "p"),), TrialParams(actors=[{"name": "a"}])))
    sink.sample(sdk.Sample(0, {"a": sdk.Observation(0, np.float32([1.5, 2]))}))
    sink.end()
    head, row = (json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines())
    assert head["trial_id"] == "t"
    assert row["observation"] == {"kind": "<f4", "shape": [2], "values": [1.5, 2.0]}


@pytest.mark.parametrize("suffix", SINKS)
@pytest.mark.parametrize("trial_id", ["", "../t", "a/b", ".t", "a\0"])
def test_ids_unfit_as_file_names_are_refused(suffix: str, trial_id: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="trial id: expected letters"):
        SINKS[suffix](tmp_path).start(sdk.LoggedTrial(trial_id, (), TrialParams()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SINKS)
def test_files_are_not_overwritten(suffix: str, tmp_path: Path) -> None:
    for fails in (False, True):
        sink = SINKS[suffix](tmp_path)
        if fails:
            with pytest.raises(FileExistsError):
                sink.start(sdk.LoggedTrial("t", (), TrialParams()))
        else:
            sink.start(sdk.LoggedTrial("t", (), TrialParams()))
            sink.end()


@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet", "t.csv"])
def test_file_that_is_not_a_log_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("nothing\n")
    with pytest.raises(ValueError, match=r"t\."):
        list(sdk.read_log(path)[1])


def test_broken_line_is_named_in_the_error(tmp_path: Path) -> None:
    sink = sdk.JsonLinesSink(tmp_path)
    sink.start(sdk.LoggedTrial("t", (), TrialParams()))
    sink.lost()
    path = tmp_path / "t.jsonl"
    path.write_text(path.read_text() + '{"sample": 0}\n')
    with pytest.raises(ValueError, match=r"t\.jsonl:2: 'observation'"):
        list(sdk.read_log(path)[1])


def test_arrays_that_json_cannot_hold_are_bytes() -> None:
    from cogrs.sdk.datalog_jsonl import _packed_to_json

    for array in (np.float32([np.nan]), np.complex64([1j])):
        assert "data" in _packed_to_json(Packed(array.dtype.str, array.shape, array.tobytes()))


class Slow(sdk.DatalogSink):
    """Takes a sample when it is told to, on whatever thread it is called."""

    def __init__(self, told: list[Any], go: threading.Semaphore) -> None:
        self.told, self.go = told, go

    def start(self, trial: sdk.LoggedTrial) -> None:
        self._tell("start")

    def sample(self, sample: sdk.Sample) -> None:
        assert self.go.acquire(timeout=30)
        self._tell(sample.tick)

    def end(self) -> None:
        self._tell("end")

    def lost(self) -> None:
        self._tell("lost")

    def _tell(self, what: Any) -> None:
        self.told.append((what, threading.current_thread() is threading.main_thread()))


@pytest.mark.parametrize("local", [False, True])
@on_loop
async def test_blocking_log_runs_on_a_thread(local: bool) -> None:
    told: list[Any] = []
    go = threading.Semaphore(0)
    async with logged(lambda: Slow(told, go), local=local) as (controller, _):
        await played(controller, 1)  # whatever the log does
        assert told == [("start", False)]
        go.release(6)
        await until(lambda: len(told) == 8)
    whole = ["start", *range(6), "end"]
    assert told == [(what, False) for what in whole]


@on_loop
async def test_failure_on_the_thread_of_a_log_is_reported(caplog: Any, tmp_path: Path) -> None:
    async with logged(lambda: sdk.JsonLinesSink(tmp_path)) as (controller, server):
        (trial_id,) = await played(controller, 1)
        path = tmp_path / f"{trial_id}.jsonl"
        await until(path.exists)
        (tmp_path / "taken").write_text("")
    async with logged(lambda: sdk.ParquetSink(tmp_path / "taken")) as (controller, server):
        await played(controller, 1)
        await until(lambda: server.stats().log_lost > 0)
    assert "NotADirectoryError" in caplog.text or "FileExistsError" in caplog.text


@on_loop
async def test_cancelled_log_is_lost_after_its_running_call_ends() -> None:
    told: list[Any] = []
    go = threading.Semaphore(0)
    host = sdk.local_datalog(lambda: Slow(told, go))

    async def requests() -> AsyncIterator[Any]:
        yield LogExporterSampleRequest(trial_params=TrialParams())
        for _ in range(3):
            yield LogExporterSampleRequest(sample=DatalogSample())

    logging = asyncio.ensure_future(host.on_log_sample("t", requests()))
    await until(lambda: bool(told))
    await asyncio.sleep(0.05)
    logging.cancel()
    await asyncio.wait({logging})
    assert [what for what, _ in told] == ["start"]
    go.release(3)
    await until(lambda: len(told) == 3)
    assert [what for what, _ in told] == ["start", None, "lost"]


@on_loop
async def test_log_gets_remaining_samples_when_the_orchestrator_stops() -> None:
    told: list[Any] = []
    go = threading.Semaphore(0)
    async with logged(lambda: Slow(told, go), local=True) as (controller, _):
        await played(controller, 1)
        later = threading.Timer(0.3, go.release, (6,))
        later.start()
    later.join()
    assert [what for what, _ in told] == ["start", *range(6), "end"]


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError, StopIteration])
@on_loop
async def test_log_that_raises_any_exception_harms_no_trial(
    error: type[BaseException], inline: bool, caplog: Any
) -> None:
    class Raises(sdk.DatalogSink):
        def sample(self, sample: sdk.Sample) -> None:
            raise error("no more")

        def lost(self) -> None:
            raise error("not this either")

    Raises.inline = inline
    async with logged(Raises) as (controller, server):
        await played(controller, 2)
        await until(lambda: server.stats().log_lost >= 2)
    assert error.__name__ in caplog.text
