"""Limits on what peers and files can make this package hold or do.

Each is a default or a fixed bound; docs/limits.md lists them all, with the setting that changes
each and what happens when it is reached.
"""

from __future__ import annotations

from typing import Final

MIB: Final = 1 << 20

# -- trials ------------------------------------------------------------------------------------

SHORTEST_TOKEN: Final = 16
"""Characters of a token, at least."""
LONGEST_TOKEN: Final = 4096
"""Characters of a token, at most: it travels in a header with every call."""

MOST_PLACES: Final = 4096
"""Places in trials whose secrets a client remembers for a return; the oldest is forgotten."""

METRICS_CONNECTIONS: Final = 16
"""Connections that a metrics listener serves at the same time; more are closed at once."""
METRICS_REQUEST_BYTES: Final = 16 << 10
"""Bytes of a request for metrics, headers included."""
METRICS_SECONDS: Final = 10.0
"""Seconds for a request for metrics to come, be answered and be read."""

# -- replay ------------------------------------------------------------------------------------

# -- files -------------------------------------------------------------------------------------
