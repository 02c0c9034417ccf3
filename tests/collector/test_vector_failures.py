"""Environments of a vector that raise, return wrong values, or are interrupted."""

from __future__ import annotations

import signal
import sys
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.error import ResetNeeded  # noqa: E402
from gymnasium.vector import SyncVectorEnv  # noqa: E402

from cogrs.collector import GameError, VectorEnv  # noqa: E402
from tests.collector.build import same  # noqa: E402
from tests.collector.sample_environments import Free  # noqa: E402
from tests.program import program  # noqa: E402

THREADS = pytest.mark.parametrize("num_threads", [0, 2])


class Scripted(Free):
    """Raises each exception of its class once, or returns the values of its class."""

    raises: dict[str, BaseException]
    returns: dict[str, Any]

    def __init__(self) -> None:
        super().__init__(length=50)
        self.fail("make")

    def fail(self, where: str) -> None:
        if where in self.raises:
            raise self.raises.pop(where)

    def reset(self, **given: Any) -> Any:
        self.fail("reset")
        return super().reset(**given)

    def step(self, action: Any) -> Any:
        if action == 4:
            self.fail("step")
        result = dict(
            zip(
                ("shown", "reward", "terminated", "truncated", "info"),
                super().step(action),
                strict=True,
            )
        )
        if action == 3:
            result |= self.returns
        return tuple(result.values())


def scripted(
    raises: dict[str, BaseException], returns: dict[str, Any] | None = None
) -> type[Scripted]:
    return type("Scripted", (Scripted,), {"raises": raises, "returns": returns or {}})


def goes_on(envs: VectorEnv, count: int = 3) -> None:
    """Assert that a vector begins again like a new one."""
    theirs = SyncVectorEnv([lambda: Free(length=50)] * count)
    same(envs.reset(seed=9), theirs.reset(seed=9))
    for number in range(60):
        actions = np.full(count, number % 3)
        same(envs.step(actions), theirs.step(actions))


@THREADS
@pytest.mark.parametrize(
    "error", [ZeroDivisionError("told to"), SystemExit(3), AssertionError(), StopIteration("x")]
)
def test_reset_begins_again_after_an_environment_raised(
    error: BaseException, num_threads: int
) -> None:
    envs = VectorEnv(scripted({"step": error}), 3, num_threads=num_threads)
    envs.reset(seed=1)
    with pytest.raises(GameError, match=f"environment 1: {type(error).__name__}") as info:
        envs.step(np.array([0, 4, 0]))
    assert info.value.game == 1
    assert info.value.__cause__ is error
    with pytest.raises(ResetNeeded, match="environment 1"):
        envs.step(np.zeros(3, int))
    with pytest.raises(ResetNeeded, match="environment 1"):
        envs.reset(options={"reset_mask": np.array([False, True, False])})
    goes_on(envs)
    envs.close()


@THREADS
def test_reset_begins_again_after_a_reset_raised(num_threads: int) -> None:
    raises: dict[str, BaseException] = {"reset": OSError("gone")}
    envs = VectorEnv(scripted(raises), 3, num_threads=num_threads)
    with pytest.raises(GameError, match=r"environment [0-2]: OSError: gone"):
        envs.reset(seed=1)
    with pytest.raises(ResetNeeded, match="OSError: gone"):
        envs.step(np.zeros(3, int))
    goes_on(envs)
    raises["reset"] = OSError("again")
    with pytest.raises(GameError, match=r"environment [0-2]: OSError: again"):
        envs.reset()
    goes_on(envs)
    envs.close()


@THREADS
def test_reset_begins_again_after_a_new_environment_could_not_be_made(num_threads: int) -> None:
    raises: dict[str, BaseException] = {"step": OSError("gone")}
    envs = VectorEnv(scripted(raises), 3, num_threads=num_threads)
    envs.reset(seed=1)
    with pytest.raises(GameError, match="environment 2: OSError: gone"):
        envs.step(np.array([0, 0, 4]))
    for word in ("first", "second"):
        raises["make"] = OSError(word)
        with pytest.raises(GameError, match=f"environment 2: OSError: {word}"):
            envs.reset(seed=1)
    goes_on(envs)
    envs.close()


@THREADS
def test_reset_that_fails_between_two_others_names_its_environment(num_threads: int) -> None:
    raises: dict[str, BaseException] = {}
    envs = VectorEnv(scripted(raises), 3, num_threads=num_threads)
    envs.reset(seed=1)
    for _ in range(49):
        envs.step(np.zeros(3, int))
    raises["reset"] = OSError("gone")
    with pytest.raises(GameError, match=r"environment [0-2]: OSError: gone"):
        envs.step(np.zeros(3, int))
    goes_on(envs)
    envs.close()


