"""Why a sampler's batch does not come: the errors of `ReplaySampler.get_batch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cogrs.replay.net.deadline import Deadline
    from cogrs.replay.server_connection import ServerConnection


def check_shortage(
    servers: Sequence[ServerConnection],
    lacking: list[int] | None,
    wait: float | None,
    deadline: Deadline,
    hint: str,
) -> None:
    """Raise when a call does not wait any longer.

    Args:
        servers: All servers of the sampler.
        lacking: Rows that each has still to give; None while that is not known.
        wait: The argument of the call.
        deadline: When its wait ends.
        hint: What the text says of a server to which there was never a connection.
    """
    limited = any(server.limited for server in servers)
    waits, over = wait is not None or limited, deadline.passed
    if waits and not over:
        return
    pairs = list(zip(servers, lacking or [0] * len(servers), strict=True))
    short = [
        f"{server.endpoint}: {server.shortage}"
        for server, count in pairs
        if count > 0 and server.shortage
    ]
    present = [server for server in servers if not server.down]
    # Without a wait, sums that were told to an earlier call do not count.
    if all(server.weight_sum == 0 and (server.told or over) for server in present):
        short = ["insufficient caches: no server has n_caches of them"]
    if not waits:
        if short:
            raise RuntimeError("; ".join(short))
        return
    waiting = [
        server
        for server, count in pairs
        if server.busy and not server.down and (lacking is None or count > 0)
    ]
    if waiting and not short:
        unsent = any(server.unsent for server in waiting)
        raise no_answer("get_batch", waiting, wait, hint if unsent else "")
    why = "; ".join(short) or "too few samples"
    raise TimeoutError(f"get_batch: {why} after {wait:g} s")


def no_answer(
    call: str, servers: Sequence[ServerConnection], seconds: float | None, hint: str
) -> TimeoutError:
    """Return the error of servers that did not answer."""
    where = ", ".join(server.endpoint for server in servers)
    return TimeoutError(f"{call}: no answer from {where} after {seconds:g} s{hint}")
