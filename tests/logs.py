"""Files of data logs that tests write line by line, and how they read them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cogrs import sdk

if TYPE_CHECKING:
    from pathlib import Path

HEAD = {"trial_id": "t", "params": {"actors": [{"name": "a"}]}}
ROW: dict[str, Any] = {
    "trial_id": "t",
    "sample": 0,
    "tick": 0,
    "timestamp": 1,
    "actor": "a",
    "actor_class": "c",
    "observation": {"kind": "<f4", "shape": [1], "values": [1.5]},
    "terminated": False,
    "truncated": False,
    "action": {"kind": "", "shape": [], "data": "aGk="},
    "rewards": [
        {"tick": 0, "value": 1.0, "sources": [{"sender": "e", "value": 1.0, "confidence": 1.0}]}
    ],
    "messages": [{"sender": "e", "tick": 0, "type": "t", "data": "aGk="}],
    "user_id": "u",
    "end_reason": "",
    "stood_in": False,
}


def write_log(folder: Path, *lines: bytes, head: bytes = json.dumps(HEAD).encode()) -> Path:
    """Write a file of these lines after the one with the trial's parameters."""
    path = folder / "t.jsonl"
    path.write_bytes(b"\n".join((head, *lines)) + b"\n")
    return path


def read_samples(path: Path) -> list[sdk.Sample]:
    """Return all samples of a file."""
    return list(sdk.read_log(path)[1])
