"""Runs a user's agents, for any number of actors in any number of trials."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from grpc import StatusCode

from cogrs.api import agent_pb2 as pb
from cogrs.api import common_pb2
from cogrs.limits import LATE_AGENTS
from cogrs.sdk.agent import Agent, as_action
from cogrs.sdk.call_error import CallError
from cogrs.sdk.component_host import ComponentHost
from cogrs.sdk.component_table import ResponseStream
from cogrs.sdk.hosted_component import (
    HostedComponent,
    choose,
    component_name,
    failure_of,
    is_awaitable,
)
from cogrs.sdk.wire import (
    action_content,
    messages_of,
    received_final,
    received_observation,
    received_reward,
    rewards_of,
    started_trial,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from cogrs.sdk.codecs import CodecRegistry, Codecs
    from cogrs.sdk.trial import Trial
    from cogrs.threads import ThreadPool


class AgentHost(ComponentHost["_HostedAgent"]):
    """What an orchestrator calls of agents."""

    def __init__(
        self,
        implementations: Mapping[str, Callable[[], Agent]],
        codecs: CodecRegistry,
        stream_timeout: float,
    ) -> None:
        """Create an agent by one of these factories for each actor of each trial."""
        super().__init__("cogrs-agent", stream_timeout)
        self._implementations = implementations
        self._codecs = codecs
        self._ended: dict[tuple[str, str], Agent] = {}
        """Agents that take rewards after their ends."""

    async def on_start(
        self, trial_id: str, actor_name: str, request: pb.AgentStartRequest
    ) -> pb.AgentStartReply:
        """Start an agent for an actor."""
        make = choose(self._implementations, request.impl_name)
        trial = started_trial(trial_id, actor_name, request)
        component = _HostedAgent(trial, self._codecs, self.components.threads)
        await self._start((trial_id, actor_name), component, partial(component.start, make))
        return pb.AgentStartReply(takes_feedback=True)

    def on_observation(
        self, trial_id: str, actor_name: str, requests: AsyncIterator[pb.AgentObservationRequest]
    ) -> ResponseStream[pb.AgentObservationRequest, pb.AgentActionReply]:
        """Return the actions that answer observations; frees the agent when the stream is over.

        The stream of a trial that ends well is closed after OnEnd.
        """
        return ResponseStream(self.components, (trial_id, actor_name), requests)

    async def on_reward(
        self, trial_id: str, actor_name: str, request: pb.AgentRewardRequest
    ) -> pb.AgentRewardReply:
        """Give an agent a reward, after its end too if it takes such rewards."""
        key = (trial_id, actor_name)
        if (ended := self._ended.get(key)) is not None:
            _reward_late(component_name(*key), ended, request.reward)
        else:
            await self.components.get(key).reward(request.reward)
        return pb.AgentRewardReply()

    async def on_message(
        self, trial_id: str, actor_name: str, request: pb.AgentMessageRequest
    ) -> pb.AgentMessageReply:
        """Give an agent what was sent to it."""
        await self.components.get((trial_id, actor_name)).message(request.messages)
        return pb.AgentMessageReply()

    async def on_end(
        self, trial_id: str, actor_name: str, request: pb.AgentEndRequest
    ) -> pb.AgentEndReply:
        """End an agent, and free it."""
        key = (trial_id, actor_name)
        agent = await self._end(key, lambda it: it.end(request))
        if getattr(type(agent), "late_reward", Agent.late_reward) is not Agent.late_reward:
            self._ended[key] = agent
            while len(self._ended) > LATE_AGENTS:
                del self._ended[next(iter(self._ended))]
        return pb.AgentEndReply()


class _HostedAgent(HostedComponent[Agent]):
    def __init__(self, trial: Trial, book: CodecRegistry, threads: ThreadPool) -> None:
        super().__init__(component_name(trial.id, trial.name), threads)
        self._trial = trial
        self._book = book
        self._codecs: Codecs
        self._acting: asyncio.Task[Any] | None = None
        self._interrupted = False
        self._ending = False
        self._fed = -1
        """The last tick with whose observation rewards and messages were taken."""

    async def start(self, make: Callable[[], Agent]) -> None:
        async def start(agent: Agent) -> None:
            self._codecs = self._book.of(self._trial.actor)
            await self.call_method(agent.start, self._trial)

        await self.make(make, start)

    async def answer(self, request: pb.AgentObservationRequest) -> pb.AgentActionReply | None:
        """Return an action, or None if the trial ended meanwhile."""
        message = request.observation

        async def act(agent: Agent) -> pb.AgentActionReply | None:
            if self._ending:
                return None
            error = ""
            if request.rewards or request.messages:
                error = await self._take_feedback(agent, request)
                if self._ending:
                    return None
            observation = received_observation(message, self._codecs.observation, self._trial.name)
            action = self.start_call(agent.act, observation)
            if not is_awaitable(action):
                return self._reply(action, error)
            try:
                action = await self._interruptible(action)
            except asyncio.CancelledError:
                if self._ending:
                    return None
                raise
            return self._reply(action, error)

        return await self.run("act", act)

    async def reward(self, message: common_pb2.Reward) -> None:
        reward = received_reward(message)
        await self.run("reward", lambda agent: self.call_method(agent.reward, reward))

    async def _take_feedback(self, agent: Agent, request: pb.AgentObservationRequest) -> str:
        """Give an agent what came with an observation, once; return what failed first, or ""."""
        tick = request.observation.tick_id
        if tick <= self._fed:
            return ""
        self._fed = tick
        errors: list[str] = []

        async def attempt(what: str, work: Awaitable[None]) -> None:
            try:
                await self.wrap_errors(what, work)
            except CallError as error:
                errors.append(str(error))

        for reward in request.rewards:
            await attempt("reward", self.call_method(agent.reward, received_reward(reward)))
        if request.messages:
            await attempt("message", self.call_messages(agent, request.messages))
        # One is enough: all of them are in the log here, and together may be too long to send.
        return errors[0] if errors else ""

    async def end(self, request: pb.AgentEndRequest) -> Agent:
        """Bring the agent to its end, and return it."""

        async def end(agent: Agent) -> Agent:
            for each in request.unanswered:
                await self._take_feedback(agent, each)
            data = request.final_data
            final = received_final(data, self._codecs.observation, self._trial.name)
            await self.call_method(agent.end, final)
            return agent

        self._ending = True
        if self._acting is not None:
            self._interrupted = self._acting.cancel()
        return await self.run_last(end)

    async def _interruptible(self, action: Awaitable[Any]) -> Any:
        """Wait for an action in the stream's own task, until the trial ends."""
        task = self._acting = asyncio.current_task()
        try:
            return await action
        finally:
            self._acting = None
            if self._interrupted and task is not None:
                task.uncancel()

    def _reply(self, action: Any, feedback_error: str) -> pb.AgentActionReply:
        done = as_action(action)
        content = action_content(done, self._codecs.action, self._trial.name)
        return pb.AgentActionReply(
            action=common_pb2.Action(content=content),
            rewards=rewards_of(done.rewards, self._trial.actors),
            messages=messages_of(done.messages, self._trial.actors),
            feedback_error=feedback_error,
        )


def _reward_late(label: str, agent: Agent, message: common_pb2.Reward) -> None:
    """Reward an agent after its end; a CallError if it does not take the reward."""
    try:
        taken = agent.late_reward(received_reward(message))
    except Exception as error:
        raise failure_of(f"{label}: late_reward", error) from error
    if not taken:
        text = f"{label}: its step of tick {message.tick_id} is not stored"
        raise CallError(StatusCode.NOT_FOUND, text)
