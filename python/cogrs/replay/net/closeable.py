"""An object with sockets: it closes, is a context manager, and is not pickled."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn, Self

if TYPE_CHECKING:
    import weakref

    from cogrs.replay.net.transport import Transport


class Closeable:
    """The base of servers, clients, samplers and proxies.

    No thread holds such an object, so one that is forgotten closes: `_finalize` holds the parts of
    it that have to be closed.
    """

    _transport: Transport
    _finalize: weakref.finalize[..., object]
    _instead: ClassVar[str]
    """What to do instead of pickling."""

    def close(self) -> None:
        """Wake all calls that wait, end all loops, and close all sockets.

        A second call does nothing.

        Messages that were sent still go out, for a second at most.
        """
        self._finalize()
        self._transport.wait_closed()

    def __enter__(self) -> Self:
        """Return the object."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close it."""
        self.close()

    def __reduce__(self) -> NoReturn:
        """Raise a TypeError: objects with sockets cannot be pickled."""
        name = type(self).__name__
        raise TypeError(f"a {name} cannot be pickled or copied: {self._instead}")
