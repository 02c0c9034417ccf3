"""The user's own message types, for configs that are written in YAML."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

if TYPE_CHECKING:
    from collections.abc import Sequence


class UserTypes:
    """Makes bytes of configs. Types are compiled when the first config asks for one."""

    def __init__(self, root: Path, protos: Sequence[str], descriptor_set: str | None) -> None:
        """Know where types come from.

        Args:
            root: Folder that the other paths start from.
            protos: `.proto` files.
            descriptor_set: What `protoc --include_imports --descriptor_set_out` wrote of them; it
                is read instead if it is there.
        """
        self._root = root
        self._protos = protos
        self._descriptor_set = descriptor_set

    def encode(self, where: str, declared: str, type_name: str | None, value: Any) -> bytes:
        """Make bytes of a config.

        Args:
            where: What config it is, for the error.
            declared: Where its type is to be declared, for the error.
            type_name: Full name of its type, if it was declared.
            value: The config, as YAML has it.

        Raises:
            ValueError: Its type is not declared or not known, or the config does not fit it.
            OSError: A file cannot be read.
        """
        if not type_name:
            raise ValueError(f"{where}: a config of no type: expected its type at {declared}")
        try:
            descriptor = self._pool.FindMessageTypeByName(type_name)
        except KeyError as error:
            raise ValueError(f"{declared}: no message {type_name!r} in {self._source}") from error
        message = message_factory.GetMessageClass(descriptor)()
        try:
            json_format.ParseDict(value, message, descriptor_pool=self._pool)
        except json_format.ParseError as error:
            raise ValueError(f"{where}: {error}") from error
        return message.SerializeToString(deterministic=True)

    @property
    def _source(self) -> str:
        return self._descriptor_set or ", ".join(self._protos) or "import.proto, which is empty"

    @cached_property
    def _pool(self) -> descriptor_pool.DescriptorPool:
        files = descriptor_pb2.FileDescriptorSet()
        if self._descriptor_set is not None:
            files.ParseFromString((self._root / self._descriptor_set).read_bytes())
        elif self._protos:
            files.ParseFromString(_compile(self._root, self._protos))
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.AddSerializedFile(file.SerializeToString())
        return pool


def _compile(root: Path, protos: Sequence[str]) -> bytes:
    if importlib.util.find_spec("grpc_tools") is None:
        raise ValueError(
            "import.proto: compiling needs grpcio-tools: pip install 'cogrs[protoc]', or give "
            "import.descriptor_set"
        )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "types"
        options = [f"-I{root}", "--include_imports", f"--descriptor_set_out={out}"]
        command = [sys.executable, "-m", "grpc_tools.protoc", *options, *protos]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            raise ValueError(f"import.proto: {run.stderr.strip()}")
        return out.read_bytes()