def test_built_in_games_begin_again_too() -> None:
    envs = VectorEnv("pendulum", 2, seed=1)
    first, _ = envs.reset()
    for _ in range(2):
        with pytest.raises(GameError, match="game 1"):
            envs.step(np.array([[0.0], [np.nan]], np.float32))
        with pytest.raises(ResetNeeded, match="game 1"):
            envs.step(np.zeros((2, 1), np.float32))
        again, _ = envs.reset(seed=1)
        np.testing.assert_array_equal(again, first)
        envs.step(np.zeros((2, 1), np.float32))
    envs.close()


ELEMENTS = [
    lambda value: value,
    lambda value: np.array([value]),
    lambda value: np.array([[value]]),
    lambda value: np.array(value),
    lambda value: np.bool_(value),
    lambda value: [value],
    lambda value: np.float32(value),
    lambda value: int(value),
]


@THREADS
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("field", ["reward", "terminated", "truncated"])
@pytest.mark.parametrize("value", [True, False])
def test_one_element_arrays_are_read_as_scalars(
    element: Any, field: str, value: bool, num_threads: int
) -> None:
    envs = VectorEnv(scripted({}, {field: element(value)}), 3, num_threads=num_threads)
    envs.reset(seed=1)
    _, rewards, terminated, truncated, _ = envs.step(np.full(3, 3))
    given = {"reward": rewards, "terminated": terminated, "truncated": truncated}
    dtypes = [given[name].dtype for name in given]
    assert dtypes == [np.float64, np.bool_, np.bool_]
    assert given[field].tolist() == [value] * 3
    # An ended episode is followed by a new one.
    shown = envs.step(np.zeros(3, int))[0]
    assert shown[:, 1].tolist() == [0 if value and field != "reward" else 2] * 3
    envs.close()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0, 10**18, 1e300])
def test_rewards_equal_the_rewards_of_the_environment(value: float) -> None:
    for given in (value, np.float64(value), np.array([value])):
        envs = VectorEnv(scripted({}, {"reward": given}), 2)
        envs.reset(seed=1)
        np.testing.assert_array_equal(envs.step(np.array([3, 0]))[1], [value, 1])
        envs.close()


def test_one_element_tensors_are_read_as_scalars() -> None:
    torch = pytest.importorskip("torch")
    for reward in (
        torch.tensor(2.5),
        torch.tensor([2.5]),
        torch.tensor([[2.5]], requires_grad=True),
    ):
        returns = {"reward": reward, "terminated": torch.tensor([True]), "info": {"x": 1}}
        envs = VectorEnv(scripted({}, returns), 2)
        envs.reset(seed=1)
        _, rewards, terminated, truncated, infos = envs.step(np.array([3, 0]))
        assert rewards.tolist() == [2.5, 1]
        assert terminated.tolist() == [True, False]
        assert not truncated.any()
        assert infos["_x"].tolist() == [True, False]
        envs.close()


@THREADS
@pytest.mark.parametrize("field", ["reward", "terminated", "truncated"])
@pytest.mark.parametrize(
    "value",
    [
        np.zeros(2),
        np.zeros((1, 3)),
        np.zeros(0),
        [],
        [1, 2],
        "False",
        "1.5",
        b"1",
        None,
        {},
        1j,
        np.array(["x"]),
        np.datetime64("2020-01-01"),
    ],
    ids=repr,
)
def test_reward_or_flag_of_several_values_names_environment_and_field(
    field: str, value: Any, num_threads: int
) -> None:
    envs = VectorEnv(scripted({}, {field: value}), 3, num_threads=num_threads)
    envs.reset(seed=1)
    with pytest.raises(GameError, match=f"environment 1: .*{field}: expected one") as info:
        envs.step(np.array([0, 3, 0]))
    assert info.value.game == 1
    assert isinstance(info.value.__cause__, TypeError | ValueError)
    goes_on(envs)
    envs.close()


@THREADS
@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (np.zeros(3), r"observation: expected float64 \(2,\), got float64 \(3,\)"),
        (5.0, r"observation: expected float64 \(2,\)"),
        (np.zeros((2, 1)), r"observation: expected float64 \(2,\)"),
        ("no", "observation: "),
        (None, "observation: "),
        (np.zeros(2, complex), "observation: cannot convert complex128"),
    ],
)
def test_observation_outside_its_space_names_the_environment(
    shown: Any, words: str, num_threads: int
) -> None:
    envs = VectorEnv(scripted({}, {"shown": shown}), 3, num_threads=num_threads)
    envs.reset(seed=1)
    with pytest.raises(GameError, match=f"environment 2: .*{words}"):
        envs.step(np.array([0, 0, 3]))
    goes_on(envs)
    envs.close()


