"""`LearnerWorker`: draws batches, updates a model with them, and publishes its parameters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Generic

import numpy as np

from cogrs.deprecation import renamed_argument
from cogrs.replay.batch import BatchT
from cogrs.validation import check_seconds
from cogrs.workers.checkpoint import write_file
from cogrs.workers.parameters import pack_arrays, unpack_arrays

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from cogrs.replay import ReplayMemoryServer

_UPDATES, _STATE = "updates", "state"
"""Names of the arrays of a checkpoint."""

PARAMETERS = "parameters"
"""The topic on which parameters are published."""


class LearnerWorker(Generic[BatchT]):
    """The learner: takes batches of what actors pushed, and publishes parameters to them."""

    def __init__(
        self,
        server: ReplayMemoryServer[BatchT],
        update: Callable[[BatchT], Mapping[str, float]],
        parameters: Callable[[], bytes],
        *,
        state: Callable[[], bytes] | None = None,
        batch_size: int = 64,
        publish_every: int = 10,
        topic: str | bytes = PARAMETERS,
    ) -> None:
        """Publish the first parameters.

        Args:
            server: Gives batches, and publishes parameters.
            update: Learns from a batch, as `get_batch` of the server returns it, and returns
                metrics.
            parameters: Returns the present parameters.
            state: Returns the whole state of `update`, with the optimizer's moments and seeds; None
                takes the parameters.
            batch_size: Rows of a batch.
            publish_every: Updates between two publications.
            topic: The topic of publications.

        Raises:
            ValueError: A number is below 1.
        """
        for name, number in (("batch_size", batch_size), ("publish_every", publish_every)):
            if number < 1:
                raise ValueError(f"{name}: expected an integer >= 1, got {number}")
        self._server: ReplayMemoryServer[BatchT] = server
        self._update: Callable[[BatchT], Mapping[str, float]] = update
        self._parameters = parameters
        self._state = state or parameters
        self._batch_size = batch_size
        self._publish_every = publish_every
        self._topic = topic
        self.updates = 0
        """Number of updates."""
        self._publish()

    @renamed_argument("wait", "timeout")
    def step(self, timeout: float) -> Mapping[str, float] | None:
        """Learn from one batch.

        Args:
            timeout: Seconds to wait for it.

        Returns:
            The metrics of `update`; None when there were too few samples for `timeout`, or the
            server's rate limiter allowed no batch.
        """
        check_seconds("timeout", timeout)
        try:
            batch = self._server.get_batch(self._batch_size, wait=timeout)
        except TimeoutError:
            return None
        figures = self._update(batch)
        self.updates += 1
        if self.updates % self._publish_every == 0:
            self._publish()
        return figures

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint, state and number of updates, in place of a file that exists.

        Raises:
            OSError: It cannot be written.
        """
        state = np.frombuffer(self._state(), np.uint8)
        write_file(path, pack_arrays({_UPDATES: np.int64(self.updates), _STATE: state}))

    def load(self, path: str | os.PathLike[str], restore: Callable[[bytes], object]) -> None:
        """Restore a checkpoint, and publish its parameters.

        Args:
            path: A file of `save`.
            restore: Called with the state.

        Raises:
            OSError: It cannot be read.
            ValueError: It is not a checkpoint. Nothing is changed.
            Exception: Any that `restore` raises. The count is as before, and nothing is published.
        """
        arrays = unpack_arrays(Path(path).read_bytes())
        if set(arrays) != {_UPDATES, _STATE}:
            raise ValueError(f"{path}: expected a checkpoint, got {', '.join(arrays) or 'nothing'}")
        updates = arrays[_UPDATES]
        if updates.shape != () or updates.dtype != np.int64 or updates < 0:
            got = f"{updates.dtype} {updates.shape}"
            raise ValueError(f"{path}: expected a count of updates, got {got}")
        restore(arrays[_STATE].tobytes())
        self.updates = int(updates)
        self._publish()

    def _publish(self) -> None:
        self._server.pub_bytes(self._topic, self._parameters())
