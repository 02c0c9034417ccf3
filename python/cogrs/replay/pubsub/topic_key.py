"""Topics of published messages, and the frame by which ZeroMQ matches them with subscriptions.

ZeroMQ matches prefixes, so topics of any length become digests of one length.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final, NamedTuple

from cogrs.replay.wire import WireError

ALLOWANCE = b"cogrs.allowance"
"""The topic on which a server tells how its rate limiter stands."""

MESSAGES, ANNOUNCEMENTS, LAST = b"m", b"a", b"l"
DIGEST: Final = 32
"""Bytes of the digest of a topic."""
_NONCE = 16
_SHARED, _OWN = 1 + DIGEST, 1 + DIGEST + _NONCE
_LENGTHS = {MESSAGES: (_SHARED, _OWN), ANNOUNCEMENTS: (_SHARED,), LAST: (_OWN,)}


class TopicKey(NamedTuple):
    """The frame that goes before a published message.

    A subscriber asks for messages by a key without nonce, and gets them by one with a nonce, which
    only it has. Otherwise no key is the beginning of another.
    """

    kind: bytes  # MESSAGES, ANNOUNCEMENTS or LAST
    digest: bytes  # of the topic
    nonce: bytes = b""  # of messages: names the subscriber; of a last message: the question

    def frame(self) -> bytes:
        """Return the frame."""
        return self.kind + self.digest + self.nonce

    @classmethod
    def of(cls, frame: bytes) -> TopicKey:
        """Read a frame; a WireError if it is not such a frame."""
        key = cls(frame[:1], frame[1 : 1 + DIGEST], frame[1 + DIGEST :])
        if len(frame) not in _LENGTHS.get(key.kind, ()):
            raise WireError("a topic of another kind")
        return key


def digest_of_topic(topic: bytes) -> bytes:
    """Return the digest of a topic."""
    return hashlib.blake2b(topic, digest_size=DIGEST).digest()


def new_nonce() -> bytes:
    """Return a random name that nobody else has."""
    return secrets.token_bytes(_NONCE)


def topic_bytes(topic: object) -> bytes:
    """Return a topic as bytes, a str as UTF-8; a TypeError or a ValueError if that cannot be."""
    return _bytes("topic", topic)


def message_bytes(message: object) -> bytes:
    """Return a message as bytes: a buffer's contents, or as `topic_bytes` does."""
    if isinstance(message, (bytearray, memoryview)):
        return bytes(message)
    return _bytes("message", message)


def _bytes(name: str, value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{name}: expected text that UTF-8 can encode, got {error}") from None
    raise TypeError(f"{name}: expected bytes or str, got {type(value).__name__}")