def test_step_that_returns_another_tuple_names_the_environment() -> None:
    class Old(Free):
        def step(self, action: Any) -> Any:
            result = super().step(action)
            return (*result[:3], {}) if action == 3 else None if action == 4 else result

    for action in (3, 4):
        envs = VectorEnv(Old, 3)
        envs.reset(seed=1)
        with pytest.raises(GameError, match=r"environment 1: (ValueError|TypeError)"):
            envs.step(np.array([0, action, 0]))
        envs.close()


@pytest.mark.parametrize("where", ["step", "reset", "make", "between"])
def test_interrupt_leaves_a_vector_that_is_usable(where: str) -> None:
    raises: dict[str, BaseException] = {}
    envs = VectorEnv(scripted(raises), 3)
    envs.reset(seed=1)
    envs.step(np.zeros(3, int))
    if where in ("step", "between", "make"):
        raises["step"] = KeyboardInterrupt()
        if where == "make":
            raises["make"] = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            envs.step(np.array([0, 4, 0]))
        if where == "make":
            with pytest.raises(KeyboardInterrupt):
                envs.step(np.zeros(3, int))
        shown, rewards, *_ = envs.step(np.zeros(3, int))
        moved = 4 if where == "make" else 3
        # The first had moved, the second begins an episode, the third had not moved.
        assert shown[:, 1].tolist() == [moved, 0, 2]
        assert rewards.tolist() == [moved, 0, 2]
    else:
        raises["reset"] = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            envs.reset(seed=5)
        shown, rewards, *_ = envs.step(np.zeros(3, int))
        assert shown.tolist() == [[5, 0], [6, 0], [7, 0]]
        assert not rewards.any()
    goes_on(envs)
    envs.close()


INTERRUPTED = """
import signal, sys
import numpy as np
from tests.collector.sample_environments import Free
from cogrs.collector import VectorEnv
def interrupt(*_):
    raise KeyboardInterrupt
envs = VectorEnv(lambda: Free(length=7), 4, num_threads=THREADS)
envs.reset(seed=1)
signal.signal(signal.SIGALRM, interrupt)
interrupted = steps = 0
last = None
while interrupted < 400 or steps < 400:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0003 + interrupted * 1e-6, 1)
        while True:
            shown, rewards, terminated, truncated, _ = envs.step(np.zeros(4, int))
            steps += 1
            assert (shown[:, 1] == rewards).all(), (shown, rewards)
            assert (terminated == (shown[:, 1] == 6)).all()
            assert (shown[:, 1] <= 6).all()
    except KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)
        interrupted += 1
for _ in range(20):
    shown, rewards, *_ = envs.step(np.zeros(4, int))
    assert (shown[:, 1] == rewards).all()
envs.close()
print("goes on")
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals of POSIX")
@THREADS
def test_interrupts_at_any_moment_leave_a_vector_that_goes_on(num_threads: int) -> None:
    with program(INTERRUPTED.replace("THREADS", str(num_threads))) as process:
        out, err = process.communicate(timeout=100)
    assert (out, err) == ("goes on\n", "")


@pytest.mark.parametrize("kind", [OSError, SystemExit])
def test_close_that_raises_is_logged_and_the_others_are_closed(
    caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    class Stuck(Free):
        def close(self) -> None:
            super().close()
            raise kind("stuck")

    envs = VectorEnv(Stuck, 3)
    made = envs.envs[:]
    envs.close()
    assert all(each.closed for each in made)
    assert caplog.text.count(f"{kind.__name__}: stuck") == 3


@pytest.mark.skipif(sys.platform == "win32", reason="forks of POSIX")
def test_threads_are_refused_after_a_fork() -> None:
    script = """
import os
import numpy as np
from tests.collector.sample_environments import Free
from cogrs.collector import VectorEnv
envs = VectorEnv(Free, 2, num_threads=2)
envs.reset(seed=1)
child = os.fork()
if child == 0:
    try:
        envs.step(np.zeros(2, int))
    except RuntimeError as error:
        os.write(1, f"refused: {error}\\n".encode())
    envs.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
envs.step(np.zeros(2, int))
envs.close()
print("goes on")
"""
    with program(script) as process:
        out, _ = process.communicate(timeout=100)
    refused, on = out.splitlines()
    assert refused.startswith("refused: ")
    assert "fork" in refused
    assert on == "goes on"


def test_new_environments_get_the_given_seeds() -> None:
    raises: dict[str, BaseException] = {}
    envs = VectorEnv(scripted(raises), 2, seed=3)
    for seed, expected in zip((None, 5, [8, None]), ([3, 4], [5, 6], [8, 7]), strict=True):
        shown, _ = envs.reset(seed=seed)
        assert shown[:, 0].tolist() == expected
        raises["step"] = OSError("gone")
        with pytest.raises(GameError):
            envs.step(np.array([0, 4]))
    envs.close()
