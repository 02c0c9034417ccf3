"""Environments of PettingZoo as games: a state for each turn of an agent.

Both interfaces become one order of turns. With turns (AEC) it is that of `agent_iter`, and a state
is what `last` returns. With the parallel interface all agents have a turn one after the other, and
the environment steps when the last of them has its action. An agent whose episode ends has one more
turn, whose action is ignored, so that its last observation and reward are shown.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Info = Mapping[str, Any]
    Step = tuple[Any, Any, Any, Any, Info]
    """Observation, reward, `terminated`, `truncated` and info of the agent that has the turn."""

_METHODS = ("reset", "step", "observation_space", "action_space")


class AgentGame(ABC):
    """An environment of either interface.

    Attributes:
        env: The environment.
        agents: The agents that it may have, by number.
        player: The number of the agent that has the turn.
        seq: States of this agent before this one, since its episode began.
        goes_on: Whether the episode of the game goes on after this state.
    """

    def __init__(self, env: Any) -> None:
        """Play an environment.

        Raises:
            ValueError: It does not say which agents it may have, or two have the same name as text.
        """
        self.env = env
        self.agents: list[Any] = list(getattr(env, "possible_agents", None) or ())
        if not self.agents:
            raise ValueError(
                "possible_agents: expected all agents that the environment may have, got none: "
                "a wrapper can list them"
            )
        self._numbers = {agent: number for number, agent in enumerate(self.agents)}
        if len(set(self.names)) < len(self.agents):
            raise ValueError(f"possible_agents: expected different names, got {self.agents}")
        self._choices = {agent: _choices(env.action_space(agent)) for agent in self.agents}
        self.player = self.seq = 0
        self.goes_on = True
        # States of the present episodes of agents.
        self._seqs: dict[Any, int] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the agents, by number."""
        return tuple(map(str, self.agents))

    def reset(self, *, seed: int) -> tuple[Any, Info]:
        """Start an episode of the game, and return the observation and info of the first turn.

        Raises:
            ValueError: There are no agents, or one that is not in `possible_agents`.
        """
        self._seqs = {}
        self._begin(seed)
        shown, _, _, _, info = self._turn()
        return shown, info

    @abstractmethod
    def _begin(self, seed: int) -> None:
        """Reset the environment."""

    @abstractmethod
    def _turn(self) -> Step:
        """Return the state of the agent that has the turn, and note it."""

    @abstractmethod
    def step(self, action: Any) -> Step:
        """Take the action of the agent that has the turn, unless its episode is over.

        Returns:
            The state of the next turn: observation, reward since the agent's last turn, flags and
            info of that agent.

        Raises:
            ValueError: The action is not in a Discrete space, an agent is not in `possible_agents`,
                or a state is missing.
        """

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _check_agents(self) -> None:
        if not self.env.agents:
            raise ValueError("agents: expected at least one after the reset, got []")

    def _check_action(self, agent: Any, action: Any) -> None:
        choices = self._choices[agent]
        if choices is not None and action not in choices:
            expected = f"an integer in [{choices.start}, {choices.stop})"
            raise ValueError(f"a of agent {agent!r}: expected {expected}, got {action}")

    def _note(self, agent: Any, *, ended: bool, goes_on: bool) -> None:
        if agent not in self._numbers:
            raise ValueError(
                f"agents: expected one of possible_agents {self.agents}, got {agent!r}"
            )
        self.player, self.goes_on = self._numbers[agent], goes_on
        self.seq = self._seqs.pop(agent, 0)
        if not ended:
            self._seqs[agent] = self.seq + 1


