"""What agents of an `ActorWorker` do in trials, and what of it is in replay, over real gRPC."""

import asyncio
import os
import threading
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import numpy as np
import pytest

from cogrs import sdk
from cogrs.api import agent_pb2 as agent
from cogrs.api import common_pb2 as common
from cogrs.api.agent_pb2_grpc import AgentEndpointStub
from cogrs.workers import STEP_INFO, ActorWorker, Decision, trial_number
from tests.orchestrator.net import on_loop
from tests.replay import network
from tests.workers import world
from tests.workers.world import stage, until


def assert_happened(episode, trial, actor, environment, steps, *, terminated):
    """An episode is what an actor saw and did in its first steps."""
    entries = episode.entries
    states = np.array([[environment.number, actor, k] for k in range(steps + 1)], np.float32)
    np.testing.assert_array_equal(entries.state, states)
    info = [(trial_number(trial), actor, k, False) for k in range(steps)]
    info.append((trial_number(trial), actor, steps, terminated))
    assert entries.info.tolist() == info
    done = states[:-1]
    actions = [each[f"a{actor}"] for each in environment.actions[:steps]]
    np.testing.assert_array_equal(entries.action[:-1], world.action_of(done))
    np.testing.assert_array_equal(entries.action[:-1], actions)
    np.testing.assert_array_equal(entries.reward[:-1], [world.reward_of(s) for s in done])
    np.testing.assert_array_equal(entries.prob[:-1], world.prob_of(done))
    np.testing.assert_array_equal(entries.value[:-1], world.value_of(done))
    bootstrap = 0.0 if terminated else world.value_of(states)[-1]
    assert (entries.reward[-1], entries.value[-1]) == (0.0, bootstrap)
    assert episode.has_final_state
    assert episode.truncated is not terminated
    qvest = [bootstrap]
    for reward in entries.reward[-2::-1]:
        qvest.insert(0, reward + world.GAMMA * qvest[0])
    np.testing.assert_allclose(entries.qvest, qvest, rtol=1e-6)


@pytest.mark.parametrize("terminated", [True, False])
@pytest.mark.parametrize("actors", [1, 3])
@on_loop
async def test_stored_episode_equals_the_trial(actors, terminated):
    told = []
    async with stage(
        length=5,
        actors=actors,
        terminates=terminated,
        on_episode=lambda steps, total: told.append((steps, total)),
    ) as on:
        (trial,) = await on.play()
        episodes = sorted(on.episodes(), key=lambda each: each.entries.info["actor"][0])
        assert len(episodes) == actors
        for actor, episode in enumerate(episodes):
            assert_happened(episode, trial, actor, on.environments[0], 5, terminated=terminated)
        returns = [float(episode.entries.reward.sum()) for episode in episodes]
        assert sorted(told) == sorted((5, total) for total in returns)


@pytest.mark.parametrize("max_steps", [1, 3])
@on_loop
async def test_truncated_episode_has_all_steps_so_far(max_steps):
    async with stage(length=9, actors=2, max_steps=max_steps) as on:
        (trial,) = await on.play()
        episodes = sorted(on.episodes(), key=lambda each: each.entries.info["actor"][0])
        steps = max_steps + 1  # the last actions came with the end
        for actor, episode in enumerate(episodes):
            assert_happened(episode, trial, actor, on.environments[0], steps, terminated=False)


@on_loop
async def test_episode_of_one_step_is_stored():
    async with stage(length=1) as on:
        (trial,) = await on.play()
        (episode,) = on.episodes()
        assert_happened(episode, trial, 0, on.environments[0], 1, terminated=True)


@on_loop
async def test_trials_at_once_never_mix():
    sizes = []

    def policy(states):
        sizes.append(len(states))
        return world.decide(states)

    async with stage(
        policy, length=lambda number: 3 + number % 7, actors=2, batch_size=16, timeout=0.02
    ) as on:
        trials = await on.play(24)
        episodes = on.episodes()
        assert len(episodes) == 48
        environments = {each.number: each for each in on.environments}
        pairs = set()
        for episode in episodes:
            number, actor, _ = (int(each) for each in episode.entries.state[0])
            info = episode.entries.info
            (mine,) = {t for t in trials if trial_number(t) == info["trial"][0]}
            pairs.add((mine, actor))
            length = environments[number].length
            assert_happened(episode, mine, actor, environments[number], length, terminated=True)
        assert len(pairs) == 48
        steps = sum(len(episode.entries.state) - 1 for episode in episodes)
        assert sum(sizes) == steps
        assert len(sizes) < steps
        assert 1 < max(sizes) <= 16


