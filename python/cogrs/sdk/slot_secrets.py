"""Secrets of a client's places (slots) in trials, by which it may return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cogrs.limits import MOST_PLACES

if TYPE_CHECKING:
    from cogrs.api import orchestrator_pb2 as pb
    from cogrs.api.orchestrator_pb2_grpc import ClientActorAsyncStub
    from cogrs.sdk.connection import Metadata
    from cogrs.sdk.trial import Trial

_KEY = "slot-secret"
"""The metadata in which a secret is given and shown."""

_ASK = "new"
"""The value that asks for a new secret."""


class SlotSecrets:
    """Remembers the secrets of places for a return; the oldest ones are forgotten."""

    def __init__(self) -> None:
        """Create an empty table."""
        self._secrets: dict[tuple[str, str], str] = {}
        self._left: set[tuple[str, str]] = set()
        """The places that their clients left, and did not take again."""

    def of(self, trial_id: str, name: str) -> str:
        """Return the secret of an actor's place, or ""."""
        return self._secrets.get((trial_id, name), "")

    def forget(self, trial: Trial) -> None:
        """Forget the secret of a place whose trial is over."""
        self._secrets.pop((trial.id, trial.name), None)
        self._left.discard((trial.id, trial.name))

    def has_left(self, trial_id: str, name: str) -> bool:
        """Return whether a client left the place, which the orchestrator may not know yet."""
        return (trial_id, name) in self._left

    def leave(self, trial: Trial) -> None:
        """Note that a client left a place to which it may return."""
        if (trial.id, trial.name) in self._secrets:
            self._left.add((trial.id, trial.name))

    async def join(
        self,
        stub: ClientActorAsyncStub,
        request: pb.TrialJoinRequest,
        secret: str,
        metadata: Metadata,
        **options: Any,
    ) -> tuple[pb.TrialJoinReply, str]:
        """Call JoinTrial; return its reply, and the secret of the place or ""."""
        call = stub.JoinTrial(request, metadata=(*metadata, (_KEY, secret or _ASK)), **options)
        reply = await call
        given = str(dict(await call.initial_metadata() or ()).get(_KEY, secret))
        place = (reply.trial_id, reply.actor_name)
        self._left.discard(place)
        if given:
            self._secrets[place] = given
            while len(self._secrets) > MOST_PLACES:
                oldest = next(iter(self._secrets))
                del self._secrets[oldest]
                self._left.discard(oldest)
        return reply, given


def shown(secret: str) -> Metadata:
    """Return the metadata that shows a secret; () for ""."""
    return ((_KEY, secret),) if secret else ()
