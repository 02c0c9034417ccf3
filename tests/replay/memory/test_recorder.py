"""The steps of a vector environment become the episodes that a loop by hand makes of them."""

from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory
from cogrs.replay import Recorder
from cogrs.replay.recorder import NO_ENTRY
from tests.replay.build import described

gymnasium = pytest.importorskip("gymnasium")
AutoresetMode = gymnasium.vector.AutoresetMode
MODES = {"next_step": AutoresetMode.NEXT_STEP, "same_step": AutoresetMode.SAME_STEP}
N, STEPS, GAMMA = 3, 40, 0.9
DICT = np.dtype([("at", "f4", (2,)), ("inner", [("number", "i8")])])


class Counting(gymnasium.Env[Any, Any]):
    """Ends after 3 + number steps, in turn terminated and truncated; shows where it stands."""

    action_space = gymnasium.spaces.Discrete(5)

    def __init__(self, number: int, nested: bool = False) -> None:
        self.number, self.nested, self.episodes = number, nested, 0
        self.observation_space = gymnasium.spaces.Box(-1e9, 1e9, (2,), np.float32)
        if nested:
            inner = gymnasium.spaces.Dict({"number": gymnasium.spaces.Discrete(100)})
            parts = {"at": self.observation_space, "inner": inner}
            self.observation_space = gymnasium.spaces.Dict(parts)

    def shown(self) -> Any:
        at = np.array([self.episodes * 100 + self.number, self.steps], np.float32)
        return {"at": at, "inner": {"number": np.int64(self.number)}} if self.nested else at

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        self.episodes += 1
        return self.shown(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        over = self.steps == 3 + self.number
        terminated = over and self.episodes % 2 == 1
        return self.shown(), float(action) + self.steps, terminated, over and not terminated, {}


def vector(mode: str, nested: bool = False) -> Any:
    return gymnasium.vector.SyncVectorEnv(
        [lambda number=number: Counting(number, nested) for number in range(N)],
        autoreset_mode=MODES[mode],
    )


def memory(dtype: Any = np.float32, shape: tuple[int, ...] = (2,)) -> ReplayMemory:
    scalar = np.float32(0)
    state = np.zeros(shape, dtype)
    made = ReplayMemory(state, np.int64(0), scalar, scalar, scalar, scalar, np.int32(0), 1_000)
    made.discount_factor = GAMMA
    return made


def actions_of(step: int) -> Any:
    return (np.arange(N) + step) % 5


def value_of(states: Any) -> Any:
    """What a learner's net might say."""
    at = states["at"] if states.dtype.names else states
    return at.sum(-1).astype(np.float32)


def state_of(shown: Any, env: int) -> Any:
    """One observation of a batch, as the memory stores it."""
    if not isinstance(shown, dict):
        return shown[env]
    made = np.zeros((), DICT)
    made["at"] = shown["at"][env]
    made["inner"]["number"] = shown["inner"]["number"][env]
    return made


def episodes_by_hand(mode: str, nested: bool) -> dict[int, list[Any]]:
    """Episodes of each environment, moved on its own by the actions that it takes."""
    found: dict[int, list[Any]] = {}
    for number in range(N):
        rem = memory(DICT, ()) if nested else memory()
        env = Counting(number, nested)
        seen, resets = env.reset()[0], False
        rem.new_episode()
        for step in range(STEPS):
            if resets:  # the step that a NEXT_STEP environment spends on its reset
                seen, resets = env.reset()[0], False
                rem.new_episode()
                if mode == "next_step":
                    continue
            action = actions_of(step)[number]
            after, reward, terminated, truncated, _ = env.step(action)
            before = _single(seen, nested)
            rem.add_entry(before, action, reward, 0.5, value_of(before), step, 1.0)
            seen = after
            if terminated or truncated:
                last = _single(after, nested)
                end = {} if terminated else {"bootstrap_value": value_of(last)}
                rem.close_episode(final_state=last, **end)
                resets = True
        found[number] = [described(rem.episode(k)) for k in range(rem.num_episode())]
    return found


def _single(shown: Any, nested: bool) -> Any:
    if not nested:
        return shown
    batch = {"at": shown["at"][None], "inner": {"number": [shown["inner"]["number"]]}}
    return state_of(batch, 0)


def number_of(episode: Any) -> int:
    first = episode.entries.s[0]
    at = first["at"] if first.dtype.names else first
    return int(at[0]) % 100


def recorded(mode: str, nested: bool, how: str) -> dict[int, list[Any]]:
    rem = memory(DICT, ()) if nested else memory()
    envs = vector(mode, nested)
    recorder = rem.recorder(N, mode)
    seen, _ = envs.reset()
    for step in range(STEPS):
        actions = actions_of(step)
        after, reward, terminated, truncated, infos = envs.step(actions)
        states = np.stack([state_of(seen, env) for env in range(N)])
        given: dict[str, Any] = {"next_obs": after if mode == "next_step" else None}
        if how == "later":
            given = {}
        if mode == "same_step":
            given = {"infos": infos, "next_obs": after if how == "array" else None}
        bootstrap: Any = value_of
        if how == "array":
            bootstrap = np.zeros(N, np.float32)
            finals = infos.get("final_obs", [None] * N)
            for env in range(N):
                last = finals[env]
                shown = state_of(after, env) if last is None else _single(last, nested)
                bootstrap[env] = value_of(shown)
        recorder.add(
            seen,
            actions,
            reward,
            terminated,
            truncated,
            **given,
            bootstrap_value=bootstrap,
            prob=np.full(N, 0.5),
            value=value_of(states),
            info=np.full(N, step),
        )
        seen = after
    found: dict[int, list[Any]] = {number: [] for number in range(N)}
    for k in range(rem.num_episode()):
        episode = rem.episode(k)
        found[number_of(episode)].append(described(episode))
    return found


@pytest.mark.parametrize("nested", [False, True], ids=["Box", "Dict"])
@pytest.mark.parametrize("how", ["callable", "array", "later"])
@pytest.mark.parametrize("mode", MODES)
def test_episodes_equal_a_hand_written_loop(mode: str, how: str, nested: bool) -> None:
    ours, theirs = recorded(mode, nested, how), episodes_by_hand(mode, nested)
    for number in range(N):
        expected = theirs[number]
        if how == "later" and mode == "next_step":
            # The last observation of an episode that ended in the last step has not come yet.
            expected = expected[: len(ours[number])]
            assert len(theirs[number]) - len(expected) <= 1
        assert len(expected) >= 5
        assert str(ours[number]) == str(expected)  # arrays in records have no one truth


def step_of(count: int = 2, **changes: Any) -> dict[str, Any]:
    given = {
        "obs": np.zeros((count, 2)),
        "action": np.zeros(count, int),
        "reward": np.zeros(count),
        "terminated": np.zeros(count, bool),
        "truncated": np.zeros(count, bool),
    }
    return given | changes


def test_truncated_episode_without_a_value_bootstraps_with_zero() -> None:
    rem = memory()
    recorder = rem.recorder(2)
    assert isinstance(recorder, Recorder)
    ids = recorder.add(**step_of(reward=np.ones(2)), next_obs=np.ones((2, 2)))
    assert (ids != NO_ENTRY).all()
    ids = recorder.add(**step_of(truncated=[True, False]), next_obs=np.ones((2, 2)))
    assert rem.num_episode() == 1
    episode = rem.episode(0)
    assert (episode.truncated, episode.has_final_state) == (True, True)
    assert episode.entries.q.tolist() == [1, 0, 0]
    assert ids.dtype == np.uint64
    assert rem.update_priority(ids, 1.0) == 0
    assert recorder.add(**step_of(), next_obs=np.ones((2, 2)))[0] == NO_ENTRY
    recorder.reset()
    assert rem.num_entry == 3
    assert (recorder.add(**step_of()) != NO_ENTRY).all()


def test_final_observations_with_a_recorder_for_the_other_mode_are_refused() -> None:
    rem = memory()
    recorder = rem.recorder(2, "next_step")
    infos = {"final_obs": np.array([np.zeros(2), None], object)}
    for after in (None, np.ones((2, 2))):
        with pytest.raises(ValueError, match=r"infos: expected no 'final_obs', .*'same_step'"):
            recorder.add(**step_of(terminated=[True, False]), next_obs=after, infos=infos)
    assert rem.num_entry == 0


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"obs": np.zeros((3, 2))}, ValueError, r"obs: expected float32 \(2, 2\), got"),
        ({"obs": {"at": 1}}, ValueError, "obs: expected an array, got at"),
        ({"action": np.zeros(3, int)}, ValueError, r"action: expected int64 \(2,\), got"),
        ({"action": [0.5, 0.5]}, TypeError, "action: expected int64"),
        ({"reward": [0, np.nan]}, ValueError, "reward: .* got nan of environment 1"),
        ({"value": [np.inf, 0]}, ValueError, "value: .* got inf of environment 0"),
        ({"init_w": [1, -1]}, ValueError, r"init_w: .* got -1\.0 of environment 1"),
        ({"init_w": [1, 1e300]}, ValueError, r"init_w: .* got 1e\+300 of environment 1"),
        ({"init_w": [1, 1, 1]}, ValueError, r"init_w: expected shape \(2,\) or one number, got"),
        ({"init_w": [[1, 1]]}, ValueError, "init_w: expected a number or one dimension, got"),
        ({"terminated": [0.5, 0]}, ValueError, "terminated: expected truth values"),
        ({"truncated": [False]}, ValueError, "truncated: expected truth values"),
        ({"speed": [1, 2]}, TypeError, "speed: expected one of the fields prob, value, info"),
        ({"v": [1, 2], "value": [1, 2]}, TypeError, "expected each field once, got v, value"),
        ({"next_obs": np.zeros(2)}, ValueError, "next_obs: expected float32"),
        (
            {"truncated": [True, True], "bootstrap_value": [1, 2, 3]},
            ValueError,
            r"bootstrap_value: expected float32 \(2,\), got",
        ),
        (
            {"truncated": [True, True], "bootstrap_value": [np.nan, 0.0]},
            ValueError,
            "bootstrap_value: expected finite",
        ),
        (
            {"truncated": [True, True], "bootstrap_value": [True, True]},
            TypeError,
            "bootstrap_value: expected a number, or None where it terminated, got",
        ),
    ],
    ids=str,
)
def test_bad_step_is_refused_by_name_and_nothing_is_stored(
    changes: dict[str, Any], error: type[Exception], match: str
) -> None:
    rem = memory()
    recorder = rem.recorder(2)
    recorder.add(**step_of())
    with pytest.raises(error, match=match):
        recorder.add(**step_of() | changes)
    assert rem.num_entry == 2
    recorder.add(**step_of())
    assert rem.num_entry == 4


