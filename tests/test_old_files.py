"""What cogrs 0.1.0 wrote and sent (tests/data/0.1.0): read, played, or refused by its version."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from pathlib import Path

import grpc
import numpy as np
import pytest
import zmq

import cogrs
from cogrs import orchestrator, sdk
from cogrs.api import orchestrator_pb2, replay_pb2

DATA = Path(__file__).parent / "data/0.1.0"
INFO = np.dtype([("step", "i4"), ("late", "?")])
PAIR = np.zeros(2, np.float32)
TEMPLATES = (
    np.zeros((2, 2), np.uint8),
    np.int64(0),
    PAIR,
    np.float32(0),
    PAIR,
    PAIR,
    np.zeros((), INFO),
)


def test_checkpoint_loads_with_settings_entries_and_returns():
    memory = cogrs.ReplayMemory.load(DATA / "memory.checkpoint")
    assert (memory.num_episode(), memory.num_entry, memory.uuid) == (3, 25, 77)
    assert (memory.frame_stack, memory.multi_step, memory.mix_lambda) == (2, 2, 0.5)
    assert memory.discount_factor == [0.5, 0.25]
    assert memory.reward_coeff == [1.0, 2.0]
    # Settings that 0.1.0 did not have are those that it behaved by.
    assert (memory.new_priority, memory.priority_epsilon) == ("returns", 0.0)
    assert memory.frame_padding == "none"
    for number, bootstrap in enumerate(([0, 0], [4, 2], [0, 0])):
        entries = memory.episode(number).entries
        step = np.arange(8)
        assert entries.action[:8].tolist() == step.tolist()
        assert (entries.state[:8] == 10 * number + step[:, None, None]).all()
        assert entries.info["step"][:8].tolist() == step.tolist()
        reward = np.stack([step, -step], axis=1).astype(np.float32)
        if number == 2:
            reward[2] += [3.0, 0.0]
        np.testing.assert_array_equal(entries.reward[:8], reward)
        expected = reward[7] + np.multiply([0.5, 0.25], bootstrap)
        np.testing.assert_allclose(entries.q[7], expected)
    assert len(memory.sample(16).id) == 16


def test_checkpoint_is_written_anew_and_loads_again(tmp_path):
    memory = cogrs.ReplayMemory.load(DATA / "memory.checkpoint")
    memory.save(tmp_path / "again")
    again = cogrs.ReplayMemory.load(tmp_path / "again")
    assert again.weight_sum == memory.weight_sum > 0
    np.testing.assert_array_equal(again.episode(2).entries.q, memory.episode(2).entries.q)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_data_log_reads_with_actions_and_rewards(suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    trial, samples = sdk.read_log(DATA / f"trial.{suffix}")
    samples = list(samples)
    assert [actor.name for actor in trial.actors] == ["ann"]
    assert [sample.tick for sample in samples] == [0, 1, 2, 3]
    assert [sample.observations["ann"].value.tolist() for sample in samples] == [
        [tick, tick] for tick in range(4)
    ]
    assert [sample.actions.get("ann") for sample in samples] == [1, 2, 3, None]
    paid = [reward.value for sample in samples for reward in sample.rewards["ann"]]
    assert paid == [1.0, 2.0, 3.0]
    assert samples[-1].end_reason.startswith("environment: final")


def test_key_file_loads_and_belongs_to_its_public_key(tmp_path):
    secret = tmp_path / "learner.key_secret"
    shutil.copy(DATA / secret.name, secret)
    secret.chmod(0o600)  # which a checkout does not keep
    public = (DATA / "learner.key").read_text(encoding="utf-8")
    assert cogrs.KeyPair.load(secret).public in public


class Count(sdk.Environment):
    """Shows the tick; pays the action; ends after three steps, as that of the recording did."""

    def start(self, trial):
        self.tick = 0
        return sdk.Update(np.zeros(2, np.float32))

    def step(self, actions):
        self.tick += 1
        rewards = [sdk.Reward("ann", float(actions["ann"]))]
        return sdk.Update(np.full(2, self.tick, np.float32), rewards, final=self.tick == 3)


async def replay_calls(recorded: dict) -> tuple[list[float], str]:
    """Make the recorded calls; return the rewards of the client, and why the trial ended."""
    ann = {"name": "ann", "actor_class": "person", "endpoint": "client"}
    config = {"trial_params": {"environment": {"endpoint": "local://count"}, "actors": [ann]}}
    there = {"count": sdk.local_environments({"": Count})}
    calls = {call["method"].rpartition("/")[2]: call for call in recorded["calls"]}
    rewards = []
    async with (
        await orchestrator.serve(config, port=0, local=there) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):

        def requests(name: str, trial: str) -> list[bytes]:
            old = recorded["trial"].encode()
            return [
                bytes.fromhex(each).replace(old, trial.encode()) for each in calls[name]["requests"]
            ]

        def metadata(name: str, trial: str) -> list[tuple[str, str]]:
            old = recorded["trial"]
            return [(key, value.replace(old, trial)) for key, value in calls[name]["metadata"]]

        async def unary(name: str, trial: str) -> bytes:
            call = channel.unary_unary(calls[name]["method"])
            (request,) = requests(name, trial)
            return await call(request, metadata=metadata(name, trial))

        started = orchestrator_pb2.TrialStartReply.FromString(await unary("StartTrial", ""))
        trial = started.trial_id
        assert len(trial) == len(recorded["trial"]), "lengths in the recorded bytes stay true"
        await unary("JoinTrial", trial)
        stream = channel.stream_stream(calls["ActionStream"]["method"])(
            metadata=metadata("ActionStream", trial)
        )
        actions = requests("ActionStream", trial)
        while (reply := await stream.read()) is not grpc.aio.EOF:
            data = orchestrator_pb2.TrialActionReply.FromString(reply).data
            rewards += [reward.value for reward in data.rewards]
            if actions:
                await stream.write(actions.pop(0))
        info = orchestrator_pb2.TrialInfoReply.FromString(await unary("GetTrialInfo", trial))
    return rewards, info.trial[0].end_reason


def test_client_of_a_trial_plays_by_its_recorded_messages():
    recorded = json.loads((DATA / "trial.json").read_text(encoding="utf-8"))
    rewards, reason = asyncio.run(replay_calls(recorded))
    assert rewards == [1.0, 2.0, 3.0]
    assert reason.startswith("environment: final")


@pytest.fixture
def messages():
    """The messages of a replay client, each as its socket and its frames."""
    lines = (DATA / "replay.jsonl").read_text(encoding="utf-8").splitlines()
    each = map(json.loads, lines)
    return [(one["socket"], [bytes.fromhex(frame) for frame in one["frames"]]) for one in each]


@pytest.fixture
def connect():
    """Make sockets that end with the test."""
    context = zmq.Context()
    made = []

    def connect(kind: int, endpoint: str) -> zmq.Socket[bytes]:
        made.append(context.socket(kind))
        made[-1].linger, made[-1].rcvtimeo = 0, 30_000
        made[-1].connect(endpoint)
        return made[-1]

    yield connect
    context.destroy()


def test_replay_client_is_refused_by_the_number_of_its_version(messages, connect):
    with cogrs.ReplayMemoryServer(*TEMPLATES, 0, "tcp://127.0.0.1:*", n_caches=1) as server:
        server.start()
        request = connect(zmq.REQ, server.rep_endpoint)
        asked = [frames for socket, frames in messages if socket == "request"]
        for frames in asked:
            request.send_multipart(frames)
            header = replay_pb2.Header.FromString(request.recv())
            assert header.refusal.reason.endswith("protocol version 1; this cogrs speaks version 2")
        pushed = [frames for socket, frames in messages if socket == "push"]
        push = connect(zmq.PUSH, server.pull_endpoint)
        for frames in pushed:
            push.send_multipart(frames)
        while server.stats().refused["version"] < len(asked) + len(pushed):
            time.sleep(0.01)
        assert server.stats().received.caches == 0


def test_subscription_is_answered_with_the_number_of_the_present_version(messages, connect):
    with cogrs.ReplayMemoryServer(*TEMPLATES, 0, "tcp://127.0.0.1:*", n_caches=1) as server:
        server.start()
        subscriber = connect(zmq.SUB, server.pub_endpoint)
        wanted = [frames[0][1:] for socket, frames in messages if socket == "subscription"]
        for key in set(wanted):
            subscriber.subscribe(key)
        while not subscriber.poll(50):
            server.pub_bytes("model", b"parameters")
        key, header, _ = subscriber.recv_multipart()
        assert any(map(key.startswith, wanted))
        assert replay_pb2.Header.FromString(header).version == 2
