"""`cogrs.MixedSampler`: batches whose rows come from several memories or servers, in fixed shares.

Threads: any may call any method. One lock is held for a whole draw, while it waits for a source
too; the fractions are one object that is replaced, so that setting them never waits.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from cogrs._core import ReplayMemory
from cogrs.replay.batch import NStepSample, NStepWeightedSample, Sample, WeightedSample
from cogrs.replay.convert import numbers
from cogrs.replay.mixed_ids import MOST_SOURCES, Ids, MixedIds
from cogrs.replay.mixed_source import Fields, MixedSource, difference, joined
from cogrs.replay.net.deadline import Deadline
from cogrs.replay.shares import Shares, fractions_of
from cogrs.validation import check_count, check_flag, check_kind, check_number, check_text

if TYPE_CHECKING:
    import numpy.typing as npt

    from cogrs.replay.mixed_source import Rows

_KINDS = {
    (False, False): Sample,
    (True, False): NStepSample,
    (False, True): WeightedSample,
    (True, True): NStepWeightedSample,
}
"""Classes of batches: with n-step returns or without, with importance weights or without."""


class MixedSampler:
    """Draws batches from several sources, each of which gives its fraction of the rows.

    For learning from data that was collected before and from new steps together, in shares that do
    not depend on how much of each there is::

        mixed = cogrs.MixedSampler({"offline": (dataset, 0.5), "online": (memory, 0.5)})
        batch = mixed.sample(256, nstep_return=True, beta=0.4)
        mixed.update_priority(batch.id, errors)

    A source is a `ReplayMemory`, a `ReplayView`, a `ReplayMemoryServer` or a `ReplaySampler`; with
    `ids=True` of a server, its entries get priorities. Servers have to be made with `nstep=True`,
    since their batches do not say otherwise where episodes terminated. Fields, stacks of frames and
    the settings that leave fields out have to be equal in all sources; other settings may differ.

    After any number of batches, each source has given less than one row more or less than its
    fraction of all rows since the fractions were set. Any thread may call any method; draws wait
    for each other.
    """

    def __init__(self, sources: Mapping[str, tuple[Any, float]]) -> None:
        """Draw nothing yet.

        Args:
            sources: A source and its fraction by the source's name; at most 128. Fractions are in
                [0, 1] and add up to 1.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: There are no sources, a fraction is out of range, their sum is not 1, fields
                of two sources differ, or a server was made without `nstep=True`. What a view or a
                `ReplaySampler` has is compared when it is first drawn from.
        """
        check_kind("sources", sources, Mapping, "a mapping from names to sources with fractions")
        if not 1 <= len(sources) <= MOST_SOURCES:
            expected = f"1 to {MOST_SOURCES} sources"
            raise ValueError(f"sources: expected {expected}, got {len(sources)}")
        for name, each in sources.items():
            check_text("sources", name)
            if not isinstance(each, (tuple, list)) or len(each) != 2:
                got = type(each).__name__
                raise TypeError(f"sources[{name!r}]: expected (source, fraction), got {got}")
        self._names = tuple(sources)
        given = {name: fraction for name, (_, fraction) in sources.items()}
        self._shares = Shares(fractions_of("fractions", given, self._names))
        self._ids = MixedIds(len(self._names))
        self._sources = [
            MixedSource(name, source, lambda *row, at=at: self._ids.encode(at, *row))
            for at, (name, (source, _)) in enumerate(sources.items())
        ]
        self._lock = threading.Lock()
        self._first: tuple[str, Fields] | None = None
        known = [(each.name, _templates(each.source)) for each in self._sources]
        for name, templates in known:
            if templates is not None:
                self._compare(name, templates)
        self._first = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sources, in the order in which batches have their rows."""
        return self._names

    @property
    def fractions(self) -> dict[str, float]:
        """The present fractions by names of sources."""
        return dict(zip(self._names, map(float, self._shares.fractions), strict=True))

    def set_fractions(self, fractions: Mapping[str, float]) -> None:
        """Set the fractions for batches from now on; rows are counted anew.

        Does not wait: a draw that is under way still has the old ones.

        Args:
            fractions: Of every source, by name; each in [0, 1], adding up to 1.

        Raises:
            TypeError: As the constructor.
            ValueError: As the constructor, or a name is not that of a source. Nothing is changed.
        """
        self._shares = Shares(fractions_of("fractions", fractions, self._names))

    @overload
    def sample(
        self,
        batch_size: int,
        *,
        nstep_return: Literal[False] = False,
        beta: None = None,
        wait: float | None = None,
    ) -> Sample: ...
    @overload
    def sample(
        self,
        batch_size: int,
        *,
        nstep_return: Literal[True],
        beta: None = None,
        wait: float | None = None,
    ) -> NStepSample: ...
    @overload
    def sample(
        self,
        batch_size: int,
        *,
        nstep_return: Literal[False] = False,
        beta: float,
        wait: float | None = None,
    ) -> WeightedSample: ...
    @overload
    def sample(
        self,
        batch_size: int,
        *,
        nstep_return: Literal[True],
        beta: float,
        wait: float | None = None,
    ) -> NStepWeightedSample: ...
    def sample(
        self,
        batch_size: int,
        *,
        nstep_return: bool = False,
        beta: float | None = None,
        wait: float | None = None,
    ) -> Sample | NStepSample | WeightedSample | NStepWeightedSample:
        """Draw a batch: all rows or nothing.

        Args:
            batch_size: Rows B, >= 1.
            nstep_return: As of `ReplayMemory.sample`.
            beta: As of `ReplayMemory.sample`.
            wait: Seconds to wait, for all sources together, as of `ReplayMemory.sample`; None: as
                each source does without.

        Returns:
            The named tuple that `ReplayMemory.sample` returns, the rows of each source one after
            the other, in the order of `names`. `id` has ids of this sampler, uint64 (B,) below
            2 ** 63, which say the source: `source_of(id)`. `probability` is that of the row in its
            source; of a server it is estimated by its `weight_sum`. `importance_weight` is (n *
            probability) ** -beta, divided by the largest of the batch, where n is the number of
            entries of the row's source that can be drawn in proportion to weight; of a server it is
            estimated from its rows. So fractions are not corrected for.

        Raises:
            ValueError: An argument is out of range, or fields of two sources differ; the text names
                the difference.
            RuntimeError: A source has too few entries and does not wait, or was closed. The text
                begins with its name. Rows that others gave are kept for the next call, as they are
                after all errors that follow.
            TimeoutError: A source has too few entries, or its rate limiter allowed no batch, for
                `wait` seconds; or other calls draw.
        """
        rows = check_count("batch_size", batch_size)
        nstep = check_flag("nstep_return", nstep_return)
        if beta is not None and check_number("beta", beta) < 0:
            raise ValueError(f"beta: expected a finite number >= 0, got {beta}")
        deadline = Deadline.of("wait", wait)
        left = deadline.left
        if not self._lock.acquire(timeout=-1 if left is None else left):
            raise TimeoutError("sample: other calls draw from the sources")
        try:
            shares = self._shares
            counts = shares.next(rows)
            wanted = [pair for pair in zip(self._sources, counts, strict=True) if pair[1]]
            for source, count in wanted:
                try:
                    source.hold(count, deadline.left)
                except (RuntimeError, TimeoutError) as error:
                    raise type(error)(f"{source.name}: {error}") from error
                self._compare(source.name, source.fields())
            shares.count(counts)
            drawn = [source.take(count) for source, count in wanted]
        finally:
            self._lock.release()
        return _batch(joined(drawn), nstep, beta)

    def source_of(self, id: npt.ArrayLike) -> npt.NDArray[np.intp]:
        """Return the number of each id's source: its position in `names`, int of the ids' shape.

        Raises:
            TypeError: `id` are not integers.
            ValueError: One of them is not of this sampler.
        """
        return self._ids.sources_of(id)

    def update_priority(
        self, id: npt.ArrayLike, priority: npt.ArrayLike, *, absolute: bool = False
    ) -> int:
        """Send errors back to the sources of the rows.

        Args:
            id: Ids of batches, (B,).
            priority: As of `ReplayMemory.update_priority`: one for each id, or one for all.
            absolute: As of `ReplayMemory.update_priority`.

        Returns:
            Number of the ids whose entries were dropped from memories; servers do not tell.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An id is not of this sampler, lengths differ, or a priority is negative or
                not finite; or a row is of a server without `ids=True`. Nothing is changed.
            RuntimeError: A source was closed. Others may have got their errors.
        """
        absolute = check_flag("absolute", absolute)
        errors = numbers("priority", priority)
        found = self._ids.decode(id)
        count = np.shape(id)[0]
        if errors.ndim and errors.shape != (count,):
            expected = f"one number, or one for each of {count} ids"
            raise ValueError(f"priority: expected {expected}, got shape {errors.shape}")
        if not (np.isfinite(errors).all() and (errors >= 0).all()):
            raise ValueError("priority: expected finite numbers >= 0, got other numbers")
        errors = np.broadcast_to(errors, (count,))
        parts: list[tuple[MixedSource, Ids]] = []
        for at, ids in found.items():
            if ids is None:
                where = f"rows of {self._names[at]!r}"
                raise ValueError(f"id: expected {where} to have ids: make the server with ids=True")
            parts.append((self._sources[at], ids))
        dropped = 0
        for source, ids in parts:
            send, own = source.source.update_priority, errors[ids.rows]
            if source.is_local:
                dropped += send(ids.id, own, absolute=absolute)
            else:
                send(ids.id, ids.sender, own, absolute=absolute)
        return dropped

    def _compare(self, name: str, fields: Fields) -> None:
        """Refuse a source whose fields are not those of the first."""
        if self._first is None:
            self._first = name, fields
        elif found := difference(self._first[1], fields):
            what, first, other = found
            expected = f"sources: expected equal fields, got {what} {first} in {self._first[0]!r}"
            raise ValueError(f"{expected} and {other} in {name!r}")

    def __repr__(self) -> str:
        """Return the class and the fractions."""
        return f"MixedSampler({self.fractions!r})"


def _templates(source: Any) -> Fields | None:
    """Return the templates and layout of a memory or a server; None where they are not known."""
    memory = source if isinstance(source, ReplayMemory) else getattr(source, "rem", None)
    if memory is None:
        return None
    found = {}
    for name in ("state", "action", "reward", "prob", "value", "qvest", "info"):
        template = getattr(memory, f"{name}_buf")
        found[name] = f"{template.dtype} {template.shape}"
    return found | {name: str(getattr(memory, name)) for name in ("frame_stack", "cache_flags")}


def _batch(
    rows: Rows, nstep: bool, beta: float | None
) -> Sample | NStepSample | WeightedSample | NStepWeightedSample:
    columns: tuple[Any, ...] = rows[: 8 if nstep else 6]
    if beta is not None:
        # The smallest ratio has the largest weight, by which all are divided.
        weights = (rows.ratio / rows.ratio.min()) ** -float(beta)
        columns += (weights.astype(np.float32),)
    kind: Any = _KINDS[nstep, beta is not None]
    made: Sample | NStepSample | WeightedSample | NStepWeightedSample = kind(*columns)
    return made