def test_same_step_needs_last_observations() -> None:
    rem = memory()
    recorder = rem.recorder(2, AutoresetMode.SAME_STEP)
    with pytest.raises(ValueError, match="next_obs: expected the last observations"):
        recorder.add(**step_of(terminated=[True, False]))
    assert rem.num_entry == 0
    recorder.add(**step_of(terminated=[True, False]), next_obs=np.ones((2, 2)))
    assert rem.episode(0).entries.s.tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize("mode", MODES)
def test_recorder_of_a_vector_environment_takes_its_number_and_mode(mode: str) -> None:
    envs = vector(mode)
    recorder = memory().recorder(envs)
    assert (recorder.num_envs, recorder.autoreset_mode) == (envs.num_envs, mode)
    assert memory().recorder(envs, "same_step").autoreset_mode == "same_step"
    envs.close()


def test_recorder_of_a_vector_environment_without_autoreset_is_refused() -> None:
    envs = gymnasium.vector.SyncVectorEnv(
        [lambda: Counting(0)], autoreset_mode=AutoresetMode.DISABLED
    )
    with pytest.raises(ValueError, match="autoreset_mode: expected 'next_step' or 'same_step'"):
        memory().recorder(envs)


def test_error_without_room_names_the_environment() -> None:
    scalar = np.float32(0)
    state = np.zeros(2, np.float32)
    rem = ReplayMemory(state, np.int64(0), scalar, scalar, scalar, scalar, np.int32(0), 3)
    recorder = rem.recorder(2)
    recorder.add(**step_of())
    with pytest.raises(RuntimeError, match="environment 1: its episode is dropped: no room"):
        recorder.add(**step_of())
    assert rem.num_entry == 2
    recorder.reset()
    assert (recorder.add(**step_of()) != NO_ENTRY).all()


