"""A world for the engine: a clock that stands still, and parties that do what a test says."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, Any, TypeVar

from cogrs.api.agent_pb2 import AgentActionReply, AgentObservationRequest
from cogrs.api.common_pb2 import (
    Action,
    ActorParams,
    ActorPeriodData,
    EnvironmentParams,
    Message,
    ObservationData,
    Reward,
    RewardSource,
    TrialParams,
)
from cogrs.api.environment_pb2 import EnvActionReply, EnvStartReply, ObservationSet
from cogrs.api.orchestrator_pb2 import TrialActionReply, TrialActionRequest, TrialStartRequest
from cogrs.orchestrator.engine.actor_options import ActorOptions, OptionTable
from cogrs.orchestrator.engine.orchestrator import Orchestrator
from cogrs.orchestrator.engine.settings import Settings
from cogrs.orchestrator.engine.trial_record import TrialContext

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from cogrs.orchestrator.engine.client_slot import ClientSlot
    from cogrs.orchestrator.engine.state import State
    from cogrs.orchestrator.engine.trial import Trial

T = TypeVar("T")

WALL = 1_700_000_000_000_000_000


class Clock:
    """Time that passes when a test lets it."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = itertools.count()

    def now(self) -> float:
        return self._now

    def wall_ns(self) -> int:
        return WALL

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (self._now + delay, next(self._count), timer))
        return timer

    def advance(self, seconds: float) -> None:
        until = self._now + seconds
        while self._timers and self._timers[0][0] <= until:
            self._now, _, timer = heapq.heappop(self._timers)
            timer.fire()
        self._now = until

    @property
    def waiting(self) -> int:
        return sum(not timer.cancelled for _, _, timer in self._timers)


class Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def fire(self) -> None:
        if not self.cancelled:
            self._callback()


class Recorder:
    """A port that writes down what it is asked, and hands out copies."""

    def __init__(self, events: Any, story: list[str]) -> None:
        self.events = events
        self.calls: list[tuple[Any, ...]] = []
        self._story = story

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("_"):
            raise AttributeError(name)

        def record(*args: Any) -> None:
            self.calls.append((name, *map(_copy, args)))
            self._story.append(name)

        return record

    def of(self, name: str) -> list[Any]:
        """The arguments of all calls of one name; bare where there is one."""
        found = [call[1:] for call in self.calls if call[0] == name]
        return [args[0] if len(args) == 1 else args for args in found]

    @property
    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


class AgentRecorder(Recorder):
    """Writes down observations as what they are: data of a tick."""

    def observe(self, request: AgentObservationRequest) -> None:
        self.deliver(ActorPeriodData(observations=[request.observation]))


def _copy(value: Any) -> Any:
    if isinstance(value, list):
        return [_copy(item) for item in value]
    if hasattr(value, "CopyFrom"):
        copy = type(value)()
        copy.CopyFrom(value)
        return copy
    return value


class Links:
    """Gives out recorders."""

    def __init__(self, *, log: bool) -> None:
        self.environments: dict[str, Recorder] = {}
        self.agents: dict[tuple[str, str], Recorder] = {}
        self.logs: dict[str, Recorder] = {}
        self.has_log = log
        self.story: list[str] = []
        """Names of the calls of all ports, in their order."""

    def check(self, what: str, endpoint: Any) -> None:
        pass

    def environment(self, trial_id: str, endpoint: Any, events: Any) -> Any:
        self.environments[trial_id] = Recorder(events, self.story)
        return self.environments[trial_id]

    def agent(self, trial_id: str, name: str, endpoint: Any, events: Any) -> Any:
        self.agents[trial_id, name] = AgentRecorder(events, self.story)
        return self.agents[trial_id, name]

    def log(self, trial_id: str) -> Any:
        if self.has_log:
            self.logs[trial_id] = Recorder(None, self.story)
        return self.logs.get(trial_id)


