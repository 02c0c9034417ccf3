"""Certificates for gRPC: of servers, and of those who connect to them."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio

from cogrs.files import read_regular
from cogrs.limits import TLS_BYTES
from cogrs.secret_file import warn_if_readable
from cogrs.validation import check_kind, check_port, check_text

__all__ = ["ClientTls", "ServerTls"]


@dataclass(frozen=True, kw_only=True)
class ServerTls:
    """With what a server proves who it is, and whom it lets in. All files are PEM."""

    certificate: str | os.PathLike[str]
    """The server's certificate, then those between it and the root, if there are any."""
    key: str | os.PathLike[str]
    """Its private key, without a password."""
    client_ca: str | os.PathLike[str] | None = None
    """Certificates of whoever signs those of clients; with it, nobody else gets in (mutual TLS)."""

    def __post_init__(self) -> None:
        """Refuse what is not a path.

        Raises:
            TypeError: A file is not given as a path.
            ValueError: What is in a file was given in place of its path.
        """
        _check_paths(certificate=self.certificate, key=self.key, client_ca=self.client_ca)

    def credentials(self) -> grpc.ServerCredentials:
        """Read the files.

        Raises:
            OSError: One cannot be read.
            ValueError: One is not what it should be.
        """
        pair = _pair(self.certificate, self.key)
        ca = None if self.client_ca is None else _authorities("client_ca", self.client_ca)
        return grpc.ssl_server_credentials([pair], ca, require_client_auth=ca is not None)


@dataclass(frozen=True, kw_only=True)
class ClientTls:
    """Whom a client trusts, and with what it proves who it is. All files are PEM."""

    ca: str | os.PathLike[str] | None = None
    """Certificates of whoever signs those of servers; None takes those that come with gRPC."""
    certificate: str | os.PathLike[str] | None = None
    """The client's own certificate, where servers ask for one (mutual TLS)."""
    key: str | os.PathLike[str] | None = None
    """Its private key, without a password."""
    server_name: str | None = None
    """Name in the server's certificate, if it is not the one that is connected to."""

    def __post_init__(self) -> None:
        """Refuse what is not a path, and half a pair.

        Raises:
            TypeError: A file is not given as a path.
            ValueError: Of certificate and key one is missing, or what is in a file was given in
                place of its path.
        """
        _check_paths(ca=self.ca, certificate=self.certificate, key=self.key)
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate, key: expected both or none, got one of them")

    def credentials(self) -> grpc.ChannelCredentials:
        """Read the files.

        Raises:
            OSError: One cannot be read.
            ValueError: One is not what it should be.
        """
        ca = None if self.ca is None else _authorities("ca", self.ca)
        if self.certificate is None or self.key is None:
            return grpc.ssl_channel_credentials(ca)
        key, certificate = _pair(self.certificate, self.key)
        return grpc.ssl_channel_credentials(ca, key, certificate)

    def options(self) -> list[tuple[str, str]]:
        """Return the options of channels."""
        if self.server_name is None:
            return []
        return [("grpc.ssl_target_name_override", self.server_name)]


def _check_paths(**paths: object) -> None:
    for name, path in paths.items():
        check_kind(name, path, str | os.PathLike | None, "a path")
        if isinstance(path, str) and ("\n" in path or "-----BEGIN" in path):
            # Not repeated, for it may be the key itself.
            raise ValueError(f"{name}: expected the path of a PEM file, got the text of one")


def _pair(certificate: str | os.PathLike[str], key: str | os.PathLike[str]) -> tuple[bytes, bytes]:
    """Return key and certificate, as gRPC wants them: it would tell nothing of a mistake."""
    content = read_regular(Path(key), TLS_BYTES), read_regular(Path(certificate), TLS_BYTES)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # An empty password: otherwise a key that has one is asked for on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        what = f"expected a PEM certificate and its PEM key without a password, got {certificate}"
        raise ValueError(f"certificate, key: {what} and {key}: {_reason(error)}") from error
    warn_if_readable(key)
    return content


def _authorities(name: str, path: str | os.PathLike[str]) -> bytes:
    content = read_regular(Path(path), TLS_BYTES)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=path)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(
            f"{name}: expected PEM certificates, got {path}: {_reason(error)}"
        ) from error
    return content


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason or error).replace("_", " ").lower()


def listen(server: grpc.aio.Server, host: str, port: int, tls: ServerTls | None) -> int:
    """Have a server listen, and return its port.

    Raises:
        OSError: The port is taken, there is no such address, or a file cannot be read.
        TypeError: An argument is something else.
        ValueError: The port is out of range, or a file is not what it should be.
    """
    check_text("host", host)
    port = check_port("port", port)
    check_kind("tls", tls, ServerTls | None, "a ServerTls or None")
    host = host.strip("[]")
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    credentials = None if tls is None else tls.credentials()
    bound = 0
    with suppress(RuntimeError):  # of which all that gRPC says is that it failed
        if credentials is None:
            bound = server.add_insecure_port(where)
        else:
            bound = server.add_secure_port(where, credentials)
    if not bound:
        number, reason = _why_nobody_listens(host, port)
        failure = OSError(f"cannot listen at {where}: {reason}")
        failure.errno = number
        raise failure
    return bound


def _why_nobody_listens(host: str, port: int) -> tuple[int, str]:
    """Return the number of the system's error for an address, and what to do about it."""
    try:
        for family, kind, _, _, address in socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                probe.listen()
    except OSError as error:
        hints = {
            errno.EADDRINUSE: "the port is taken: give another one, or 0 for a free one",
            errno.EADDRNOTAVAIL: "this machine has no such address",
            errno.EACCES: "ports below 1024 need privileges: give another one",
        }
        number = error.errno or errno.EINVAL
        return number, hints.get(number, error.strerror or str(error))
    return errno.EADDRINUSE, "gRPC could not bind it: was the port taken a moment ago?"
