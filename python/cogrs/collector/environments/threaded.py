"""Environments of a vector that several threads move, each its own share.

Each environment is made, moved and closed by one thread, or in the process that this thread talks
to, and only the thread that calls the vector waits for them. Calls wait first for what an
interrupted call has left to the threads.
"""

from __future__ import annotations

import os
import time
import warnings
import weakref
from bisect import bisect_right
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from cogrs.collector.environments.owner import OwnerThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cogrs.collector.environments.owner import Job
    from cogrs.collector.environments.remote import RemoteEnvs
    from cogrs.collector.environments.serial import Begin, Columns, SerialEnvs, Step

    Share = SerialEnvs | RemoteEnvs

_PATIENCE = 0.5
"""Seconds that `close` waits for environments that hang."""


class ThreadedEnvs:
    """As `SerialEnvs`, with the environments split among threads in ranges of numbers."""

    def __init__(self, make_share: Callable[[range], Share], count: int, threads: int) -> None:
        """Split so many environments among threads; `make_share` takes the numbers of a share."""
        cuts = [number * count // threads for number in range(threads + 1)]
        self._slices = [slice(*pair) for pair in pairwise(cuts)]
        self._shares = [make_share(range(*pair)) for pair in pairwise(cuts)]
        self._threads = [OwnerThread(f"cogrs-environments-{at}") for at in range(threads)]
        self._pending: list[Job] = []
        self._pid = os.getpid()
        pairs = list(zip(self._shares, self._threads, strict=True))
        self._finalizer = weakref.finalize(self, _close_all, pairs, self._pid)

    @property
    def envs(self) -> list[Any]:
        """The environments, None where one is to be made."""
        return [env for share in self._shares for env in share.envs]

    def make(self, at: int) -> None:
        """See `SerialEnvs`."""
        share, thread, position = self._owner(at)
        thread.run(partial(share.make, position))

    def _owner(self, at: int) -> tuple[Share, OwnerThread, int]:
        which = bisect_right([piece.start for piece in self._slices], at) - 1
        return self._shares[which], self._threads[which], at - self._slices[which].start

    def reset(self, begins: Mapping[int, Begin]) -> list[tuple[Any, dict[str, Any]]]:
        """See `SerialEnvs`."""
        return _joined(self._run([partial(share.reset, begins) for share in self._shares]))

    def step(self, actions: Sequence[Any]) -> Columns:
        """See `SerialEnvs`; of several errors the first is raised."""
        pairs = zip(self._shares, self._slices, strict=True)
        parts = self._run([partial(share.step, actions[piece]) for share, piece in pairs])
        return tuple(_joined(each) for each in zip(*parts, strict=True))

    def cut_short(self, at: int, error: Exception) -> Step:
        """See `SerialEnvs`."""
        share, thread, position = self._owner(at)
        return thread.run(partial(share.cut_short, position, error))  # type: ignore[no-any-return]

    def starting(self) -> list[bool]:
        """See `SerialEnvs`."""
        self._settle()
        return [each for share in self._shares for each in share.starting()]

    def render(self) -> list[Any]:
        """See `SerialEnvs`."""
        return _joined(self._run([share.render for share in self._shares]))

    def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """See `SerialEnvs`."""
        call = [partial(share.call, name, args, kwargs) for share in self._shares]
        return _joined(self._run(call))

    def set_attr(self, name: str, values: Sequence[Any]) -> None:
        """See `SerialEnvs`."""
        pairs = zip(self._shares, self._slices, strict=True)
        self._run([partial(share.set_attr, name, values[piece]) for share, piece in pairs])

    def close(self) -> None:
        """See `SerialEnvs`. An environment that hangs is abandoned, with a warning."""
        if os.getpid() != self._pid:
            return
        self._finalizer()
        end = time.monotonic() + _PATIENCE
        pairs = list(zip(self._shares, self._threads, strict=True))
        left = [pair for pair in pairs if not pair[1].join(end - time.monotonic())]
        # A process that takes long to end, with nothing to do, is only slow.
        told = [(doing, thread.name) for share, thread in left if (doing := share.doing())]
        for share, _ in left:
            share.abandon()
        if told:
            doings, names = (", ".join(each) for each in zip(*told, strict=True))
            warnings.warn(
                f"{doings} did not return within {_PATIENCE} s and is abandoned (thread {names})",
                RuntimeWarning,
                stacklevel=5,
            )

    def _run(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        if os.getpid() != self._pid:
            raise RuntimeError("these environments belong to threads that a fork does not copy")
        self._settle()
        for thread, call in zip(self._threads, calls, strict=True):
            self._pending.append(thread.submit(call))
        return self._settle()

    def _settle(self) -> list[Any]:
        """Wait for the pending jobs, and return their results or raise the first error."""
        for job in self._pending:
            job.wait()
        done, self._pending = self._pending, []
        return [job.result() for job in done]


def _joined(parts: Iterable[Iterable[Any]]) -> list[Any]:
    return list(chain.from_iterable(parts))


def _close_all(pairs: Sequence[tuple[Share, OwnerThread]], pid: int) -> None:
    if os.getpid() != pid:
        return
    for share, thread in pairs:
        thread.submit(share.close)
        thread.end()
