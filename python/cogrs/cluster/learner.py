"""The learner's process: batches from all shards, priorities and parameters back, checkpoints."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cogrs.cluster.checkpoints import Checkpoints
from cogrs.cluster.import_path import imported
from cogrs.cluster.spaces import spaces_of
from cogrs.replay import ReplaySampler
from cogrs.workers import PARAMETERS, pack_arrays, unpack_arrays
from cogrs.workers.checkpoint import write_file

if TYPE_CHECKING:
    from pathlib import Path

    from cogrs.cluster.part import Part
    from cogrs.cluster.protocols import Learner

_logger = logging.getLogger("cogrs.cluster")

_UPDATES, _ROWS = "updates", "rows"
_STATE: Final = "state."
"""Before the names of the learner's own arrays in a checkpoint."""
_TIMEOUT: Final = 5.0
"""Seconds after which batches go on without a shard that does not answer."""
_WAIT: Final = 0.5
"""Seconds that a batch is waited for before the part looks whether it is to stop."""


def run_learner(part: Part) -> None:
    """Learn until the part is to stop, or all updates were made."""
    learner: Learner = imported("learner", part.plan.learner)(*spaces_of(part.plan))
    part.register()
    if not part.wait_for_shards():
        return
    keys = part.folder
    student = _Student(part, learner)
    with ReplaySampler[Any](
        _endpoints(part),
        timeout=_TIMEOUT,
        skip_down=True,
        # Fewer requests per batch, whose cost is the learner's time: from four shards it takes
        # batches at 1.03 times the rate of one shard with 7, and at 0.67 times with 3.
        ahead=2 * part.plan.shards - 1 if part.plan.shards > 1 else 0,
        seed=student.seed(),
        key=keys.secret_key("learner"),
        server_key=keys.server_key(),
    ) as sampler:
        student.run(sampler)
    part.close()


def _endpoints(part: Part) -> list[str]:
    return [each["endpoints"][1] for each in part.shards()]


class _Student:
    """The loop of a learner, and its figures."""

    _sampler: ReplaySampler[Any]

    def __init__(self, part: Part, learner: Learner) -> None:
        """Go on with the newest checkpoint."""
        self._part = part
        self._learner = learner
        self._checkpoints = Checkpoints(part.folder.path / f"learner-{part.index}")
        self._updates = self._rows = 0
        self._unpublished = True
        """Whether there are parameters that shards have not, or a shard that has none."""
        self._checkpoints.newest(self._restore)

    def seed(self) -> int | None:
        """Return a seed for draws: after a restart they go on, and are not those of the start."""
        seed = self._part.plan.seed
        if seed is None:
            return None
        return int(np.random.SeedSequence([seed, self._updates]).generate_state(1, np.uint64)[0])

    def run(self, sampler: ReplaySampler[Any]) -> None:
        self._sampler = sampler
        part, plan = self._part, self._part.plan
        part.set_on_change(self._follow)
        self._follow()
        due = time.monotonic() + plan.checkpoint_seconds
        while not part.stopping and not self._is_done():
            if self._unpublished:
                self._publish()
            self._learn()
            self._report()
            if time.monotonic() >= due:
                self._save()
                due = time.monotonic() + plan.checkpoint_seconds
        self._save()
        self._report()

    def _is_done(self) -> bool:
        updates = self._part.plan.updates
        return updates is not None and self._updates >= updates

    def _learn(self) -> None:
        try:
            batch = self._sampler.get_batch(self._part.plan.batch_size, wait=_WAIT)
        except TimeoutError:
            return  # too few samples, or the shards are away
        priorities = self._learner.update(batch)
        self._updates += 1
        self._rows += len(batch.weight)
        if priorities is not None:
            self._sampler.update_priority(batch.id, batch.sender, priorities)
        self._unpublished |= self._updates % self._part.plan.publish_every == 0

    def _publish(self) -> None:
        packed = pack_arrays(self._learner.parameters())
        self._unpublished = False
        try:
            self._sampler.pub_bytes(PARAMETERS, packed)
        except TimeoutError as error:
            self._part.note_error(error)

    def _follow(self) -> None:
        """Go on with shards that have moved; they are to have the parameters."""
        if self._part.shards():
            generation = self._part.snapshot["version"]
            self._sampler.replace(_endpoints(self._part), generation=generation)
            self._unpublished = True

    def _save(self) -> None:
        state = {f"{_STATE}{name}": array for name, array in self._learner.state().items()}
        counts = {_UPDATES: np.int64(self._updates), _ROWS: np.int64(self._rows)}
        packed = pack_arrays({**counts, **state})
        try:
            self._checkpoints.write(lambda path: write_file(path, packed))
            self._part.last_error = ""
        except OSError as error:  # a full disk must not end it
            self._part.note_error(error)

    def _restore(self, path: Path) -> None:
        arrays = unpack_arrays(path.read_bytes())
        if not {_UPDATES, _ROWS} <= arrays.keys():
            raise ValueError(f"{path}: expected a checkpoint of a learner")
        self._updates, self._rows = int(arrays.pop(_UPDATES)), int(arrays.pop(_ROWS))
        self._learner.restore({name.removeprefix(_STATE): array for name, array in arrays.items()})

    def _report(self) -> None:
        down = []
        with contextlib.suppress(RuntimeError):
            down = [at for at, each in enumerate(self._sampler.stats()) if each.down]
        self._part.report = {
            "at": time.time(),
            "count": self._updates,
            "rows": {"drawn": self._rows},
            "down": down,
        }
