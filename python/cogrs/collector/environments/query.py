"""Queries of an environment during a step, such as those of a search.

Any threads of the environment may query side by side, each with a `tid` of its own: the core waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.collector.environments.step_buffer import ObservationWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from cogrs import _core
    from cogrs.collector.environments.spaces import EnvSpaces
    from cogrs.collector.environments.step_buffer import StepBuffer


class QueryFactory:
    """Gives environments their `Query`."""

    def __init__(
        self,
        core: _core.CollectorContext,
        spaces: EnvSpaces,
        replies: Mapping[str, tuple[Any, tuple[int, ...]]],
    ) -> None:
        """Create a factory; `replies` are dtype and shape of each reply key."""
        self.core = core
        self.spaces = spaces
        self.replies = replies

    def bind(self, env: Any, game: int, step_buffer: StepBuffer) -> None:
        """Call an environment's `bind_query`, if it has one, with its `Query`."""
        bind_query = getattr(getattr(env, "unwrapped", env), "bind_query", None)
        if bind_query is not None:
            bind_query(Query(self, game, step_buffer))


class Query:
    """Asks the actors about a state that an environment considers, and waits for their replies."""

    def __init__(self, query_factory: QueryFactory, game: int, step_buffer: StepBuffer) -> None:
        """Create the query of a game, with rows like those of its env worker's step buffer."""
        self._query_factory = query_factory
        self._game = game
        self._rows = {
            key: (array.dtype, array.shape[1:]) for key, array in step_buffer.keys.items()
        }

    def __call__(self, tid: int, observation: Any, info: Any = None) -> dict[str, npt.NDArray[Any]]:
        """Ask the actors about a state.

        Args:
            tid: Number of the query, 1 to `co.max_num_threads`; collectors see it as `tid`.
            observation: An observation, as `step` returns it.
            info: Its info, likewise.

        Returns:
            An array for each reply key, in memory of its own.

        Raises:
            ValueError: The query does not exist, or the observation is not in the space.
            RuntimeError: This query is under way, or the run is over.
        """
        rows = {key: np.zeros((1, *shape), dtype) for key, (dtype, shape) in self._rows.items()}
        ObservationWriter(self._query_factory.spaces, rows).show(0, observation, info or {})
        shown = [array.tobytes() for array in rows.values()]
        answers = self._query_factory.core.query(self._game, tid, shown)
        return {
            key: np.frombuffer(answers[key], dtype).reshape(shape).copy()
            for key, (dtype, shape) in self._query_factory.replies.items()
        }
