"""Gymnasium environments in trials."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from cogrs.action_mask import MaskLayout
from cogrs.optional_dependency import import_optional
from cogrs.sdk.action_hints import action_hints
from cogrs.sdk.environment import Environment, Update
from cogrs.sdk.frame_sender import FrameSender
from cogrs.sdk.space import carried, carried_mask, check_names, fitting, observed_info_keys
from cogrs.sdk.wire import expanded
from cogrs.space_json import ActorSpaces
from cogrs.validation import check_kind, check_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import gymnasium

    from cogrs.sdk.frame_sender import FrameEncoder
    from cogrs.sdk.trial import Trial


_OWN = ("action_mask", "encode_frame", "frames_to", "info_keys", "inline", "observers", "player")

_QUICK = ("gymnasium.envs.classic_control", "gymnasium.envs.toy_text")
"""Modules whose environments take microseconds for a step, and any thread will do."""


def _is_quick(spec: Any) -> bool:
    entry_point = getattr(spec, "entry_point", None)
    return isinstance(entry_point, str) and entry_point.startswith(_QUICK)


@dataclass(frozen=True)
class _Factory:
    """Creates environments; `inline` says on which thread."""

    make: Callable[[], GymnasiumEnvironment]
    inline: bool

    def __call__(self) -> GymnasiumEnvironment:
        return self.make()


class GymnasiumEnvironment(Environment):
    """One episode of a Gymnasium environment is one trial of one player.

    Other actors of the trial are observers: they observe the same as the player, and may send
    rewards and messages, but do not act. With the orchestrator's option `observer` of an actor no
    tick waits for them.

    Observations have the dtype and shape of the observation space; a discrete one is an int64 of
    shape `()`, one of several parts a mapping of arrays, in which a tuple's parts are "0", "1" and
    so on. Actions may have another dtype of the same kind as the action space's. The reward of a
    step arrives with the observation after it. Whether that is terminal, or the episode was cut
    short, is in the observation's array message.
    """

    def __init__(
        self,
        make: Callable[[], gymnasium.Env[Any, Any]],
        seed: int | None = None,
        *,
        action_mask: bool = False,
        frames_to: Sequence[str] = (),
        encode_frame: FrameEncoder | None = None,
        info_keys: Mapping[str, Any] | None = None,
        inline: bool | None = None,
        player: str = "",
        observers: Sequence[str] | None = None,
    ) -> None:
        """Use the environment that `make` creates.

        Args:
            make: Called when the trial starts.
            seed: Seed of the episode; None leaves it to the environment. The same seed for all
                trials makes their episodes equal: see `factory`.
            action_mask: Observe `{"observation": ..., "action_mask": ...}`, with the mask of the
                environment's info, int8, in the flat form of `cogrs.action_mask`: of a Discrete,
                entry i is for the action `start + i`. A space without masks, such as Box, may have
                None in the info: then that part is left out. Actions are not compared with it.
            frames_to: Receivers of what `render` returns after the reset and each step, as a
                message: see `read_array_message`. Names are those of `Message`.
            encode_frame: Returns the array that is sent in place of a frame, such as
                `cogrs.web.compress_frame`; None sends the frame itself.
            info_keys: Values of the environment's info to observe, a dtype by key, or a pair of a
                dtype and a shape: `{"is_success": np.bool_}` observes `{"observation": ...,
                "is_success": ...}`, with zeros where the info does not have the key. `"episode.r"`
                is a nested one.
            inline: Whether the environment is quick, as of `Environment.inline`; None leaves that
                to the class, and `factory` to what it knows of Gymnasium's own.
            player: Name of the actor that plays; "" for the only one that does not observe.
            observers: Actors that watch: names, "class.*" or "*". None stands for all but the
                player, if that is named.

        Raises:
            TypeError: `inline` is not a bool, `player` is not a string, `frames_to` or `observers`
                is a single string, `encode_frame` is not a function, or `info_keys` is not a
                mapping to dtypes.
            ValueError: A key of `info_keys` is "observation" or "action_mask", or its dtype is not
                one of numbers or bool.
        """
        check_text("player", player)
        if isinstance(observers, str):
            raise TypeError(f"observers: expected a sequence of names, got {observers!r}")
        check_kind("inline", inline, bool | None, "True, False or None")
        if inline is not None:
            self.inline = inline
        self._make = make
        self._seed = seed
        self._action_mask = action_mask
        self._info_keys = observed_info_keys(info_keys)
        self._frames = FrameSender(frames_to, encode_frame)
        self._env: gymnasium.Env[Any, Any] | None = None
        self._player = player
        self._watching = observers
        self._actors: tuple[str, ...] = ()
        self._tick = 0
        self._latest: Any = None

    @classmethod
    def factory(
        cls,
        env: str | Callable[[], gymnasium.Env[Any, Any]],
        *,
        seed: int | None = None,
        **options: Any,
    ) -> Callable[[], GymnasiumEnvironment]:
        """Return a factory for `serve`, which creates an environment for each trial.

        Args:
            env: Id of an environment, or a function that creates one.
            seed: Seed of the first episode; each later one has the next number.
            options: Those of `GymnasiumEnvironment`; with an id, others go to `gymnasium.make`.

        Raises:
            TypeError: Options for `gymnasium.make`, but `env` is not an id.
            ImportError: `env` is an id, and Gymnasium is not installed.
        """
        own = {name: options.pop(name) for name in _OWN if name in options}
        inline = own.get("inline")
        if isinstance(env, str):
            gymnasium = import_optional(
                "gymnasium", "ids of environments need Gymnasium", "gymnasium"
            )
            make: Callable[[], Any] = partial(gymnasium.make, env, **options)
            quick = _is_quick(gymnasium.registry.get(env)) and not own.get("frames_to")
            if inline is None and quick and "render_mode" not in options:
                inline = own["inline"] = True
        elif options:
            raise TypeError(f"options: expected those of {cls.__name__}, got {', '.join(options)}")
        else:
            make = env
        seeds = None if seed is None else count(seed)
        return _Factory(
            lambda: cls(make, None if seeds is None else next(seeds), **own),
            cls.inline if inline is None else inline,
        )

    def start(self, trial: Trial) -> Update:
        """Create and reset the environment.

        Raises:
            ValueError: The trial does not have exactly one player, the mask is missing or wrong, a
                value of the info does not fit its key, or two parts of a space have the same name
                as text.
        """
        self._actors = trial.actor_names
        self._choose_player(trial)
        self._env = self._make()
        check_names(self._env.observation_space, "observation_space")
        check_names(self._env.action_space, "action_space")
        self.spaces = {
            self._player: ActorSpaces(self._env.observation_space, self._env.action_space)
        }
        self.action_hints = {self._player: action_hints(self._env)}
        self._mask_layout = MaskLayout.of(self._env.action_space)
        observation, info = self._env.reset(seed=self._seed)
        self._observe(observation, info)
        update = self._update()
        update.messages = self._frames.drain()
        return update

    def step(self, actions: Mapping[str, Any]) -> Update:
        """Step the environment with the player's action.

        Raises:
            ValueError: The action is not in the action space.
            RuntimeError: The episode has not started, or is over.
        """
        env = self._running()
        what = f"action of {self._player!r}"
        action = fitting(env.action_space, actions[self._player], what)
        observation, reward, terminated, truncated, info = env.step(action)
        self._tick += 1
        self._observe(observation, info)
        over = bool(terminated or truncated)
        if over:
            self._close()
        update = self._update()
        update.rewards = {self._player: float(reward)}
        update.messages = self._frames.drain()
        update.final = over
        update.terminated, update.truncated = bool(terminated), bool(truncated)
        return update

    def end(self, actions: Mapping[str, Any]) -> Update:
        """Step with the last action, if the player has answered; the episode is cut short."""
        update = self.step(actions) if self._player in actions else self._update()
        update.truncated = not update.terminated
        self._close()
        return update

    def lost(self) -> None:
        """Close the environment."""
        self._close()

    def _observe(self, observation: Any, info: Mapping[str, Any]) -> None:
        self._latest = carried(observation)
        parts = {key.key: key.array(info) for key in self._info_keys}
        if self._action_mask:
            if "action_mask" not in info:
                known = ", ".join(map(repr, info)) or "nothing"
                raise ValueError(f"action_mask: expected it in the environment's info, got {known}")
            mask = carried_mask(self._mask_layout, info["action_mask"])
            parts |= {} if mask is None else {"action_mask": mask}
        if self._action_mask or self._info_keys:
            self._latest = {"observation": self._latest, **parts}
        self._frames.capture(self._env, self._tick)

    def _update(self) -> Update:
        return Update(dict.fromkeys(self._actors, self._latest))

    def _choose_player(self, trial: Trial) -> None:
        watching = self._watching
        if watching is None:
            watching = [name for name in self._actors if self._player not in ("", name)]
        self.observers = expanded("observers", watching, trial.actors)
        players = [name for name in self._actors if name not in self.observers]
        if len(players) != 1 or self._player not in ("", *players):
            expected = f"the player {self._player!r}" if self._player else "one player"
            got = ", ".join(players) or f"only observers: {', '.join(self._actors) or 'no actors'}"
            raise ValueError(
                f"actors: expected {expected}, got {got}. Name the player (player=) or those that "
                "watch (observers=); for several players use PettingZooEnvironment"
            )
        (self._player,) = players

    def _running(self) -> gymnasium.Env[Any, Any]:
        if self._env is None:
            raise RuntimeError("this episode has not started, or is over")
        return self._env

    def _close(self) -> None:
        env, self._env = self._env, None
        close = getattr(env, "close", None)  # which environments need not have
        if close is not None:
            close()
