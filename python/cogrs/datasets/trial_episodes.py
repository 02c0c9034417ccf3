"""A trial of a store as episodes of a data set, one for each actor.

Row k of an episode is of tick k: its observation, the action that answered it, and the rewards for
that action, also those that came later. An episode goes on while its actor answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cogrs.datasets.dataset_episode import DatasetEpisode, as_of
from cogrs.datasets.trial_columns import columns_of
from cogrs.spaces import parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from cogrs.datasets.trial_columns import ActorColumns, Rewards
    from cogrs.sdk import Actor, LoggedTrial


_FAILURES = re.compile(
    r"environment(?!: final update$)\b|(client )?actor |no actor is left|nobody joined|"
    r"internal error|max_inactivity: "
)
"""Beginnings of the reasons why trials fail; the others are ends that were asked for."""


class TrialEpisode(NamedTuple):
    """An actor's part of a trial.

    Fields:
        episode: The episode; None if no action is left.
        left_out: Actions that are left out, because what they led to is not known: 0 or 1.
        actor: The actor.
    """

    episode: DatasetEpisode | None
    left_out: int
    actor: Actor


def has_failed(end_reason: str) -> bool:
    """Return whether a trial ended because something failed or was lost, as `TrialEnd.failed`."""
    return _FAILURES.match(end_reason) is not None


def episodes_of_trial(
    trial: LoggedTrial,
    batches: Sequence[Any],
    spaces: Mapping[str, tuple[Any, Any]],
    is_person: Callable[[str], bool],
    metadata: Mapping[str, str],
) -> Iterator[TrialEpisode]:
    """Yield the episode of each actor that acted.

    Args:
        trial: The trial.
        batches: Its `COLUMNS`, of `cogrs.sdk`'s `read_columns`.
        spaces: Spaces of observations and actions by the actors' names.
        is_person: Whether the sender of a reward is a person.
        metadata: Of all episodes.

    Raises:
        TypeError, ValueError: Values are not arrays of the spaces.
    """
    if not batches:
        return
    for actor in trial.actors:
        columns = columns_of(batches, actor.name)
        count = len(columns.actions)
        if count == 0:
            continue
        own = spaces[actor.name]
        if own[0] is None or own[1] is None:
            raise TypeError(
                "observation_space, action_space: expected both, as the environment of trial "
                f"{trial.id} told no spaces of {actor.name!r}, got None"
            )
        left_out = 0 if len(columns.tick) > count else 1
        episode = None
        if count > left_out:
            names = {"actor": actor.name, "actor_class": actor.actor_class}
            where = f"of {actor.name!r} in trial {trial.id}"
            about = {"trial_id": trial.id, **names, **metadata}
            episode = _made(columns, own, count - left_out, where, is_person, about)
        yield TrialEpisode(episode, left_out, actor)


def _made(
    columns: ActorColumns,
    spaces: tuple[Any, Any],
    count: int,
    where: str,
    is_person: Callable[[str], bool],
    metadata: dict[str, Any],
) -> DatasetEpisode:
    observations = stacked(spaces[0], columns.observations[: count + 1], f"observations {where}")
    actions = stacked(spaces[1], columns.actions[:count], f"actions {where}")
    acted = np.zeros(count + 1, bool)
    acted[:count] = ~columns.stood_in[:count]
    ticks = columns.tick[: count + 1]
    rewards, parts = _rewards(columns.rewards, ticks, count, is_person)
    infos = {"tick": ticks, "acted": acted, **parts, "timestamp": columns.timestamp[: count + 1]}
    over = bool(columns.terminated[count])
    return DatasetEpisode(observations, actions, rewards, over, infos, metadata)


def _rewards(
    received: Rewards,
    ticks: npt.NDArray[np.int64],
    count: int,
    is_person: Callable[[str], bool],
) -> tuple[npt.NDArray[np.float64], dict[str, npt.NDArray[Any]]]:
    """Return the sum of each action's rewards, and what they consist of in T + 1 rows."""
    # The reward for the action that answers observation k is of tick k + 1.
    rows = np.searchsorted(ticks[:count], received.tick - 1)
    known = (rows < count) & (ticks[np.minimum(rows, count)] == received.tick - 1)
    rewards = np.bincount(rows[known], received.value[known], minlength=count)
    summed: npt.NDArray[np.float64] = rewards[:count].astype(np.float64)
    trusted = (received.confidence > 0) & np.isfinite(received.amount * received.confidence)
    trusted &= known[received.reward]
    of = rows[received.reward]
    kinds = {name: "env" if name == "env" else is_person(name) for name in set(received.sender)}
    kind = np.array([kinds[name] for name in received.sender], object)

    def total(chosen: npt.NDArray[np.bool_], what: npt.NDArray[np.float64]) -> Any:
        return np.bincount(of[chosen], what[chosen], minlength=count + 1)[: count + 1]

    def mean(chosen: npt.NDArray[np.bool_]) -> Any:
        weight = total(chosen, received.confidence)
        sums = total(chosen, received.confidence * received.amount)
        return np.divide(sums, weight, out=np.zeros(count + 1), where=weight > 0)

    return summed, {
        "reward_environment": mean(trusted & (kind == "env")),
        "reward_people": mean(trusted & (kind == True)),  # noqa: E712
        "confidence": total(trusted, received.confidence),
    }


def stacked(space: Any, values: Any, name: str) -> Any:
    """Return values as trials carry them, a list or an array of rows, as arrays of a space.

    Raises:
        TypeError, ValueError: A value is not of the space.
    """
    return as_of(space, _rows(space, values, name), name)


def _rows(space: Any, values: Any, name: str) -> Any:
    parts = parts_of(space)
    if parts is None and isinstance(values, np.ndarray):
        return values
    if parts is None:
        wrong = [each for each in values if not isinstance(each, (np.ndarray, np.generic))]
        if wrong:
            expected = f"arrays of {space}"
            raise TypeError(f"{name}: expected {expected}, got {type(wrong[0]).__name__}")
        if len({np.shape(each) for each in values}) > 1:
            shapes = sorted({np.shape(each) for each in values})
            raise ValueError(f"{name}: expected arrays of one shape, got {shapes}")
        return np.stack(values)
    keys = list(parts) if isinstance(parts, dict) else list(range(len(parts)))
    names = {str(key) for key in keys}
    for each in values:
        if not isinstance(each, Mapping) or set(each) != names:
            got = ", ".join(map(repr, each)) if isinstance(each, Mapping) else type(each).__name__
            raise ValueError(f"{name}: expected parts {', '.join(sorted(names))}, got {got}")
    made = [
        _rows(parts[key], [each[str(key)] for each in values], f"{name}[{key!r}]") for key in keys
    ]
    return dict(zip(keys, made, strict=True)) if isinstance(parts, dict) else tuple(made)