@pytest.mark.parametrize(
    ("number", "mode", "error", "match"),
    [
        (
            0,
            None,
            ValueError,
            "num_envs: expected an integer >= 1 and at most max_step = .*, got 0",
        ),
        (10**6, None, ValueError, "at most max_step = .*, got 1000000"),
        (10**300, None, ValueError, "at most max_step = .*, got an integer of 997 bits"),
        (
            True,
            None,
            TypeError,
            "integer >= 1 or a vector environment, got bool",
        ),
        (
            2.0,
            None,
            TypeError,
            "integer >= 1 or a vector environment, got float",
        ),
        (2, "disabled", ValueError, "autoreset_mode: expected 'next_step' or 'same_step'"),
        (2, AutoresetMode.DISABLED, ValueError, "autoreset_mode: expected 'next_step'"),
        (2, "", ValueError, "autoreset_mode: expected 'next_step' or 'same_step', got ''"),
        (2, False, ValueError, "autoreset_mode: expected 'next_step' or 'same_step', got False"),
        (2, 0, ValueError, "autoreset_mode: expected 'next_step' or 'same_step', got 0"),
    ],
)
def test_bad_recorder_is_refused_by_name(
    number: Any, mode: Any, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        memory().recorder(number, mode)


@pytest.mark.parametrize("name", ["do_update_value", "do_update_weight"])
@pytest.mark.parametrize("flag", ["yes", 2, 1.0, []])
def test_recorder_with_a_flag_of_another_type_is_refused(name: str, flag: Any) -> None:
    with pytest.raises(TypeError, match=f"{name}: expected True or False, got"):
        memory().recorder(2, **{name: flag})


@pytest.mark.parametrize("flag", [True, 1, np.True_, False, 0, np.False_])
def test_recorder_takes_the_flags_of_close_episode(flag: Any) -> None:
    rem = memory()
    recorder = rem.recorder(2, do_update_value=flag)
    step = step_of(terminated=[True, True]) | {"reward": np.ones(2)}
    recorder.add(**step, next_obs=np.ones((2, 2)))
    assert rem.episode(0).entries.q.tolist() == [float(flag), 0]


def test_recorder_that_could_never_close_an_episode_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"do_update_weight: expected False where .*value is False"
    ):
        memory().recorder(2, do_update_value=False, do_update_weight=True)
    scalar, empty = np.float32(0), np.zeros(0, np.float32)
    rem = ReplayMemory(scalar, scalar, scalar, scalar, empty, empty, scalar, 9)
    with pytest.raises(ValueError, match="do_update_value: expected False where value_buf"):
        rem.recorder(2, do_update_value=True)
    with pytest.raises(ValueError, match="do_update_value: expected False where value_buf"):
        rem.recorder(2, do_update_weight=True, do_update_value=True)


