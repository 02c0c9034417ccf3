"""Figures of one moment: of a memory, a server, and a sampler's connection to a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


class Tally(NamedTuple):
    """Caches that have arrived, ever.

    Fields:
        caches: Whole caches.
        samples: Samples in them.
        bytes: Bytes of their weights and fields; headers are left out.
    """

    caches: int
    samples: int
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LimiterStats:
    """Figures of the rate limiter of a memory or a server.

    If samples wait longer than inserts, the actors are the bottleneck; if inserts wait longer, the
    learner is.

    Attributes:
        inserts: Entries inserted: those of closed episodes, final states left out. Of a server: as
            clients have told since it began; what a client told an earlier server does not count.
        samples: Samples given: rows of batches, and samples that samplers got.
        removed: Inserted entries that were evicted or used up, each once; 0 of a server.
        sample_wait_seconds: Seconds that samples waited, added up over threads; a wait that goes
            on is counted too. Of a server: waits for caches too.
        insert_wait_seconds: Seconds that inserts waited, likewise. Of a server: those of its
            clients, as they told last.
        samples_per_insert: samples / inserts; 0 before the first insert.
    """

    inserts: int
    samples: int
    removed: int
    sample_wait_seconds: float
    insert_wait_seconds: float
    samples_per_insert: float


@dataclass(frozen=True, kw_only=True, slots=True)
class CompressionStats:
    """Figures of a compressed field of a memory, of the values that it holds.

    Attributes:
        codec: How it is compressed, as in `compress`.
        values: Values held, one per entry.
        raw_bytes: Their bytes.
        bytes: Bytes that they take.
        ratio: raw_bytes / bytes; 0 without values.
    """

    codec: str
    values: int
    raw_bytes: int
    bytes: int
    ratio: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageStats:
    """Figures of what a memory has in a folder.

    Attributes:
        folder: The folder.
        bytes: Bytes reserved on the disk.
        expected: Bytes that a full memory takes there, if compressed values get as small as those
            held.
        in_memory: Bytes of compressed values that lie in memory: those of open episodes, and such
            that their file had no room for.
    """

    folder: Path
    bytes: int
    expected: int
    in_memory: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryStats:
    """Figures of a `ReplayMemory`.

    Attributes:
        limiter: Those of its rate limiter; None without a limiter.
        compression: Those of its compressed fields, by name.
        storage: Those of the folder that large fields lie in; None without one.
    """

    limiter: LimiterStats | None
    compression: Mapping[str, CompressionStats] = field(default_factory=dict)
    storage: StorageStats | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerStats:
    """Figures of a `ReplayMemoryServer`. Counts begin with the server and never go down.

    What is about caches and samples is of one moment: `received` is the sum of `clients` and
    `other_clients`, and where no sample is used again it is `samples_given`, `samples_discarded`
    and `samples_unused` together. So are the counters, and the refused messages.

    Attributes:
        taken_at: When this was taken, in seconds of `time.monotonic`.
        caches: Caches held.
        n_caches: Most caches that the server holds.
        samples_unused: Samples held that have not been given yet.
        weight_sum: Sum of the shares of the caches held, as `ReplayMemoryServer.weight_sum`.
        oldest_age: Seconds since the oldest cache held arrived; None without caches.
        newest_age: Seconds since the newest cache held arrived; None without caches.
        received: What has arrived.
        clients: What has arrived from each client, by its uuid; the one that sent last comes last.
            No more than 1,024 clients, those that sent last: a cache of a further one moves the row
            of the client that has been silent longest to `other_clients`.
        other_clients: What has arrived from clients that have no row of their own, put together. A
            client that sends again gets a new row, and what it sent before stays here.
        samples_given: Samples in batches; one that is used again counts again.
        samples_discarded: Samples that were replaced, or dropped because settings changed, before
            they were given once.
        total_episodes: Episodes that clients have closed, as they told by `update_counter`.
        total_steps: Steps of those episodes, final states left out.
        refused: Messages dropped, by reason: a key for each reason of
            `cogrs.replay.wire.REASONS`, 0 included.
        published: Messages given to `pub_bytes`.
        publications_dropped: Published messages that clients were too slow for, added up over
            clients, as they told by `update_counter`.
        log_lines: Lines that have arrived from `write_log`.
        answers_dropped: Answers to requests that were dropped, because their peers left 1,000
            unread.
        bytes_on_disk: Bytes of columns of caches in the folder `storage`; 0 without one.
        limiter: Of the rate limiter; None without one.
    """

    taken_at: float
    caches: int
    n_caches: int
    samples_unused: int
    weight_sum: float
    oldest_age: float | None
    newest_age: float | None
    received: Tally
    clients: Mapping[int, Tally]
    other_clients: Tally
    samples_given: int
    samples_discarded: int
    total_episodes: int
    total_steps: int
    refused: Mapping[str, int]
    published: int
    publications_dropped: int
    log_lines: int
    answers_dropped: int = 0
    bytes_on_disk: int = 0
    limiter: LimiterStats | None = None

    @property
    def total_refused(self) -> int:
        """Messages dropped, for all reasons."""
        return sum(self.refused.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerConnectionStats:
    """Figures of one server of a `ReplaySampler`.

    Attributes:
        endpoint: Where it is.
        weight_sum: The sum of its caches' sums of weights as it told last; 0 while it has fewer
            than `n_caches`; None before it told any.
        unused: Samples that it had not given, as it told last.
        samples: Samples that it gave, ever.
        kept: Those that are here and not in a batch yet.
        timeouts: Requests that it did not answer in time.
        down: Whether it is left out because it does not answer.
    """

    endpoint: str
    weight_sum: float | None
    unused: int
    samples: int
    kept: int
    timeouts: int
    down: bool


def memory_stats(
    limiter: tuple[int, int, int, float, float, float] | None,
    compressed: Iterable[tuple[str, str, int, int, int]],
    storage: tuple[Path, int, int, int] | None,
) -> MemoryStats:
    """Return the figures of a memory; those of its parts come in the order of their classes."""
    compression = {
        name: CompressionStats(
            codec=codec,
            values=values,
            raw_bytes=raw,
            bytes=held,
            ratio=raw / held if held else 0.0,
        )
        for name, codec, values, raw, held in compressed
    }
    on_disk = None
    if storage is not None:
        folder, held, expected, in_memory = storage
        on_disk = StorageStats(folder=folder, bytes=held, expected=expected, in_memory=in_memory)
    if limiter is None:
        return MemoryStats(limiter=None, compression=compression, storage=on_disk)
    inserts, samples, removed, sample_wait, insert_wait, ratio = limiter
    return MemoryStats(
        limiter=LimiterStats(
            inserts=inserts,
            samples=samples,
            removed=removed,
            sample_wait_seconds=sample_wait,
            insert_wait_seconds=insert_wait,
            samples_per_insert=ratio,
        ),
        compression=compression,
        storage=on_disk,
    )


def info_lines(stats: ServerStats, uuid: int, places: Mapping[str, object]) -> list[str]:
    """Return lines that say where a server is, and what has arrived there."""
    limiter = stats.limiter
    limited = (
        f"  limiter: {limiter.inserts} inserts, {limiter.samples} samples, "
        f"{limiter.samples_per_insert:.2f} per insert; samples waited "
        f"{limiter.sample_wait_seconds:.1f} s, inserts {limiter.insert_wait_seconds:.1f} s"
        if limiter
        else ""
    )
    lines = [
        f"ReplayMemoryServer {uuid:08x}",
        *(f"  {name}: {place}" for name, place in places.items()),
        f"  n_caches: {stats.n_caches}, of which {stats.caches} are there",
        f"  weight_sum: {stats.weight_sum:g}",
        f"  total_caches: {stats.received.caches}",
        f"  total_episodes: {stats.total_episodes}",
        f"  total_steps: {stats.total_steps}",
        f"  total_refused: {stats.total_refused}",
    ]
    if stats.bytes_on_disk:
        lines.append(f"  bytes_on_disk: {stats.bytes_on_disk}")
    return [*lines, limited] if limited else lines
