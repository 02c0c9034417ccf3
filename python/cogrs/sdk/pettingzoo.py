"""PettingZoo environments in trials."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cogrs.action_mask import ACTION_MASK, refuse_illegal
from cogrs.sdk.environment import Environment, Update
from cogrs.sdk.frame_sender import FrameSender
from cogrs.sdk.pettingzoo_game import game_of
from cogrs.sdk.space import check_names, fitting, in_form, observed_info_keys
from cogrs.sdk.wire import expanded
from cogrs.space_json import ActorSpaces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cogrs.sdk.frame_sender import FrameEncoder
    from cogrs.sdk.pettingzoo_game import PettingZooGame, StepOutcome
    from cogrs.sdk.trial import Trial

    OnIllegal = Literal["environment", "raise"]


class PettingZooEnvironment(Environment):
    """One episode of a PettingZoo environment is one trial of its agents.

    With the parallel interface, an actor gets the observations of its agent. With turns (AEC) it
    observes, at every turn of any agent, a mapping: `observation`; `turn`, whether its agent has
    the turn; and `action_mask`, if the environment has one. Actors whose agent does not have the
    turn answer too, and their answers are ignored. Parts of a `Dict` space keep their names; an
    observation that has a part `turn` of its own becomes the part `observation` of the mapping.

    A mask of the info becomes the part `action_mask` of the observation, int8, in the flat form of
    `cogrs.action_mask`: of a Discrete, entry i is for the action `start + i`. So does a mask in
    parts, such as the tuple of a MultiDiscrete, that the observation itself has; an array is
    carried as it is.

    Actors play the agents of their names, or, if no actor has an agent's name, the agents in their
    order. An environment without `possible_agents` does not say which agents will come: actors
    without an agent at first wait for one of their name, or for the next new one.

    A finished agent is told so by the flags of an observation, with its last reward. Its answers
    are ignored from then on, until the others are finished too or it returns. An agent that has not
    come yet observes zeros, or the values of its space that are nearest to them, with a mask of
    zeros if masks are in the infos; its answers are ignored too. If its space is not known yet, it
    observes an empty array.

    Rewards are those of `rewards`, after every step. `_cumulative_rewards` of an AEC environment,
    which `last` returns, are their sum since the agent's last turn, and are not read.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        seed: int | None = None,
        *,
        frames_to: Sequence[str] = (),
        encode_frame: FrameEncoder | None = None,
        info_keys: Mapping[str, Any] | None = None,
        on_illegal: OnIllegal = "environment",
        observers: Sequence[str] = (),
    ) -> None:
        """Use the environment that `make` creates.

        Args:
            make: Called when the trial starts; returns an `AECEnv` or a `ParallelEnv`.
            seed: Seed of the episode; None leaves it to the environment. The same seed for all
                trials makes their episodes equal: see `factory`.
            frames_to: Receivers of what `render` returns after the reset and each step, as a
                message: see `read_array_message`. Names are those of `Message`.
            encode_frame: Returns the array that is sent in place of a frame, such as
                `cogrs.web.compress_frame`; None sends the frame itself.
            info_keys: Values of each agent's info that become parts of its observation, as of
                `GymnasiumEnvironment`.
            on_illegal: The treatment of an action that the mask forbids, or whose numbers are out
                of the bounds of its space. "environment" leaves it to the environment, which has a
                rule of its own, such as a penalty and the end of the game, a clip, or an exception.
                "raise" ends the trial with an error that lists the legal actions, in the
                environment's log and in the reason why the trial ended.
            observers: Actors that watch instead of playing an agent: names, "class.*" or "*". They
                observe a mapping from each player's name to that player's observation.

        Raises:
            ValueError: `on_illegal` is something else, or a key of `info_keys` is "observation",
                "action_mask" or "turn", or its dtype is not one of numbers or bool.
            TypeError: `observers` or `frames_to` is a single string, `encode_frame` is not a
                function, or `info_keys` is not a mapping to dtypes.
        """
        if isinstance(observers, str):
            raise TypeError(f"observers: expected a sequence of names, got {observers!r}")
        if on_illegal not in ("environment", "raise"):
            raise ValueError(f"on_illegal: expected 'environment' or 'raise', got {on_illegal!r}")
        self._make = make
        self._seed = seed
        self._info_keys = observed_info_keys(info_keys)
        self._frames = FrameSender(frames_to, encode_frame)
        self._on_illegal = on_illegal
        self.observers = observers
        self._game: PettingZooGame | None = None
        self._cast = _Casting((), (), None)
        self._tick = 0
        self._seen: dict[str, Any] = {}
        self._finished: set[str] = set()

    @classmethod
    def factory(
        cls, make: Callable[[], Any], *, seed: int | None = None, **options: Any
    ) -> Callable[[], PettingZooEnvironment]:
        """Return a factory for `serve`, which creates an environment for each trial.

        Args:
            make: Returns an environment.
            seed: Seed of the first episode; each later one has the next number.
            options: Those of `PettingZooEnvironment`.

        Raises:
            TypeError, ValueError: An option is wrong.
        """
        cls(make, **options)  # refuses wrong options now, and not in every trial
        seeds = None if seed is None else count(seed)
        return lambda: cls(make, None if seeds is None else next(seeds), **options)

    def start(self, trial: Trial) -> Update:
        """Create and reset the environment.

        Raises:
            ValueError: Actors and agents do not match; the reset leaves no agents; a mask does not
                fit the action space; two parts of a space have the same name as text.
            TypeError: `make` does not return an environment of PettingZoo.
        """
        env = self._make()
        self._game = game_of(env, self._info_keys)
        outcome = self._game.reset(self._seed)
        if not self._game.asked:
            raise ValueError("agents: expected at least one after the reset, got []")
        # Some environments know their agents only after the reset.
        possible = getattr(env, "possible_agents", None) or None
        self.observers = expanded("observers", self.observers, trial.actors)
        players = [name for name in trial.actor_names if name not in self.observers]
        self._cast = _Casting(players, list(env.agents), possible)
        for agent in env.agents:
            check_names(env.action_space(agent), f"action_space of {agent!r}")
        self.spaces = {
            actor: ActorSpaces(env.observation_space(agent), env.action_space(agent))
            for actor, agent in self._cast.agents.items()
            if agent in env.agents  # others may have no spaces before they come
        }
        self._frames.capture(env, self._tick)
        update = self._update(outcome)
        update.messages = self._frames.drain()
        return update

    def step(self, actions: Mapping[str, Any]) -> Update:
        """Step the environment with the actions of the agents that are asked.

        Raises:
            ValueError: An action has another shape or kind of numbers than its space, or is illegal
                and `on_illegal` is "raise"; an agent came that no actor plays; a mask does not fit
                the action space.
            RuntimeError: The episode has not started, or is over.
        """
        game = self._running()
        played = {
            agent: self._action(actor, agent, actions[actor])
            for actor, agent in self._cast.agents.items()
            if agent in game.asked
        }
        here = set(game.alive)
        outcome = game.step(played)
        self._tick += 1
        self._cast.admit(game.env.agents)
        self._frames.capture(game.env, self._tick)
        update = self._update(outcome)
        here.update(game.alive)
        update.rewards = {
            actor: float(reward)
            for actor, agent in self._cast.agents.items()
            # Some environments list absent agents, with 0.
            if (reward := outcome.rewards.get(agent)) is not None and (agent in here or reward)
        }
        update.messages = self._frames.drain()
        update.final = not game.asked
        if update.final:
            self._close()
        return update

    def end(self, actions: Mapping[str, Any]) -> Update | None:
        """Cut the episode short, after a step if all agents that are asked have answered.

        Returns:
            The result of the step; the last observations again if no agent has answered; None if
            only some have, since the result of their actions is not known.
        """
        game = self._running()
        finished = set(self._finished)
        asked = [actor for actor, agent in self._cast.agents.items() if agent in game.asked]
        decided = [actor for actor in asked if actor in actions]
        if len(decided) == len(asked):
            update = self.step(actions)
        else:
            update = Update(self._observations(), terminated={}, truncated={})
        over = dict(update.terminated) if isinstance(update.terminated, Mapping) else {}
        update.truncated = {
            actor: actor not in finished and not over.get(actor, False) for actor in self._seen
        }
        self._close()
        return None if 0 < len(decided) < len(asked) else update

    def lost(self) -> None:
        """Close the environment."""
        self._close()

    def _action(self, actor: str, agent: Any, action: Any) -> Any:
        what = f"action of {actor!r}"
        space = self._running().env.action_space(agent)
        if self._on_illegal == "environment":
            return in_form(space, action, what)
        found = fitting(space, action, what)
        seen = self._seen[actor]
        if isinstance(seen, Mapping) and ACTION_MASK in seen:
            refuse_illegal(space, seen[ACTION_MASK], found, what)
        return found

    def _update(self, outcome: StepOutcome) -> Update:
        """Return all observations, with the flags of agents that are finished now."""
        game = self._running()
        over: dict[str, Any] = {}
        for actor in self._cast.actors:
            agent = self._cast.agents.get(actor)
            if agent in outcome.observations:
                self._seen[actor] = outcome.observations[agent]
            elif actor not in self._seen:
                self._seen[actor] = _NOTHING if agent is None else game.absent(agent)
            if agent is not None and outcome.over(agent) and actor not in self._finished:
                over[actor] = agent
        self._finished.update(over)
        alive = set(game.alive)
        self._finished -= {actor for actor, agent in self._cast.agents.items() if agent in alive}
        return Update(
            self._observations(),
            terminated={a: bool(outcome.terminated.get(agent)) for a, agent in over.items()},
            truncated={a: bool(outcome.truncated.get(agent)) for a, agent in over.items()},
        )

    def _observations(self) -> dict[str, Any]:
        players = dict(self._seen)
        return {**players, **dict.fromkeys(self.observers, players)}

    def _running(self) -> PettingZooGame:
        if self._game is None:
            raise RuntimeError("this episode has not started, or is over")
        return self._game

    def _close(self) -> None:
        game, self._game = self._game, None
        if game is not None:
            game.env.close()


