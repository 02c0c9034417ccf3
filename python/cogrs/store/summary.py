"""What the index says of a trial, gathered from its samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf import json_format

from cogrs.store.record import TrialRecord, moment_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cogrs.api.common_pb2 import TrialParams

ENVIRONMENT = "env"
"""The environment as the sender of rewards."""


def people_of(params: TrialParams) -> Mapping[str, bool]:
    """Return for each actor of a trial, and the environment, whether it is a person."""
    actors = {actor.name: actor.endpoint == "client" for actor in params.actors}
    return {**actors, ENVIRONMENT: False}


class TrialSummary:
    """Grows with the samples of a trial."""

    def __init__(self, trial_id: str, params: TrialParams) -> None:
        """Create one without samples."""
        self._trial_id = trial_id
        self._classes = {actor.name: actor.actor_class for actor in params.actors}
        self._people = people_of(params)
        self._params = params
        self.returns = dict.fromkeys(self._classes, 0.0)
        self.ticks = 0
        self.people = False
        self.user = ""
        self.end_reason = ""
        self.first_timestamp = 0
        """Of the first observations, in nanoseconds since the Unix epoch; 0 if they are missing."""
        self.last_timestamp = 0

    def add_reward(self, actor: str, value: float, senders: Iterable[str]) -> None:
        """Count a reward as it was delivered."""
        if actor in self.returns:
            self.returns[actor] += value
        if not self.people:
            for sender in senders:
                if self._people.get(sender, True):
                    self.people = True

    def add_sample(self, tick: int | None, timestamp: int, user: str, end_reason: str) -> None:
        """Count a sample."""
        if tick is not None and tick > self.ticks:
            self.ticks = tick
        if timestamp:
            self.first_timestamp = self.first_timestamp or timestamp
            self.last_timestamp = timestamp
        self.user = user or self.user
        self.end_reason = end_reason or self.end_reason

    def record(
        self,
        file: str,
        size: int,
        checksum: int,
        *,
        started: float,
        ended: float | None,
        partial: bool,
    ) -> TrialRecord:
        """Return the row of the index; times are seconds since the Unix epoch."""
        return TrialRecord(
            trial_id=self._trial_id,
            ticks=self.ticks,
            returns=self.returns,
            classes=self._classes,
            end_reason=self.end_reason,
            user=self.user,
            partial=partial,
            people=self.people,
            started=moment_of(started),
            ended=None if ended is None else moment_of(ended),
            file=file,
            size=size,
            checksum=checksum,
            params=params_json(self._params),
        )


_JSON: dict[bytes, str] = {}
_KNOWN = 1_000


def params_json(params: TrialParams) -> str:
    """Return parameters as JSON; most trials of a program have the same."""
    content = params.SerializeToString(deterministic=True)
    text = _JSON.get(content)
    if text is None:
        text = json_format.MessageToJson(
            params, preserving_proto_field_name=True, indent=None, ensure_ascii=False
        )
        if len(_JSON) >= _KNOWN:
            _JSON.clear()
        _JSON[content] = text
    return text