@pytest.mark.skipif(os.environ.get("HYPOTHESIS_PROFILE") != "soak", reason="takes minutes")
@pytest.mark.timeout(1800)
def test_thousand_trials_keep_apart_with_bounded_memory():
    """Every episode has one trial and one actor, all of it, and nobody is remembered."""

    async def play():
        async with stage(length=20, actors=2, batch_size=64, server={"cache_size": 64}) as on:
            rss = resident()
            for turn in range(10):
                trials = await on.play(100)
                known = {trial_number(each) for each in trials}
                newest = on.episodes()[-150:]
                for episode in newest:
                    info = episode.entries.info
                    assert set(info["trial"].tolist()) <= known
                    assert len(set(zip(info["trial"], info["actor"], strict=True))) == 1
                    np.testing.assert_array_equal(info["tick"], np.arange(21))
                    assert len(set(episode.entries.state[:, 0])) == 1
                assert len(on.worker._players) <= on.worker.memory.num_episode()
                if turn == 2:
                    rss = resident()
            assert resident() - rss < 20 << 20

    asyncio.run(play())


def resident():
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@on_loop
async def test_requested_end_stores_a_truncated_episode():
    waits = asyncio.Event()
    asked = asyncio.Event()

    async def hook(environment, update):
        if environment.tick == 3:
            asked.set()
            await waits.wait()

    async with stage(length=100, hook=hook) as on:
        trial = (await on.controller.start_trial()).id
        await asked.wait()
        await on.controller.terminate_trial(trial)
        waits.set()
        await on.ended([trial])
        (episode,) = on.episodes()
        assert episode.truncated
        assert episode.has_final_state
        entries = episode.entries
        # Step 2 was taken, and rewarded; what comes after it is the end's affair.
        assert len(entries.state) >= 4
        np.testing.assert_array_equal(
            entries.reward[:3], [world.reward_of(each) for each in entries.state[:3]]
        )
        assert set(entries.info["trial"]) == {trial_number(trial)}
        np.testing.assert_array_equal(entries.info["tick"], np.arange(len(entries.state)))


@pytest.mark.parametrize("at", [4, 5], ids=["step", "last step"])
@on_loop
async def test_late_rewards_are_added_to_the_rewarded_step(at):
    """Rewards for tick 1 are of step 0; those that come with the last step, too."""

    async def hook(environment, update):
        if environment.tick == at:
            update.rewards = [*update.rewards, sdk.Reward("a0", 2.0, tick=1)]

    async with stage(length=5, hook=hook) as on:
        await on.play()
        (episode,) = on.episodes()
        expected = [world.reward_of((1, 0, k)) for k in range(5)]
        expected[0] += 2.0
        np.testing.assert_array_equal(episode.entries.reward[:-1], expected)
        qvest = 0.0
        for reward in reversed(expected):
            qvest = reward + world.GAMMA * qvest
        assert episode.entries.qvest[0] == pytest.approx(qvest)


@on_loop
async def test_late_rewards_reach_closed_episodes(caplog):
    with world.made_server() as server, network.connected(server, 12) as client:
        async with played(client) as (player, memory):
            before = memory.episode(0)
            player.reward(sdk.ReceivedReward(tick=1, value=2.0))
            after = memory.episode(0)
            assert after.entries.reward[0] == before.entries.reward[0] + 2.0
            assert after.entries.qvest[0] == pytest.approx(before.entries.qvest[0] + 2.0)
            assert after.weight[0] > before.weight[0]
            np.testing.assert_array_equal(after.entries.reward[1:], before.entries.reward[1:])
            assert not caplog.records
            for tick in (0, 5):  # no step is before tick 0, and there were 3
                player.reward(sdk.ReceivedReward(tick=tick, value=2.0))
            memory.clear()
            player.reward(sdk.ReceivedReward(tick=1, value=2.0))
            dropped = [record.getMessage() for record in caplog.records]
            assert len(dropped) == 3
            assert "evicted" in dropped[-1]


