"""Servers from a TOML file."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cogrs import KeyPair, RateLimiter, ReplayMemoryClient, ReplaySampler, cli
from cogrs.replay.config import start_server
from tests.replay import build, network
from tests.replay.network import arrived, connected, eventually

TEMPLATES = """
[templates]
state = { dtype = "int64" }
action = { dtype = "int64", shape = [] }
reward = { dtype = "float32", shape = [1] }
prob = { dtype = "float32" }
value = { dtype = "float32", shape = [1] }
qvest = { dtype = "float32", shape = [1] }
info = { dtype = "int64" }
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "replay.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_config_file_with_all_settings_is_read(tmp_path: Path, monkeypatch: Any) -> None:
    server_public, _ = KeyPair.new().save("learner", tmp_path)
    _, secret = KeyPair.new().save("actor", tmp_path / "actors")
    text = f"""
n_caches = 1
max_step = 8
uuid = 7
seed = 1
hwm = 4
pub_hwm = 4
pub_endpoint = "tcp://127.0.0.1:*"
rep_endpoint = "tcp://127.0.0.1:0"
pull_endpoint = "ipc://{tmp_path}/pull"
key = "learner.key_secret"
allow = "actors"
logfile = "lines.log"
{TEMPLATES}
[settings]
cache_size = 6
discount_factor = [0.5]
reuse_cache = true
"""
    path = written(tmp_path, text)
    monkeypatch.chdir("/")
    with (
        start_server(path) as server,
        connected(server, key=secret, server_key=server_public) as client,
    ):
        assert (server.rem.uuid, server.rem.max_step, server.rem.cache_size) == (7, 8, 6)
        assert server.rem.reuse_cache
        assert client.rem.discount_factor == [0.5]
        ones = np.ones((10, 1), np.float32)
        client.rem.add_episode(**build.steps(10, r=ones, v=ones), **build.UNIFORM)
        client.push_cache()
        client.write_log("a line")
        arrived(server, 1)
        eventually(lambda: "a line" in (tmp_path / "lines.log").read_text())
        assert server.pull_endpoint == f"ipc://{tmp_path}/pull"
        with pytest.raises(TimeoutError, match="keys"):
            ReplayMemoryClient(*network.endpoints(server), max_step=1, timeout=0.3)


def test_keys_in_a_list(tmp_path: Path) -> None:
    learner, actor, other = (KeyPair.new() for _ in range(3))
    learner.save("learner", tmp_path)
    actor.save("actor", tmp_path)
    allow = f'key = "learner.key_secret"\nallow = ["actor.key", {other.public!r}]\n'
    with start_server(written(tmp_path, f"n_caches = 1\n{allow}{TEMPLATES}")) as server:
        for key in (actor, other):
            with connected(server, key=key, server_key=learner) as client:
                assert client.rem.max_step == 64


def test_samplers_in_a_file(tmp_path: Path) -> None:
    learner, pusher, sampler = (KeyPair.new() for _ in range(3))
    learner.save("learner", tmp_path)
    pusher.save("pusher", tmp_path / "all")
    sampler.save("sampler", tmp_path / "samplers")
    keys = 'key = "learner.key_secret"\nallow = "all"\nallow_samplers = "samplers"\n'
    with start_server(written(tmp_path, f"n_caches = 1\n{keys}{TEMPLATES}")) as server:
        for key, what in ((pusher, "allow_samplers"), (sampler, "n_caches")):
            with (
                ReplaySampler([server.rep_endpoint], key=key, server_key=learner) as drawing,
                pytest.raises(RuntimeError, match=what),
            ):
                drawing.get_batch(1)


def test_insecure_config_may_listen_on_all_addresses(tmp_path: Path) -> None:
    text = 'n_caches = 1\npub_endpoint = "tcp://*:*"\n'
    with start_server(written(tmp_path, f"{text}insecure = true\n{TEMPLATES}")) as server:
        assert server.pub_endpoint.startswith("tcp://0.0.0.0:")


