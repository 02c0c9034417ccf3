"""`cogrs doctor`: checks what cogrs needs of a machine."""

from __future__ import annotations

import os
import platform
import re
import socket
import sys
import sysconfig
import time
from importlib import metadata
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Verdict = Literal["ok", "note", "wrong"]

_SECONDS = 10.0
"""Timeout of each round trip."""
_OPEN_FILES = 1024
_SHARED_MEMORY = 1 << 30
_OPTIONAL = ("torch", "jax", "gymnasium", "pettingzoo", "uvloop")
"""Packages that cogrs works with, beside those of its extras."""
_EXTRA_OF = {"gymnasium": "demo", "pillow": "web"}
"""The extra to install for a package that is in several."""
_PROXIES = ("http_proxy", "https_proxy", "grpc_proxy")


class Finding(NamedTuple):
    """The result of a check.

    Fields:
        verdict: 'ok'; 'note' for a limitation; 'wrong' for something that will not work.
        subject: What was checked.
        found: What was found.
        hint: How to change it, or "".
    """

    verdict: Verdict
    subject: str
    found: str
    hint: str = ""


def examine() -> Iterator[Finding]:
    """Run one check after the other; takes some seconds."""
    yield _python()
    yield from _extension()
    yield from _requirements()
    yield from _optional()
    yield _try("a port on loopback", _bind, "is the interface up? ip addr show lo")
    hint = "another program listens there: use another port (port=, --port)"
    yield _try("orchestrator's port 9000", _bind_9000, hint, "note")
    yield from _proxies()
    hint = "does a firewall or sandbox separate the processes of this machine?"
    yield _try("replay over ZeroMQ, tcp", lambda: _replay("tcp://127.0.0.1:*"), hint)
    hint = "is there a proxy? export no_proxy=127.0.0.1,localhost"
    yield _try("trials over gRPC", _trials, hint)
    yield from _limits()


def _python() -> Finding:
    version = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        hint = "cogrs is not tested on free-threaded Python; importing it turns the GIL on"
        return Finding("note", "Python", f"{version}, free-threaded", hint)
    return Finding("ok", "Python", version)


def _extension() -> Iterator[Finding]:
    try:
        from cogrs import _core
    except ImportError as error:
        hint = "pip install --force-reinstall . in a clone of cogrs, with this Python"
        yield Finding("wrong", "cogrs", str(error), hint)
        return
    yield Finding("ok", "cogrs", f"{_core.__version__} in {os.path.dirname(_core.__file__)}")
    installed = _version_of("cogrs")
    if installed is not None and installed != _core.__version__:
        hint = "two installations are mixed: repeat pip uninstall cogrs until it fails, and install"
        yield Finding("wrong", "cogrs", f"package {installed}, extension {_core.__version__}", hint)


def _requirements() -> Iterator[Finding]:
    for name, least, extra in _declared():
        if extra:
            continue
        found = _version_of(name)
        if found is None:
            yield Finding("wrong", name, "not installed", f"pip install '{name}>={least}'")
        elif _numbers(found) < _numbers(least):
            yield Finding("wrong", name, found, f"pip install --upgrade '{name}>={least}'")
        else:
            yield Finding("ok", name, found)
    hint = "pip install --upgrade protobuf grpcio"
    yield _try("messages of trials", _generated, hint)
    hint = "pip install --force-reinstall --only-binary :all: pyzmq"
    yield _try("CURVE keys in libzmq", _curve, hint, "note")


def _optional() -> Iterator[Finding]:
    extras = {name: extra for name, _, extra in _declared() if extra} | _EXTRA_OF
    hints = {name: f"pip install 'cogrs[{extra}]'" for name, extra in extras.items()}
    for name in sorted({*hints, *_OPTIONAL}):
        found = _version_of(name)
        if found is None:
            yield Finding("note", name, "not installed", hints.get(name, f"pip install {name}"))
        else:
            yield Finding("ok", name, found)


def _bind() -> str:
    with socket.socket() as ours:
        ours.bind(("127.0.0.1", 0))
        return f"{ours.getsockname()[1]} is free"


def _bind_9000() -> str:
    with socket.socket() as ours:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ours.bind(("127.0.0.1", 9000))
    return "free"


def _proxies() -> Iterator[Finding]:
    spared = os.environ.get("no_proxy", os.environ.get("NO_PROXY", ""))
    if "127.0.0.1" in spared:
        return
    for name in _PROXIES:
        proxy = os.environ.get(name)
        if proxy:
            hint = "gRPC uses it even for this machine: export no_proxy=127.0.0.1,localhost"
            yield Finding("note", f"environment {name}", proxy, hint)


