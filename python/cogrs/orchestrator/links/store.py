"""The port to a store of trials, which is in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cogrs.api.common_pb2 import TrialParams
    from cogrs.api.datalog_pb2 import DatalogSample
    from cogrs.store.writer import StoreWriter, TrialWriter


class StoreLink:
    """A `LogPort` to a store, whose thread does the work."""

    def __init__(self, trial_id: str, store: StoreWriter) -> None:
        """Create a port; nothing is stored of a trial that never runs."""
        self._trial_id = trial_id
        self._store = store
        self._trial: TrialWriter | None = None

    def params(self, params: TrialParams, spaces: str = "") -> None:
        """Start the trial."""
        self._trial = self._store.begin(self._trial_id, params, spaces)

    def sample(self, sample: DatalogSample) -> None:
        """Store a sample."""
        if self._trial is not None:
            self._trial.sample(sample)

    def close(self) -> None:
        """Store the trial."""
        if self._trial is not None:
            self._trial.close()
