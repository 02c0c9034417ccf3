"""The server as a thing: ports, threads, starting and stopping."""

from __future__ import annotations

import asyncio
import gc
import inspect
import pickle
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import grpc
import pytest

import cogrs
from cogrs.api.common_pb2 import VersionRequest
from cogrs.api.orchestrator_pb2_grpc import ClientActorStub, TrialLifecycleStub
from cogrs.orchestrator import Settings, serve
from cogrs.orchestrator.links.channel_pool import channel_options
from cogrs.orchestrator.service.server import server_options
from tests.orchestrator.net import on_loop
from tests.ports import unused_ports
from tests.program import program

if TYPE_CHECKING:
    from collections.abc import Callable


def ask(port: int, stub: Any = TrialLifecycleStub) -> bool:
    """Whether a service answers."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            return bool(stub(channel).Version(VersionRequest(), timeout=10).versions)
        except grpc.RpcError as error:
            if error.code().name not in ("UNIMPLEMENTED", "UNAVAILABLE"):
                raise
            return False


def test_both_services_are_on_one_loopback_port() -> None:
    with cogrs.serve_orchestrator(port=0) as orchestrator:
        assert orchestrator.port == orchestrator.actor_port > 0
        assert ask(orchestrator.port)
        assert ask(orchestrator.port, ClientActorStub)
        assert not orchestrator.wait(0)
        assert "running" in repr(orchestrator)
    assert orchestrator.wait(0)
    assert "stopped" in repr(orchestrator)
    assert not ask(orchestrator.port)


@pytest.mark.parametrize("start", [cogrs.serve_orchestrator, serve])
def test_server_listens_at_loopback_port_9000_by_default(start: Callable[..., Any]) -> None:
    parameters = inspect.signature(start).parameters
    assert (parameters["host"].default, parameters["port"].default) == ("127.0.0.1", 9000)


def test_client_actors_can_have_a_separate_port() -> None:
    with cogrs.serve_orchestrator(port=0, actor_port=0) as orchestrator:
        assert orchestrator.port != orchestrator.actor_port
        assert ask(orchestrator.port)
        assert not ask(orchestrator.port, ClientActorStub)
        assert ask(orchestrator.actor_port, ClientActorStub)
        assert not ask(orchestrator.actor_port)


def test_port_is_free_again_after_each_of_fifty_stops() -> None:
    (port,) = unused_ports(1)
    for _ in range(50):
        with cogrs.serve_orchestrator(port=port) as orchestrator:
            assert orchestrator.port == port
    assert not [thread for thread in threading.enumerate() if "cogrs" in thread.name]


def test_taken_port_is_an_error() -> None:
    with cogrs.serve_orchestrator(port=0) as orchestrator:
        with pytest.raises(OSError, match=f"127.0.0.1:{orchestrator.port}"):
            cogrs.serve_orchestrator(port=orchestrator.port)
        with pytest.raises(OSError, match=f"127.0.0.1:{orchestrator.port}"):
            cogrs.serve_orchestrator(port=0, actor_port=orchestrator.port)
        assert ask(orchestrator.port)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(OSError, match="cannot listen"):
            cogrs.serve_orchestrator(port=other.getsockname()[1])


def test_any_thread_may_stop_a_server_again() -> None:
    orchestrator = cogrs.serve_orchestrator(port=0)
    waiting = threading.Thread(target=orchestrator.wait)
    waiting.start()
    stopping = [threading.Thread(target=orchestrator.stop, args=(0,)) for _ in range(4)]
    for thread in stopping:
        thread.start()
    for thread in (*stopping, waiting):
        thread.join(30)
        assert not thread.is_alive()
    orchestrator.stop()


def test_forgotten_handle_stops_its_server() -> None:
    orchestrator = cogrs.serve_orchestrator(port=0)
    port, thread = orchestrator.port, orchestrator._running._thread
    del orchestrator
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()
    assert not ask(port)


def test_program_that_does_not_stop_its_server_ends_cleanly() -> None:
    code = "import cogrs; x = cogrs.serve_orchestrator(port=0); print('up')"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "up\n", "")


def test_ctrl_c_ends_a_wait() -> None:
    code = """
import cogrs
with cogrs.serve_orchestrator(port=0) as orchestrator:
    print("up", flush=True)
    orchestrator.wait()
