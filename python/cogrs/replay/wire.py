"""Messages as frames: a header of protobuf, then one frame for each column of a cache.

See protos/cogrs/api/replay.proto for the headers. What a peer says of sizes and settings is checked
here before anything is made of it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from google.protobuf.message import DecodeError

from cogrs._core import ReplayMemory, cache_sequences, set_cache_sequences
from cogrs.api import replay_pb2 as pb
from cogrs.dtypes import dtype_text
from cogrs.escape import escaped
from cogrs.limits import LARGEST_CACHE
from cogrs.replay.convert import template_of

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    "sequence_eta",
    "sampler",
    "max_times_sampled",
    "remover",
)

SMALL_CACHE = 1 << 18
"""Caches of so many bytes travel in one frame: each frame costs more than copying some 10 kB."""

_LONGEST_SETTING = 1 << 17
"""Numbers in a setting: as many as a reward may have dimensions."""

REASONS = (
    "foreign",
    "version",
    "kind",
    "frames",
    "template",
    "layout",
    "cache",
    "key",
    "size",
    "storage",
)
"""Why messages are refused.

- foreign: not of this protocol
- version: of another version of it
- kind: of a kind that does not belong there
- frames: another number of frames, or no empty one at the end of a request's envelope
- template: a cache of other templates
- layout: a cache of other `cache_flags`, `frame_stack`, `ids`, `nstep` or sequences
- cache: sizes or weights that are not valid
- key: the sender's key does not allow it
- size: more than one message may ask for
- storage: a cache for which the server's folder has no room
"""


class WireError(ValueError):
    """A message that is not of this protocol; it is dropped and counted."""

    def __init__(self, text: str, reason: str = "foreign") -> None:
        """Create an error with a text, which may quote the message; see `REASONS`."""
        super().__init__(escaped(text))
        self.reason = reason


def encode(sender: int, **body: Any) -> bytes:
    """Return a header; `body` is the one of its fields that holds the message."""
    return pb.Header(version=VERSION, sender=sender, **body).SerializeToString()


def decode(frame: bytes | zmq.Frame) -> pb.Header:
    """Read a header; a WireError if it is not a header, or is of another version."""
    try:
        header = pb.Header.FromString(frame if isinstance(frame, bytes) else frame.bytes)
    except DecodeError:
        raise WireError("something that is not a message of cogrs") from None
    if header.version != VERSION:
        text = f"protocol version {header.version}; this cogrs speaks version {VERSION}"
        raise WireError(text, "version")
    return header


def sizes_of(
    memory: ReplayMemory, max_frame: int, *, ids: bool = False, nstep: bool = False
) -> pb.Sizes:
    """Return the description of a memory, from which `memory_like` makes another."""
    buffers = (getattr(memory, f"{field}_buf") for field in FIELDS)
    settings: dict[str, Any] = {name: getattr(memory, name) for name in SETTINGS}
    sequences = cache_sequences(memory)
    return pb.Sizes(
        templates=[
            pb.Template(dtype=dtype_text(buffer.dtype), shape=buffer.shape) for buffer in buffers
        ],
        settings=pb.Settings(**settings | {"new_priority": str(settings["new_priority"])}),
        max_frame=max_frame,
        ids=ids,
        nstep=nstep,
        sequences=None if sequences is None else pb.Sequences(**sequences),
        recurrent=_recurrent_of(memory),
        compress=memory.compress,
        compressed_caches=bool(memory.compress),
    )


def _recurrent_of(memory: ReplayMemory) -> pb.Recurrent | None:
    initial = memory.recurrent
    if initial is None:
        return None
    template = pb.Template(dtype=dtype_text(initial.dtype), shape=initial.shape)
    return pb.Recurrent(
        template=template, initial=initial.tobytes(), period=memory.recurrent_period
    )


def templates_of(sizes: pb.Sizes) -> list[np.ndarray[Any, Any]]:
    """Return the seven templates that sizes describe; a WireError if one is missing or invalid."""
    if len(sizes.templates) != len(FIELDS):
        raise WireError(f"{len(sizes.templates)} templates, an entry has {len(FIELDS)} fields")
    try:
        return [
            template_of(field, each.dtype, each.shape)
            for field, each in zip(FIELDS, sizes.templates, strict=True)
        ]
    except ValueError as error:
        raise WireError(f"invalid templates: {error}") from None


def recurrent_of(sizes: pb.Sizes) -> dict[str, Any]:
    """Return the arguments `recurrent` and `recurrent_period` that sizes describe; a WireError."""
    if not sizes.HasField("recurrent"):
        return {}
    given = sizes.recurrent
    try:
        template = template_of("recurrent", given.template.dtype, given.template.shape)
    except ValueError as error:
        raise WireError(f"invalid templates: {error}") from None
    if len(given.initial) != template.nbytes:
        raise WireError(f"a recurrent state of {len(given.initial)} bytes")
    initial = np.frombuffer(given.initial, template.dtype).reshape(template.shape)
    return {"recurrent": initial, "recurrent_period": given.period}


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
    if not sizes.settings.HasField("sequence_eta"):
        del values["sequence_eta"]
    values["sampler"] = values["sampler"] or "prioritized"
    values["remover"] = values["remover"] or "fifo"
    return values


def memory_like(sizes: pb.Sizes, max_step: int, uuid: int | None, seed: int | None) -> ReplayMemory:
    """Return a memory as sizes describe it.

    Raises:
        MemoryError: As `ReplayMemory`.
        RuntimeError: No memory can have these sizes.
    """
    try:
        state, action, reward, prob, value, qvest, info = templates_of(sizes)
        made = ReplayMemory(
            *(state, action, reward, prob, value, qvest, info, max_step),
            uuid=uuid,
            seed=seed,
            compress=dict(sizes.compress),
            **recurrent_of(sizes),
        )
        if sizes.HasField("sequences"):
            given = sizes.sequences
            set_cache_sequences(
                *(made, given.length, given.burn_in, given.after, given.period, given.border),
                nstep=sizes.nstep,
            )
        for name, setting in settings_of(sizes).items():
            setattr(made, name, setting)
        cache = row_bytes(made) * made.cache_size
        if cache > LARGEST_CACHE:
            raise WireError(f"cache_size: {cache} bytes per cache; the limit is {LARGEST_CACHE}")
    except (TypeError, ValueError, OverflowError) as error:
        raise RuntimeError(f"the server answered with invalid sizes: {error}") from error
    return made


def row_bytes(memory: ReplayMemory) -> int:
    """Return the bytes of a sample with all optional columns, under the present settings."""
    reward = memory.reward_buf.nbytes
    sequences = cache_sequences(memory)
    if sequences is not None:
        steps: int = sequences["length"] + sequences["burn_in"] + sequences["after"]
        steps += memory.recurrent_period - 1
        initial = memory.recurrent
        state = 0 if initial is None else initial.nbytes
        stacked = memory.entry_size + (memory.frame_stack - 1) * memory.state_buf.nbytes
        # Five flags, id; return and discount of n steps. Weight, id, sender.
        return int(steps * (stacked + 13 + 2 * reward) + state + 16)
    stacked = memory.entry_size + memory.frame_stack * memory.state_buf.nbytes
    # Weight, id, sender; return and discount of n steps.
    return 2 * stacked + 16 + 2 * reward


def digest_of(memory: ReplayMemory) -> int:
    """Return a number that memories of the same templates share."""
    sizes = sizes_of(memory, 0)
    templates = list(sizes.templates)
    if sizes.HasField("recurrent"):
        templates.append(sizes.recurrent.template)
    text = repr([(each.dtype, tuple(each.shape)) for each in templates])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
