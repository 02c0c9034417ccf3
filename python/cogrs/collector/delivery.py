"""A delivered batch: its infos, and its way back after an exception.

A delivery puts its batch back when it goes away unanswered, since Ctrl-C may come between any two
lines of Python, and the games of a lost batch would wait for ever.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cogrs.validation import check_kind

if TYPE_CHECKING:
    from cogrs import _core


@dataclass(frozen=True)
class Infos:
    """Collector and size of a batch.

    Attributes:
        name: The collector's name; "" when the wait timed out.
        gid: The collector's number, in the order of the descriptions; -1 when the wait timed out.
        batchsize: Rows in the batch; 0 when the wait timed out.
    """

    name: str = ""
    gid: int = -1
    batchsize: int = 0
    _delivery: _core.CollectorDelivery | None = field(default=None, repr=False, compare=False)


def delivery_of(infos: Infos) -> _core.CollectorDelivery:
    """Return the delivery of infos; ValueError without one, TypeError for another type."""
    check_kind("infos", infos, Infos, "Infos")
    if infos.gid < 0:
        raise ValueError("infos: expected those of a batch, got those of a wait that timed out")
    if infos._delivery is None:
        raise ValueError("infos: expected those of Wait, got those of a batch that Run gave back")
    return infos._delivery


def redeliver(core: Any, delivery: Any) -> None:
    """Return a batch to be delivered again, unless it was given back before Ctrl-C came.

    It does not go back by itself, since the exception that is raised holds it.

    Args:
        core: The CollectorContext or RequestBatcher of `cogrs._core`.
        delivery: One of its deliveries.
    """
    with contextlib.suppress(RuntimeError):
        core.put_back(delivery)
