"""The descriptor pool in which the generated modules of proto package `cogment` live.

protobuf's default pool takes each full name once per process, and a program may have other
generated code for `cogment`. So ours stays out of it, with two consequences for users:

- `google.protobuf.Any` exists twice; see `cogrs.api.any`.
- Lookups of a `cogment` message by name need the pool, which is
  `cogrs.api.common_pb2.DESCRIPTOR.pool`: `json_format` for a `cogment` message within an `Any`,
  and gRPC's reflection service. `.proto` files of other packages cannot import ours.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, NoReturn

import google.protobuf
from google.protobuf import any_pb2, descriptor_pool, symbol_database

if TYPE_CHECKING:
    from types import ModuleType

    from google.protobuf.descriptor import FileDescriptor


def _refuse(what: str, error: Exception) -> NoReturn:
    raise ImportError(
        f"protobuf {google.protobuf.__version__} cannot {what} (a pool that keeps cogrs.api apart "
        f"from other generated code for proto package 'cogment'): {error}"
    ) from error


def _make_pool() -> descriptor_pool.DescriptorPool:
    try:
        pool = descriptor_pool.DescriptorPool()
        # Other well-known files have to be added here when one of our protos imports them.
        pool.AddSerializedFile(any_pb2.DESCRIPTOR.serialized_pb)
    except Exception as error:
        _refuse("make a private descriptor pool", error)
    return pool


def _make_builder() -> ModuleType:
    # In pure Python, protobuf's builder of message classes writes to a second registry by name,
    # which callers cannot choose. A copy of the builder can have its own.
    try:
        spec = importlib.util.find_spec("google.protobuf.internal.builder")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        vars(module)["_sym_db"] = symbol_database.SymbolDatabase(pool=POOL)
    except Exception as error:
        _refuse("build messages for a private descriptor pool", error)
    return module


POOL = _make_pool()
builder = _make_builder()


def add_file(serialized: bytes) -> FileDescriptor:
    """Add a `.proto` file, as protoc serialized it, to the pool."""
    try:
        file: FileDescriptor = POOL.AddSerializedFile(serialized)
    except Exception as error:
        _refuse("add a file to a private descriptor pool", error)
    return file
