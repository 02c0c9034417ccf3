"""Stored recurrent states: by every way to write, in every place where they are read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory
from tests.replay.sequence_steps import INITIAL, F, episode, memory


def state(number: float) -> Any:
    return np.array([number])


def entry(number: int) -> dict[str, Any]:
    numbers = {"action": number, "reward": float(number), "prob": 1.0, "value": 0.0}
    return {"state": np.full(2, number, F), "info": np.zeros(0, F), "init_w": 1.0, **numbers}


def expected(first: int, anchor: int, burn_in: int, period: int) -> float:
    begin = max(anchor - burn_in, 0) // period * period
    return float(INITIAL[0]) if begin == 0 else first + begin


def check(rem: ReplayMemory, firsts: dict[int, int], burn_in: int = 3) -> None:
    """Compare the recurrent states and the first valid steps of all sequences."""
    period = rem.recurrent_period
    drawn = rem.sample_sequences(100, 4, burn_in=burn_in, period=3)
    assert drawn.valid.shape == (100, 4 + burn_in + period - 1)
    assert drawn.recurrent.shape == (100, 1)
    for row, anchor_id in enumerate(drawn.anchor_id.tolist()):
        first_id = max(each for each in firsts if each <= anchor_id)
        anchor = anchor_id - first_id
        assert drawn.recurrent[row, 0] == expected(firsts[first_id], anchor, burn_in, period)
        begin = int(drawn.valid[row].argmax())
        assert drawn.id[row, begin] == first_id + max(anchor - burn_in, 0) // period * period
        assert drawn.id[row, burn_in + period - 1] == anchor_id


@pytest.mark.parametrize("period", [1, 2, 5])
def test_sequence_begins_with_the_state_before_its_first_step(period: int) -> None:
    rem = memory(recurrent=INITIAL, recurrent_period=period)
    firsts = {episode(rem, actions, 100 * actions): 100 * actions for actions in (1, 4, 17, 30)}
    check(rem, firsts)
    assert rem.recurrent is not None
    assert (rem.recurrent.tolist(), rem.recurrent_period) == ([-7.0], period)


def test_states_are_written_entry_by_entry_by_several_writers() -> None:
    rem = memory(300, recurrent=INITIAL, recurrent_period=3)
    writers = [rem, rem.writer(), rem.writer()]
    firsts: dict[int, int] = {}
    for turn in range(4):
        for writer in writers:
            writer.new_episode()
        ids: list[list[int]] = [[] for _ in writers]
        for step in range(40):
            for at, writer in enumerate(writers):
                number = 1000 * (3 * turn + at + 1) + step
                given = {} if step % 3 else {"recurrent": state(number)}
                ids[at].append(writer.add_entry(**entry(number), **given))
        for at, writer in enumerate(writers):
            writer.close_episode()
            firsts[ids[at][0]] = 1000 * (3 * turn + at + 1)
        held = {int(rem.episode(at).id[0]) for at in range(rem.num_episode())}
        check(rem, {each: first for each, first in firsts.items() if each in held})


def test_add_entries_takes_a_state_for_each_step() -> None:
    rem = memory(recurrent=INITIAL, recurrent_period=2)
    rem.new_episode()
    numbers = np.arange(50, 59)
    parts = []
    for rows in (numbers[:4], numbers[4:]):
        columns = {name: np.stack([entry(n)[name] for n in rows]) for name in entry(0)}
        parts.append(rem.add_entries(**columns, recurrent=rows[:, None].astype(float)))
    rem.close_episode()
    check(rem, {parts[0]: 50})


def test_missing_state_is_refused_and_nothing_is_added() -> None:
    rem = memory(recurrent=INITIAL, recurrent_period=2)
    rem.new_episode()
    rem.add_entry(**entry(0))
    rem.add_entry(**entry(1))
    with pytest.raises(ValueError, match="recurrent: expected the recurrent state before step 2"):
        rem.add_entry(**entry(2))
    with pytest.raises(ValueError, match="recurrent: expected float64"):
        rem.add_entry(**entry(2), recurrent=np.zeros(2))
    assert rem.num_entry == 2
    rem.add_entry(**entry(2), recurrent=state(2))
    rem.close_episode()
    with pytest.raises(TypeError, match="made without recurrent"):
        episode(memory(), 3, final=False, **{"recurrent": np.zeros((3, 1))})


@pytest.mark.parametrize(
    "template",
    [
        np.zeros((2, 8), np.float16),
        np.int64(3),
        np.zeros(0),
        np.zeros((), [("h", "f4", 3), ("c", "f8")]),
    ],
)
def test_state_may_have_any_dtype_and_shape(template: Any) -> None:
    rem = memory(recurrent=template)
    states = np.zeros((6, *np.shape(template)), template.dtype)
    if states.dtype.names:
        states["h"] = np.arange(6)[:, None]
    elif states.size:
        states[...] = np.arange(6).reshape(6, *[1] * np.ndim(template))
    columns = {name: np.stack([entry(n)[name] for n in range(6)]) for name in entry(0)}
    rem.add_episode(**columns, recurrent=states)
    drawn = rem.sample_sequences(30, 2)
    for row, first in enumerate(drawn.steps.action[:, 0]):
        wanted = template if first == 0 else states[first]
        assert np.array_equal(drawn.recurrent[row], wanted)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"recurrent": np.array([object()])}, TypeError, "recurrent: expected"),
        ({"recurrent": INITIAL, "recurrent_period": 0}, ValueError, "recurrent_period: expected"),
        ({"recurrent_period": True}, TypeError, "recurrent_period: expected an integer"),
        ({"sequence_eta": 1.5}, ValueError, r"sequence_eta: expected a number in \[0, 1\]"),
    ],
)
def test_bad_option_is_refused_by_name(
    options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        memory(**options)


def test_saved_memory_comes_back_with_states_and_priorities(tmp_path: Path) -> None:
    rem = memory(60, recurrent=INITIAL, recurrent_period=4)
    firsts = {episode(rem, 20, 100 * at): 100 * at for at in range(5)}
    held = dict(list(firsts.items())[-rem.num_episode() :])
    check(rem, held)
    anchor = max(held)
    rem.update_priority(anchor, 5000.0, sequences=True)
    rem.save(tmp_path / "memory")
    loaded = ReplayMemory.load(tmp_path / "memory")
    assert loaded.recurrent_period == 4
    drawn = loaded.sample_sequences(50, 4, burn_in=3, period=3)
    assert np.sqrt(5000.0) == pytest.approx(drawn.weight[drawn.anchor_id == anchor][0])
    check(loaded, held)
    episode(loaded, 20, 900)


def test_nbytes_of_a_memory_has_the_recurrent_states() -> None:
    plain, fine, coarse = (
        memory(1000, **options).nbytes
        for options in (
            {},
            {"recurrent": np.zeros(100)},
            {"recurrent": np.zeros(100), "recurrent_period": 10},
        )
    )
    assert fine - plain >= 800 * 1000
    assert 80 * 1000 <= coarse - plain < (fine - plain) / 5


def test_clear_and_eviction_free_the_states() -> None:
    rem = memory(50, recurrent=INITIAL)
    for turn in range(30):
        first = episode(rem, 20, 100 * turn)
        if turn % 7 == 3:
            rem.clear()
            first = episode(rem, 49, 100 * turn, final=False)
        check(
            rem,
            {
                int(rem.episode(at).id[0]): int(rem.episode(at).entries.a[0])
                for at in range(rem.num_episode())
            },
        )
        assert first in rem.sample_sequences(200, 4, period=3).id


def test_from_spaces_takes_the_template() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    box = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    rem = ReplayMemory.from_spaces(
        box, gymnasium.spaces.Discrete(3), 100, recurrent=np.zeros((2, 4), F), recurrent_period=2
    )
    assert rem.recurrent is not None
    assert (rem.recurrent.shape, rem.recurrent_period) == ((2, 4), 2)


def test_recorder_stores_the_states_of_each_environment() -> None:
    rem = memory(recurrent=INITIAL, recurrent_period=2)
    recorder = rem.recorder(2)
    with pytest.raises(ValueError, match=r"recurrent: expected float64 \(2, 1\), got None"):
        recorder.add(np.zeros((2, 2)), [0, 0], [0.0, 0.0], [False] * 2, [False] * 2)
    for step in range(12):
        numbers = np.array([100.0 + step, 200.0 + step])
        obs = np.stack([numbers, numbers], 1).astype(F)
        ends = [step == 11] * 2
        recorder.add(
            obs,
            numbers.astype(int),
            numbers,
            ends,
            [False] * 2,
            obs + 1,
            recurrent=numbers[:, None],
        )
    ids = [int(rem.episode(at).id[0]) for at in range(2)]
    check(rem, {ids[0]: 100, ids[1]: 200})
    with pytest.raises(TypeError, match="made without recurrent"):
        memory().recorder(1).add([[0, 0]], [0], [0.0], [False], [False], recurrent=[[0.0]])
