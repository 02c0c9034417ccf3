"""Limits on what peers and files can make this package hold or do.

Each is a default or a fixed bound; docs/limits.md lists them all, with the setting that changes
each and what happens when it is reached.
"""

from __future__ import annotations

from typing import Final

MIB: Final = 1 << 20

# -- trials ------------------------------------------------------------------------------------

# -- replay ------------------------------------------------------------------------------------

# -- files -------------------------------------------------------------------------------------
