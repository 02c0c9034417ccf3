"""The columns of data logs in Parquet files; needs pyarrow."""

from __future__ import annotations

import binascii
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cogrs.optional_dependency import import_optional

if TYPE_CHECKING:
    from collections.abc import Mapping

TRIAL, PARAMS, SPACES = b"cogrs.trial_id", b"cogrs.params_base64", b"cogrs.spaces"
"""Keys of a file's metadata, whose values are UTF-8: programs in Rust refuse a file with others.

Files of version 0.1.0 have no spaces.
"""

FORMER_PARAMS = b"cogrs.params"
"""The key of serialized params as version 0.1.0 wrote them, which need not be UTF-8."""


def metadata_of(trial_id: str, params: bytes, spaces_json: str) -> dict[bytes, bytes]:
    """Return the metadata of a trial's file; `params` is a serialized `TrialParams`."""
    return {
        TRIAL: trial_id.encode(),
        PARAMS: binascii.b2a_base64(params, newline=False),
        SPACES: spaces_json.encode(),
    }


def params_of(metadata: Mapping[bytes, bytes]) -> bytes | None:
    """Return the serialized `TrialParams` of a file's metadata, or None.

    Raises:
        ValueError: They are not base64.
    """
    if (text := metadata.get(PARAMS)) is not None:
        return binascii.a2b_base64(text, strict_mode=True)
    return metadata.get(FORMER_PARAMS)


@lru_cache(1)
def log_schema() -> Any:
    """Return the columns of a data log, a row for each actor at each tick."""
    pa = import_optional("pyarrow", "Parquet files need pyarrow", "'cogrs[parquet]'")
    text, data, integer, flag = pa.string(), pa.binary(), pa.int64(), pa.bool_()
    number, unsigned = pa.float32(), pa.uint64()
    payload = pa.struct({"kind": text, "shape": pa.list_(unsigned), "data": data})
    source = pa.struct({"sender": text, "value": number, "confidence": number})
    reward = pa.struct({"tick": integer, "value": number, "sources": pa.list_(source)})
    message = pa.struct({"sender": text, "tick": integer, "type": text, "data": data})
    columns = {
        **{"trial_id": text, "sample": integer, "tick": integer, "timestamp": unsigned},
        **{"actor": text, "actor_class": text},
        **{"observation": payload, "terminated": flag, "truncated": flag, "action": payload},
        **{"rewards": pa.list_(reward), "messages": pa.list_(message)},
        **{"user_id": text, "end_reason": text, "stood_in": flag},
    }
    return pa.schema(columns)


@lru_cache(1)
def former_schema() -> Any:
    """Return the columns of version 0.1.0, which lack `stood_in`."""
    return log_schema().remove(log_schema().get_field_index("stood_in"))
