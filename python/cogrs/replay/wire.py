"""Messages as their frames; see protos/cogrs/api/replay.proto."""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf.message import DecodeError

from cogrs._core import ReplayMemory
from cogrs.api import replay_pb2 as pb
from cogrs.dtypes import dtype_text
from cogrs.escape import escaped
from cogrs.limits import LARGEST_CACHE
from cogrs.replay.convert import described

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import zmq

VERSION = 2

FIELDS = ("state", "action", "reward", "prob", "value", "qvest", "info")

SETTINGS = (
    "priority_exponent",
    "mix_lambda",
    "frame_stack",
    "multi_step",
    "cache_size",
    "max_episode",
    "reuse_cache",
    "discount_factor",
    "reward_coeff",
    "cache_flags",
    "new_priority",
    "priority_epsilon",
    "frame_padding",
)

SMALL_CACHE = 1 << 18
"""Caches of so many bytes travel in one frame: each frame costs more than copying some 10 kB."""

REQUEST_HWM = 1000
"""Requests, or answers, that wait at a socket for each peer, at most.

A socket that answers drops what it has no room for, and counts as waiting what was read a moment
ago (libzmq reports it in batches). So this is far more than a peer that reads its answers needs.
"""

_LONGEST_SETTING = 1 << 17
"""Numbers in a setting: as many as a reward may have dimensions."""

REASONS = ("foreign", "version", "kind", "frames", "template", "layout", "cache", "key", "size")
"""Why messages are refused: none of this protocol; another version of it; of a kind that does not
belong there; of another number of frames, or without the empty one that ends a request's envelope;
a cache of other templates; of other `cache_flags`, `frame_stack`, `ids` or `nstep`; with sizes or
weights that cannot be; what the sender's key does not allow; more than one message may ask for."""


class WireError(ValueError):
    """A message that is none of ours; it is dropped and counted."""

    def __init__(self, text: str, reason: str = "foreign") -> None:
        """Say what is wrong; `reason` is one of `REASONS`."""
        super().__init__(escaped(text))  # which may quote the message
        self.reason = reason


def encode(sender: int, **body: Any) -> bytes:
    """Return a header, `body` being the one of its fields that says what the message is."""
    return pb.Header(version=VERSION, sender=sender, **body).SerializeToString()


def decode(frame: bytes | zmq.Frame) -> pb.Header:
    """Read a header.

    Raises:
        WireError: It is none, or of another version.
    """
    try:
        header = pb.Header.FromString(frame if isinstance(frame, bytes) else frame.bytes)
    except DecodeError:
        raise WireError("something that is not a message of cogrs") from None
    if header.version != VERSION:
        text = f"protocol version {header.version}, this is version {VERSION}"
        raise WireError(text, "version")
    return header


def sizes_of(
    memory: ReplayMemory, max_frame: int, *, ids: bool = False, nstep: bool = False
) -> pb.Sizes:
    """Describe a memory to somebody who is to make one like it."""
    buffers = (getattr(memory, f"{field}_buf") for field in FIELDS)
    settings: dict[str, Any] = {name: getattr(memory, name) for name in SETTINGS}
    return pb.Sizes(
        templates=[
            pb.Template(dtype=dtype_text(buffer.dtype), shape=buffer.shape) for buffer in buffers
        ],
        settings=pb.Settings(**settings | {"new_priority": str(settings["new_priority"])}),
        max_frame=max_frame,
        ids=ids,
        nstep=nstep,
    )


def templates_of(sizes: pb.Sizes) -> list[np.ndarray[Any, Any]]:
    """Return the seven templates that sizes describe.

    Raises:
        WireError: They describe none.
    """
    if len(sizes.templates) != len(FIELDS):
        raise WireError(f"{len(sizes.templates)} templates, an entry has {len(FIELDS)} fields")
    try:
        return [
            described(field, each.dtype, each.shape)
            for field, each in zip(FIELDS, sizes.templates, strict=True)
        ]
    except ValueError as error:
        raise WireError(f"templates that cannot be: {error}") from None


