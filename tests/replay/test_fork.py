"""Servers and clients in a forked child."""

import os

import pytest

from tests.replay import network

SERVER_FORKED = """
import os, sys, threading
import numpy as np
from tests.replay import build, network

server = network.started(1)
client = network.connected(server)
build.add_uniform(client.rem, 5)
waiting = network.Call(lambda: server.get_batch(1, wait=60))
assert waiting.blocks()
calls = {
    "get_batch": lambda: server.get_batch(1),
    "get_batch wait": lambda: server.get_batch(1, wait=5),
    "pub_bytes": lambda: server.pub_bytes("t", "m"),
    "rem.pub_bytes": lambda: server.rem.pub_bytes("t", "m"),
    "wait_subscribers": lambda: server.wait_subscribers("t", 1, timeout=5),
    "wait_subscribers of none": lambda: server.wait_subscribers("t", 0),
    "set_logfile": lambda: server.set_logfile(os.devnull, "w"),
    "start": lambda: server.start(),
    "rep_worker_main": lambda: server.rep_worker_main(network.LOOPBACK, "Bind"),
    "pull_proxy_main": lambda: server.pull_proxy_main(network.LOOPBACK, network.LOOPBACK),
    "total_caches": lambda: server.total_caches,
    "total_steps": lambda: server.total_steps,
    "weight_sum": lambda: server.weight_sum,
}
for name, call in calls.items():
    child = os.fork()
    if child == 0:
        try:
            call()
        except RuntimeError as error:
            os.write(1, f"{name}: {'fork' in str(error)}\\n".encode())
        server.close()
        sys.exit(7)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code != 7:
        os.write(1, f"{name}: exit code {code}\\n".encode())
client.push_cache()
print("parent:", len(waiting.result().weight))
client.close()
server.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_server_is_refused_after_a_fork_at_once_and_the_parent_goes_on() -> None:
    done = network.run(SERVER_FORKED)
    assert done.stderr == ""
    *children, parent = done.stdout.splitlines()
    assert [line for line in children if not line.endswith(": True")] == []
    assert len(children) == 13
    assert parent == "parent: 1"


CLIENT_FORKED = """
import os, sys
from tests.replay import build, network

server = network.started(1)
client = network.connected(server)
deaf = network.deaf(timeout=60)
build.add_uniform(client.rem, 5)
waiting = [network.Call(lambda: client.sub_bytes("t")), network.Call(lambda: deaf.sync_sizes(4))]
server.wait_subscribers("t")
assert waiting[1].blocks()
calls = {
    "rem": lambda: client.rem,
    "sync_sizes": lambda: client.sync_sizes(4),
    "sync_sizes while another asks": lambda: deaf.sync_sizes(4),
    "update_counter": lambda: client.update_counter(),
    "may_insert": lambda: client.may_insert(),
    "wait_to_insert": lambda: client.wait_to_insert(timeout=5),
    "push_cache": lambda: client.push_cache(),
    "write_log": lambda: client.write_log("line"),
    "sub_bytes": lambda: client.sub_bytes("t", timeout=5),
    "sub_bytes of another topic": lambda: client.sub_bytes("u", last=True, timeout=5),
    "num_dropped": lambda: client.num_dropped("t"),
}
import threading
for name, call in calls.items():
    child = os.fork()
    if child == 0:
        threading.Timer(5, lambda: (os.write(1, f"{name}: hangs\\n".encode()), os._exit(7))).start()
        try:
            call()
        except RuntimeError as error:
            os.write(1, f"{name}: {'fork' in str(error)}\\n".encode())
            threading.enumerate()[-1].cancel()
        client.close()
        sys.exit(7)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code != 7:
        os.write(1, f"{name}: exit code {code}\\n".encode())
server.pub_bytes("t", "m")
print("parent:", waiting[0].result())
deaf.close()
client.close()
server.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_client_is_refused_after_a_fork_at_once_and_the_parent_goes_on() -> None:
    done = network.run(CLIENT_FORKED)
    assert done.stderr == ""
    *children, parent = done.stdout.splitlines()
    assert [line for line in children if not line.endswith(": True")] == []
    assert len(children) == 11
    assert parent == "parent: b'm'"