def test_fields_by_names_are_the_flags(tmp_path: Path) -> None:
    text = f"n_caches = 1{TEMPLATES}[settings]\nfields = {{ prev = 'sar', next = ['state'] }}"
    with start_server(written(tmp_path, text)) as server:
        assert server.rem.fields == {"prev": "sar", "next": "s"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("= 1", "Invalid"),
        (TEMPLATES, "n_caches: expected an integer, got nothing"),
        ("n_caches = -1" + TEMPLATES, "n_caches"),
        ("n_caches = '1'" + TEMPLATES, "n_caches"),
        ("n_cache = 1" + TEMPLATES, "n_cache: expected one of"),
        ("n_caches = 1", "templates.state: expected a table of dtype and shape, got nothing"),
        ("n_caches = 1\ntemplates = 1", "templates: expected a table, got 1"),
        ("n_caches = 1" + TEMPLATES + "more = {}", "templates.more: expected one of state"),
        ("n_caches = 1" + TEMPLATES.replace("int64", "int65"), "templates.state.dtype: expected"),
        ("n_caches = 1" + TEMPLATES.replace("dtype", "type"), "templates.state.type: expected"),
        ("n_caches = 1" + TEMPLATES.replace("[1]", "[-1]"), "templates.reward.shape: expected"),
        ("n_caches = 1" + TEMPLATES.replace("[1]", "[true]"), "templates.reward.shape: expected"),
        ("n_caches = 1" + TEMPLATES.replace("[1]", "[999999999999]"), "templates.reward.shape"),
        ("n_caches = 1" + TEMPLATES + "[settings]\nsize = 1", "settings.size: expected one of"),
        ("n_caches = 1" + TEMPLATES + "[settings]\ncache_size = 0", "settings.cache_size: "),
        ("n_caches = 1" + TEMPLATES + "[settings]\nmix_lambda = 'a'", "settings.mix_lambda: "),
        (
            "n_caches = 1" + TEMPLATES + "[settings]\nfields = { prev = 's', next = 'x' }",
            'settings.fields: fields["next"]: expected letters',
        ),
        (
            "n_caches = 1"
            + TEMPLATES
            + "[settings]\ncache_flags = [1]\nfields = { prev = 's', next = 's' }",
            "settings.fields: expected only one of fields and cache_flags",
        ),
        ("n_caches = 1\nrep_endpoint = 'x'" + TEMPLATES, "rep_endpoint: expected"),
        ("n_caches = 1\npub_endpoint = 3" + TEMPLATES, "pub_endpoint: expected"),
        ("n_caches = 1\nkey = 3" + TEMPLATES, "key: expected a path"),
        ("n_caches = 1\npub_endpoint = 'tcp://*:*'" + TEMPLATES, "pub_endpoint: other machines"),
        ("n_caches = 1\npull_endpoint = 'ipc://@x'" + TEMPLATES, "pull_endpoint: every user"),
        ("n_caches = 1\ninsecure = 1" + TEMPLATES, "insecure: expected True or False"),
        ("n_caches = 1\nallow_samplers = 3" + TEMPLATES, "allow_samplers: expected a path"),
        ("n_caches = 1\nallow = []" + TEMPLATES, "key: expected"),
        ("n_caches = 1\nlogfile = []" + TEMPLATES, "logfile: expected a path"),
        ("n_caches = 1\nstorage = 1" + TEMPLATES, "storage: expected a path, got 1"),
        ("n_caches = 1\nstorage = '.'" + TEMPLATES, "storage: expected None for a memory without"),
        ("n_caches = 1\nmax_bytes = 9" + TEMPLATES, "max_bytes: "),
    ],
)
def test_mistakes_are_named(tmp_path: Path, capsys: Any, text: str, told: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=r"^/") as caught:
        start_server(path)
    assert str(caught.value).startswith(f"{path}: {told}")
    assert cli.main(["replay-server", "--config", str(path)]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"cogrs replay-server: {caught.value}\n")


