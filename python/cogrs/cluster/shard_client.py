"""An actor's client of all shards: it follows them where they move, and tells the actor's figures.

Threads: `_follow` is called where the part follows the directory; `news` and `report` on one other.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from cogrs.replay import ReplayMemoryClient
from cogrs.workers import PARAMETERS, unpack_arrays

if TYPE_CHECKING:
    import numpy.typing as npt

    from cogrs.cluster.part import Part

_logger = logging.getLogger("cogrs.cluster")

TIMEOUT: Final = 1.0
"""Seconds that a call waits for a shard, so that the part soon sees that it is to stop."""
LOOK: Final = 0.1
"""Seconds between two looks for parameters and priorities."""


class ShardClient:
    """Pushes to all shards; its own shard publishes parameters, and has its limiter and totals."""

    def __init__(self, part: Part, seed: int | None) -> None:
        """Connect to the shards, which the part knows."""
        keys = part.folder
        self._part = part
        self._publications = 0
        self._is_synced = False
        self.steps = 0
        """Steps of all environments."""
        self.episodes = 0
        """Episodes that have ended."""
        self._returns: deque[float] = deque(maxlen=100)
        self.client = ReplayMemoryClient(
            *self._endpoints(),
            timeout=TIMEOUT,
            seed=seed,
            sub_hwm=1,
            key=keys.secret_key("actor"),
            server_key=keys.server_key(),
        )

    def _endpoints(self) -> tuple[str, str, list[str]]:
        """Return where this actor's shard publishes and answers, and where all shards pull."""
        places = [each["endpoints"] for each in self._part.shards()]
        pub, rep, _ = places[self._part.home()]
        return pub, rep, [pull for _, _, pull in places]

    def sync(self) -> bool:
        """Create the client's memory; return False when the part is to stop first."""
        self._part.set_on_change(self._follow)
        self._follow()
        while not self._part.stopping:
            try:
                self.client.sync_sizes(self._part.plan.capacity)
                self._is_synced = True
                return True
            except TimeoutError as error:
                _logger.warning("still waiting: %s", error)
        return False

    def _follow(self) -> None:
        """Go on with shards that have moved, and at another home."""
        if self._part.shards():
            generation = self._part.snapshot["version"]
            self.client.replace(*self._endpoints(), generation=generation)

    def news(self) -> dict[str, npt.NDArray[Any]] | None:
        """Apply priorities; return the newest parameters if there are newer ones."""
        found = None
        with contextlib.suppress(TimeoutError):
            found = unpack_arrays(self.client.sub_bytes(PARAMETERS, timeout=0.0, last=True))
            self._publications += 1
        self.client.apply_priorities()
        return found

    def add_episode(self, total_reward: float) -> None:
        """Count an episode that has ended."""
        self.episodes += 1
        self._returns.append(total_reward)

    def report(self, inserted: int) -> None:
        """Note what was done, and how many rows were sent, for the part's next registration."""
        self._part.report = {
            "at": time.time(),
            "count": self.steps,
            "episodes": self.episodes,
            "mean_return": float(np.mean(self._returns)) if self._returns else None,
            "publications": self._publications,
            "rows": {"sender": str(self.client.uuid), "inserted": inserted},
        }

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Send the totals, and close it."""
        if self._is_synced:
            with contextlib.suppress(TimeoutError):
                self.client.update_counter()
        self.client.close()