class _AecGame(AgentGame):
    """With turns."""

    _over = False

    def _begin(self, seed: int) -> None:
        self.env.reset(seed=seed)
        self._check_agents()

    def step(self, action: Any) -> Step:
        env = self.env
        if not self._over:
            agent = env.agent_selection
            self._check_action(agent, action)
            env.step(action)
        return self._turn()

    def _turn(self) -> Step:
        env = self.env
        gone = self._gone()
        if gone:
            # The environment has no turn for it: this is its final state.
            agent, self._over = gone[0], True
            shown, reward = deepcopy(env.observe(agent)), env._cumulative_rewards.get(agent, 0.0)
            ended = bool(env.terminations.get(agent, False))
            cut = bool(env.truncations.get(agent, False)) or not ended
            state: Step = (shown, reward, ended, cut, env.infos.get(agent) or {})
        else:
            agent = env.agent_selection
            state = env.last()
            self._over = bool(state[2] or state[3])
            if self._over:
                # The environment removes the agent by a step without an action, and may write to
                # the same memory.
                state = deepcopy(state)
                env.step(None)
        self._note(agent, ended=self._over, goes_on=bool(env.agents))
        self.goes_on = self.goes_on or bool(self._gone())
        return state

    def _gone(self) -> list[Any]:
        """Return the agents that left before a turn that showed their end."""
        return sorted(self._seqs.keys() - self.env.agents, key=self._numbers.__getitem__)


class _AgentState(NamedTuple):
    agent: Any
    step: Step
    ended: bool


class _ParallelGame(AgentGame):
    """With steps of all agents at once."""

    def __init__(self, env: Any) -> None:
        """See `AgentGame`."""
        super().__init__(env)
        self._alive: list[Any] = []
        self._queue: deque[_AgentState] = deque()
        self._actions: dict[Any, Any] = {}
        # The agent whose action comes next; None where it is ignored.
        self._asked: Any = None

    def _begin(self, seed: int) -> None:
        observations, infos = self.env.reset(seed=seed)
        self._check_agents()
        self._alive = list(self.env.agents)
        self._actions = {}
        self._queue.clear()
        for agent in self._alive:
            self._enqueue(agent, observations, 0.0, False, False, infos)

    def step(self, action: Any) -> Step:
        if self._asked is not None:
            self._check_action(self._asked, action)
            self._actions[self._asked] = action
        if not self._queue:
            self._move()
        return self._turn()

    def _move(self) -> None:
        env = self.env
        before, actions, self._actions = self._alive, self._actions, {}
        observations, rewards, terminated, truncated, infos = env.step(actions)
        over = {agent for agent in before if terminated.get(agent) or truncated.get(agent)}
        over |= {agent for agent in env.agents if terminated.get(agent) or truncated.get(agent)}
        self._alive = [agent for agent in env.agents if agent not in over]
        alive = set(self._alive)
        for agent in _each_once(before, self._alive):
            ended = bool(terminated.get(agent, False))
            # One that left without a flag was cut short.
            cut = bool(truncated.get(agent, False)) or (agent not in alive and not ended)
            self._enqueue(agent, observations, rewards.get(agent, 0.0), ended, cut, infos)

    def _enqueue(
        self,
        agent: Any,
        observations: Mapping[Any, Any],
        reward: Any,
        terminated: bool,
        truncated: bool,
        infos: Mapping[Any, Info],
    ) -> None:
        if agent not in observations:
            raise ValueError(
                f"observations: expected one of agent {agent!r}, got {[*observations]}"
            )
        step = (observations[agent], reward, terminated, truncated, infos.get(agent) or {})
        self._queue.append(_AgentState(agent, step, terminated or truncated))

    def _turn(self) -> Step:
        agent, step, ended = self._queue.popleft()
        self._asked = None if ended else agent
        self._note(agent, ended=ended, goes_on=bool(self._queue or self._alive))
        return step


def _each_once(*agents: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(agent for each in agents for agent in each))


def _choices(space: Any) -> range | None:
    """Return the actions of a Discrete space."""
    count, start = getattr(space, "n", None), getattr(space, "start", None)
    if count is None or start is None:
        return None
    return range(int(start), int(start) + int(count))


def agent_game(env: Any) -> AgentGame:
    """Return an environment of PettingZoo as a game.

    Raises:
        TypeError: It is not an environment of PettingZoo.
        ValueError: It does not say which agents it may have.
    """
    for name in _METHODS:
        if not callable(getattr(env, name, None)):
            got = type(env).__name__
            raise TypeError(
                f"env: expected an environment of PettingZoo, got {got} without a method {name}"
            )
    return _AecGame(env) if hasattr(env, "agent_iter") else _ParallelGame(env)
