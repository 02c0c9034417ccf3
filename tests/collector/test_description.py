"""Descriptions of batches, right and wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cogrs
from cogrs import _core
from cogrs.collector import description
from tests.collector.build import actor, wrapper


def spec(game: Any, collector: str, key: str, **more: Any) -> tuple[str, tuple[int, ...], int]:
    found = game.GC.GetTensorSpec(collector, key, **more)
    return found.dtype, found.shape, found.T


def test_description_of_elf_s_documentation_is_parsed() -> None:
    games = wrapper(
        {
            "actor": (
                {"id": "", "s": "4", "last_r": "", "last_terminal": "", "_batchsize": "4"},
                {"rv": "", "pi": "2", "V": "1", "a": "1", "_batchsize": "4", "_T": "1"},
            ),
            "optimizer": (
                {
                    **dict.fromkeys(("rv", "id", "seq", "terminal"), ""),
                    **{"pi": "2", "s": "4", "a": "1", "r": "1", "V": "1"},
                    **{"_batchsize": "8", "_T": "6"},
                },
                None,
            ),
        }
    )
    assert games.name2idx == {"actor": 0, "optimizer": 1}
    assert games.idx2name == {0: "actor", 1: "optimizer"}
    assert spec(games, "actor", "s") == ("float32", (4, 4, 4), 1)
    assert spec(games, "actor", "pi", reply=True) == ("float32", (4, 2), 1)
    assert spec(games, "optimizer", "V") == ("float32", (8,), 6)
    batch = games.inputs[1][0]
    assert len(batch) == 6
    shapes = {key: (array.dtype.name, array.shape) for key, array in batch[3].items()}
    assert shapes == {
        "rv": ("int32", (8,)),
        "id": ("int32", (8,)),
        "seq": ("int32", (8,)),
        "terminal": ("uint8", (8,)),
        "pi": ("float32", (8, 2)),
        "s": ("float32", (8, 4, 4)),
        "a": ("int64", (8,)),
        "r": ("float32", (8,)),
        "V": ("float32", (8,)),
    }
    assert games.replies[1] is None
    assert games.co.T == 6


def test_arrays_of_keys_and_times_share_no_memory() -> None:
    listener = {"s": "2", "a": "", "r": "", "terminal": "", "_batchsize": 4, "_T": 3}
    games = wrapper({"actor": actor(4), "optimizer": (listener, None)})
    arrays = []
    for batches in (*games.inputs, *(replies or [] for replies in games.replies)):
        arrays += [array for batch in batches for each in batch for array in each.values()]
    assert len(arrays) > 25
    for number, array in enumerate(arrays, 1):
        array.view(np.uint8)[...] = number
    for number, array in enumerate(arrays, 1):
        assert (array.view(np.uint8) == number).all()


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("s", "", ("float32", (4, 4))),
        ("s", "1", ("float32", (4, 1, 4))),
        ("s", 3, ("float32", (4, 3, 4))),
        ("pi", "", ("float32", (4, 2))),
        ("pi", "1", ("float32", (4,))),
        ("pi", "7", ("float32", (4, 7))),
        ("Q", "", ("float32", (4, 2))),
        ("V", "", ("float32", (4,))),
        ("V", "3", ("float32", (4, 3))),
        ("a", "", ("int64", (4,))),
        ("rv", "", ("int32", (4,))),
        ("tid", "", ("int32", (4,))),
        ("truncated", "", ("uint8", (4,))),
        ("last_truncated", "1", ("uint8", (4,))),
    ],
)
def test_values_of_keys_determine_the_shapes(key: str, value: Any, expected: Any) -> None:
    games = wrapper({"one": ({key: value, "_batchsize": 4}, {"A": ""})})
    assert spec(games, "one", key) == (*expected, 1)


def test_empty_value_of_an_input_takes_the_length_of_the_reply() -> None:
    given = {"pi": "", "_batchsize": 4}
    games = wrapper({"optimizer": (given, None), "actor": ({"_batchsize": 4}, {"pi": "5"})})
    assert spec(games, "optimizer", "pi") == ("float32", (4, 5), 1)


GOOD = {"s": "", "_batchsize": "4"}


@pytest.mark.parametrize(
    ("given", "reply", "words"),
    [
        ({"s": ""}, {"a": ""}, ["'one'", "_batchsize"]),
        ({**GOOD, "speed": ""}, {"a": ""}, ["'one'", "'speed'", "last_terminal", "'s'", "'rv'"]),
        ({**GOOD, "last_s": ""}, None, ["'last_s'"]),
        ({**GOOD, "s": "x"}, None, ["'one'", "s:", "'x'"]),
        ({**GOOD, "s": "0"}, None, ["s:", "'0'"]),
        ({**GOOD, "s": "-1"}, None, ["s:", "'-1'"]),
        ({**GOOD, "s": 1.5}, None, ["s:", "1.5"]),
        ({**GOOD, "r": "2"}, None, ["r has one value", "'2'"]),
        ({**GOOD, "_batchsize": "many"}, None, ["_batchsize", "'many'"]),
        ({**GOOD, "_batchsize": 0}, None, ["_batchsize", "0"]),
        ({**GOOD, "_batchsize": "9" * 5000}, None, ["_batchsize", "999..."]),
        ({**GOOD, "_batchsize": 10**5000}, None, ["_batchsize", "bits"]),
        ({"s": ""}, {"a": "", "_batchsize": 4}, ["_batchsize is missing", "input"]),
        ({**GOOD, "_T": "0"}, None, ["_T", "'0'"]),
        ({**GOOD, "_timeout_usec": -5}, None, ["_timeout_usec", "-5"]),
        ({**GOOD, "_size": 1}, None, ["'_size'", "_batchsize"]),
        ({**GOOD, "_name": "white"}, None, ["_name", "'white'", "player"]),
        ({**GOOD, "_block": "2"}, None, ["_block", "expected 0 or 1"]),
        (GOOD, {"a": "", "_batchsize": "5"}, ["'one'", "_batchsize", "4", "'5'"]),
        (GOOD, {"a": "", "_T": "2"}, ["_T", "'2'"]),
        (GOOD, {"a": "", "_timeout_usec": "2"}, ["_timeout_usec"]),
        (GOOD, {"a": "2"}, ["a:", "length 1", "2"]),
        (GOOD, {"s": ""}, ["'s'", "'a'"]),
        ({**GOOD, "pi": "3"}, {"pi": "2"}, ["pi", "(3,)", "(2,)"]),
    ],
)
def test_wrong_description_names_collector_key_and_value(
    given: Any, reply: Any, words: list[str]
) -> None:
    with pytest.raises(ValueError, match="'one'") as error:
        wrapper({"one": (given, reply)})
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        None,
        {"one": GOOD},
        {"one": (GOOD,)},
        {"one": (None, None)},
        {1: (GOOD, None)},
        {"one": ({**GOOD, 1: ""}, None)},
        {"one": (GOOD, {b"a": ""})},
    ],
)
def test_description_of_the_wrong_type_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"descriptions|'one'"):
        wrapper(wrong)


def test_empty_descriptions_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        wrapper({})


def test_batch_larger_than_the_games_is_refused_without_a_timeout() -> None:
    with pytest.raises(ValueError, match=r"_batchsize.*actor.*num_games = 4.*got 5"):
        wrapper({"actor": actor(5)})
    wrapper({"actor": actor(5, _timeout_usec=1_000)})
    wrapper({"actor": actor(4), "optimizer": ({"s": "", "_batchsize": 9}, None)})


def test_overlapping_replies_give_one_warning() -> None:
    with pytest.warns(UserWarning, match=r"\['a'\]") as warned:
        wrapper({"one": actor(2), "two": actor(2)})
    assert len(warned) == 1


def test_warning_of_overlapping_replies_names_the_collectors() -> None:
    replies = {"one": "a pi", "two": "V", "three": "pi a", "four": "V rv", "five": "rv", "six": "Q"}
    pairs = {
        name: ({"s": "", "_batchsize": 2}, dict.fromkeys(keys.split(), ""))
        for name, keys in replies.items()
    }
    words = r"\('V': two, four; 'a': one, three; 'pi': one, three; 'rv': four, five\)"
    with pytest.warns(UserWarning, match=words):
        wrapper(pairs)


def test_replies_to_different_players_do_not_overlap() -> None:
    game = description.GameSpec(
        keys={"s": ("float32", (3, 3))},
        action=("float32", (2,)),
        num_action=2,
        players=["white", "black"],
    )
    pairs = {name: ({"s": "", "_batchsize": 2, "_name": name}, {"a": ""}) for name in game.players}
    parsed = description.parse(pairs, game)
    assert [collector.player for collector in parsed] == [0, 1]
    assert parsed[0].replies == (description.ReplyKey("a", "float32", (2,)),)
    assert description.overlapping_replies(parsed) == {}
    three = {"any": pairs["white"], "white": pairs["white"], "black": pairs["black"]}
    parsed = description.parse(three, game)
    assert description.overlapping_replies(parsed) == {"a": ["any", "white"]}


def test_add_collectors_and_add_tensor_extend_the_descriptions() -> None:
    co = cogrs.ContextOptions(num_games=2)
    context = cogrs.GameContext("cartpole", co)
    assert context.AddCollectors({"actor": ({"_batchsize": 2}, {"a": ""})}) == {"actor": 0}
    assert context.AddTensor("actor", "s", "4").shape == (2, 4, 4)
    assert context.AddTensor(0, "V", reply=True).shape == (2,)
    with pytest.raises(ValueError, match=r"'actor': expected one of \['s'.*, got 'x'"):
        context.GetTensorSpec("actor", "x")
    with pytest.raises(ValueError, match=r"collector: expected one of \['actor'\], got 'learner'"):
        context.AddTensor("learner", "s")
    context.Start()
    infos = context.Wait()
    batch, reply = context.batch(infos)
    assert (batch[0]["s"].shape, list(reply[0])) == ((2, 4, 4), ["a", "V"])
    context.Steps(infos)
    with pytest.raises(RuntimeError, match="before"):
        context.AddTensor("actor", "id")
    context.Stop()


def test_every_game_has_the_builtin_columns() -> None:
    columns = _core.builtin_columns()
    assert columns == {
        **dict.fromkeys(("id", "tid", "seq"), "int32"),
        "last_r": "float32",
        **dict.fromkeys(("last_terminal", "last_truncated", "ended", "cut"), "uint8"),
    }
    games = wrapper({"actor": actor(1, **dict.fromkeys(columns, ""))})
    for key, dtype in columns.items():
        assert spec(games, "actor", key)[:2] == (dtype, (1,))
