"""The samples of one trial for the data log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cogrs.api.common_pb2 import Action, ActorPeriodData, Message, TrialParams
from cogrs.api.datalog_pb2 import DatalogSample

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from cogrs.api.environment_pb2 import ObservationSet
    from cogrs.orchestrator.engine.ports import LogPort


def sample_fields() -> list[str]:
    """Return the names of the fields that samples may go without."""
    return [field.name for field in DatalogSample.DESCRIPTOR.fields]


class TrialLogRecorder:
    """Makes one sample of each observation set, and sends it when the next set is there.

    A trial that never ran has no samples.
    """

    def __init__(self, port: LogPort | None, user_id: str, exclude: Collection[str]) -> None:
        """Create a recorder that leaves out the excluded fields; without a port it does nothing."""
        self._port = port
        self._user_id = user_id
        self._exclude = tuple(exclude)
        self._sample: DatalogSample | None = None
        self._actors = 0
        self._started = False
        self.spaces = ""
        """What the environment told of its spaces before the start."""

    def start(self, params: TrialParams) -> None:
        """Send the parameters and spaces; samples follow."""
        self._actors = len(params.actors)
        self._started = True
        spaces, self.spaces = self.spaces, ""
        if self._port is not None:
            self._port.params(params, spaces)

    def begin_sample(
        self, observations: ObservationSet | None, periods: Iterable[ActorPeriodData]
    ) -> None:
        """Send the sample before, and begin the next with the data that goes to the actors."""
        if self._port is None or not self._started:
            return
        self._send()
        self._sample = DatalogSample(user_id=self._user_id, observations=observations)
        self._add(periods)

    def add_actions(
        self, actions: Iterable[bytes], messages: Iterable[Message], stood_in: Iterable[int] = ()
    ) -> None:
        """Add the data that goes to the environment; some are default actions of late actors."""
        if self._sample is not None:
            self._sample.actions.extend(Action(content=content) for content in actions)
            self._sample.messages.extend(messages)
            self._sample.stood_in.extend(sorted(stood_in))

    def close(self, reason: str, periods: Iterable[ActorPeriodData] = ()) -> None:
        """Send the last sample, which has no actions, and end the log."""
        if self._sample is not None:
            self._sample.end_reason = reason
            del self._sample.actions[:]
            del self._sample.stood_in[:]
            self._add(periods)
            self._send()
        if self._port is not None:
            self._port.close()

    def _add(self, periods: Iterable[ActorPeriodData]) -> None:
        if self._sample is not None:
            for period in periods:
                self._sample.rewards.extend(period.rewards)
                self._sample.messages.extend(period.messages)

    def _send(self) -> None:
        sample, self._sample = self._sample, None
        if sample is None or self._port is None:
            return
        missing = self._actors - len(sample.actions)
        sample.actions.extend(Action() for _ in range(missing))
        for name in self._exclude:
            sample.ClearField(name)  # type: ignore[arg-type]  # checked when it was configured
        self._port.sample(sample)