@pytest.mark.parametrize("raised", [KeyError, ValueError, RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_failing_bootstrap_function_leaves_the_recorder_unchanged(
    mode: str, raised: type[BaseException]
) -> None:
    broken = True

    def value(states: Any) -> Any:
        if broken:
            raise raised("broken")
        return states[:, 0]

    rem = memory()
    recorder = rem.recorder(2, mode)
    last = {} if mode == "next_step" else {"next_obs": np.ones((2, 2))}
    end = {**step_of(truncated=[True, True]), **last, "bootstrap_value": value}
    if mode == "next_step":
        recorder.add(**end)
        end = step_of() | {"obs": np.ones((2, 2))}
    before = rem.num_entry
    for _ in range(2):
        with pytest.raises(raised, match="broken"):
            recorder.add(**end)
        assert (rem.num_entry, rem.num_episode()) == (before, 0)
    broken = False
    recorder.add(**end)
    assert rem.num_episode() == 2
    assert [rem.episode(k).entries.s.tolist() for k in range(2)] == [[[0, 0], [1, 1]]] * 2
    assert [rem.episode(k).entries.v.tolist() for k in range(2)] == [[0, 1]] * 2


def test_bootstrap_function_gets_all_truncated_episodes_of_a_step_at_once() -> None:
    seen = []

    def value(states: Any) -> Any:
        seen.append(states.tolist())
        return states[:, 0]

    recorder = memory().recorder(2)
    recorder.add(**step_of(truncated=[True, True]), bootstrap_value=value)
    recorder.add(**step_of() | {"obs": np.array([[1, 1], [2, 2]])})
    assert seen == [[[1, 1], [2, 2]]]


def test_final_observations_that_lack_an_environment_are_refused() -> None:
    rem = memory()
    recorder = rem.recorder(2, "same_step")
    with pytest.raises(ValueError, match=r"infos\['final_obs'\]: expected .* 2 .*, got 1"):
        recorder.add(
            **step_of(terminated=[False, True]), infos={"final_obs": [np.ones(2, np.float32)]}
        )
    assert rem.num_entry == 0