@asynccontextmanager
async def played(client):
    """A player that has played three steps, called as the service would, and its memory."""
    with ActorWorker(client, world.decide) as worker:
        player = worker.agent()
        player.start(sdk.Trial("t", (sdk.Actor("a0", "player"),), "a0"))
        for tick in range(3):
            if tick:
                player.reward(sdk.ReceivedReward(tick, 1.0))
            await player.act(sdk.Observation(tick, np.array([1, 0, tick], np.float32)))
        last = sdk.Observation(3, np.array([1, 0, 3], np.float32), terminated=True)
        await player.end(sdk.Final(last, [sdk.ReceivedReward(3, 1.0)]))
        yield player, worker.memory


@on_loop
async def test_lost_environment_ends_the_episode_before_the_last_action():
    async def hook(environment, update):
        if environment.tick == 4:
            raise ArithmeticError("the world is over")

    async with stage(length=9, hook=hook, actors=2) as on:
        (trial,) = await on.play()
        episodes = sorted(on.episodes(), key=lambda each: each.entries.info["actor"][0])
        assert len(episodes) == 2
        for actor, episode in enumerate(episodes):
            assert_happened(episode, trial, actor, on.environments[0], 3, terminated=False)


@on_loop
async def test_environment_lost_before_the_first_step_leaves_no_episode():
    async def hook(environment, update):
        raise ArithmeticError("the world never was")

    async with stage(hook=hook) as on:
        await on.play()
        assert on.episodes() == []
        assert on.worker.memory.total_episodes == 0


@on_loop
async def test_lost_orchestrator_leaves_no_partial_episode():
    async with (
        stage() as on,
        await sdk.serve(agents={"policy": on.worker.agent}) as endpoint,
        grpc.aio.insecure_channel(f"127.0.0.1:{endpoint.port}") as channel,
    ):
        stub = AgentEndpointStub(channel)
        about = (("trial-id", "t"), ("actor-name", "a0"))
        actors = [common.TrialActor(name="a0", actor_class="player")]
        await stub.OnStart(
            agent.AgentStartRequest(impl_name="policy", actors_in_trial=actors), metadata=about
        )
        stream = stub.OnObservation(metadata=about)
        for tick in range(3):
            content = sdk.ArrayCodec().encode(np.array([1, 0, tick], np.float32))
            data = common.ObservationData(content=content, snapshot=True)
            observation = common.Observation(tick_id=tick, data=data)
            await stream.write(agent.AgentObservationRequest(observation=observation))
            await stream.read()
        assert on.worker.memory.num_entry == 2
        stream.cancel()
        await until(lambda: on.worker.memory.num_entry == 0)
        await on.play()
        assert len(on.episodes()) == 1


def test_agents_that_are_lost_before_the_start_or_after_the_end_raise_nothing():
    with (
        world.made_server() as server,
        network.connected(server, 12) as client,
        ActorWorker(client, world.decide) as worker,
    ):
        worker.agent().lost()
        started = worker.agent()
        started.start(sdk.Trial("t", (sdk.Actor("a0", "player"),), "a0"))
        started.lost()
        started.lost()
        assert worker.memory.num_entry == 0


@on_loop
async def test_policy_that_raises_fails_only_its_own_trials(caplog):
    def policy(states):
        if (states[:, 0] == 3).any() and (states[:, 2] == 2).any():
            raise ArithmeticError("cannot decide")
        return world.decide(states)

    async with stage(policy, batch_size=1) as on:
        trials = await on.play(6)
        episodes = on.episodes()
        assert sorted(int(each.entries.state[0, 0]) for each in episodes) == [1, 2, 4, 5, 6]
        assert len(set(trials)) == 6
        with pytest.raises(RuntimeError, match="the policy failed") as caught:
            on.worker.check()
        assert isinstance(caught.value.__cause__, ArithmeticError)
        await on.play()
        assert len(on.episodes()) == 6
    assert "the policy failed" in caplog.text


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda d: d._replace(action=d.action[:0]), id="too few actions"),
        pytest.param(lambda d: d._replace(action=d.action[0]), id="an action for all"),
        pytest.param(lambda d: d._replace(action=d.action + 0.5), id="no integers"),
        pytest.param(lambda d: d._replace(value=d.value[:, None]), id="a column"),
        pytest.param(lambda d: d[:2], id="no value"),
        pytest.param(lambda _: None, id="nothing"),
    ],
)
@on_loop
async def test_wrong_decision_of_the_policy_fails_the_trial(wrong, caplog):
    async with stage(lambda s: wrong(world.decide(s)), actors=2, timeout=0.05) as on:
        await on.play()
        assert on.episodes() == []
        with pytest.raises(RuntimeError):
            on.worker.check()


