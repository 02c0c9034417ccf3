"""Runs a user's data logs, for any number of trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cogrs.api import common_pb2
from cogrs.api import datalog_pb2 as pb
from cogrs.sdk.codecs import decoded
from cogrs.sdk.component_host import ComponentHost
from cogrs.sdk.datalog import DatalogSink, LoggedTrial, Sample
from cogrs.sdk.hosted_component import HostedComponent
from cogrs.sdk.wire import actors_of, received_message, received_observation, received_reward

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from cogrs.sdk.codecs import CodecRegistry
    from cogrs.sdk.trial import Actor, Observation
    from cogrs.threads import ThreadPool


class DatalogHost(ComponentHost["_HostedLog"]):
    """What an orchestrator calls of a data log."""

    def __init__(self, make: Callable[[], DatalogSink], codecs: CodecRegistry) -> None:
        """Create a log by this factory for each trial."""
        super().__init__("cogrs-datalog")
        self._make = make
        self._codecs = codecs

    async def on_log_sample(
        self, trial_id: str, requests: AsyncIterator[pb.LogExporterSampleRequest]
    ) -> pb.LogExporterSampleReply:
        """Take the parameters of a trial, and its samples, until it is over."""
        component = _HostedLog(trial_id, self._codecs, self.components.threads)
        self.components.add((trial_id,), component)
        try:
            async for request in requests:
                if request.HasField("trial_params"):
                    await component.start(self._make, request.trial_params, request.spaces)
                else:
                    await component.sample(request.sample)
            # A stream that breaks off raises instead.
            await component.end()
        finally:
            self.components.free((trial_id,))
        return pb.LogExporterSampleReply()


class _HostedLog(HostedComponent[DatalogSink]):
    def __init__(self, trial_id: str, book: CodecRegistry, threads: ThreadPool) -> None:
        super().__init__(f"trial {trial_id}: data log", threads)
        self._trial_id = trial_id
        self._book = book
        self._actors: tuple[Actor, ...] = ()

    async def start(
        self, make: Callable[[], DatalogSink], params: common_pb2.TrialParams, spaces: str
    ) -> None:
        self._actors = actors_of(params.actors)
        trial = LoggedTrial(self._trial_id, self._actors, params, spaces)
        await self.make(make, lambda sink: self.call_method(sink.start, trial))

    async def sample(self, message: pb.DatalogSample) -> None:
        async def sample(sink: DatalogSink) -> None:
            await self.call_method(sink.sample, self._sample(message))

        await self.run("sample", sample)

    async def end(self) -> None:
        await self.run_last(lambda sink: self.call_method(sink.end))

    def _sample(self, message: pb.DatalogSample) -> Sample:
        told = message.HasField("observations")
        return Sample(
            message.observations.tick_id if told else None,
            self._observations(message) if told else {},
            {
                actor.name: decoded(
                    self._book.of(actor).action, action.content, f"action of {actor.name!r}"
                ).value
                for actor, action in zip(self._actors, message.actions, strict=False)
                if action.content
            },
            _by_receiver(message.rewards, received_reward),
            _by_receiver(message.messages, received_message),
            message.user_id,
            message.end_reason,
            frozenset(
                self._actors[number].name
                for number in message.stood_in
                if number < len(self._actors)
            ),
        )

    def _observations(self, message: pb.DatalogSample) -> dict[str, Observation]:
        told = message.observations
        return {
            actor.name: received_observation(
                common_pb2.Observation(
                    tick_id=told.tick_id, timestamp=told.timestamp, data=told.observations[index]
                ),
                self._book.of(actor).observation,
                actor.name,
            )
            for actor, index in zip(self._actors, told.actors_map, strict=False)
        }


def _by_receiver(messages: Any, received: Callable[[Any], Any]) -> dict[str, tuple[Any, ...]]:
    sorted_out: dict[str, tuple[Any, ...]] = {}
    for message in messages:
        name = message.receiver_name
        sorted_out[name] = (*sorted_out.get(name, ()), received(message))
    return sorted_out
