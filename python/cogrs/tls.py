"""Certificates of gRPC servers and clients."""

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
    """The certificate of a server, and which clients it accepts. All files are PEM."""

    certificate: str | os.PathLike[str]
    """The server's certificate, followed by intermediate certificates, if any."""
    key: str | os.PathLike[str]
    """The private key, without a password."""
    client_ca: str | os.PathLike[str] | None = None
    """Authorities of client certificates; with it, clients without one are refused (mutual TLS)."""

    def __post_init__(self) -> None:
        """Check the paths: TypeError for another type, ValueError for the content of a file."""
        _check_paths(certificate=self.certificate, key=self.key, client_ca=self.client_ca)

    def credentials(self) -> grpc.ServerCredentials:
        """Read the files.

        Raises:
            OSError: A file cannot be read.
            ValueError: A file has another content than expected.
        """
        pair = _pair(self.certificate, self.key)
        ca = None if self.client_ca is None else _authorities("client_ca", self.client_ca)
        return grpc.ssl_server_credentials([pair], ca, require_client_auth=ca is not None)


@dataclass(frozen=True, kw_only=True)
class ClientTls:
    """Which servers a client trusts, and its own certificate. All files are PEM."""

    ca: str | os.PathLike[str] | None = None
    """Authorities of server certificates; None takes those that come with gRPC."""
    certificate: str | os.PathLike[str] | None = None
    """The client's certificate, for servers that require one (mutual TLS)."""
    key: str | os.PathLike[str] | None = None
    """The private key, without a password."""
    server_name: str | None = None
    """Host name in the server's certificate, if it differs from that of the address."""

    def __post_init__(self) -> None:
        """Check the paths, as those of `ServerTls`; certificate and key need each other."""
        _check_paths(ca=self.ca, certificate=self.certificate, key=self.key)
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate, key: expected both or neither, got one of them")

    def credentials(self) -> grpc.ChannelCredentials:
        """Read the files; errors as of `ServerTls.credentials`."""
        ca = None if self.ca is None else _authorities("ca", self.ca)
        if self.certificate is None or self.key is None:
            return grpc.ssl_channel_credentials(ca)
        key, certificate = _pair(self.certificate, self.key)
        return grpc.ssl_channel_credentials(ca, key, certificate)

    def options(self) -> list[tuple[str, str]]:
        """Return the options of gRPC channels."""
        if self.server_name is None:
            return []
        return [("grpc.ssl_target_name_override", self.server_name)]


def _check_paths(**paths: object) -> None:
    for name, path in paths.items():
        check_kind(name, path, str | os.PathLike | None, "a path")
        if isinstance(path, str) and ("\n" in path or "-----BEGIN" in path):
            # Not repeated, since it may be the key itself.
            raise ValueError(f"{name}: expected the path of a PEM file, got the text of one")


def _pair(certificate: str | os.PathLike[str], key: str | os.PathLike[str]) -> tuple[bytes, bytes]:
    """Return key and certificate, after a check by `ssl`, since gRPC reports no reason."""
    content = read_regular(Path(key), TLS_BYTES), read_regular(Path(certificate), TLS_BYTES)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without the empty password, OpenSSL asks for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        expected = "expected a PEM certificate and its PEM key without a password"
        raise ValueError(
            f"certificate, key: {expected}, got {certificate} and {key}: {_reason(error)}"
        ) from error
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
    """Make a server listen, and return its port.

    Raises:
        OSError: The port is taken, the address does not exist, or a file cannot be read.
        TypeError: An argument has the wrong type.
        ValueError: The port is out of range, or a file has another content than expected.
    """
    check_text("host", host)
    port = check_port("port", port)
    check_kind("tls", tls, ServerTls | None, "a ServerTls or None")
    host = host.strip("[]")
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    credentials = None if tls is None else tls.credentials()
    bound = 0
    with suppress(RuntimeError):  # gRPC reports no reason
        if credentials is None:
            bound = server.add_insecure_port(where)
        else:
            bound = server.add_secure_port(where, credentials)
    if not bound:
        number, reason = _find_reason(host, port)
        failure = OSError(f"cannot listen at {where}: {reason}")
        failure.errno = number
        raise failure
    return bound


def _find_reason(host: str, port: int) -> tuple[int, str]:
    """Return the system's error number for an address, and a hint, by listening there once more."""
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
