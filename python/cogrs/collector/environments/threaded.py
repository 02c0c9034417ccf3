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
from cogrs.collector.game_error import GameTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cogrs.collector.environments.owner import Job
    from cogrs.collector.environments.remote import RemoteEnvs
    from cogrs.collector.environments.serial import Begin, Columns, SerialEnvs, Step

    Share = SerialEnvs | RemoteEnvs

_NAME = "cogrs-environments-{}"
_PATIENCE = 0.5
"""Seconds that `close` waits for environments that hang."""


class ThreadedEnvs:
    """As `SerialEnvs`, with the environments split among threads in ranges of numbers."""

    def __init__(
        self,
        make_share: Callable[[range], Share],
        count: int,
        threads: int,
        timeout: float | None = None,
    ) -> None:
        """Split environments among threads.

        Args:
            make_share: Makes a share, by the numbers of its environments.
            count: Environments.
            threads: Threads.
            timeout: Seconds that a call of a thread may take; None for any time.
        """
        cuts = [number * count // threads for number in range(threads + 1)]
        self._make_share = make_share
        self._timeout = timeout
        self._slices = [slice(*pair) for pair in pairwise(cuts)]
        self._owners = [
            (make_share(range(*pair)), OwnerThread(_NAME.format(at)))
            for at, pair in enumerate(pairwise(cuts))
        ]
        self._pending: dict[int, Job] = {}
        self._pid = os.getpid()
        self._finalizer = weakref.finalize(self, _close_all, self._owners, self._pid)

    @property
    def envs(self) -> list[Any]:
        """The environments, None where one is to be made."""
        return [env for share, _ in self._owners for env in share.envs]

    def make(self, at: int) -> None:
        """See `SerialEnvs`."""
        which, position = self._place(at)
        share, thread = self._owners[which]
        thread.run(partial(share.make, position))

    def _place(self, at: int) -> tuple[int, int]:
        which = bisect_right([piece.start for piece in self._slices], at) - 1
        return which, at - self._slices[which].start

    def reset(self, begins: Mapping[int, Begin]) -> list[tuple[Any, dict[str, Any]]]:
        """See `SerialEnvs`."""
        return _joined(self._run([partial(share.reset, begins) for share, _ in self._owners]))

    def step(self, actions: Sequence[Any]) -> Columns:
        """See `SerialEnvs`; of several errors the first is raised."""
        pairs = zip(self._owners, self._slices, strict=True)
        parts = self._run([partial(share.step, actions[piece]) for (share, _), piece in pairs])
        return tuple(_joined(each) for each in zip(*parts, strict=True))

    def cut_short(self, at: int, error: Exception) -> Step:
        """See `SerialEnvs`."""
        which, position = self._place(at)
        share, thread = self._owners[which]
        self._pending[which] = thread.submit(partial(share.cut_short, position, error))
        (step,) = self._settle()
        return step  # type: ignore[no-any-return]

    def starting(self) -> list[bool]:
        """See `SerialEnvs`."""
        self._settle()
        return [each for share, _ in self._owners for each in share.starting()]

    def render(self) -> list[Any]:
        """See `SerialEnvs`."""
        return _joined(self._run([share.render for share, _ in self._owners]))

    def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """See `SerialEnvs`."""
        call = [partial(share.call, name, args, kwargs) for share, _ in self._owners]
        return _joined(self._run(call))

    def set_attr(self, name: str, values: Sequence[Any]) -> None:
        """See `SerialEnvs`."""
        pairs = zip(self._owners, self._slices, strict=True)
        self._run([partial(share.set_attr, name, values[piece]) for (share, _), piece in pairs])

    def close(self) -> None:
        """See `SerialEnvs`. An environment that hangs is abandoned, with a warning."""
        if os.getpid() != self._pid:
            return
        self._finalizer()
        end = time.monotonic() + _PATIENCE
        left = [pair for pair in self._owners if not pair[1].join(end - time.monotonic())]
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
        for which, ((_, thread), call) in enumerate(zip(self._owners, calls, strict=True)):
            self._pending[which] = thread.submit(call)
        return self._settle()

    def _settle(self) -> list[Any]:
        """Wait for the pending jobs, and return their results or raise the first error."""
        end = None if self._timeout is None else time.monotonic() + self._timeout
        late = [which for which, job in self._pending.items() if not job.wait(end)]
        done, self._pending = self._pending, {}
        if late:
            raise self._leave(late)
        return [job.result() for job in done.values()]

    def _leave(self, late: Sequence[int]) -> GameTimeoutError:
        """Leave environments to threads in which one hangs, and return the error that names it.

        Others take their place, which are made when their episodes begin.
        """
        doings = []
        first: int | None = None
        for which in late:
            share, thread = self._owners[which]
            doings.append(share.doing())
            first = share.busy() if first is None else first
            thread.submit(share.close)
            thread.end()
            piece = self._slices[which]
            fresh = self._make_share(range(piece.start, piece.stop))
            self._owners[which] = fresh, OwnerThread(_NAME.format(which))
        number = self._slices[late[0]].start if first is None else first
        named = ", ".join(doings)
        return GameTimeoutError(f"{named} did not return within {self._timeout} s", number)


def _joined(parts: Iterable[Iterable[Any]]) -> list[Any]:
    return list(chain.from_iterable(parts))


def _close_all(owners: Sequence[tuple[Share, OwnerThread]], pid: int) -> None:
    if os.getpid() != pid:
        return
    for share, thread in owners:
        thread.submit(share.close)
        thread.end()
