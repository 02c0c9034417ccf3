"""Memory that a full buffer takes, measured in a process of its own."""

from __future__ import annotations

import ctypes
import gc
import importlib
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import workload

ENTRIES = {"vectors": 200_000, "frames": 50_000}
"""Entries held: fewer than are timed in W1, since some peers take a minute to fill."""


def beyond_entries(module: str, name: str) -> float | None:
    """Bytes of an entry beyond its own fields in a full buffer; None if it is not installed.

    Args:
        module: A module of `peers`, or `ours`.
        name: A function of `workload`, and of the module: vectors or frames.
    """
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as process:
        return process.submit(_measure, module, name).result()


def _measure(module: str, name: str) -> float | None:
    make = getattr(importlib.import_module(module), name)
    load = getattr(workload, name)(ENTRIES[name])
    # What is loaded or compiled on first use is there before the measurement.
    if make(getattr(workload, name)(workload.EPISODE)) is None:
        return None
    before = _resident()
    buffer = make(load)
    taken = (_resident() - before) / load.entries
    return float(taken - buffer.entry_size)


def _resident() -> int:
    """Bytes of this process that lie in memory, without what malloc keeps for later."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
