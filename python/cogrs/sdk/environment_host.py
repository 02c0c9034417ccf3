"""Runs a user's environments, in any number of trials."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING, Any

from cogrs.api import common_pb2
from cogrs.api import environment_pb2 as pb
from cogrs.sdk.codecs import decoded, encoded
from cogrs.sdk.component_host import ComponentHost
from cogrs.sdk.component_table import ResponseStream
from cogrs.sdk.environment import Environment, Update
from cogrs.sdk.hosted_component import HostedComponent, choose, component_name, is_awaitable
from cogrs.sdk.trial import ENVIRONMENT
from cogrs.sdk.wire import expanded, messages_of, rewards_of, started_trial
from cogrs.space_json import actor_spaces_to_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from cogrs.sdk.codecs import CodecRegistry
    from cogrs.sdk.trial import Actor, Trial
    from cogrs.threads import ThreadPool

_log = logging.getLogger("cogrs.sdk")


class EnvironmentHost(ComponentHost["_HostedEnvironment"]):
    """What an orchestrator calls of environments."""

    def __init__(
        self,
        implementations: Mapping[str, Callable[[], Environment]],
        codecs: CodecRegistry,
        stream_timeout: float,
    ) -> None:
        """Create an environment by one of these factories for each trial."""
        super().__init__("cogrs-environment", stream_timeout)
        self._implementations = implementations
        self._codecs = codecs

    async def on_start(self, trial_id: str, request: pb.EnvStartRequest) -> pb.EnvStartReply:
        """Start an environment for a trial, and return its first observations."""
        make = choose(self._implementations, request.impl_name)
        trial = started_trial(trial_id, ENVIRONMENT, request)
        component = _HostedEnvironment(trial, self._codecs, self.components.threads)
        reply = await self._start((trial_id,), component, partial(component.start, make))
        return pb.EnvStartReply(
            observation_set=reply.observation_set,
            spaces=component.spaces,
            messages=reply.messages,
        )

    def on_action(
        self, trial_id: str, requests: AsyncIterator[pb.EnvActionRequest]
    ) -> ResponseStream[pb.EnvActionRequest, pb.EnvActionReply]:
        """Step the environment for each set of actions; freed when the stream is over."""
        return ResponseStream(self.components, (trial_id,), requests)

    async def on_message(self, trial_id: str, request: pb.EnvMessageRequest) -> pb.EnvMessageReply:
        """Give the environment what was sent to it."""
        await self.components.get((trial_id,)).message(request.messages)
        return pb.EnvMessageReply()

    async def on_end(self, trial_id: str, request: pb.EnvActionRequest) -> pb.EnvActionReply:
        """End the environment, after the step that is under way, and free it."""
        return await self._end((trial_id,), lambda it: it.end(request.action_set.actions))


def _spaces_of(environment: Environment) -> str:
    """Return an environment's spaces as JSON; "" and a warning if they cannot be kept."""
    try:
        spaces = getattr(environment, "spaces", None) or {}
        return actor_spaces_to_json(spaces, getattr(environment, "action_hints", None))
    except (TypeError, ValueError) as error:
        name = type(environment).__name__
        _log.warning("%s: its spaces are not kept by data logs: %s", name, error)
        return ""


