"""Who may come in: tokens of links, each good for one join, and keys of sessions."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from cogrs.limits import WEB_SEATS
from cogrs.tokens import digest

if TYPE_CHECKING:
    from cogrs.web.place import Place
    from cogrs.web.viewer import Viewer

Role = Literal["player", "judge", "spectator"]

REFUSED, USED, ELSEWHERE = 4001, 4002, 4003
"""Codes that connections are closed with: unknown; the link was used; taken over by another tab."""


class RefusedError(ValueError):
    """A join that is refused, with the code for the connection."""

    def __init__(self, code: int, reason: str) -> None:
        """Take code and reason."""
        super().__init__(reason)
        self.code = code


@dataclass(eq=False)
class Seat:
    """One session: a person in a place, or a spectator of it."""

    place: Place
    role: Role
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    name: str = ""
    ready: bool = False
    """Whether the person has given what is asked for, and takes part."""
    viewer: Viewer | None = None
    """The connection of the session, or None while it has none."""


@dataclass(eq=False)
class _Invitation:
    place: Place
    role: Role
    reusable: bool
    used: bool = False


class Seats:
    """The invitations and sessions of a page. Tokens and keys are kept as digests."""

    def __init__(self) -> None:
        """Create a list without invitations."""
        self._invitations: OrderedDict[bytes, _Invitation] = OrderedDict()
        self._seats: OrderedDict[bytes, Seat] = OrderedDict()

    def invite(self, place: Place, role: Role) -> str:
        """Return a new token; those of spectators are good for any number of joins."""
        token = secrets.token_urlsafe(32)
        self._invitations[digest(token)] = _Invitation(place, role, role == "spectator")
        while len(self._invitations) > WEB_SEATS:
            self._invitations.popitem(last=False)
        return token

    def is_good(self, token: str) -> bool:
        """Return whether `admit` takes a token."""
        invitation = self._invitations.get(digest(token)) if token else None
        return invitation is not None and not invitation.used

    def find(self, key: str) -> Seat | None:
        """Return the session of a key, or None."""
        return self._seats.get(digest(key)) if key else None

    def admit(self, token: str) -> Seat:
        """Return a new session for a token.

        Raises:
            RefusedError: The token is unknown, or was used.
        """
        invitation = self._invitations.get(digest(token)) if token else None
        if invitation is None:
            raise RefusedError(REFUSED, "this link is not valid: ask for a new one")
        if invitation.used:
            raise RefusedError(USED, "this link was used already: ask for a new one")
        invitation.used = not invitation.reusable
        seat = Seat(invitation.place, invitation.role)
        self._seats[digest(seat.key)] = seat
        if len(self._seats) > WEB_SEATS:
            self._forget_one()
        return seat

    def _forget_one(self) -> None:
        """Forget the oldest session without a connection, or else the oldest."""
        idle = (key for key, seat in self._seats.items() if seat.viewer is None)
        del self._seats[next(idle, next(iter(self._seats)))]