@on_loop
async def test_state_of_another_shape_fails_its_trial(caplog):
    async def hook(environment, update):
        if environment.number == 1:
            update.observations = np.zeros(4, np.float32)

    async with stage(hook=hook) as on:
        await on.play(2)
        (episode,) = on.episodes()
        assert episode.entries.state[0, 0] == 2
        on.worker.check()


@on_loop
async def test_reward_that_is_not_finite_leaves_no_partial_episode(caplog):
    async def hook(environment, update):
        if environment.number == 1:
            update.rewards = {"a0": float("nan")}

    async with stage(hook=hook) as on:
        await on.play(2)
        (episode,) = on.episodes()
        assert episode.entries.state[0, 0] == 2


@on_loop
async def test_failing_end_drops_the_episode_at_once():
    with (
        world.made_server() as server,
        network.connected(server) as client,
        ActorWorker(client, world.decide) as worker,
    ):
        player = worker.agent()
        player.start(sdk.Trial("t", (sdk.Actor("a0", "player"),), "a0"))
        for tick in range(2):
            await player.act(sdk.Observation(tick, np.array([1, 0, tick], np.float32)))
        assert worker.memory.num_entry == 1
        last = sdk.Observation(2, np.array([1, 0, 2], np.float32), terminated=True)
        with pytest.raises(ValueError, match="finite"):
            await player.end(sdk.Final(last, [sdk.ReceivedReward(2, float("inf"))]))
        assert (worker.memory.num_entry, worker.memory.num_episode()) == (0, 0)


def threads():
    return Counter(
        each.name for each in threading.enumerate() if each.name in ("cogrs-answer", "cogrs-push")
    )


@on_loop
async def test_close_ends_all_threads_and_waits():
    before = threads()
    held = threading.Event()

    def policy(states):
        held.wait(network.SLACK)
        return world.decide(states)

    with world.made_server() as server, network.connected(server) as client:
        worker = ActorWorker(client, policy)
        assert threads() == before + Counter(["cogrs-answer", "cogrs-push"])
        waiting = asyncio.create_task(worker.decide(np.zeros(3, np.float32)))
        await asyncio.sleep(0.02)
        closing = asyncio.create_task(asyncio.to_thread(worker.close))
        with pytest.raises(RuntimeError, match="closed"):
            await waiting
        held.set()
        await closing
        assert threads() == before
        worker.close()
        worker.check()
        with pytest.raises(RuntimeError, match="closed"):
            await worker.decide(np.zeros(3, np.float32))


@pytest.mark.parametrize(
    ("changes", "options", "text"),
    [
        pytest.param({"i": np.int64(0)}, {}, "info_buf", id="other info"),
        pytest.param({"i": np.zeros(2, STEP_INFO)}, {}, "info_buf", id="two infos"),
        pytest.param(
            dict.fromkeys("rvq", np.zeros(2, np.float32)), {}, "reward_buf", id="two rewards"
        ),
        pytest.param({}, {"batch_size": 0}, "batch_size", id="batch_size"),
        pytest.param({}, {"timeout": 0}, "timeout", id="no timeout"),
        pytest.param({}, {"timeout": float("nan")}, "timeout", id="nan"),
        pytest.param({}, {"samples_per_step": -1}, "samples_per_step", id="negative"),
    ],
)
def test_actor_worker_refuses_a_wrong_memory_or_argument(changes, options, text):
    before = threads()
    fields = {"i": np.zeros((), STEP_INFO), **changes}
    with (
        network.started(**fields) as server,
        network.connected(server) as client,
        pytest.raises(ValueError, match=text),
    ):
        ActorWorker(client, lambda states: Decision([], [], []), **options)
    assert threads() == before
