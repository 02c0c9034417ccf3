"""The secret of a client's slot, and the secret that a call shows to act as that client."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final

from cogrs.orchestrator.engine.errors import DeniedError
from cogrs.tokens import digest

SLOT_SECRET: Final = "slot-secret"
"""The metadata in which a client shows the secret of its slot, and JoinTrial's answer gives it."""

ASK: Final = "new"
"""Shown by a client that joins for the first time, to be given a secret."""


@dataclass(slots=True)
class Caller:
    """The rights of one call to the service of client actors."""

    shown: str = field(default="", repr=False)
    """The secret that the call shows, `ASK`, or an empty text."""
    has_all_rights: bool = True
    """Whether it has the rights of a controller, and not only those of a client."""
    given: str = field(default="", repr=False)
    """The new secret that JoinTrial answers with."""


class SlotSecret:
    """Binds a slot to the secret of the client that joined; the slot is open until there is one."""

    def __init__(self, label: str) -> None:
        """Create a secret that is not set, with the actor's label for errors."""
        self._label = label
        self._digest = b""
        """Of the secret, which itself is kept nowhere."""

    def check(self, caller: Caller) -> None:
        """Refuse a caller without the secret of a bound slot, with a DeniedError."""
        if self._digest and not self.is_shown_by(caller):
            raise self._denial(caller)

    def is_shown_by(self, caller: Caller) -> bool:
        """Return whether the slot is bound, and the caller shows its secret."""
        return bool(self._digest) and hmac.compare_digest(digest(caller.shown), self._digest)

    def join(self, caller: Caller, *, required: bool) -> None:
        """Bind the slot to a new secret if its client asks for one, and give that to the caller.

        A client that returns shows the secret it has. A controller may take over without it,
        which makes the old one void.

        Raises:
            DeniedError: The slot is bound and the caller may not take it over, or secrets are
                `required` and the caller does not ask for one.
        """
        if required and not caller.shown:
            raise self._denial(caller)
        if self._digest:
            if self.is_shown_by(caller):
                return
            if not caller.has_all_rights:
                raise self._denial(caller)
        self._digest = b""
        if caller.shown:
            caller.given = secrets.token_urlsafe(32)
            self._digest = digest(caller.given)

    def _denial(self, caller: Caller) -> DeniedError:
        shown = "another one" if caller.shown not in ("", ASK) else "none"
        expected = (
            f"the secret that JoinTrial gave for {self._label}, or {ASK!r} at a first JoinTrial"
        )
        return DeniedError(f"metadata: {SLOT_SECRET}: expected {expected}; got {shown}")