def settings_of(sizes: pb.Sizes) -> Mapping[str, Any]:
    """Return the settings that sizes hold, by the names of the memory's properties."""
    values = {name: getattr(sizes.settings, name) for name in SETTINGS}
    for name in ("discount_factor", "reward_coeff", "cache_flags"):
        if len(values[name]) > _LONGEST_SETTING:
            raise WireError(f"{name} of {len(values[name])} numbers")
        values[name] = list(values[name])
    # A peer that does not know these settings has their defaults.
    new = values["new_priority"] or "returns"
    values["new_priority"] = new if new in ("returns", "max") else float(new)
    values["frame_padding"] = values["frame_padding"] or "none"
    return values


def memory_like(sizes: pb.Sizes, max_step: int, uuid: int | None, seed: int | None) -> ReplayMemory:
    """Make a memory as sizes describe it.

    Raises:
        MemoryError: As `ReplayMemory`.
        RuntimeError: They describe none.
    """
    try:
        state, action, reward, prob, value, qvest, info = templates_of(sizes)
        made = ReplayMemory(
            state, action, reward, prob, value, qvest, info, max_step, uuid=uuid, seed=seed
        )
        for name, setting in settings_of(sizes).items():
            setattr(made, name, setting)
        cache = row_bytes(made) * made.cache_size
        if cache > LARGEST_CACHE:
            raise WireError(f"cache_size: a cache of {cache} bytes, at most {LARGEST_CACHE}")
    except (TypeError, ValueError, OverflowError) as error:
        raise RuntimeError(f"the server answered with sizes that cannot be: {error}") from error
    return made


def row_bytes(memory: ReplayMemory) -> int:
    """Return the bytes of a sample with all that it may have, under the present settings."""
    stacked = memory.entry_size + memory.frame_stack * memory.state_buf.nbytes
    # Weight, id, sender; return and discount of n steps.
    return 2 * stacked + 16 + 2 * memory.reward_buf.nbytes


def digest_of(memory: ReplayMemory) -> int:
    """Return a number that memories of the same templates share."""
    sizes = sizes_of(memory, 0)
    text = repr([(each.dtype, tuple(each.shape)) for each in sizes.templates])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def topic_bytes(topic: object) -> bytes:
    """Return a topic as bytes, a string as UTF-8.

    Raises:
        TypeError: Neither.
        ValueError: A string that UTF-8 does not have.
    """
    return _bytes("topic", topic)


def message_bytes(message: object) -> bytes:
    """Return a message as bytes, a string as UTF-8, a buffer by its contents.

    Raises:
        TypeError: None of these.
        ValueError: A string that UTF-8 does not have.
    """
    if isinstance(message, (bytearray, memoryview)):
        return bytes(message)
    return _bytes("message", message)


class TopicKey(NamedTuple):
    """The frame that goes before a published message: what ZeroMQ matches subscriptions with.

    A subscriber asks for messages by a key without nonce, and gets them by one with a nonce, which
    is its own. Otherwise no key is the beginning of another.

    Fields:
        kind: Whether messages, announcements or a last message.
        digest: Which topic.
        nonce: For messages: who gets them. For a last message: who asked for it.
    """

    kind: bytes
    digest: bytes
    nonce: bytes = b""

    def frame(self) -> bytes:
        """Return the frame."""
        return self.kind + self.digest + self.nonce

    @classmethod
    def of(cls, frame: bytes) -> TopicKey:
        """Read a frame.

        Raises:
            WireError: It is no such frame.
        """
        key = cls(frame[:1], frame[1 : 1 + DIGEST], frame[1 + DIGEST :])
        if len(frame) not in _LENGTHS.get(key.kind, ()):
            raise WireError("a topic of another kind")
        return key


MESSAGES, ANNOUNCEMENTS, LAST = b"m", b"a", b"l"
DIGEST, _NONCE = 32, 16
"""Bytes of them."""
_SHARED, _OWN = 1 + DIGEST, 1 + DIGEST + _NONCE
_LENGTHS = {MESSAGES: (_SHARED, _OWN), ANNOUNCEMENTS: (_SHARED,), LAST: (_OWN,)}


def digest_of_topic(topic: bytes) -> bytes:
    """Return what stands for a topic: topics have any length, keys have not."""
    return hashlib.blake2b(topic, digest_size=DIGEST).digest()


def new_nonce() -> bytes:
    """Return a name that nobody else has."""
    return secrets.token_bytes(_NONCE)


def _bytes(name: str, value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{name}: expected text that UTF-8 has, got {error}") from None
    raise TypeError(f"{name}: expected bytes or str, got {type(value).__name__}")