"""
    with program(code, options=("-W", "error")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert errors.count("Traceback") == 1


def test_handle_cannot_be_pickled() -> None:
    with (
        cogrs.serve_orchestrator(port=0) as orchestrator,
        pytest.raises(TypeError, match="others reach it at its port"),
    ):
        pickle.dumps(orchestrator)


@on_loop
async def test_serve_runs_on_the_running_loop() -> None:
    async with await serve(port=0) as orchestrator:
        waiting = asyncio.ensure_future(orchestrator.wait())
        await asyncio.to_thread(ask, orchestrator.port)
        assert not waiting.done()
    await waiting


@on_loop
async def test_serve_leaves_signals_to_the_program() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    async with await serve(port=0):
        assert [signal.getsignal(number) for number in numbers] == before
    with cogrs.serve_orchestrator(port=0):
        assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"start_timeout": -1}, ValueError),
        ({"max_message": 0}, ValueError),
        ({"max_message": 1.5}, TypeError),
        ({"hook_timeout": "1"}, TypeError),
        ({"close_grace": True}, TypeError),
        ({"end_timeout": None}, TypeError),
        ({"retention": float("nan")}, ValueError),
    ],
)
def test_settings_out_of_range_are_refused(
    arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match=next(iter(arguments))):
        Settings(**arguments)


def test_channels_and_servers_have_the_message_limit_and_no_pings() -> None:
    for options in (dict(server_options(7)), dict(channel_options(7))):
        assert options["grpc.max_send_message_length"] == 7
        assert options["grpc.max_receive_message_length"] == 7
        assert "grpc.keepalive_time_ms" not in options
    assert dict(server_options(7))["grpc.keepalive_permit_without_calls"] == 1


def test_engine_imports_no_grpc() -> None:
    code = (
        "import sys, pkgutil, importlib, types;"
        "import cogrs, os.path;"
        "package = types.ModuleType('cogrs.orchestrator');"
        "package.__path__ = [os.path.join(cogrs.__path__[0], 'orchestrator')];"
        "sys.modules['cogrs.orchestrator'] = package;"
        "import cogrs.orchestrator.engine as engine;"
        "names = [name for _, name, _ in pkgutil.iter_modules(engine.__path__)];"
        "[importlib.import_module(f'{engine.__name__}.{name}') for name in names];"
        "sys.exit(len(names) < 10 or 'grpc' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("there", [True, False])
def test_uvloop_is_used_if_installed(there: bool) -> None:
    """In a process of its own, since a loop of another kind is not undone."""
    pytest.importorskip("uvloop")
    script = f"""
import sys
if not {there}:
    sys.modules["uvloop"] = None
import cogrs
with cogrs.serve_orchestrator(port=0, uvloop=True) as handle:
    print(type(handle._running.loop).__module__.partition(".")[0])
    assert handle.stats().started == 0
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == ("uvloop\n" if there else "asyncio\n")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"port": -1}, ValueError, "port: expected an integer from 0 to 65535, got -1"),
        ({"port": 65536}, ValueError, "port: expected an integer from 0 to 65535, got 65536"),
        ({"port": "9000"}, TypeError, "port: expected an integer from 0 to 65535, got str"),
        ({"port": True}, TypeError, "port: expected an integer from 0 to 65535, got bool"),
        ({"actor_port": 65536}, ValueError, "actor_port: expected an integer"),
        ({"host": None}, TypeError, "host: expected a string, got NoneType"),
        ({"settings": {}}, TypeError, "settings: expected Settings or None, got dict"),
        ({"security": "x"}, TypeError, "security: expected Security or None, got str"),
        ({"local": []}, TypeError, "local: expected a mapping from names, got list"),
        ({"local": {1: 2}}, TypeError, "local, key 1: expected a string, got int"),
    ],
)
def test_arguments_are_refused_by_name(
    given: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        cogrs.serve_orchestrator(**{"port": 0, **given})


@pytest.mark.parametrize("grace", ["x", None, -1, float("nan"), float("inf")])
def test_bad_grace_is_refused_and_the_server_can_still_stop(grace: Any) -> None:
    orchestrator = cogrs.serve_orchestrator(port=0)
    with pytest.raises((TypeError, ValueError), match="grace: expected seconds >= 0, got"):
        orchestrator.stop(grace)
    assert not orchestrator.wait(0)
    orchestrator.stop(0)
    assert orchestrator.wait(0)
