"""The fields of entries: a named tuple of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Entry(NamedTuple):
    """The seven fields of entries, one row each; every field has a long name too.

    In a batch of B rows `s` has shape (B, frame_stack, *state), the others (B, *field). In an
    episode of T entries every field has shape (T, *field).

    Fields:
        s: State, the template's dtype.
        a: Action, the template's dtype.
        r: Reward, float32, undiscounted.
        p: Probability of the action, float32.
        v: Value, float32.
        q: Multi-step return, float32.
        i: Info, the template's dtype.
    """

    s: npt.NDArray[Any]
    a: npt.NDArray[Any]
    r: npt.NDArray[np.float32]
    p: npt.NDArray[np.float32]
    v: npt.NDArray[np.float32]
    q: npt.NDArray[np.float32]
    i: npt.NDArray[Any]

    @property
    def state(self) -> npt.NDArray[Any]:
        """`s`."""
        return self.s

    @property
    def action(self) -> npt.NDArray[Any]:
        """`a`."""
        return self.a

    @property
    def reward(self) -> npt.NDArray[np.float32]:
        """`r`."""
        return self.r

    @property
    def prob(self) -> npt.NDArray[np.float32]:
        """`p`."""
        return self.p

    @property
    def value(self) -> npt.NDArray[np.float32]:
        """`v`."""
        return self.v

    @property
    def qvest(self) -> npt.NDArray[np.float32]:
        """`q`."""
        return self.q

    @property
    def info(self) -> npt.NDArray[Any]:
        """`i`."""
        return self.i
