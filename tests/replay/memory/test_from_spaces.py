"""Memories for Gymnasium spaces: their templates, and the values that come back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import cogrs
import cogrs.jax
import cogrs.torch
from cogrs import ReplayMemory, ReplayMemoryClient, ReplayMemoryServer

Space = gymnasium.Space[Any]
BOX = spaces.Box(-1, 1, (2, 3), np.float32)
NESTED = spaces.Dict(
    {
        "image": spaces.Box(0, 255, (4, 4), np.uint8),
        "pair": spaces.Tuple((spaces.Discrete(5, start=-2), spaces.MultiBinary(3))),
        "inner": spaces.Dict({"x": BOX, "choices": spaces.MultiDiscrete([3, 4], start=[1, 0])}),
    }
)
SPACES = {
    "box": BOX,
    "box of numbers": spaces.Box(0, 9, (), np.float32),
    "bytes": spaces.Box(0, 255, (3,), np.uint8),
    "discrete": spaces.Discrete(4),
    "discrete with a start": spaces.Discrete(4, start=-7),
    "discrete beyond int32": spaces.Discrete(4, start=2**40),
    "choices": spaces.MultiDiscrete([[3, 4], [5, 6]]),
    "bits": spaces.MultiBinary((2, 3)),
    "dict": spaces.Dict({"a": spaces.Discrete(3), "b": BOX}),
    "one part": spaces.Dict({"a": BOX}),
    "tuple": spaces.Tuple((BOX, spaces.Discrete(2), spaces.Discrete(2))),
    "tuple of a dict": spaces.Tuple((spaces.Dict({"0": spaces.Discrete(3)}), spaces.Tuple((BOX,)))),
    "dict that looks like a tuple": spaces.Dict({"0": spaces.Discrete(3), "1": BOX}),
    "nested": NESTED,
}
EVERY = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
EMPTY = np.zeros(0, np.float32)


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in leaves(value[key])]
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


def form(value: Any) -> Any:
    """What a value is made of, without its leaves."""
    if isinstance(value, dict):
        return {key: form(part) for key, part in value.items()}
    return tuple(map(form, value)) if isinstance(value, tuple) else None


def assert_same(found: Any, expected: Any) -> None:
    assert form(found) == form(expected)
    for one, other in zip(leaves(found), leaves(expected), strict=True):
        np.testing.assert_array_equal(one, other)


def row(value: Any, *at: int) -> Any:
    if isinstance(value, dict):
        return {key: row(part, *at) for key, part in value.items()}
    return tuple(row(part, *at) for part in value) if isinstance(value, tuple) else value[at]


def filled(observations: Space, actions: Space, **settings: Any) -> tuple[ReplayMemory, Any, Any]:
    """A memory of one episode of 6 steps, and its observations and actions."""
    rem = ReplayMemory.from_spaces(observations, actions, 32, seed=0, **settings)
    obs, acts = [observations.sample() for _ in range(7)], [actions.sample() for _ in range(6)]
    rem.new_episode()
    for state, action in zip(obs, acts, strict=False):
        rem.add_entry(
            state=state, action=action, reward=1.0, prob=1.0, value=0.0, info=EMPTY, init_w=1.0
        )
    rem.close_episode(terminated=True, final_state=obs[-1])
    return rem, obs, acts


@EVERY
def test_stored_entries_come_back_in_samples_and_episodes(space: Space) -> None:
    rem, obs, acts = filled(space, space)
    entries = rem.episode(0).entries
    first = int(rem.episode(0).id[0])
    for k, (state, action) in enumerate(zip(obs, acts, strict=False)):
        assert_same(row(entries.s, k), state)
        assert_same(row(entries.a, k), action)
    for batch in (rem.sample(20), rem.sample(20, beta=0.4, nstep_return=True)):
        for at, id in enumerate(batch.id.tolist()):
            assert_same(row(batch.prev.s, at, 0), obs[id - first])
            assert_same(row(batch.next.s, at, 0), obs[id - first + 1])
            assert_same(row(batch.prev.a, at), acts[id - first])
    assert form(rem.get_batch(2).prev.s) == form(obs[0])


@EVERY
def test_dtypes_follow_the_space_or_are_int32(space: Space) -> None:
    sample = filled(space, space)[0].sample(3)
    for found, given in zip(leaves(sample.prev.s), leaves(space.sample()), strict=True):
        expected = np.asarray(given).dtype
        narrow = expected == np.int64 and space != SPACES["discrete beyond int32"]
        assert found.dtype == (np.int32 if narrow else expected)


@EVERY
@pytest.mark.parametrize("take", [cogrs.torch.as_tensors, cogrs.jax.as_arrays])
def test_frameworks_convert_dicts_and_tuples_of_arrays(
    space: Space, take: Callable[[Any], Any]
) -> None:
    if space == SPACES["discrete beyond int32"] and take is cogrs.jax.as_arrays:
        pytest.skip("JAX has no integers of 64 bits")
    sample = filled(space, space, frame_stack=2)[0].sample(4, beta=0.5)
    taken = take(sample)
    assert_same(taken.prev.s, sample.prev.s)
    assert_same(taken.next.a, sample.next.a)
    assert not any(isinstance(leaf, np.ndarray) for leaf in leaves(taken.prev.s))


@EVERY
def test_samples_and_buffers_are_filled_again(space: Space) -> None:
    rem = filled(space, space)[0]
    out = rem.sample(5)
    assert rem.sample(5, out=out) is out
    tensors = cogrs.torch.buffers(out)
    assert form(tensors.prev.s) == form(out.prev.s)
    for each in (tensors, cogrs.torch.as_arrays(tensors)):
        rem.sample(5, out=each)
        taken = {id: at for at, id in enumerate(np.asarray(tensors.id).tolist())}
        for at, id in enumerate(rem.episode(0).id.tolist()):
            if id in taken:
                assert_same(row(tensors.prev.s, taken[id], 0), row(rem.episode(0).entries.s, at))


@EVERY
@pytest.mark.parametrize("call", ["add_entries", "add_episode"])
def test_many_steps_are_given_as_dicts_and_tuples_of_arrays(space: Space, call: str) -> None:
    rem, obs, _ = filled(space, space)
    entries = rem.episode(0).entries
    states, actions = row(entries.s, slice(0, 6)), row(entries.a, slice(0, 6))
    rem.new_episode()
    getattr(rem, call)(
        state=states,
        action=actions,
        reward=np.ones(6),
        prob=np.ones(6),
        value=np.zeros(6),
        info=np.zeros((6, 0)),
        init_w=1.0,
    )
    if call == "add_entries":
        rem.close_episode(terminated=True)
    assert_same(rem.episode(1).entries.s, states)
    assert_same(rem.episode(1).entries.a, actions)
    assert_same(row(rem.episode(1).entries.s, 5), obs[5])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"image": np.zeros((3, 4, 4), np.uint8)}, r"^leading dimensions: .*state 3, action 2"),
        (
            {"pair": (np.zeros(3, np.int32), np.zeros((2, 3), np.int8))},
            r"^state\['pair'\]\[0\]: expected int32 \(2,\)",
        ),
        ({"image": 1}, r"^state: expected an array with a leading dimension"),
        ({"more": np.zeros(2)}, r"^state: expected image, inner, pair, got"),
    ],
)
def test_many_steps_with_other_parts_are_refused(change: Any, match: str) -> None:
    rem = filled(NESTED, NESTED)[0]
    states = row(rem.episode(0).entries.s, slice(0, 2))
    two = np.ones(2)
    with pytest.raises((ValueError, TypeError), match=match):
        rem.add_episode(
            states | change,
            row(rem.episode(0).entries.a, slice(0, 2)),
            two,
            two,
            two,
            np.zeros((2, 0)),
            1.0,
        )
    assert rem.num_episode() == 1


def test_out_with_parts_of_another_array_is_refused() -> None:
    rem = filled(NESTED, NESTED)[0]
    out = rem.sample(5)
    copied = {key: np.copy(out.prev.s[key]) for key in ("image",)}
    wrong = out._replace(prev=out.prev._replace(s=out.prev.s | copied))
    with pytest.raises(
        TypeError, match=r"^out\.prev\.state: expected a dict or tuple of arrays as"
    ):
        rem.sample(5, out=wrong)
    with pytest.raises(
        TypeError, match=r"^out\.prev\.state: expected a dict or tuple of arrays as"
    ):
        rem.sample(5, out=out._replace(prev=out.prev._replace(s={})))


@EVERY
def test_files_keep_dicts_and_tuples(space: Space, tmp_path: Path) -> None:
    rem, obs, _ = filled(space, space)
    rem.save(tmp_path / "memory")
    read = ReplayMemory.load(tmp_path / "memory").episode(0).entries
    for k, state in enumerate(obs):
        assert_same(row(read.s, k), state)


def test_servers_and_clients_keep_dicts_and_tuples() -> None:
    rem, obs, _ = filled(NESTED, SPACES["tuple"])
    like = [getattr(rem, f"{name}_buf") for name in _FIELDS]
    with ReplayMemoryServer(*like, 0, "tcp://127.0.0.1:*", n_caches=1) as server:
        server.start()
        endpoints = server.pub_endpoint, server.rep_endpoint, server.pull_endpoint
        with ReplayMemoryClient(*endpoints, max_step=100) as client:
            client.rem.new_episode()
            for state in obs:
                client.rem.add_entry(state, SPACES["tuple"].sample(), 1.0, 1.0, 0.0, EMPTY, 1.0)
            client.rem.close_episode(truncated=True)
            client.push_cache()
            batch = server.get_batch(4, wait=30)
    assert form(batch.prev.s) == form(obs[0])
    assert form(batch.prev.a) == (None, None, None)


_FIELDS = ("state", "action", "reward", "prob", "value", "qvest", "info")


def test_user_defined_records_stay_arrays() -> None:
    dtype = np.dtype([("a", "f4"), ("b", "i4")])
    scalar = np.float32(0)
    rem = ReplayMemory(np.zeros((), dtype), np.int32(0), *[scalar] * 4, EMPTY, max_step=9)
    rem.add_episode([], [], [], [], [], np.zeros((0, 0)), 1.0)
    rem.new_episode()
    for _ in range(2):
        rem.add_entry({"a": 1.5, "b": 2}, 0, 0.0, 1.0, 1.0, EMPTY, 1.0)
    rem.close_episode()
    assert rem.sample(3).prev.s.dtype == dtype


def test_defaults_of_from_spaces_suit_a_dqn() -> None:
    rem = ReplayMemory.from_spaces(BOX, spaces.Discrete(2), 50)
    assert rem.max_step == 50
    assert (rem.new_priority, rem.priority_exponent, rem.multi_step) == ("max", 0.6, 1)
    assert rem.priority_epsilon > 0
    assert rem.discount_factor == [0.99]
    assert (rem.frame_stack, rem.frame_padding) == (1, "repeat")
    rem, *_ = filled(BOX, spaces.Discrete(2), n_step=3, frame_stack=4)
    # All of them, those of the first and of the last steps too, and alike, though all rewards are.
    assert rem.num_sampleable == 6
    assert set(rem.sample(100).weight.tolist()) == {1.0}


def test_settings_by_the_field_s_names_and_by_the_memory_s() -> None:
    rem = ReplayMemory.from_spaces(
        BOX,
        BOX,
        50,
        gamma=0.5,
        n_step=2,
        alpha=0.25,
        frame_stack=3,
        cache_size=5,
        uuid=7,
        new_priority="returns",
        priority_epsilon=0.5,
        frame_padding="none",
        fields={"prev": "sar", "next": "s"},
    )
    assert (rem.discount_factor, rem.multi_step, rem.priority_exponent) == ([0.5], 2, 0.25)
    assert (rem.frame_stack, rem.cache_size, rem.uuid) == (3, 5, 7)
    assert (rem.new_priority, rem.priority_epsilon) == ("returns", 0.5)
    assert (rem.frame_padding, rem.fields) == ("none", {"prev": "sar", "next": "s"})
    assert ReplayMemory.from_spaces(BOX, BOX, 9, multi_step=4).multi_step == 4


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"gamma": -1}, ValueError, r"^gamma: expected"),
        ({"n_step": 0}, ValueError, r"^n_step: expected"),
        ({"alpha": "1"}, TypeError, r"^alpha: expected"),
        ({"capacity": -1}, ValueError, r"^capacity: expected"),
        ({"capacity": 1.5}, TypeError, r"^capacity: expected"),
        ({"capacity": 10**13}, MemoryError, r"^capacity: "),
        ({"multi_step": 0}, ValueError, r"^multi_step: expected"),
        (
            {"gamma": 1, "discount_factor": 1},
            TypeError,
            r"^discount_factor: expected only one of",
        ),
        ({"gama": 1}, TypeError, r"^gama: expected a setting"),
    ],
)
def test_wrong_setting_is_named_with_the_given_value(
    given: dict[str, Any], error: type[Exception], match: str
) -> None:
    capacity = given.pop("capacity", 10)
    with pytest.raises(error, match=match):
        ReplayMemory.from_spaces(BOX, BOX, capacity, **given)


@pytest.mark.parametrize(
    "part",
    [spaces.Text(5), spaces.Sequence(BOX), spaces.Graph(BOX, None), "box", None],
    ids=["text", "sequence", "graph", "str", "None"],
)
@pytest.mark.parametrize("which", ["observation_space", "action_space"])
def test_part_of_a_space_without_arrays_is_refused_by_name(part: Any, which: str) -> None:
    def refused(space: Any, where: str) -> None:
        given = {"observation_space": BOX, "action_space": BOX, which: space}
        with pytest.raises(TypeError, match=r"expected Box, Discrete") as caught:
            ReplayMemory.from_spaces(**given, capacity=10)
        assert str(caught.value).startswith(f"{which}{where}: ")

    refused(part, "")
    if isinstance(part, spaces.Space):
        refused(spaces.Dict({"a": BOX, "b": spaces.Tuple((BOX, part))}), "['b'][1]")


@pytest.mark.parametrize(
    ("space", "error"),
    [
        (spaces.Dict({}), ValueError),
        (spaces.Tuple(()), ValueError),
        (spaces.Dict({"": BOX}), TypeError),
        (spaces.Dict({1: BOX}), TypeError),  # type: ignore[dict-item]
        (spaces.Dict({"a": BOX, "cogrs.dict:a": BOX}), ValueError),
    ],
)
def test_dict_that_records_cannot_stand_for_is_refused(
    space: Space, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"^action_space\['x'\]: expected"):
        ReplayMemory.from_spaces(BOX, spaces.Dict({"x": space}), 10)


@pytest.mark.parametrize("which", ["observation_space", "action_space"])
def test_more_parts_than_a_dtype_s_text_has_room_for_are_refused_by_the_space(which: str) -> None:
    many = spaces.Dict({f"part {k}": BOX for k in range(2000)})
    given: Any = {"observation_space": BOX, "action_space": BOX, which: many}
    with pytest.raises(TypeError, match=rf"^{which}: expected a dtype of at most"):
        ReplayMemory.from_spaces(**given, capacity=10)


@pytest.mark.parametrize(
    ("state", "match"),
    [
        ({"image": 1}, r"^state: expected image, inner, pair, got image"),
        (NESTED.sample() | {"pair": (1,)}, r"^state\['pair'\]: expected 2 parts, got 1"),
        (NESTED.sample() | {"pair": (1, [1, 0])}, r"^state\['pair'\]\[1\]: expected int8 \(3,\)"),
        (NESTED.sample() | {"image": np.zeros((4, 5), np.uint8)}, r"^state\['image'\]: expected"),
    ],
)
def test_state_with_other_parts_is_refused_and_nothing_stored(state: Any, match: str) -> None:
    rem = ReplayMemory.from_spaces(NESTED, spaces.Discrete(2), 10)
    rem.new_episode()
    with pytest.raises(ValueError, match=match):
        rem.add_entry(state, 0, 0.0, 1.0, 0.0, EMPTY, 1.0)
    assert rem.num_entry == 0
