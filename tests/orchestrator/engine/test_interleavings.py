"""Whatever happens, in whatever order: every trial keeps to the rules, and ends."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cogrs.api.environment_pb2 import EnvActionReply, EnvStartReply
from cogrs.api.orchestrator_pb2 import TrialJoinRequest
from cogrs.orchestrator.engine.actor_options import ActorOptions
from cogrs.orchestrator.engine.errors import OrchestratorError
from cogrs.orchestrator.engine.state import State
from tests.orchestrator.world import Client, World, reward

AGENTS, CLIENTS = 2, 2
agents = st.integers(0, AGENTS - 1).map(lambda index: f"a{index}")
clients = st.integers(0, CLIENTS - 1).map(lambda index: f"c{index}")
actor_options = st.builds(
    ActorOptions,
    optional=st.booleans(),
    default_action=st.sampled_from([None, b"", b"default"]),
    response_timeout=st.sampled_from([None, 0.0, 3.0]),
    initial_connection_timeout=st.sampled_from([None, 0.0, 5.0]),
)


class Trials(RuleBasedStateMachine):
    """One trial with agents and clients, and everything that can happen to it."""

    @initialize(
        max_steps=st.integers(0, 3),
        max_inactivity=st.sampled_from([0, 20]),
        options=st.dictionaries(agents | clients, actor_options),
    )
    def begin(self, max_steps: int, max_inactivity: int, options: dict[str, ActorOptions]) -> None:
        self.world = World(
            AGENTS,
            CLIENTS,
            max_steps=max_steps,
            max_inactivity=max_inactivity,
            log=True,
            actor_options=options,
        )
        self.trial = self.world.trial
        self.clients: dict[str, Client] = {}
        self.read: dict[str, list[Any]] = {f"c{index}": [] for index in range(CLIENTS)}
        self.replies = 0
        self.sent: list[float] = []

    # What components do.

    def _said(self, *names: str) -> bool:
        return any(name in self.world.environment.names for name in names)

    @rule()
    def environment_starts(self) -> None:
        reply = EnvStartReply(observation_set=self.world.observations(0))
        self.world.environment.events.started(reply)

    @rule(number=st.integers(0, 3), final=st.sampled_from([False, False, False, True]))
    def environment_replies(self, number: int, final: bool) -> None:
        rewards = [reward("a0", 1.0)]
        self.world.step(number, final_update=final, rewards=rewards)

    @rule()
    def environment_replies_badly(self) -> None:
        self.world.step(0, observation_set=self.world.observations(0, actors_map=[9]))

    @rule(call=st.sampled_from(["OnStart", "OnAction", "OnEnd"]))
    def environment_fails(self, call: str) -> None:
        self.world.environment.events.failed(call, "x")

    @precondition(lambda self: self._said("end"))
    @rule()
    def environment_ends(self) -> None:
        self.world.environment.events.ended(EnvActionReply())

    @rule(name=agents)
    def agent_starts(self, name: str) -> None:
        self.world.agent(name).events.started()

    @rule(name=agents)
    def agent_acts(self, name: str) -> None:
        self.world.act(**{name: b"x"})

    @rule(name=agents, call=st.sampled_from(["OnStart", "OnObservation"]))
    def agent_fails(self, name: str, call: str) -> None:
        self.world.agent(name).events.failed(call, "x")

    @rule(name=agents)
    def agent_ends(self, name: str) -> None:
        if "end" in self.world.agent(name).names:
            self.world.agent(name).events.ended()

    # What clients and controllers do.

    @rule(name=clients)
    def client_joins(self, name: str) -> None:
        try:
            self.world.orchestrator.join(TrialJoinRequest(trial_id=self.trial.id, actor_name=name))
        except OrchestratorError:
            return

    @rule(name=clients)
    def client_opens(self, name: str) -> None:
        try:
            if name in self.clients:
                self.clients[name].open()
            else:
                self.clients[name] = self.world.client(name, join=False)
        except OrchestratorError:
            return

    @rule(name=clients)
    def client_reads(self, name: str) -> None:
        if name in self.clients:
            self.read[name] += self.clients[name].read()

    @rule(name=clients)
    def client_acts(self, name: str) -> None:
        if name in self.clients:
            self.clients[name].act()

    @rule(name=clients)
    def client_leaves(self, name: str) -> None:
        if name in self.clients:
            self.clients[name].hang_up()

    @rule()
    def terminate(self) -> None:
        self.trial.end("enough")

    @rule(seconds=st.sampled_from([0.5, 6, 31]))
    def time_passes(self, seconds: float) -> None:
        # Ended trials are kept, so that this one can still be looked at.
        if self.trial.state is not State.ENDED:
            self.world.clock.advance(seconds)

    @rule()
    def all_goes_well(self) -> None:
        """Bring it to RUNNING now and then: chance alone seldom does."""
        if self.trial.state is State.PENDING:
            for name in self.read:
                self.client_joins(name)
                self.client_opens(name)
            self.world.run()

    @rule()
    def all_act(self) -> None:
        for name in self.read:
            self.client_opens(name)
            self.client_reads(name)
            self.client_acts(name)
        self.world.act()

    # What always holds.

    @invariant()
    def states_come_once_and_in_order(self) -> None:
        seen = self.world.seen()
        assert seen == sorted(set(seen))
        assert seen[-1] is self.trial.state

    @invariant()
    def each_tick_is_delivered_once_and_in_order(self) -> None:
        lengths = set()
        for agent in self.world.agents:
            ticks = [o.tick_id for period in agent.of("deliver") for o in period.observations]
            assert ticks == list(range(len(ticks)))
            ended = [o.tick_id for period in agent.of("end") for o in period.observations]
            if agent.events.gone:  # it is asked nothing more, but told the end
                assert not ended or ended[0] >= len(ticks)
            else:
                assert ended in ([], [len(ticks)])
                lengths.add(len(ticks))
        assert len(lengths) <= 1

    @invariant()
    def clients_see_ticks_in_order_and_the_end_last(self) -> None:
        for replies in self.read.values():
            ticks = [o.tick_id for reply in replies for o in reply.data.observations]
            assert ticks == sorted(ticks)
            finals = [reply.final_data for reply in replies]
            assert sum(finals) <= 1
            assert not any(finals[:-1])

    @invariant()
    def components_are_called_in_order(self) -> None:
        for agent in self.world.agents:
            names = [name for name in agent.names if name != "close"]
            assert names[:1] == ["start"]
            assert names.count("start") == 1
            assert names.count("end") <= 1
            assert "end" not in names[:-1]
        names = self.world.environment.names
        assert names.count("end") <= 1
        assert names.count("close") <= 1
        if "end" in names:
            assert set(names[names.index("end") + 1 :]) <= {"close"}

    @invariant()
    def nobody_is_left_out_who_is_not_optional(self) -> None:
        for actor in self.trial.actors:
            assert not actor.gone or actor.options.optional
        if self.trial.state is State.RUNNING:
            assert not all(actor.gone for actor in self.trial.actors)

    @invariant()
    def limits_are_kept(self) -> None:
        limit = self.trial.params.max_steps
        assert not limit or len(self.world.environment.of("act")) <= limit

    @invariant()
    def the_log_is_in_order(self) -> None:
        names = self.world.log.names
        ticks = [s.observations.tick_id for s in self.world.log.of("sample") if s.observations]
        seen = [s for s in self.world.log.of("sample") if s.HasField("observations")]
        assert [s.observations.tick_id for s in seen] == list(range(len(seen)))
        assert not ticks or names[0] == "params"
        reasons = [bool(s.end_reason) for s in self.world.log.of("sample")]
        assert not any(reasons[:-1])
        if names[-1:] == ["close"] and "params" in names:
            assert reasons[-1]

    def teardown(self) -> None:
        if not hasattr(self, "trial"):
            return
        # Nobody says anything any more: time alone must end it, and that leaves nothing behind.
        self.trial.end("enough")
        self.world.clock.advance(60 + 60 + 60 + 10)
        assert self.trial.state is State.ENDED
        assert self.trial.end_reason
        assert self.world.orchestrator.info(None) == []
        assert self.world.clock.waiting == 0
        for agent in self.world.agents:
            assert agent.names.count("close") == 1
        assert self.world.environment.names.count("close") == 1


TestTrials = Trials.TestCase