class _HostedEnvironment(HostedComponent[Environment]):
    def __init__(self, trial: Trial, codecs: CodecRegistry, threads: ThreadPool) -> None:
        super().__init__(component_name(trial.id), threads)
        self._trial = trial
        self._codecs = codecs
        self._tick = 0
        self._observers: frozenset[str] = frozenset()
        self.spaces = ""
        """Spaces of the actors, as `cogrs.space_json` keeps them."""

    async def start(self, make: Callable[[], Environment]) -> pb.EnvActionReply:
        async def start(environment: Environment) -> pb.EnvActionReply:
            update = _checked(await self.call_method(environment.start, self._trial))
            watching = getattr(environment, "observers", ())
            self._observers = frozenset(expanded("observers", watching, self._trial.actors))
            self.spaces = _spaces_of(environment)
            if update.final or update.rewards:
                raise ValueError("update: expected observations and messages only at the start")
            return self._reply(update)

        reply: pb.EnvActionReply = await self.make(make, start)
        return reply

    async def step(self, contents: Sequence[bytes]) -> pb.EnvActionReply:
        async def step(environment: Environment) -> pb.EnvActionReply:
            actions = self._actions(contents)
            update = self.start_call(environment.step, actions)
            update = _checked(await update if is_awaitable(update) else update)
            self._tick += 1
            reply = self._reply(update)
            if reply.final_update:
                self.over = True
            return reply

        return await self.run("step", step)

    def answer(self, request: pb.EnvActionRequest) -> Awaitable[pb.EnvActionReply]:
        return self.step(request.action_set.actions)

    async def end(self, contents: Sequence[bytes]) -> pb.EnvActionReply:
        async def end(environment: Environment) -> pb.EnvActionReply:
            actions = self._actions(contents, last=True)
            update = await self.call_method(environment.end, actions)
            if update is None:
                return pb.EnvActionReply(final_update=True)
            reply = self._reply(_checked(update))
            reply.final_update = True
            # The orchestrator counts ticks: it may not have passed on the first observations yet.
            reply.observation_set.tick_id = 0
            return reply

        return await self.run_last(end)

    def _actions(self, contents: Sequence[bytes], *, last: bool = False) -> dict[str, Any]:
        actors = self._trial.actors
        if len(contents) != len(actors) and (contents or not last):
            raise ValueError(f"actions: expected {len(actors)}, got {len(contents)}")
        return {
            actor.name: self._action(actor, content)
            for actor, content in zip(actors, contents, strict=False)
            if actor.name not in self._observers and (content or not last)
        }

    def _action(self, actor: Actor, content: bytes) -> Any:
        try:
            codec = self._codecs.of(actor).action
            return decoded(codec, content, f"action of {actor.name!r}").value
        except ValueError as error:
            if content:
                raise
            hint = "if it is an observer, name it in `observers` of the environment too"
            raise ValueError(f"{error}; {hint}") from error

    def _reply(self, update: Update) -> pb.EnvActionReply:
        return pb.EnvActionReply(
            observation_set=self._observation_set(update),
            rewards=rewards_of(update.rewards, self._trial.actors),
            messages=messages_of(update.messages, self._trial.actors),
            final_update=update.final,
        )

    def _observation_set(self, update: Update) -> pb.ObservationSet:
        contents, index = self._contents(update)
        return pb.ObservationSet(
            tick_id=self._tick,
            timestamp=time_ns(),
            observations=[
                common_pb2.ObservationData(content=content, snapshot=True) for content in contents
            ],
            actors_map=index,
        )

    def _contents(self, update: Update) -> tuple[list[bytes], list[int]]:
        """Return the different observations, and each actor's index into them."""
        values = update.observations
        each = isinstance(values, Mapping)
        if each:
            self._check_names("observations", values)
        flags = {
            "terminated": self._flags("terminated", update.terminated),
            "truncated": self._flags("truncated", update.truncated),
        }
        contents: list[bytes] = []
        known: dict[tuple[Any, ...], tuple[int, Any]] = {}
        index = []
        for actor in self._trial.actors:
            codec = self._codecs.of(actor).observation
            value = values[actor.name] if each else values
            mine = {name: flag[actor.name] for name, flag in flags.items()}
            key = (id(codec), id(value), *mine.values())
            if key not in known:
                known[key] = len(contents), value  # which keeps its id from being used again
                contents.append(encoded(codec, value, f"observation of {actor.name!r}", **mine))
            index.append(known[key][0])
        return contents, index

    def _flags(self, what: str, flag: bool | Mapping[str, bool]) -> Mapping[str, bool]:
        names = self._trial.actor_names
        if not isinstance(flag, Mapping):
            return dict.fromkeys(names, flag)
        unknown = set(flag) - set(names)
        if unknown:
            expected, got = ", ".join(names), ", ".join(map(str, sorted(unknown)))
            raise ValueError(f"{what}: expected some of {expected}; got {got}")
        return {name: flag.get(name, False) for name in names}

    def _check_names(self, what: str, values: Mapping[str, Any]) -> None:
        names = self._trial.actor_names
        if set(values) != set(names):
            expected, got = ", ".join(names), ", ".join(map(str, values)) or "an empty mapping"
            raise ValueError(f"{what}: expected one for each of {expected}; got {got}")


def _checked(update: Any) -> Update:
    if not isinstance(update, Update):
        raise TypeError(f"expected an Update to be returned, got {type(update).__name__}")
    return update