def _replay(endpoint: str) -> str:
    import numpy as np

    import cogrs

    state, action, scalar = np.zeros(4, np.float32), np.zeros((), np.int64), np.float32(0)
    nothing = np.zeros(0, np.float32)
    begin = time.perf_counter()
    with cogrs.ReplayMemoryServer(
        state, action, scalar, scalar, scalar, scalar, nothing, 0, endpoint, 1, log_seconds=None
    ) as server:
        server.rem.cache_size = 8
        server.start(endpoint, endpoint)
        asked, pushed = server.rep_endpoint, server.pull_endpoint
        assert asked is not None
        assert pushed is not None
        with cogrs.ReplayMemoryClient(
            server.pub_endpoint, asked, pushed, timeout=_SECONDS
        ) as client:
            client.sync_sizes(64)
            client.rem.new_episode()
            for step in range(16):
                client.rem.add_entry(np.full(4, step), step, 1.0, 1.0, 0.0, nothing, 1.0)
            client.rem.close_episode()
            client.push_cache()
            server.get_batch(8, wait=_SECONDS)
    return f"sizes, a cache and a batch in {_milliseconds_since(begin)}"


def _trials() -> str:
    import grpc

    from cogrs import serve_orchestrator
    from cogrs.api.common_pb2 import VersionRequest
    from cogrs.api.orchestrator_pb2_grpc import TrialLifecycleStub

    begin = time.perf_counter()
    with (
        serve_orchestrator({}, port=0) as orchestrator,
        grpc.insecure_channel(f"127.0.0.1:{orchestrator.port}") as channel,
    ):
        TrialLifecycleStub(channel).Version(VersionRequest(), timeout=_SECONDS)
    return f"the orchestrator's version in {_milliseconds_since(begin)}"


def _generated() -> str:
    from google.protobuf.internal import api_implementation

    import cogrs.api.orchestrator_pb2  # noqa: F401  the import is the check

    return f"can be imported; protobuf runs as {api_implementation.Type()}"


def _curve() -> str:
    import zmq

    if not zmq.has("curve"):
        raise RuntimeError(f"libzmq {zmq.zmq_version()} was built without them")
    return f"libzmq {zmq.zmq_version()}"


def _limits() -> Iterator[Finding]:
    if sys.platform != "linux":
        return
    import resource

    yield Finding("ok", "cores", f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    hint = f"servers need one per client: ulimit -n {min(hard, 65536)}"
    yield _at_least("open files", soft, _OPEN_FILES, f"{soft}", hint)
    try:
        shared = os.statvfs("/dev/shm")
    except OSError as error:
        yield Finding("note", "shared memory", str(error), "mount a tmpfs at /dev/shm")
        return
    free = shared.f_bavail * shared.f_frsize
    size = f"{free / (1 << 20):.0f} MiB free in /dev/shm"
    hint = "worker processes share arrays there; in a container: --shm-size=2g"
    yield _at_least("shared memory", free, _SHARED_MEMORY, size, hint)


def _at_least(subject: str, value: int, least: int, found: str, hint: str) -> Finding:
    return (
        Finding("ok", subject, found) if value >= least else Finding("note", subject, found, hint)
    )


def _try(subject: str, check: Callable[[], str], hint: str, verdict: Verdict = "wrong") -> Finding:
    """Return the result of a check; one that raises has the given verdict."""
    try:
        return Finding("ok", subject, check())
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        return Finding(verdict, subject, f"{type(error).__name__}: {text}", hint)


def _declared() -> Iterator[tuple[str, str, str]]:
    """Yield name, least version and extra ('' if always needed) of each requirement."""
    try:
        lines = metadata.requires("cogrs") or []
    except metadata.PackageNotFoundError:
        return
    for line in lines:
        match = re.match(
            r"([\w.-]+)(?:\[[\w,]+\])?\s*>=\s*([\d.]+)(?:.*extra\s*==\s*['\"](\w+)['\"])?", line
        )
        if match:
            yield match[1], match[2], match[3] or ""


def _version_of(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def _milliseconds_since(begin: float) -> str:
    return f"{(time.perf_counter() - begin) * 1000:.0f} ms"


def report(findings: Iterator[Finding]) -> int:
    """Print findings as they come; return 1 if anything is wrong, else 0."""
    wrong = 0
    for finding in findings:
        wrong += finding.verdict == "wrong"
        print(f"{finding.verdict:6}{finding.subject:26}{finding.found}")
        if finding.hint:
            print(f"{'':8}-> {finding.hint}")
        sys.stdout.flush()
    print("no problem was found" if not wrong else f"wrong: {wrong}; see the lines with an arrow")
    return int(wrong > 0)
