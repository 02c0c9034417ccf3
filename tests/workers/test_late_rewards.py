"""Rewards that come after a trial, states of recurrent policies, actors that are finished early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cogrs import sdk
from cogrs.workers import ActorWorker, Decision, trial_number
from tests.orchestrator.net import on_loop
from tests.replay import network
from tests.workers import world
from tests.workers.world import stage


@on_loop
async def test_reward_after_the_trial_reaches_its_step_and_the_next_sample() -> None:
    async with stage(length=4, actors=2) as on:
        trials = await on.play(3)
        worker, memory = on.worker, on.worker.memory
        assert len(on.episodes()) == 6

        def share() -> float:
            """What is drawn of the episode, of all that is drawn."""
            drawn = memory.get_batch(2000).prev.info
            mine = (drawn["trial"] == trial_number(trials[1])) & (drawn["actor"] == 1)
            return float(mine.mean())

        before = share()
        assert worker.add_reward(trials[1], "a1", 2, 50.0)
        (episode,) = [each for each in on.episodes() if each.entries.reward.max() > 40]
        assert int(episode.entries.info["actor"][0]) == 1
        assert int(episode.entries.info["trial"][0]) == trial_number(trials[1])
        assert int(np.argmax(episode.entries.reward)) == 1  # tick 2 is of step 1
        assert share() > before + 0.1
        assert worker.dropped_rewards == 0


@on_loop
async def test_rewards_of_steps_that_are_gone_or_never_were_are_counted() -> None:
    async with stage(length=4) as on:
        (trial,) = await on.play()
        worker = on.worker
        for given in ((trial, "a0", 0), (trial, "a0", 6), (trial, "b", 1), ("no trial", "a0", 1)):
            assert not worker.add_reward(*given, 1.0)
        assert worker.dropped_rewards == 4
        with pytest.raises(ValueError, match="finite"):
            worker.add_reward(trial, "a0", 1, float("nan"))
        worker.memory.clear()
        assert not worker.add_reward(trial, "a0", 1, 1.0)
        assert worker.dropped_rewards == 5
        await on.play(3)
        assert len(worker._players) == 3, "players of evicted episodes are forgotten"


@on_loop
async def test_each_actor_of_each_trial_has_its_own_recurrent_state() -> None:
    """The policy counts its calls for a trial, and says so by its value."""

    def policy(states: Any, counts: Any) -> Decision:
        assert counts.shape == (len(states), 2)
        return Decision(
            world.action_of(states), world.prob_of(states), counts[:, 0], counts + np.array([1, 0])
        )

    async with stage(policy, length=6, actors=2, recurrent=np.zeros(2), timeout=0.005) as on:
        await on.play(10)
        episodes = on.episodes()
        assert len(episodes) == 20
        for episode in episodes:
            np.testing.assert_array_equal(episode.entries.value[:-1], np.arange(6))


@on_loop
async def test_memory_stores_the_recurrent_states_that_the_policy_had() -> None:
    """The state counts the steps of a trial, from the memory's first one."""

    def policy(states: Any, counts: Any) -> Decision:
        return world.decide(states)._replace(recurrent=counts + 1)

    server = {"recurrent": np.full(2, 10.0), "recurrent_period": 2}
    async with stage(policy, length=6, actors=2, server=server) as on:
        await on.play(4)
        rem = on.worker.memory
        assert rem.recurrent_period == 2
        drawn = rem.sample_sequences(100, 1, sampler="uniform")
        first = [int(rem.episode(at).id[0]) for at in range(rem.num_episode())]
        for row, anchor in enumerate(drawn.anchor_id.tolist()):
            begin = (anchor - max(each for each in first if each <= anchor)) // 2 * 2
            assert drawn.recurrent[row].tolist() == [10 + begin] * 2


