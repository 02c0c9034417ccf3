"""Trials of a store, or episodes of a memory, as data sets of Minari."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from cogrs._core import ReplayMemory
from cogrs.datasets.dataset_episode import check_fits
from cogrs.datasets.memory_episodes import episodes_of
from cogrs.datasets.minari_files import (
    DatasetDraft,
    DatasetFiles,
    check_dataset_id,
    check_free,
    check_space,
    minari,
)
from cogrs.replay.spaces import spaces_of
from cogrs.space_json import space_to_json
from cogrs.suggest import check_options
from cogrs.validation import check_flag, check_kind, check_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cogrs.datasets.dataset_episode import DatasetEpisode
    from cogrs.store import Store, TrialFilter

_METADATA = ("algorithm_name", "author", "author_email", "code_permalink", "description")
_SETS = ("author", "author_email")
"""Metadata that Minari has as sets."""


class Exported(NamedTuple):
    """A data set that was written.

    Fields:
        dataset_id: Its id, for `minari.load_dataset`.
        path: Its folder.
        episodes: Its episodes.
        steps: Actions in it.
        left_out: Actions that are not, because what they led to is not known.
    """

    dataset_id: str
    path: Path
    episodes: int
    steps: int
    left_out: int


class _Kind(NamedTuple):
    """What the episodes of one data set have in common."""

    implementation: str
    actor_class: str
    observation_space: str
    action_space: str


_Spaces = tuple[Any, Any]
"""Spaces of observations and of actions."""

_Found = tuple[_Kind, _Spaces, "DatasetEpisode | None", int]
"""A kind, its spaces, an episode and how many of its actions are left out."""


def to_minari(
    source: ReplayMemory | Store,
    dataset_id: str,
    *,
    observation_space: Any = None,
    action_space: Any = None,
    trials: TrialFilter | Iterable[str] | None = None,
    failed: bool = False,
    env: Any = None,
    **metadata: str,
) -> list[Exported]:
    """Write trials of a store, or closed episodes of a memory, as data sets of Minari.

    Observations and actions are kept to the bit: HDF5, images without JPEG. Each episode has T
    actions and T + 1 observations. `terminations` are True only where the environment said so; all
    other ends are truncations.

    Of a store there is an episode for each actor of each trial, and a data set for each
    implementation of an environment, class of actors and pair of spaces. `rewards[k]` is the sum of
    all rewards for the action at tick k, late ones too, float64. `infos` have T + 1 rows, row k of
    tick k: `tick`; `acted`, False where a default action stood in, and in the last row;
    `reward_environment` and `reward_people`, the means of their sources weighted by confidence, 0
    without sources; `confidence`, the sum of all sources' confidences; `timestamp` in nanoseconds
    since the Unix epoch. Metadata of an episode: `trial_id`, `actor`, `actor_class`,
    `implementation`, `user`, `end_reason`.

    Of a memory `infos` have `prob`, `value` and `info` of each entry. If an episode was closed
    without a final state, its last action is left out, and the one before is a truncation.

    Args:
        source: A memory, which nothing writes to meanwhile, or a store of trials.
        dataset_id: `NAME-vN` or `NAMESPACE/NAME-vN`, a new one. If there are several data sets,
            what sets them apart is put before the version: the implementation, the class, a number.
        observation_space: The Gymnasium space of observations, for a memory that was made from
            templates or loaded from a file; of a store, for trials whose environment told none.
        action_space: Likewise, of actions.
        trials: Which trials of a store: a filter, or ids; None: all.
        failed: Whether to take trials that failed or are partial, too.
        env: Id, `EnvSpec` or environment of Gymnasium that `recover_environment` of the data set
            returns; None: none.
        metadata: `algorithm_name`, `author`, `author_email`, `code_permalink`, `description`.

    Returns:
        The data sets.

    Raises:
        TypeError: An argument has the wrong type, or a space is needed and was not given.
        ValueError: `dataset_id` is not such an id; a space does not fit the memory, or Minari does
            not keep it as it is; a value is not in its space; or there are no episodes.
        FileExistsError: There is such a data set.
        RuntimeError: The memory was written meanwhile.
        OSError: A file cannot be read or written.
        ImportError: Minari, h5py or Pillow is not installed. After all of these errors no part of
            the data sets is left.
    """
    library = minari()
    namespace, name, version = check_dataset_id("dataset_id", dataset_id)
    check_options(metadata, _METADATA, "to_minari")
    for key, value in metadata.items():
        check_text(key, value)
    check_free([dataset_id])
    env_spec = _env_spec(env)
    if isinstance(source, ReplayMemory):
        found = _of_memory(source, observation_space, action_space)
    else:
        spaces = (observation_space, action_space)
        found = _of_store(source, spaces, trials, failed=check_flag("failed", failed))
    kept: dict[str, Any] = {
        key: {value} if key in _SETS else value for key, value in metadata.items()
    }
    with DatasetFiles() as files:
        drafts: dict[_Kind, DatasetDraft] = {}
        left_out: Counter[_Kind] = Counter()
        for kind, spaces, episode, missing in found:
            left_out[kind] += missing
            if episode is None:
                continue
            if kind not in drafts:
                check_space("observation_space", spaces[0])
                check_space("action_space", spaces[1])
                drafts[kind] = files.draft(spaces, env_spec)
            drafts[kind].add(episode.arrays(), episode.metadata)
        if not drafts:
            raise ValueError("source: expected at least one episode with an action, got none")
        names = _names(list(drafts), name)
        gen_id = library.dataset.minari_dataset.gen_dataset_id
        ids = {kind: gen_id(namespace, names[kind], int(version)) for kind in drafts}
        if len(drafts) == 1:
            ids = dict.fromkeys(drafts, dataset_id)
        for kind, draft in drafts.items():
            draft.finish(ids[kind], kept)
        paths = files.publish({ids[kind]: draft for kind, draft in drafts.items()})
    return [
        Exported(ids[kind], paths[ids[kind]], draft.episodes, draft.steps, left_out[kind])
        for kind, draft in drafts.items()
    ]


def _of_memory(memory: ReplayMemory, observation_space: Any, action_space: Any) -> Iterator[_Found]:
    known = spaces_of(memory) or (None, None)
    given = {"observation_space": observation_space, "action_space": action_space}
    spaces = []
    for (name, space), own, field in zip(given.items(), known, ("state", "action"), strict=True):
        chosen = own if space is None else space
        if chosen is None:
            why = "as the memory was made from templates or loaded from a file"
            raise TypeError(f"{name}: expected a space, {why}, got None")
        check_fits(name, chosen, getattr(memory, f"{field}_buf"))
        spaces.append(chosen)
    pair = (spaces[0], spaces[1])
    kind = _Kind("", "", "", "")
    return ((kind, pair, episode, missing) for episode, missing in episodes_of(memory, *pair))


def _of_store(store: Any, given: _Spaces, trials: Any, *, failed: bool) -> Iterator[_Found]:
    from cogrs.datasets.trial_columns import COLUMNS
    from cogrs.datasets.trial_episodes import episodes_of_trial, has_failed
    from cogrs.sdk.datalog_parquet import read_columns
    from cogrs.store import Store, TrialFilter, is_person
    from cogrs.store.trial_file import check_unchanged

    if not isinstance(store, Store):
        got = type(store).__name__
        raise TypeError(f"source: expected a ReplayMemory or a Store, got {got}")
    known: dict[str, Mapping[str, tuple[_Spaces, tuple[str, str]]]] = {}
    missing = given, _shown(given)
    if trials is None or isinstance(trials, TrialFilter):
        records = store.trials(trials)
    else:
        check_kind("trials", trials, Iterable, "a TrialFilter or ids of trials")
        records = (store.trial(each) for each in trials)
    for record in records:
        if not failed and (record.partial or has_failed(record.end_reason)):
            continue
        path = store.path(record)
        check_unchanged(path, record)
        trial, batches = read_columns(path, COLUMNS)
        # Most trials of a store have the same.
        if trial.spaces_json not in known:
            told = trial.spaces.items()
            known[trial.spaces_json] = {name: (own, _shown(own)) for name, own in told}
        spaces = {
            actor.name: known[trial.spaces_json].get(actor.name, missing) for actor in trial.actors
        }
        implementation = trial.params.environment.implementation
        about = {"user": record.user, "end_reason": record.end_reason}
        about["implementation"] = implementation
        pairs = {name: own for name, (own, _) in spaces.items()}
        for each in episodes_of_trial(trial, batches, pairs, partial(is_person, trial), about):
            own, shown = spaces[each.actor.name]
            kind = _Kind(implementation, each.actor.actor_class, *shown)
            yield kind, own, each.episode, each.left_out


def _shown(spaces: _Spaces) -> tuple[str, str]:
    """Return texts that are the same for equal spaces; "" for a missing one."""
    seen, done = ("" if each is None else space_to_json(each) for each in spaces)
    return seen, done


def _names(kinds: list[_Kind], name: str) -> Mapping[_Kind, str]:
    """Return names that set kinds apart."""
    shown = [[re.sub(r"[^-\w]", "_", each, flags=re.ASCII) for each in kind[:2]] for kind in kinds]
    several = [len({each[at] for each in shown}) > 1 for at in range(2)]
    made: dict[_Kind, str] = {}
    met: Counter[str] = Counter()
    total = Counter(tuple(each) for each in shown)
    for kind, words in zip(kinds, shown, strict=True):
        chosen = [word for word, differs in zip(words, several, strict=True) if differs and word]
        made[kind] = "-".join([name, *chosen])
        met[made[kind]] += 1
        if total[tuple(words)] > 1 or met[made[kind]] > 1:
            made[kind] += f"-{met[made[kind]]}"
    return made


def _env_spec(env: Any) -> Any:
    from gymnasium.envs.registration import EnvSpec, spec
    from gymnasium.error import Error

    if env is None or isinstance(env, EnvSpec):
        return env
    if isinstance(env, str):
        try:
            return spec(env)
        except Error as error:
            expected = "the id of an environment"
            raise ValueError(f"env: expected {expected}, got {env!r}: {error}") from error
    found = getattr(env, "spec", None)
    if not isinstance(found, EnvSpec):
        got = type(env).__name__
        raise TypeError(f"env: expected an id, an EnvSpec or an environment, got {got}")
    return found
