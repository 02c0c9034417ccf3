"""Topics and messages as bytes, and the frames that ZeroMQ matches with subscriptions."""

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cogrs.replay.pubsub.topic_key import (
    ANNOUNCEMENTS,
    LAST,
    MESSAGES,
    TopicKey,
    digest_of_topic,
    message_bytes,
    topic_bytes,
)
from cogrs.replay.wire import WireError

KEYS = st.builds(
    lambda kind, topic, nonce: TopicKey(
        kind, digest_of_topic(topic), nonce if kind == LAST else b""
    ),
    st.sampled_from([MESSAGES, ANNOUNCEMENTS, LAST]),
    st.binary(max_size=3),
    st.binary(min_size=16, max_size=16),
)


@given(KEYS)
def test_topic_key_comes_back_from_its_frame(key: TopicKey) -> None:
    assert TopicKey.of(key.frame()) == key


@given(KEYS, KEYS)
def test_no_topic_key_is_the_prefix_of_another(one: TopicKey, other: TopicKey) -> None:
    assert one.frame().startswith(other.frame()) == (one == other)


@given(KEYS.map(TopicKey.frame), st.binary(max_size=60), st.integers(0, 60))
def test_other_frames_are_refused_as_topic_keys(frame: bytes, garbage: bytes, length: int) -> None:
    assume(length != len(frame))
    for bad in (garbage, (frame + garbage)[:length]):
        with contextlib.suppress(WireError):
            assert TopicKey.of(bad).frame() == bad
    with pytest.raises(WireError):
        TopicKey.of(frame + b"x")
    with pytest.raises(WireError):
        TopicKey.of(frame[:-1])


@pytest.mark.parametrize(
    "topic",
    [
        None,
        1,
        bytearray(b"t"),
        pytest.param(memoryview(b"t"), id="memoryview"),
        ["t"],
        np.bytes_,
    ],
    ids=repr,
)
def test_topics_are_bytes_or_str(topic: Any) -> None:
    with pytest.raises(TypeError, match=r"^topic: expected bytes or str"):
        topic_bytes(topic)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("ü", b"\xc3\xbc"),
        (b"\x00\xff", b"\x00\xff"),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"abcd")[::2], b"ac"),
        (memoryview(np.arange(2, dtype="<i2")), b"\x00\x00\x01\x00"),
        ("", b""),
    ],
)
def test_messages_go_as_bytes(given: Any, sent: bytes) -> None:
    assert message_bytes(given) == sent


@pytest.mark.parametrize("message", [None, 1, [1], {"a": 1}, np.zeros(2)], ids=repr)
def test_other_messages_are_refused(message: Any) -> None:
    with pytest.raises(TypeError, match=r"^message: expected bytes"):
        message_bytes(message)


@pytest.mark.parametrize(("convert", "name"), [(topic_bytes, "topic"), (message_bytes, "message")])
def test_text_that_utf8_does_not_have_is_refused_by_name(convert: Any, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: expected text that UTF-8 can encode"):
        convert("a\ud800")
