"""Limits on what peers and files can make this package hold or do.

Each is a default or a fixed bound; docs/limits.md lists them all, with the setting that changes
each and what happens when it is reached.
"""

from __future__ import annotations

from typing import Final

MIB: Final = 1 << 20

# -- trials ------------------------------------------------------------------------------------

# -- replay ------------------------------------------------------------------------------------

SMALL_FRAME: Final = 1 << 20
"""Bytes of a frame that every socket takes; headers and log lines are no larger."""

LARGEST_PUBLICATION: Final = 256 * MIB
"""Bytes of a message that a server publishes for somebody else."""

LARGEST_REPLY: Final = 256 * MIB
"""Bytes of a frame of an answer; sizes grow with the dimensions of the reward."""

LONGEST_LINE: Final = 1_000_000
"""Bytes of a log line, which with its header fits into a small frame."""

LARGEST_SUBSCRIPTION: Final = 1 << 10
"""Bytes of a frame that a subscriber sends; a larger one ends its connection."""

MOST_SUBSCRIPTIONS: Final = 65_536
"""Subscriptions at a publisher; beyond that the connection that has most of them is ended."""

MOST_SUBSCRIPTIONS_EACH: Final = 8_192
"""Subscriptions of one connection; one more ends it."""

MOST_STRIKES: Final = 16
"""Messages to a publisher that no subscriber sends; one more ends the connection."""

MOST_TOPICS: Final = 2_000
"""Topics that a client subscribes to; each is up to four subscriptions."""

LARGEST_MESSAGE: Final = 1 << 30
"""Bytes of a message that a server publishes, and of a frame that a subscriber takes."""

MOST_WAITING_OF_SUBSCRIBER: Final = 1 << 18
"""Bytes that a publisher has received from a connection and not handled."""

MOST_WAITING_OF_REQUESTS: Final = 320 * MIB
"""Likewise at a socket for requests, of a client that may draw: a message to publish, and more."""

MOST_WAITING_OF_STRANGERS: Final = 8 * MIB
"""Likewise of a client that may not, or has not asked for anything yet."""

MOST_WAITING_OF_ANSWERS: Final = 1 << 30
"""Bytes that a client has received from a server, in answers, and not handled."""

MOST_WAITING_OF_PUBLISHER: Final = 2 << 30
"""Likewise in published messages."""

MOST_WAITING_OF_PUSHES: Final = 64 * MIB
"""Bytes of a connection that wait at a socket for caches, apart from its high-water mark."""

MOST_PRIORITY_ROWS: Final = 32_768
"""Rows of a request with priorities."""

MOST_PRIORITY_CLIENTS: Final = 1_024
"""Clients that the priorities of one request are for; each gets a message of its own."""

MOST_SAMPLES: Final = 65_536
"""Samples that one request asks for."""

MOST_CLIENTS_OF_KEY: Final = 4_096
"""Clients whose totals and caches only their own key may tell, for each key."""

LARGEST_KEY_FILE: Final = 1 << 16
"""Bytes of a file of keys."""

# -- files -------------------------------------------------------------------------------------
