"""Records the steps of a vector environment: one episode at a time for each environment.

Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from cogrs._core import unlimited_writer as unlimited_writer
from cogrs._core import wait_to_insert
from cogrs.nested import apart
from cogrs.replay.convert import convert, numbers, refuse_flags
from cogrs.shown import shown
from cogrs.validation import check_timeout

if TYPE_CHECKING:
    import numpy.typing as npt

    from cogrs._core import ReplayMemory

MODES = ("next_step", "same_step")
NO_ENTRY = 2**64 - 1
"""The id that `Recorder.add` returns where no entry was stored."""
_FIELDS = {"prob": 1.0, "value": 0.0, "info": 0.0}
"""Fields that `add` takes by name, with their defaults."""
_SHORT = {"p": "prob", "v": "value", "i": "info"}

Bootstrap = Callable[[Any], Any]


class VectorEnvironment(Protocol):
    """A vector environment as Gymnasium has them; its `metadata` may have an `autoreset_mode`."""

    num_envs: int
    metadata: dict[str, Any]


class _End(NamedTuple):
    """The end of an environment's episode, whose last observation may be still to come."""

    terminated: bool
    bootstrap: Any


class Recorder:
    """Records the steps of a vector environment: a writer for each environment.

    Rows of one environment make episodes; ends and last observations go where they belong, for both
    ways in which Gymnasium's vector environments reset theirs (`AutoresetMode`):

    - "next_step": the step after an end ignores its action and resets. It is left out.
    - "same_step": the step that ends resets, too. Its last observation is in `infos`.

    Create one by `ReplayMemory.recorder`. Open episodes are dropped when it is deleted.
    """

    def __init__(
        self,
        memory: ReplayMemory,
        num_envs: int | VectorEnvironment,
        autoreset_mode: Any = None,
        do_update_value: bool | None = None,
        do_update_weight: bool | None = None,
    ) -> None:
        """Record into a memory.

        Args:
            memory: The memory that gets the episodes.
            num_envs: Environments, N >= 1; or a vector environment, which says their number and
                the mode.
            autoreset_mode: "next_step" (None is that), "same_step", or one of Gymnasium's
                `AutoresetMode` for these.
            do_update_value: As of `close_episode`; None is True where the memory has values.
            do_update_weight: As of `close_episode`; None is `do_update_value`.

        Raises:
            TypeError: `num_envs` is not an integer, or a flag is neither True nor False.
            ValueError: `num_envs` is below 1 or above `max_step`, the mode is unknown, or no
                episode could be closed with these flags.
        """
        count: Any = num_envs
        if not isinstance(num_envs, int) and hasattr(num_envs, "num_envs"):
            count = num_envs.num_envs
            if autoreset_mode is None:
                autoreset_mode = num_envs.metadata.get("autoreset_mode")
        if isinstance(count, bool) or not hasattr(count, "__index__"):
            expected = "an integer >= 1 or a vector environment"
            raise TypeError(f"num_envs: expected {expected}, got {type(count).__name__}")
        if not 1 <= count <= memory.max_step:
            # Each environment has an episode open, which takes a slot at least.
            expected = f"an integer >= 1 and at most max_step = {memory.max_step}"
            raise ValueError(f"num_envs: expected {expected}, got {shown(count)}")
        mode = "next_step" if autoreset_mode is None else autoreset_mode
        mode = getattr(mode, "name", mode)
        mode = mode.lower() if isinstance(mode, str) else mode
        if mode not in MODES:
            expected = " or ".join(map(repr, MODES))
            raise ValueError(f"autoreset_mode: expected {expected}, got {autoreset_mode!r}")
        self.num_envs = int(count)
        """Environments."""
        self.autoreset_mode: str = mode
        """"next_step" or "same_step"."""
        self._memory = memory
        self._recurrent = memory.recurrent
        self._updates = _updates(memory, do_update_value, do_update_weight)
        # One step of all environments waits once, before it changes anything.
        self._writers = [unlimited_writer(memory) for _ in range(self.num_envs)]
        self._open = [False] * self.num_envs
        # Of environments whose last step ended an episode: None where that is closed.
        self._ended: dict[int, _End | None] = {}

    def reset(self) -> None:
        """Drop open episodes: the environments were reset by hand."""
        for env in np.flatnonzero(self._open).tolist():
            self._abort(env)
        self._ended = {}

    def add(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        terminated: Any,
        truncated: Any,
        next_obs: Any = None,
        *,
        infos: Mapping[str, Any] | None = None,
        bootstrap_value: Any = None,
        init_w: Any = 1.0,
        wait: float | None = None,
        recurrent: Any = None,
        **fields: Any,
    ) -> npt.NDArray[np.uint64]:
        """Record one step of all environments.

        Args:
            obs: The observations that were acted on, (N, *state); a mapping of arrays where states
                are records, a tuple of arrays where they stand for tuples.
            action: The actions, (N, *action), likewise.
            reward: The rewards, (N, *reward).
            terminated: Whether the action ended the episode, (N,) of truth values.
            truncated: Whether the episode was cut short there, (N,) of truth values.
            next_obs: The observations after the actions; the last one of each episode is stored.
                With "next_step": the observations that `step` returned, or None for the `obs` of
                the next call. With "same_step": those that `step` returned, with the last
                observations put in; ignored if `infos` has these.
            infos: The `infos` that `step` returned. With "same_step" its "final_obs" are the last
                observations.
            bootstrap_value: Values of last observations where an episode was truncated: an array
                (N, *reward), or a callable that gets the last observations of K truncated episodes,
                (K, *state) as samples have them, and returns their values, (K, *reward). None is 0:
                the return of a truncated episode then lacks the rewards that would have come.
                Learners that bootstrap from `next` are not affected, since `next_terminated` is
                False.
            init_w: Initial weights, (N,) or one for all.
            wait: Seconds to wait, where this call closes episodes and the memory's rate limiter
                lets no entry come: until one may come, and then all of them go in. None: as long as
                it takes; 0: not at all.
            recurrent: The policy's recurrent states before the step, (N, *recurrent); given if, and
                only if, the memory stores such states.
            fields: `prob` (1 if not given), `value` (0) and `info` (zeros), (N, *field) each.

        Returns:
            The ids of the entries, uint64 (N,); `NO_ENTRY`, which is never an id, for environments
            that were only reset.

        Raises:
            ValueError: A shape differs, a number is not finite in float32, the last observation of
                an episode is missing, or `infos` shows another mode. Nothing is stored.
            TypeError: A dtype cannot be converted, or a field is unknown. Nothing is stored.
            RuntimeError: Open episodes fill the memory, or it was cleared or restored meanwhile.
                The episodes of environments without room, or whose episodes are gone, are dropped;
                the text names these environments. The next call begins new episodes.
            TimeoutError: The rate limiter let no entry come for `wait` seconds. Nothing is stored,
                and the call can be repeated, as after a KeyboardInterrupt in the wait.
            Exception: `bootstrap_value` raised it. Nothing is stored, and the call can be repeated.
        """
        states = self._column("obs", obs, "state")
        columns = [states, self._column("action", action), self._column("reward", reward)]
        columns += self._named(fields)
        weights = self._weights(init_w)
        states_before = self._recurrent_states(recurrent)
        self._check(columns[2], columns[4], weights)
        ends = self._flags("terminated", terminated), self._flags("truncated", truncated)
        pending = self._pending(states)
        skipped = set(self._ended) if self.autoreset_mode == "next_step" else set()
        over = [env for env in np.flatnonzero(ends[0] | ends[1]).tolist() if env not in skipped]
        last = self._last(over, next_obs, infos)
        bootstrap = self._bootstrap(bootstrap_value, over, ends[0], last)

        closed_now = [] if last is None else over
        self._wait_to_close([*pending, *closed_now], wait)
        failed: list[str] = []
        self._ended = {}
        for env, end in pending.items():
            self._close(env, end, states[env], failed)
        ids = np.full(self.num_envs, NO_ENTRY, np.uint64)
        for env in range(self.num_envs):
            if env in skipped:
                continue
            s, a, r, p, v, i = (column[env] for column in columns)
            try:
                if not self._open[env]:
                    self._writers[env].new_episode()
                    self._open[env] = True
                before = None if states_before is None else states_before[env]
                ids[env] = self._writers[env].add_entry(
                    s, a, r, p, v, i, float(weights[env]), recurrent=before
                )
            except RuntimeError as error:
                self._drop(env, error, failed)
        for env in over:
            if not self._open[env]:
                continue
            end = _End(bool(ends[0][env]), bootstrap.get(env))
            if last is None:
                self._ended[env] = end
            else:
                self._close(env, end, last[env], failed)
                self._ended[env] = None
        if failed:
            raise RuntimeError("; ".join(failed))
        return ids

    def _wait_to_close(self, envs: list[int], wait: float | None) -> None:
        check_timeout("wait", wait)
        if envs:
            wait_to_insert(self._memory, wait)

    def _pending(self, states: npt.NDArray[Any]) -> dict[int, _End]:
        """Return the ends whose last observations are `states`, with their values computed."""
        pending = {env: end for env, end in self._ended.items() if end is not None}
        asked = [env for env, end in pending.items() if callable(end.bootstrap)]
        if asked:
            # All are of one call of `add`, and so have one function.
            values = self._called(pending[asked[0]].bootstrap, states[asked])
            pending |= {env: _End(False, value) for env, value in zip(asked, values, strict=True)}
        return pending

    def _close(self, env: int, end: _End, state: Any, failed: list[str]) -> None:
        try:
            self._writers[env].close_episode(
                bootstrap_value=None if end.terminated else end.bootstrap,
                final_state=state,
                **self._updates,
            )
            self._open[env] = False
        except (RuntimeError, ValueError) as error:
            self._drop(env, error, failed)

    def _drop(self, env: int, error: Exception, failed: list[str]) -> None:
        self._abort(env)
        failed.append(f"environment {env}: its episode is dropped: {error}")

    def _abort(self, env: int) -> None:
        # Also where the memory has dropped the episode: it was cleared, or loaded from a file.
        self._writers[env].new_episode()
        self._writers[env].abort_episode()
        self._open[env] = False

    def _last(self, over: list[int], next_obs: Any, infos: Any) -> Any:
        """The last observations by environment; None where they come with the next call."""
        has_final = infos is not None and "final_obs" in infos
        if has_final and self.autoreset_mode == "next_step":
            expected = "no 'final_obs', which environments of autoreset_mode='same_step' give"
            how = "create the recorder with autoreset_mode='same_step'"
            raise ValueError(f"infos: expected {expected}, got it: {how}")
        # They come first: `next_obs` may be what `step` returned, the first ones of new episodes.
        if next_obs is not None and not has_final:
            return self._column("next_obs", next_obs, "state")
        if self.autoreset_mode == "next_step":
            return None
        if not over:
            return {}
        if not has_final:
            expected = "the last observations where an episode ended, or infos with 'final_obs'"
            raise ValueError(f"next_obs: expected {expected}, got None")
        template = self._memory.state_buf
        if len(infos["final_obs"]) != self.num_envs:
            expected = f"observations of {self.num_envs} environments"
            got = len(infos["final_obs"])
            raise ValueError(f"infos['final_obs']: expected {expected}, got {got}")
        return {
            env: convert(
                f"infos['final_obs'][{env}]",
                infos["final_obs"][env],
                template.dtype,
                template.shape,
            )
            for env in over
        }

    def _bootstrap(self, given: Any, over: list[int], terminated: Any, last: Any) -> dict[int, Any]:
        cut = [env for env in over if not terminated[env]]
        if given is None:
            zero = np.zeros_like(self._memory.reward_buf)
            return dict.fromkeys(cut, zero)
        if not callable(given):
            values = self._rewards("bootstrap_value", given, self.num_envs)
            return {env: values[env] for env in cut}
        if last is None or not cut:
            return dict.fromkeys(cut, given)
        values = self._called(given, np.stack([last[env] for env in cut]))
        return dict(zip(cut, values, strict=True))

    def _called(self, bootstrap: Bootstrap, states: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return self._rewards("bootstrap_value", bootstrap(apart(states)), len(states))

    def _rewards(self, name: str, given: Any, count: int) -> npt.NDArray[Any]:
        template = self._memory.reward_buf
        refuse_flags(name, given)
        made = convert(name, given, template.dtype, (count, *template.shape))
        if not (finite := np.isfinite(made)).all():
            raise ValueError(f"{name}: expected finite numbers, got {made[~finite][0]}")
        return made

    def _weights(self, init_w: Any) -> npt.NDArray[np.float64]:
        given = numbers("init_w", init_w)
        if given.ndim == 1 and given.shape != (self.num_envs,):
            expected = f"shape ({self.num_envs},) or one number"
            raise ValueError(f"init_w: expected {expected}, got shape {given.shape}")
        return np.broadcast_to(given, self.num_envs)

    def _recurrent_states(self, given: Any) -> npt.NDArray[Any] | None:
        template = self._recurrent
        if template is None:
            if given is not None:
                raise TypeError(
                    "recurrent: expected nothing, as the memory was made without recurrent"
                )
            return None
        if given is None:
            shape = (self.num_envs, *template.shape)
            raise ValueError(f"recurrent: expected {template.dtype} {shape}, got None")
        return convert("recurrent", given, template.dtype, (self.num_envs, *template.shape))

    def _named(self, fields: dict[str, Any]) -> list[npt.NDArray[Any]]:
        given = {_SHORT.get(name, name): value for name, value in fields.items()}
        for name in given:
            if name not in _FIELDS:
                expected = ", ".join(_FIELDS)
                raise TypeError(f"{name}: expected one of the fields {expected}")
        if len(given) < len(fields):
            raise TypeError(f"expected each field once, got {', '.join(fields)}")
        made = []
        for name, default in _FIELDS.items():
            if name in given:
                made.append(self._column(name, given[name]))
            else:
                template = getattr(self._memory, f"{name}_buf")
                column = np.zeros((self.num_envs, *template.shape), template.dtype)
                if default:
                    column[...] = default
                made.append(column)
        return made

    def _column(self, name: str, value: Any, field: str = "") -> npt.NDArray[Any]:
        template = getattr(self._memory, f"{field or name}_buf")
        return convert(name, value, template.dtype, (self.num_envs, *template.shape))

    def _flags(self, name: str, value: Any) -> npt.NDArray[np.bool_]:
        given = np.asarray(value)
        if given.shape != (self.num_envs,) or given.dtype.kind not in "biu":
            expected = f"truth values of shape ({self.num_envs},)"
            raise ValueError(f"{name}: expected {expected}, got {given.dtype} {given.shape}")
        flags: npt.NDArray[np.bool_] = given.astype(np.bool_)
        return flags

    def _check(self, reward: Any, value: Any, weights: Any) -> None:
        for name, given in (("reward", reward), ("value", value), ("init_w", weights)):
            with np.errstate(over="ignore"):
                wrong = ~np.isfinite(given.astype(np.float32))
            if name == "init_w":
                wrong |= given < 0
            if wrong.any():
                env = int(np.argwhere(wrong)[0][0])
                what = "finite float32 numbers >= 0" if name == "init_w" else "finite numbers"
                got = f"{given[wrong].flat[0]} of environment {env}"
                raise ValueError(f"{name}: expected {what}, got {got}")


def _updates(memory: ReplayMemory, value: Any, weight: Any) -> dict[str, bool]:
    """Return the flags with which episodes are closed, checked."""
    has_values = memory.value_buf.size == memory.qvest_buf.size == memory.reward_buf.size
    updates_value = has_values if value is None else _flag("do_update_value", value)
    updates_weight = updates_value if weight is None else _flag("do_update_weight", weight)
    if updates_value and not has_values:
        expected = "False where value_buf or qvest_buf has size 0"
        raise ValueError(f"do_update_value: expected {expected}, got {value!r}")
    if updates_weight and not updates_value:
        expected = "False where do_update_value is False"
        raise ValueError(f"do_update_weight: expected {expected}, got {weight!r}")
    return {"do_update_value": updates_value, "do_update_weight": updates_weight}


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise TypeError(f"{name}: expected True or False, got {value!r}")