def test_missing_file_is_named_in_the_error(tmp_path: Path, capsys: Any) -> None:
    assert cli.main(["replay-server", "--config", str(tmp_path / "none.toml")]) == 2
    assert "none.toml" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_command_runs_until_a_signal_ends_the_process(tmp_path: Path, kind: int) -> None:
    path = written(tmp_path, "n_caches = 1\nlogfile = 'lines'" + TEMPLATES)
    command = [sys.executable, "-m", "cogrs.cli", "replay-server", "--config", str(path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    with network.ended([process]):
        told = [process.stdout.readline().split() for _ in range(3)]
        assert [name for name, _ in told] == ["pub_endpoint", "rep_endpoint", "pull_endpoint"]
        with ReplayMemoryClient(*(where for _, where in told), max_step=8) as client:
            client.write_log("last line")
            client.update_counter()
        eventually(lambda: "last line" in (tmp_path / "lines").read_text())
        process.send_signal(kind)
        out, err = process.communicate(timeout=network.SLACK)
        assert (process.returncode, out, err) == (0, "stopping\n", "")


IMAGES = """
[templates]
state = { dtype = "uint8", shape = [64, 64] }
action = { dtype = "int64" }
reward = { dtype = "float32" }
prob = { dtype = "float32" }
value = { dtype = "float32" }
qvest = { dtype = "float32" }
info = { dtype = "int64" }
[compress]
state = "lz4"
[settings]
cache_size = 16
"""


def test_command_keeps_caches_in_the_folder_of_a_config_file(tmp_path: Path, capsys: Any) -> None:
    text = "n_caches = 2\nmax_step = 64\nmax_bytes = 100_000\nstorage = 'caches'" + IMAGES
    path = written(tmp_path, text)
    command = [sys.executable, "-m", "cogrs.cli", "replay-server", "--config", str(path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    with network.ended([process]):
        told = [process.stdout.readline().split() for _ in range(3)]
        # The folder is relative to the file, and used by one server.
        assert os.listdir(tmp_path / "caches") == [".cogrs-storage.lock"]
        assert cli.main(["replay-server", "--config", str(path)]) == 2
        assert "storage: expected a folder that no other memory uses" in capsys.readouterr().err
        with (
            ReplayMemoryClient(*(where for _, where in told), max_step=64) as client,
            ReplaySampler([told[1][1]]) as sampler,
        ):
            states = np.zeros((20, 64, 64), np.uint8)
            states[:, 0] = np.arange(20)[:, None]
            ones = np.ones(20, np.float32)
            client.rem.add_episode(
                states, ones.astype(int), ones, ones, ones, ones.astype(int), 1.0
            )
            for _ in range(2):
                client.push_cache()
            batch = sampler.get_batch(32, wait=network.SLACK)
            assert set(np.unique(batch.prev.s)) <= set(range(20))
            assert (batch.next.s[:, 0, 0] == batch.prev.s[:, 0, 0] + 1).all()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=network.SLACK)
        assert (process.returncode, out, err) == (0, "stopping\n", "")


def test_storage_that_cannot_be_written_is_told_by_the_command(tmp_path: Path, capsys: Any) -> None:
    path = written(tmp_path, "n_caches = 1\nstorage = 'none/below'" + IMAGES)
    assert cli.main(["replay-server", "--config", str(path)]) == 2
    assert "none/below" in capsys.readouterr().err


@pytest.mark.parametrize("path", [None, 3, ["replay.toml"]], ids=repr)
def test_argument_other_than_a_path_is_a_type_error(path: Any) -> None:
    with pytest.raises(TypeError, match="path: expected a path, got"):
        start_server(path)


@pytest.mark.parametrize(
    ("table", "limiter"),
    [
        ("samples_per_insert = 2\nmin_size = 10\nerror_buffer = 40", RateLimiter(2.0, 10, 40.0)),
        (
            "samples_per_insert = 2.0\nmin_size = 10\nerror_buffer = [0, 40]",
            RateLimiter(2.0, 10, (0.0, 40.0)),
        ),
        ("min_size = 10", RateLimiter.min_size(10)),
        ("queue = 10", RateLimiter.queue(10)),
    ],
)
def test_rate_limiter_of_a_config_file(tmp_path: Path, table: str, limiter: RateLimiter) -> None:
    with start_server(
        written(tmp_path, f"n_caches = 1\n{TEMPLATES}\n[limiter]\n{table}")
    ) as server:
        assert server.limiter == limiter


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("", "limiter: expected samples_per_insert, min_size, error_buffer; or min_size; or queue"),
        ("queue = 1\nmin_size = 1", "limiter: expected .*got queue, min_size"),
        ("samples_per_insert = 2", "limiter: expected .*got samples_per_insert"),
        ("queue = 0", "limiter.queue: expected an integer >= 1, got 0"),
        ("queue = 'x'", "limiter.queue: expected an integer"),
        ("samples_per_insert = -1\nmin_size = 1\nerror_buffer = 9", "limiter.samples_per_insert: "),
    ],
)
def test_rate_limiter_of_a_config_file_that_is_not_valid(
    tmp_path: Path, table: str, expected: str
) -> None:
    path = written(tmp_path, f"n_caches = 1\n{TEMPLATES}\n[limiter]\n{table}")
    with pytest.raises(ValueError, match=expected):
        start_server(path)


def test_sequences_and_recurrent_states_of_a_config_file(tmp_path: Path) -> None:
    text = f"""
n_caches = 1
nstep = true
recurrent_period = 2
{TEMPLATES}
[recurrent]
dtype = "float16"
shape = [3]
[compress]
action = "delta+zstd:1"
[sequences]
length = 4
after = 2
border = "shift"
[settings]
multi_step = 2
cache_size = 2
"""
    with start_server(written(tmp_path, text)) as server, connected(server) as client:
        assert client.rem.recurrent_period == 2
        assert client.rem.compress == {"action": "delta+zstd:1"}
        assert client.rem.recurrent is not None
        assert client.rem.recurrent.tolist() == [0, 0, 0]
        assert client.rem.recurrent.dtype == np.float16
        ones = np.ones((10, 1), np.float32)
        steps, states = build.steps(10, r=ones, v=ones), np.ones((10, 3))
        client.rem.add_episode(**steps, **build.UNIFORM, recurrent=states)
        client.push_cache()
        batch = server.get_batch(2, wait=20.0)
        assert batch.nstep_return.shape == (2, 4 + 2 + 1, 1)
        assert batch.recurrent.shape == (2, 3)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("sequences = 4", "sequences: expected a table, got 4"),
        ("[sequences]\nburn_in = 4", "sequences: expected a length"),
        ("[sequences]\nlength = 4\nburnin = 4", "sequences: expected length, .*got 'burnin'"),
        ("[sequences]\nlength = 2.5", "length: expected an integer, got float"),
        ("[settings]\nmulti_step = 2\n[sequences]\nlength = 4\nafter = 1", "settings.multi_step: "),
        ("recurrent = [0, 0]", "recurrent: expected a table of dtype and shape"),
        ("[recurrent]\nshape = [2]", "recurrent.dtype: "),
        (
            "recurrent_period = 0\n[recurrent]\ndtype = 'f4'",
            "recurrent_period: expected an integer",
        ),
    ],
)
def test_sequences_of_a_config_file_that_are_not_valid_are_refused(
    tmp_path: Path, table: str, message: str
) -> None:
    path = written(tmp_path, f"n_caches = 1\nnstep = true\n{table}\n{TEMPLATES}")
    with pytest.raises(ValueError, match=re.escape(f"{path}: ") + message):
        start_server(path)
