"""`LearnerWorker`: draws batches, has them learned from, and publishes what was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cogrs.replay import Batch, ReplayMemoryServer

PARAMETERS = "parameters"
"""The topic on which parameters are published."""


class LearnerWorker:
    """The learner's half: batches of what actors pushed, an update, and the parameters back."""

    def __init__(
        self,
        server: ReplayMemoryServer,
        update: Callable[[Batch], Mapping[str, float]],
        parameters: Callable[[], bytes],
        *,
        batch_size: int = 64,
        publish_every: int = 10,
        topic: str | bytes = PARAMETERS,
    ) -> None:
        """Publish the first parameters.

        Args:
            server: Where batches come from, and parameters go.
            update: Learns from a batch, and returns figures about that.
            parameters: Returns the present parameters.
            batch_size: Rows of a batch.
            publish_every: Updates between two publications.
            topic: Where they are published.

        Raises:
            ValueError: A number is below 1.
        """
        for name, number in (("batch_size", batch_size), ("publish_every", publish_every)):
            if number < 1:
                raise ValueError(f"{name}: expected an integer >= 1, got {number}")
        self._server = server
        self._update = update
        self._parameters = parameters
        self._batch_size = batch_size
        self._publish_every = publish_every
        self._topic = topic
        self.updates = 0
        """Updates that were made."""
        self._publish()

    def step(self, wait: float) -> Mapping[str, float] | None:
        """Learn from one batch.

        Args:
            wait: Seconds to wait for it.

        Returns:
            The figures of `update`; None when there were too few samples for so long.
        """
        try:
            batch = self._server.get_batch(self._batch_size, wait=wait)
        except TimeoutError:
            return None
        figures = self._update(batch)
        self.updates += 1
        if self.updates % self._publish_every == 0:
            self._publish()
        return figures

    def _publish(self) -> None:
        self._server.pub_bytes(self._topic, self._parameters())