_NOTHING = np.zeros(0, np.float32)
"""The observation of an actor whose agent is not known yet."""


class _Casting:
    """The agent that each actor plays."""

    def __init__(
        self, actors: Sequence[str], agents: Sequence[Any], possible: Iterable[Any] | None
    ) -> None:
        """Assign actors to present and possible agents; a ValueError if they do not match."""
        self.actors = actors
        self.agents: dict[str, Any] = {}
        self._by_name = bool(set(actors) & {*agents, *(possible or ())})
        expected = agents if possible is None else list(possible)
        some_wait = possible is None and len(actors) > len(agents)
        named = set(expected) <= set(actors) if self._by_name else True
        if not named or not (len(actors) == len(expected) or some_wait):
            listed, got = ", ".join(map(str, expected)), ", ".join(actors) or "no actors"
            raise ValueError(f"actors: expected one for each of {listed}; got {got}")
        self.admit(expected)
        self.admit(agents)

    def admit(self, agents: Iterable[Any]) -> None:
        """Assign an actor to each new agent; a ValueError if no actor is left for it."""
        known = set(self.agents.values())
        for agent in agents:
            if agent in known:
                continue
            free = [actor for actor in self.actors if actor not in self.agents]
            actor = agent if self._by_name else next(iter(free), None)
            if actor not in free:
                playing = ", ".join(map(str, self.agents.values())) or "no agents"
                raise ValueError(
                    f"agents: expected one actor per agent, got no actor for {agent!r}; the actors "
                    f"play {playing}"
                )
            self.agents[actor] = agent
