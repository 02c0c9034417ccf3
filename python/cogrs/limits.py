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

CONFIG_BYTES: Final = 256 << 10
"""Of a configuration: its file, and its text once what it repeats by reference is written out."""

CONFIG_NODES: Final = 20_000
"""Values in a configuration, those that it repeats by reference counted each time."""

CONFIG_DEPTH: Final = 32
"""Levels of values in each other, in a configuration."""

CONFIG_DIGITS: Final = 64
"""Characters of a number in a configuration."""

PROTO_FILES: Final = 256
"""`.proto` files that a configuration has compiled, those that they import included."""

PROTO_BYTES: Final = 4 * MIB
"""Of all those files together."""

PROTO_SECONDS: Final = 60.0
"""For compiling them."""

DESCRIPTOR_BYTES: Final = 64 * MIB
"""Of a descriptor set."""

DTYPE_TEXT: Final = 1 << 16
"""Characters of a dtype as text."""

ENTRY_BYTES: Final = 1 << 31
"""Of one entry of a replay memory that a file or a peer describes."""

LOG_SAMPLE_BYTES: Final = 256 * MIB
"""Of one sample in a file of a data log: what all actors saw and did, were paid and were told."""

LOG_LINE_BYTES: Final = 1 << 30
"""Of a line of JSON in a data log."""

LOG_CONTAINERS: Final = 100_000
"""Lists and objects in a line of JSON of a data log."""

LOG_GROUP_BYTES: Final = 1 << 30
"""Of a column in a row group of a Parquet file, before it was compressed."""

LOG_GROUP_VALUES: Final = 1 << 18
"""Values of a column in a row group of a Parquet file."""
