"""Infos and text of environments as keys of batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

import cogrs  # noqa: E402
from cogrs.collector import GameError  # noqa: E402
from tests.collector.build import LIMIT, rows  # noqa: E402
from tests.collector.sample_environments import Informing  # noqa: E402

KEYS = {
    "won": np.bool_,
    "level": (np.int16, (2,)),
    "episode.r": np.float64,
    "dotted.name": np.uint8,
}


def histories(processes: int, **options: Any) -> dict[str, Any]:
    """Return the first five states of one game, by key."""
    co = cogrs.ContextOptions(num_games=1, seed=1)
    context = cogrs.GameContext(
        "gymnasium", co, Informing, processes=processes, info_keys=KEYS, **options
    )
    shown = dict.fromkeys(("word", "step", *KEYS), "")
    with cogrs.GCWrapper(
        context,
        co,
        {
            "actor": ({"step": "", "_batchsize": 1}, {"a": ""}),
            "listener": ({**shown, "_batchsize": 1, "_T": 5}, None),
        },
    ) as games:
        found: list[Any] = []
        games.reg_callback("actor", lambda *_: None)
        games.reg_callback("listener", lambda batch, *_: found.append(rows(batch)))
        games.Start()
        while not found:
            games.Run(LIMIT)
    return {key: array[0] for key, array in found[0].items()}


@pytest.mark.parametrize("processes", [0, 1])
def test_infos_are_keys_of_batches_with_zeros_elsewhere(processes: int) -> None:
    found = histories(processes)
    assert found["step"].tolist() == [0, 1, 2, 3, 4]
    assert (found["won"].dtype, found["won"].tolist()) == (np.bool_, [True, False, False, True, 0])
    assert found["level"].dtype == np.int16
    assert found["level"].tolist() == [[0, 0], [1, -1], [0, 0], [3, -1], [0, 0]]
    assert found["episode.r"].tolist() == [0, 1 / 3, 0, 1, 0]
    assert found["dotted.name"].dtype == np.uint8
    assert found["dotted.name"].tolist() == [0, 1, 0, 3, 0]


@pytest.mark.parametrize("processes", [0, 1])
def test_text_is_code_points_with_zeros_after_the_end(processes: int) -> None:
    words = histories(processes)["word"]
    assert (words.dtype, words.shape) == (np.uint32, (5, 6))
    texts = ["".join(map(chr, row)).rstrip("\0") for row in words]
    assert texts == ["", "ab", "\u00e9\U0001f600", "abcdef", "x"]


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ("long", "word: expected at most 6 characters, got 7"),
        ("kind", "word: expected text, got int"),
        ("info", r"level: expected int16 \(2,\), got int64 \(3,\)"),
    ],
)
def test_value_that_does_not_fit_its_key_fails_the_game(odd: str, words: str) -> None:
    with pytest.raises(GameError, match=words):
        histories(0, odd=odd)


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        (3, TypeError, "info_keys: expected a mapping"),
        ({3: bool}, TypeError, "info_keys, key 3: expected a string"),
        ({"x": "many"}, TypeError, "info_keys: expected a dtype, or a pair"),
        ({"x": (bool, 3)}, TypeError, "info_keys: expected a dtype, or a pair"),
        ({"x": object}, ValueError, "info_keys: expected a dtype of numbers or bool"),
        ({"x": (bool, (-1,))}, ValueError, "info_keys: expected a dtype of numbers or bool"),
        ({"r": bool}, ValueError, "info_keys: 'r' has another meaning in a batch"),
        ({"step": bool}, ValueError, "info_keys: 'step' has another meaning in a batch"),
        ({"action_mask": bool}, ValueError, "'action_mask' has another meaning in a batch"),
        ({"_x": bool}, ValueError, "info_keys: '_x' has another meaning in a batch"),
    ],
)
@pytest.mark.parametrize("processes", [0, 1])
def test_wrong_info_keys_are_refused(
    given: Any, kind: type[Exception], words: str, processes: int
) -> None:
    if processes and kind is TypeError:
        pytest.skip("they are checked in this process")
    with pytest.raises(kind, match=words):
        cogrs.GameContext("gymnasium", Informing, info_keys=given, processes=processes)
