"""The user's message types, for configs that are written in YAML."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from cogrs.api.json_message import fill_message
from cogrs.files import read_regular
from cogrs.limits import DESCRIPTOR_BYTES, PROTO_BYTES, PROTO_FILES, PROTO_SECONDS
from cogrs.shown import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

_IMPORT = re.compile(rb'\bimport\s*+(?:(?:public|weak|option)\s*+)?+["\']([^"\'\n]{1,1024})["\']')

_SHOWN = 2000
"""Maximum characters of the compiler's message."""


class UserTypes:
    """Encodes configs. Types are compiled when the first config needs one."""

    def __init__(self, root: Path, protos: Sequence[str], descriptor_set: str | None) -> None:
        """Check the paths of the files with types; ValueError if one is not below `root`.

        `protos` are `.proto` files. `descriptor_set`, an output of `protoc --include_imports
        --descriptor_set_out`, is read in place of them.
        """
        self._root = root
        self._protos = tuple(map(_checked, protos))
        self._descriptor_set = descriptor_set
        top = root.resolve()
        for name in self._protos:
            _inside(top, name)

    def encode(self, where: str, declared: str, type_name: str | None, value: Any) -> bytes:
        """Return a config as bytes; ValueError if it does not match its type.

        Errors name the config, `where`, and the place where its type is declared.
        """
        if not type_name:
            raise ValueError(f"{where}: a config without a type: expected its type at {declared}")
        try:
            descriptor = self._pool.FindMessageTypeByName(type_name)
        except KeyError as error:
            raise ValueError(
                f"{declared}: no message {shown(type_name)} in {self._source}"
            ) from error
        message = message_factory.GetMessageClass(descriptor)()
        try:
            fill_message(message, value, self._pool)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        return message.SerializeToString(deterministic=True)

    @property
    def _source(self) -> str:
        return self._descriptor_set or ", ".join(self._protos) or "import.proto, which is empty"

    @cached_property
    def _pool(self) -> descriptor_pool.DescriptorPool:
        content, where = b"", "import.proto"
        if self._descriptor_set is not None:
            where = "import.descriptor_set"
            content = read_regular(self._root / self._descriptor_set, DESCRIPTOR_BYTES)
        elif self._protos:
            files = _gathered(self._root.resolve(), self._protos)
            content = _compiled(files, self._protos)
        try:
            pool = descriptor_pool.DescriptorPool()
            for file in descriptor_pb2.FileDescriptorSet.FromString(content).file:
                pool.AddSerializedFile(file.SerializeToString())
        except (DecodeError, TypeError, ValueError) as error:
            raise ValueError(
                f"{where}: expected a descriptor set: {str(error)[:_SHOWN]}"
            ) from error
        return pool


def _checked(name: str) -> str:
    """Return a relative path of a `.proto` file below its folder; ValueError for any other text.

    It becomes an argument of the compiler, for which "-" begins an option, and "@" a file of more
    arguments.
    """
    path = PurePosixPath(name)
    sound = (
        name.isprintable()
        and name.endswith(".proto")
        and not name.startswith(("-", "@"))
        and not path.is_absolute()
        and not {"..", "~"} & set(path.parts)
        and "\\" not in name
        and ":" not in name
        and not path.name.startswith(("-", "@"))
    )
    if not sound:
        raise ValueError(
            "import.proto: expected relative paths of .proto files below the configuration's "
            f"folder, got {shown(name)}"
        )
    return str(path)


def _inside(top: Path, name: str) -> Path:
    """Return the path of a file with links resolved; ValueError if it is outside of the folder."""
    try:
        path = (top / name).resolve()
    except (OSError, RuntimeError) as error:  # a loop of links
        raise ValueError(f"import.proto: {shown(name)}: {error}") from error
    if not path.is_relative_to(top):
        raise ValueError(
            "import.proto: expected files below the configuration's folder, got "
            f"{shown(name)}, a link that leads out of it"
        )
    return path


def _gathered(top: Path, protos: Sequence[str]) -> dict[str, bytes]:
    """Return the contents of `.proto` files, and of their imports below the folder, by path.

    The compiler only gets copies of these, so it cannot open other files through links. ValueError
    if one cannot be read as a regular file below the folder, or they exceed a limit.
    """
    found: dict[str, bytes] = {}
    waiting, left = [(name, True) for name in reversed(protos)], PROTO_BYTES
    while waiting:
        name, needed = waiting.pop()
        path = _inside(top, name)
        # An import may be one of protobuf's own, which the compiler has.
        if name in found or not (needed or path.exists()):
            continue
        if len(found) == PROTO_FILES:
            raise ValueError(f"import.proto: expected at most {PROTO_FILES} files")
        try:
            found[name] = read_regular(path, left)
        except (OSError, ValueError) as error:
            raise ValueError(f"import.proto: {shown(name)}: {error}") from error
        left -= len(found[name])
        for match in _IMPORT.finditer(found[name]):
            imported = match[1].decode("utf-8", "replace")
            try:
                waiting.append((_checked(imported), False))
            except ValueError:
                continue  # not gathered, so the compiler reports it as missing
    return found


def _compiled(files: dict[str, bytes], protos: Sequence[str]) -> bytes:
    if importlib.util.find_spec("grpc_tools") is None:
        raise ValueError(
            "import.proto: compiling needs grpcio-tools: pip install 'cogrs[protoc]', or give "
            "import.descriptor_set"
        )
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "source", Path(folder) / "types"
        for name, content in files.items():
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        options = ["-I.", "--include_imports", f"--descriptor_set_out={out}"]
        # -P: ignore modules in the present folder.
        command = [sys.executable, "-P", "-m", "grpc_tools.protoc", *options, *protos]
        try:
            run = subprocess.run(
                command,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                cwd=source,
                timeout=PROTO_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ValueError(
                f"import.proto: expected files that compile within {PROTO_SECONDS:g} s"
            ) from error
        if run.returncode:
            text = run.stderr.decode("utf-8", "replace").strip()
            raise ValueError(f"import.proto: {text[:_SHOWN]}")
        return out.read_bytes()
