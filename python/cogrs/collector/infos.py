"""What a wait tells of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cogrs import _core


@dataclass(frozen=True)
class Infos:
    """What a batch is.

    Attributes:
        name: The collector's name; "" when the wait timed out.
        gid: The collector's number, in the order of the descriptions; -1 when the wait timed out.
        batchsize: Rows in the batch; 0 when the wait timed out.
    """

    name: str = ""
    gid: int = -1
    batchsize: int = 0
    _delivery: _core.CollectorDelivery | None = field(default=None, repr=False, compare=False)
