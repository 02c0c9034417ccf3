"""A stored trial, laid out so that any of its ticks can be shown at once.

The trial's file is read once, from the first sample to the last. Ticks and pictures go to a
temporary file, since a trial may have gigabytes of them; what memory holds per tick is a few bytes
and the rewards.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cogrs.limits import WEB_RECORDING_BYTES
from cogrs.sdk import ENVIRONMENT
from cogrs.sdk.codecs import read_array_message
from cogrs.web.picture import PictureEncoder, is_picture, summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cogrs.sdk import LoggedTrial, ReceivedMessage, ReceivedReward, Sample

ORIGINS = ("none", "agent", "client", "policy", "person", "default")
"""What gave an action: no action, an agent, a client actor; where a person could take over from a
policy, which of the two; the default action of an actor that was late or gone."""

_NONE, _AGENT, _CLIENT, _POLICY, _PERSON, _DEFAULT = range(len(ORIGINS))

_BINS = 600
"""Parts of a time line at most."""
_MOST_ACTORS = 32
_MOST_SENDERS = 16
"""Actors, and senders per actor, that a time line tells apart; other senders are added up."""
_OTHERS = "others"


class _Place(NamedTuple):
    """Where something is in the temporary file."""

    offset: int
    size: int
    shape: tuple[int, ...] = ()


class _Given(NamedTuple):
    """One source of a reward."""

    sender: str
    value: float
    confidence: float
    delivered: int
    """The tick with whose observations it came; a reward after the end has the last one."""


class Recording:
    """The ticks, rewards and pictures of a trial. Close it."""

    def __init__(
        self, trial: LoggedTrial, samples: Iterable[Sample], stopped: Callable[[], bool]
    ) -> None:
        """Read all samples; `stopped` is asked before each one.

        Raises:
            InterruptedError: `stopped` returned True.
            OSError: The temporary file cannot be written, or the trial cannot be read.
            ValueError: The samples are damaged, or exceed the limit.
        """
        self.trial_id = trial.id
        self.last = 0
        """The last tick."""
        self._actors = {actor.name: actor.actor_class for actor in trial.actors[:_MOST_ACTORS]}
        self.unlisted = len(trial.actors) - len(self._actors)
        clients = {each.name for each in trial.params.actors if each.endpoint == "client"}
        self._usual = {name: _CLIENT if name in clients else _AGENT for name in self._actors}
        self._origins = {name: bytearray() for name in self._actors}
        self._rewards: defaultdict[str, defaultdict[int, list[_Given]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._planned: dict[tuple[str, int], Any] = {}
        """Actions of policies from which a person took over, by actor and tick."""
        self._steps: dict[int, _Place] = {}
        self._pictures: dict[int, _Place] = {}
        self._encoder: PictureEncoder | None = None
        self._size = 0
        self._file = TemporaryFile(prefix="cogrs-")  # noqa: SIM115  (`close` closes it)
        try:
            for sample in samples:
                if stopped():
                    raise InterruptedError("the recording is not wanted any more")
                self._take(sample)
            self._mark_people()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the temporary file."""
        self._file.close()

    # -- reading the samples ---------------------------------------------------------------------

    def _take(self, sample: Sample) -> None:
        tick = self.last if sample.tick is None else sample.tick
        self.last = max(self.last, tick)
        for name in self._actors:
            for reward in sample.rewards.get(name, ()):
                self._take_reward(name, reward, tick)
            for message in sample.messages.get(name, ()):
                self._take_message(name, message)
        if sample.tick is not None:
            self._take_step(sample, tick)

    def _take_reward(self, actor: str, reward: ReceivedReward, tick: int) -> None:
        for source in reward.sources:
            value, confidence = source.value, source.confidence
            if math.isfinite(value) and math.isfinite(confidence):
                given = _Given(source.sender_name, value, confidence, tick)
                self._rewards[actor][reward.tick].append(given)

    def _take_message(self, actor: str, message: ReceivedMessage) -> None:
        try:
            content = read_array_message(message.payload)
        except ValueError:
            return  # a message of the user's own kind
        if message.sender == ENVIRONMENT:
            known = message.tick in self._pictures
            if isinstance(content, np.ndarray) and is_picture(content) and not known:
                place = self._write(content.tobytes())
                self._pictures[message.tick] = place._replace(shape=content.shape)
        elif message.sender == actor and isinstance(content, dict) and "takeover" in content:
            self._planned[actor, message.tick] = content.get("policy")

    def _take_step(self, sample: Sample, tick: int) -> None:
        actors = []
        for name, origins in self._origins.items():
            seen, action = sample.observations.get(name), sample.actions.get(name)
            stood_in = name in sample.stood_in
            origin = _DEFAULT if stood_in else _NONE if action is None else self._usual[name]
            origins.extend(bytes(max(tick - len(origins), 0)))
            origins.append(origin)
            actors.append(
                {
                    "name": name,
                    "seen": {} if seen is None else summarize(seen.value),
                    "action": {} if action is None else summarize(action),
                    "terminated": seen is not None and seen.terminated,
                    "truncated": seen is not None and seen.truncated,
                }
            )
        self._steps[tick] = self._write(json.dumps(actors).encode())

    def _write(self, content: bytes) -> _Place:
        place = _Place(self._size, len(content))
        self._size += len(content)
        if self._size > WEB_RECORDING_BYTES:
            raise ValueError(
                f"trial {self.trial_id}: expected at most {WEB_RECORDING_BYTES} bytes of pictures "
                "and ticks to show"
            )
        self._file.write(content)
        return place

    def _mark_people(self) -> None:
        """Mark which actions were a person's, and which the policy's that the person replaced."""
        for name in {name for name, _ in self._planned}:
            origins = self._origins[name]
            for tick, origin in enumerate(origins):
                if origin == _CLIENT:
                    person = (name, tick) in self._planned
                    origins[tick] = _PERSON if person else _POLICY

    # -- what is shown ---------------------------------------------------------------------------

    def timeline(self) -> dict[str, Any]:
        """Return the fields of `timeline`."""
        width = max(1, math.ceil((self.last + 1) / _BINS))
        return {
            "trial": self.trial_id,
            "last": self.last,
            "width": width,
            "pictures": len(self._pictures),
            "unlisted": self.unlisted,
            "actors": [
                {
                    "name": name,
                    "class": actor_class,
                    "rewards": self._binned_rewards(name, width),
                    "origins": self._binned_origins(name, width),
                }
                for name, actor_class in self._actors.items()
            ],
        }

    def _binned_rewards(self, actor: str, width: int) -> dict[str, Any]:
        by_tick = self._rewards[actor]
        counts = Counter(given.sender for each in by_tick.values() for given in each)
        named = {sender for sender, _ in counts.most_common(_MOST_SENDERS)}
        sums: defaultdict[str, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
        for tick, given in by_tick.items():
            for each in given:
                sender = each.sender if each.sender in named else _OTHERS
                if each.confidence > 0 and tick <= self.last:
                    sums[sender][max(tick, 0) // width] += each.value
        return {sender: sorted(some.items()) for sender, some in sorted(sums.items())}

    def _binned_origins(self, actor: str, width: int) -> dict[str, Any]:
        origins = np.frombuffer(bytes(self._origins[actor]), np.uint8)
        bins = np.arange(origins.size) // width
        found = {}
        for number, name in enumerate(ORIGINS):
            counts = np.bincount(bins[origins == number])
            if number != _NONE and counts.any():
                found[name] = [[int(at), int(counts[at])] for at in np.flatnonzero(counts)]
        return found

    def step(self, tick: int) -> dict[str, Any]:
        """Return the fields of `step`.

        Raises:
            ValueError: The trial has no such tick.
        """
        place = self._steps.get(tick)
        if place is None:
            raise ValueError(f"tick: expected one from 0 to {self.last}, got {tick}")
        actors = json.loads(self._read(place))
        for each in actors:
            name = each["name"]
            each["origin"] = ORIGINS[self._origins[name][tick]]
            planned = self._planned.get((name, tick))
            each["policy"] = {} if planned is None else summarize(planned)
            each["rewards"] = [given._asdict() for given in self._rewards[name].get(tick, ())]
        return {"trial": self.trial_id, "tick": tick, "actors": actors}

    def picture(self, tick: int) -> bytes | None:
        """Return the binary message of a tick's picture, or None if there is no picture of it.

        Raises:
            ImportError: It is not compressed, and Pillow is not installed.
        """
        place = self._pictures.get(tick)
        if place is None:
            return None
        if self._encoder is None:
            self._encoder = PictureEncoder()
        pixels = np.frombuffer(self._read(place), np.uint8).reshape(place.shape)
        return self._encoder.encode(tick, pixels)

    def _read(self, place: _Place) -> bytes:
        self._file.seek(place.offset)
        return self._file.read(place.size)