class Reader:
    """Stands for the call that writes a client's stream, or a watcher's."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.closed = 0

    def wake(self) -> None:
        pass

    def close(self, error: Exception) -> None:
        self.error = error
        self.closed += 1


class Client:
    """One client with one stream at a time."""

    def __init__(self, actor: ClientSlot) -> None:
        self.actor = actor
        self.open()

    def open(self) -> None:
        self.reader = Reader()
        self.stream = self.actor.open(self.reader)

    def rejoin(self) -> None:
        """Take the place again, as JoinTrial does, and open a stream."""
        self.actor.join()
        self.open()

    def act(self, content: bytes = b"x") -> None:
        self.actor.received(self.stream, TrialActionRequest(action=Action(content=content)))

    def greet(self) -> None:
        self.actor.received(self.stream, TrialActionRequest())

    def read(self) -> list[TrialActionReply]:
        replies = []
        while (reply := self.actor.take(self.stream)) is not None:
            replies.append(_copy(reply))
            if reply.final_data:
                self.actor.finished(self.stream)
        return replies

    def hang_up(self) -> None:
        self.actor.hung_up(self.stream, "cancelled")


class World:
    """An orchestrator with one trial, unless more are started."""

    def __init__(
        self,
        agents: int = 1,
        clients: int = 0,
        *,
        settings: Settings | None = None,
        log: bool = False,
        start: bool = True,
        classes: Iterable[str] | None = None,
        exclude: Iterable[str] = (),
        hooks: Iterable[Any] = (),
        actor_options: dict[str, ActorOptions] | None = None,
        class_options: dict[str, ActorOptions] | None = None,
        **params: Any,
    ) -> None:
        self.clock = Clock()
        self.links = Links(log=log)
        self.params = make_params(agents, clients, **params)
        self.orchestrator = Orchestrator(
            self.params,
            TrialContext(
                settings=settings or Settings(),
                clock=self.clock,
                links=self.links,
                exclude=list(exclude),
                options=OptionTable(by_name=actor_options or {}, by_class=class_options or {}),
            ),
            hooks=list(hooks),
            classes=None if classes is None else frozenset(classes),
        )
        self.states: list[tuple[str, State]] = []
        self.watcher = self.orchestrator.watch(Reader(), ())
        if start:
            self.start()

    def start(self, request: TrialStartRequest | None = None) -> Trial:
        reply = now(self.orchestrator.start(request or TrialStartRequest(user_id="user")))
        self.reply = reply
        self.trial = self.orchestrator._trials.get(reply.trial_id)
        return self.trial

    @property
    def environment(self) -> Recorder:
        return self.links.environments[self.trial.id]

    @property
    def log(self) -> Recorder:
        return self.links.logs[self.trial.id]

    def agent(self, name: str = "a0") -> Recorder:
        return self.links.agents[self.trial.id, name]

    @property
    def agents(self) -> list[Recorder]:
        return [agent for (trial, _), agent in self.links.agents.items() if trial == self.trial.id]

    def client(self, name: str = "c0", *, join: bool = True) -> Client:
        actor = self.orchestrator.client(self.trial.id, name)
        if join:
            actor.join()
        return Client(actor)

    @property
    def size(self) -> int:
        return len(self.trial.params.actors)

    def run(self) -> World:
        """Start the environment and all agents; clients are to join before."""
        self.environment.events.started(self.start_reply())
        for agent in self.agents:
            agent.events.started()
        return self

    def start_reply(self) -> EnvStartReply:
        return EnvStartReply(observation_set=self.observations(0))

    def end_reply(self) -> EnvActionReply:
        return EnvActionReply(final_update=True)

    def observations(self, number: int, **fields: Any) -> ObservationSet:
        return observation_set(self.size, number, **fields)

    def step(self, number: int, **fields: Any) -> None:
        """Reply as the environment."""
        fields.setdefault("observation_set", self.observations(number))
        self.environment.events.replied(EnvActionReply(**fields))

    def act(self, **contents: bytes) -> None:
        """Act as agents: all of them, or those that are named."""
        names = contents or {agent.name: b"x" for agent in self.trial.params.actors}
        for name, content in names.items():
            if (self.trial.id, name) in self.links.agents:
                self.agent(name).events.acted(action(content))

    def seen(self) -> list[State]:
        """The states of the trial, as a watcher was told them."""
        while (change := self.watcher.take()) is not None:
            self.states.append(change[:2])
        return [state for trial_id, state in self.states if trial_id == self.trial.id]

    def drain(self) -> None:
        """Answer all requests to end."""
        if "end" in self.environment.names:
            self.environment.events.ended(EnvActionReply(final_update=True))
        for agent in self.agents:
            if "end" in agent.names:
                agent.events.ended()


def now(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that has nothing to wait for."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


def make_params(agents: int = 1, clients: int = 0, **fields: Any) -> TrialParams:
    """`a0`, `a1`, ... of class `agent`, then `c0`, ... of class `player`."""
    actors = [
        ActorParams(name=f"a{i}", actor_class="agent", endpoint=f"grpc://agents:{i + 1}")
        for i in range(agents)
    ]
    actors += [
        ActorParams(name=f"c{i}", actor_class="player", endpoint="client") for i in range(clients)
    ]
    fields.setdefault("environment", EnvironmentParams(endpoint="grpc://environment:1"))
    fields.setdefault("actors", actors)
    return TrialParams(**fields)


def observation_set(actors: int, number: int, **fields: Any) -> ObservationSet:
    """A set with an observation for each actor, in which number and index can be read."""
    fields.setdefault(
        "observations",
        [ObservationData(content=f"o{number}.{index}".encode()) for index in range(actors)],
    )
    fields.setdefault("actors_map", range(actors))
    return ObservationSet(**fields)


def action(content: bytes = b"x", **fields: Any) -> AgentActionReply:
    return AgentActionReply(action=Action(content=content), **fields)


def reward(receiver: str, value: float, *, tick: int = -1, confidence: float = 1.0) -> Reward:
    sources = [RewardSource(value=value, confidence=confidence)]
    return Reward(receiver_name=receiver, tick_id=tick, sources=sources)


def message(receiver: str, text: str, *, tick: int = -1) -> Message:
    made = Message(receiver_name=receiver, tick_id=tick)
    made.payload.type_url, made.payload.value = "type/text", text.encode()
    return made


def texts(messages: Iterable[Message]) -> list[tuple[int, str, str]]:
    """Tick, sender and text of messages."""
    return [(each.tick_id, each.sender_name, each.payload.value.decode()) for each in messages]


def values(rewards: Iterable[Reward]) -> list[tuple[int, float]]:
    return [(each.tick_id, each.value) for each in rewards]


def running_client(**arguments: Any) -> tuple[World, Client]:
    """A trial of one client that has read its first observation."""
    arguments.setdefault("agents", 0)
    world = World(clients=1, **arguments)
    client = world.client()
    world.run()
    assert observed(client) == [b"o0.%d" % (world.size - 1)]
    return world, client


def observed(client: Client) -> list[bytes]:
    return [each.data.content for reply in client.read() for each in reply.data.observations]


def actions(world: World) -> list[list[bytes]]:
    return [list(request.action_set.actions) for _, request in world.environment.of("act")]