@on_loop
async def test_worker_refuses_another_recurrent_state_than_the_memory_stores() -> None:
    with pytest.raises(ValueError, match=r"recurrent: expected the memory's, float64 \(2,\)"):
        async with stage(recurrent=np.zeros(2), server={"recurrent": np.ones(2)}):
            pass


@on_loop
async def test_undeclared_recurrent_state_is_an_error(caplog: Any) -> None:
    def policy(states: Any) -> Decision:
        return world.decide(states)._replace(recurrent=states)

    async with stage(policy) as on:
        await on.play()
        with pytest.raises(RuntimeError) as caught:
            on.worker.check()
        assert "recurrent: expected None" in str(caught.value.__cause__)


@on_loop
async def test_actor_that_finishes_early_closes_its_episode_at_its_last_step() -> None:
    async def hook(environment: Any, update: sdk.Update) -> None:
        if environment.tick == 2:
            update.terminated = {"a0": True}
        elif environment.tick > 2:
            # It is sent nothing more, but what it shows is not looked at.
            update.rewards = [each for each in update.rewards if each.receiver == "a1"]
            if environment.tick == environment.length:
                update.terminated = {"a0": True, "a1": True}

    async with stage(length=5, actors=2, hook=hook) as on:
        await on.play()
        episodes = sorted(on.episodes(), key=lambda each: each.entries.info["actor"][0])
        assert [len(each.entries.reward) - 1 for each in episodes] == [2, 5]
        for episode in episodes:
            assert not episode.truncated
            assert episode.entries.info["terminated"].tolist()[-1]
            rewards = [world.reward_of(each) for each in episode.entries.state[:-1]]
            np.testing.assert_array_equal(episode.entries.reward[:-1], rewards)
        assert on.worker.dropped_rewards == 0


@on_loop
async def test_reward_late_by_one_tick_is_added_to_its_step() -> None:
    asked: list[float] = []

    def decide(states: np.ndarray) -> Decision:
        asked.extend(states[:, 2])
        return world.decide(states)

    with (
        world.made_server() as server,
        network.connected(server) as client,
        ActorWorker(client, decide) as worker,
    ):
        player = worker.agent()
        player.start(sdk.Trial("t", (sdk.Actor("a0", "player"),), "a0"))
        for tick in range(2):
            await player.act(sdk.Observation(tick, np.array([1, 0, tick], np.float32)))
            for value in (0.25, 0.75):
                player.reward(sdk.ReceivedReward(tick + 1, value))
        player.reward(sdk.ReceivedReward(1, 2.0))
        player.reward(sdk.ReceivedReward(0, 9.0))  # before which nobody has acted
        # What comes once it is finished is not looked at, whatever it says.
        for tick in (2, 3):
            shown = np.array([1, 0, tick], np.float32)
            await player.act(sdk.Observation(tick, shown, terminated=True))
        await player.end(sdk.Final(None, []))
        (episode,) = [worker.memory.episode(0)]
        assert worker.memory.num_episode() == 1
        assert episode.entries.reward[:-1].tolist() == [3.0, 1.0]
        assert worker.dropped_rewards == 1
    assert asked == [0, 1]


@on_loop
async def test_episode_ends_with_the_unanswered_observation() -> None:
    with (
        world.made_server() as server,
        network.connected(server) as client,
        ActorWorker(client, world.decide) as worker,
    ):
        player = worker.agent()
        player.start(sdk.Trial("t", (sdk.Actor("a0", "player"),), "a0"))
        for tick in range(2):
            await player.act(sdk.Observation(tick, np.array([1, 0, tick], np.float32)))
        await player.see(sdk.Observation(2, np.array([1, 0, 2], np.float32)))
        last = sdk.Observation(3, np.array([1, 0, 3], np.float32), terminated=True)
        await player.end(sdk.Final(last, [sdk.ReceivedReward(3, 1.0)]))
        (episode,) = [worker.memory.episode(0)]
        assert episode.entries.state[:, 2].tolist() == [0, 1, 2]
        assert episode.truncated
