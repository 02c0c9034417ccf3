"""Who calls as a client actor: what the call shows, and what it may do."""

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
"""What a client shows that joins for the first time, to be given a secret."""


@dataclass(slots=True)
class Caller:
    """A call to the service of client actors."""

    shown: str = field(default="", repr=False)
    """The secret that it shows, `ASK`, or nothing."""
    has_all_rights: bool = True
    """Whether it has the rights of a controller, and not only those of a client."""
    given: str = field(default="", repr=False)
    """The secret that JoinTrial has for it."""


class SlotLock:
    """Binds a slot to the secret of the client that joined; open until there is one."""

    def __init__(self, who: str) -> None:
        """Create a lock that is open.

        Args:
            who: The actor, for errors.
        """
        self._who = who
        self._digest = b""
        """Of the secret, so that it is nowhere to be found here."""

    def check(self, caller: Caller) -> None:
        """Refuse whoever does not show the secret of a slot that is bound.

        Raises:
            DeniedError: It shows another or none.
        """
        if self._digest and not hmac.compare_digest(digest(caller.shown), self._digest):
            raise self._denial(caller)

    def join(self, caller: Caller, *, required: bool) -> None:
        """Bind the slot to a secret, where its client asks for one, and give the secret out.

        A client that returns shows the secret it has. A controller may take over without it,
        which makes the old one void.

        Raises:
            DeniedError: The slot is bound and the caller may not take it over, or secrets are
                required and it does not ask for one.
        """
        if required and not caller.shown:
            raise self._denial(caller)
        if self._digest:
            if hmac.compare_digest(digest(caller.shown), self._digest):
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
            f"the secret that JoinTrial gave for {self._who}, or {ASK!r} at a first JoinTrial"
        )
        return DeniedError(f"metadata: {SLOT_SECRET}: expected {expected}; got {shown}")
