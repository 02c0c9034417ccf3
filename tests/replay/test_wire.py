"""Messages as frames, there and back."""

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogrs import ReplayMemory
from cogrs.api import replay_pb2 as pb
from cogrs.replay import wire
from cogrs.replay.wire import WireError
from tests.replay.build import ODD_TEMPLATES, OTHER_SETTINGS, memory, vector_memory


def there_and_back(rem: ReplayMemory) -> pb.Sizes:
    return wire.decode(wire.encode(0, sizes=wire.sizes_of(rem, 99))).sizes


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_header_comes_back(sender: int, episodes: int, steps: int) -> None:
    got = wire.decode(wire.encode(sender, counter=pb.Counter(episodes=episodes, steps=steps)))
    assert (got.version, got.sender, got.WhichOneof("body")) == (wire.VERSION, sender, "counter")
    assert (got.counter.episodes, got.counter.steps) == (episodes, steps)


@pytest.mark.parametrize("template", ODD_TEMPLATES, ids=lambda each: f"{each.dtype}{each.shape}")
def test_templates_come_back(template: np.ndarray) -> None:
    rem = memory(s=template, a=template, i=template)
    got = wire.templates_of(there_and_back(rem))
    expected = [getattr(rem, f"{name}_buf") for name in wire.FIELDS]
    assert [each.shape for each in got] == [each.shape for each in expected]
    assert [each.dtype for each in got] == [each.dtype for each in expected]
    assert got[0].dtype == template.dtype.newbyteorder("=")


@pytest.mark.parametrize("new", ["max", "returns", 0.0, 0.1, 1e-30])
def test_settings_come_back(new: str | float) -> None:
    settings = OTHER_SETTINGS | {"new_priority": new}
    rem = vector_memory(2, **settings)
    assert wire.settings_of(there_and_back(rem)) == settings


@pytest.mark.parametrize("new", ["median", "-1", "nan"])
def test_new_priority_that_cannot_be_makes_no_memory(new: str) -> None:
    sizes = wire.sizes_of(memory(), 99)
    sizes.settings.new_priority = new
    with pytest.raises(RuntimeError, match="answered with invalid sizes"):
        wire.memory_like(sizes, 1, None, None)


def test_every_setting_of_a_memory_goes_over() -> None:
    fields = {field.name for field in pb.Settings.DESCRIPTOR.fields}
    assert fields == set(wire.SETTINGS) == set(OTHER_SETTINGS)


def test_largest_frame_comes_back() -> None:
    assert there_and_back(memory()).max_frame == 99


def test_memory_made_of_sizes_has_the_same_digest() -> None:
    rem = memory(s=ODD_TEMPLATES[-1], a=ODD_TEMPLATES[1], i=ODD_TEMPLATES[3])
    again = ReplayMemory(*wire.templates_of(there_and_back(rem)), 0)
    assert wire.digest_of(again) == wire.digest_of(rem)


@pytest.mark.parametrize(
    "change",
    [
        {"s": np.int32(0)},
        {"s": np.zeros(1, np.int64)},
        {"a": np.uint64(0)},
        {"i": np.zeros((2, 3))},
        {"i": np.zeros((3, 2))},
        {"s": np.zeros((), [("x", "i8")])},
    ],
    ids=str,
)
def test_other_templates_have_another_digest(change: dict[str, Any]) -> None:
    assert wire.digest_of(memory(**change)) != wire.digest_of(memory())


def test_settings_do_not_change_the_digest() -> None:
    assert wire.digest_of(memory(frame_stack=4, cache_size=7)) == wire.digest_of(memory())


# -- garbage --


@given(st.binary(max_size=200))
def test_garbage_is_a_wire_error_or_a_header_of_this_version(garbage: bytes) -> None:
    with contextlib.suppress(WireError):
        assert wire.decode(garbage).version == wire.VERSION


@pytest.mark.parametrize("version", [0, 1, 3, 2**32 - 1])
def test_other_versions_are_refused_by_number(version: int) -> None:
    frame = pb.Header(version=version, sizes_request=pb.SizesRequest()).SerializeToString()
    with pytest.raises(WireError, match=f"version {version}; this cogrs speaks version 2"):
        wire.decode(frame)


@pytest.mark.parametrize("frame", [b"", b"\xff", b"\x00" * 9, b"GET / HTTP/1.1\r\n"], ids=repr)
def test_frame_without_a_valid_header_is_refused(frame: bytes) -> None:
    with pytest.raises(WireError):
        wire.decode(frame)


@pytest.mark.parametrize(
    "template",
    [
        pb.Template(dtype=""),
        pb.Template(dtype="no such"),
        pb.Template(dtype="[("),
        pb.Template(dtype="[('a', 'f4'), ('a', 'f4')]"),
        pb.Template(dtype="[__import__('os')]"),
        pb.Template(dtype="[[]]"),
        pb.Template(dtype="[" * 10_000),
        pb.Template(dtype="f4", shape=[1] * 100),
        pb.Template(dtype="f4", shape=[2**40, 2**40]),
        pb.Template(dtype="f4", shape=[2**63]),
        pb.Template(dtype="f4", shape=[2**64 - 1]),
    ],
    ids=lambda each: f"{each.dtype[:30]}{list(each.shape)[:2]}",
)
def test_templates_that_cannot_be_are_refused(template: pb.Template) -> None:
    sizes = wire.sizes_of(memory(), 0)
    sizes.templates[0].CopyFrom(template)
    with pytest.raises(WireError):
        wire.templates_of(sizes)


@pytest.mark.parametrize("count", [0, 6, 8])
def test_other_numbers_of_templates_are_refused(count: int) -> None:
    sizes = pb.Sizes(templates=[pb.Template(dtype="f4")] * count)
    with pytest.raises(WireError, match=f"{count} templates"):
        wire.templates_of(sizes)
