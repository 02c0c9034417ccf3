"""Reads `Security` from a `cogment.yaml` or a command line, where it is given by paths."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cogrs.tls import ClientTls, ServerTls
from cogrs.tokens import looks_secret, read_tokens, read_tokens_by_target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FILES = (
    *("tls_certificate", "tls_key", "client_ca", "tokens", "client_tokens", "link_tokens"),
    *("link_ca", "link_certificate", "link_key"),
)
FLAGS = ("link_tls", "insecure")
_TEXTS = ("slot_secrets", "link_server_name")

_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(FLAGS, ((bool,), "true or false")),
    **dict.fromkeys(_TEXTS, ((str,), "a string")),
}

NAMES = (*FILES, *FLAGS, *_TEXTS)
"""Keys of the section; options of the command line have dashes in place of underscores."""


def read_security(
    values: Mapping[str, Any], root: Path, shown: Callable[[str], str]
) -> dict[str, Any]:
    """Return the arguments of `Security` that a section sets. Errors do not show secrets.

    Paths are relative to `root`; `shown` returns a key as the user wrote it, for errors.

    Raises:
        OSError: A file cannot be read.
        ValueError: A key is unknown, a value has the wrong type, or keys do not go together.
    """
    paths = _paths(values, root, shown)
    changes: dict[str, Any] = {
        name: values[name] for name in ("slot_secrets", "insecure") if name in values
    }
    if tls := _server_tls(paths, shown):
        changes["tls"] = tls
    if link_tls := _link_tls(values, paths):
        changes["link_tls"] = link_tls
    for name in ("tokens", "client_tokens"):
        if name in values:
            changes[name] = read_tokens(shown(name), values[name], root)
    if "link_tokens" in values:
        name = "link_tokens"
        changes[name] = read_tokens_by_target(shown(name), values[name], root)
    return changes


def _paths(values: Mapping[str, Any], root: Path, shown: Callable[[str], str]) -> dict[str, Path]:
    for name, value in values.items():
        if name not in NAMES:
            what = "a key" if looks_secret(str(name)) else str(name)
            raise ValueError(f"{shown(what)}: expected one of {', '.join(NAMES)}")
        kinds, expected = _KINDS.get(name, ((str, Path), "a path"))
        if not isinstance(value, kinds):
            raise ValueError(f"{shown(name)}: expected {expected}, got {type(value).__name__}")
    return {name: root / values[name] for name in FILES if name in values}


def _server_tls(paths: Mapping[str, Path], shown: Callable[[str], str]) -> ServerTls | None:
    certificate, key = paths.get("tls_certificate"), paths.get("tls_key")
    client_ca = paths.get("client_ca")
    if certificate is None and key is None and client_ca is None:
        return None
    if certificate is None or key is None:
        pair = f"{shown('tls_certificate')}, {shown('tls_key')}"
        raise ValueError(f"{pair}: expected both, got one of them or neither")
    return ServerTls(certificate=certificate, key=key, client_ca=client_ca)


def _link_tls(values: Mapping[str, Any], paths: Mapping[str, Path]) -> ClientTls | None:
    files = {key: paths.get(f"link_{key}") for key in ("ca", "certificate", "key")}
    name = values.get("link_server_name")
    if not (values.get("link_tls") or name or any(files.values())):
        return None
    return ClientTls(**files, server_name=name)
