"""Mistakes of newcomers end at once, in one line that says what to do."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import cogrs
from cogrs import sdk

ROOT = Path(__file__).parent.parent
SCALAR, EMPTY = np.float32(0), np.zeros(0, np.float32)
TEMPLATES = (np.zeros(4, np.float32), np.int64(0), SCALAR, SCALAR, SCALAR, SCALAR, EMPTY)


def line_of(caught: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(caught.value)
    assert text
    assert "\n" not in text
    return text


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that a command printed before it ended."""
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.strip().splitlines()
    return line


def cli(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    program = f"import sys\n{before}\nfrom cogrs.cli import main\nsys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.fixture
def taken():
    """Return a port at which a server listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def unused():
    """Return a port at which no server listens, and which no other socket gets meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


# -- no Rust ---------------------------------------------------------------------------------------


def without_cargo() -> dict[str, str]:
    path = os.environ["PATH"].split(os.pathsep)
    kept = [each for each in path if shutil.which("cargo", path=each) is None]
    return {**os.environ, "PATH": os.pathsep.join(kept)}


@pytest.mark.skipif(find_spec("maturin") is None, reason="maturin is not installed")
def test_pip_names_missing_rust(tmp_path):
    pip = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index"]
    done = subprocess.run(
        [*pip, str(ROOT), "-w", str(tmp_path)],
        env=without_cargo(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
    )
    assert done.returncode != 0
    (line,) = [each for each in done.stdout.splitlines() if "cargo" in each]
    assert "which needs Rust" in line
    assert "https://rustup.rs" in line


# -- an old Python ---------------------------------------------------------------------------------


def test_metadata_requires_python_3_11():
    assert metadata.metadata("cogrs")["Requires-Python"] == ">=3.11"


def test_make_names_a_python_that_is_too_old(tmp_path):
    old = tmp_path / "python"
    pretend = "import sys; sys.version_info = (3, 10, 2); exec(sys.argv[1])"
    old.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c '{pretend}' \"$2\"\n")
    old.chmod(0o755)
    environment = tmp_path / "environment"
    make = ["make", "--no-print-directory", f"PYTHON={old}", f"VENV={environment}"]
    done = subprocess.run(
        [*make, f"{environment}/pip.stamp"], cwd=ROOT, capture_output=True, text=True, timeout=100
    )
    assert done.returncode != 0
    assert done.stderr.splitlines()[0] == (
        "cogrs needs Python >= 3.11 and this is 3.10: make PYTHON=/path/to/another"
    )
    assert not environment.exists()


# -- a port that is taken --------------------------------------------------------------------------


def test_orchestrator_at_a_taken_port_raises_with_the_address(taken):
    with pytest.raises(OSError, match="the port is taken: give another one, or 0") as caught:
        cogrs.serve_orchestrator({}, port=taken)
    assert f"127.0.0.1:{taken}" in line_of(caught)


def test_orchestrator_command_at_a_taken_port_prints_the_address(taken, tmp_path):
    config = tmp_path / "cogment.yaml"
    config.write_text("{}")
    done = cli("orchestrator", "--config", str(config), "--port", str(taken))
    assert done.returncode == 2
    assert f"127.0.0.1:{taken}" in last_line(done)


def test_agents_served_at_a_taken_port_raise_with_the_address(taken):
    with pytest.raises(OSError, match="the port is taken: give another one, or 0") as caught:
        sdk.serve_endpoint(agents={"": sdk.FunctionAgent(int)}, port=taken)
    assert f"127.0.0.1:{taken}" in line_of(caught)


def test_replay_server_at_a_taken_port_raises_with_the_endpoint(taken):
    endpoint = f"tcp://127.0.0.1:{taken}"
    with pytest.raises(OSError, match="somebody listens there already") as caught:
        cogrs.ReplayMemoryServer(*TEMPLATES, 0, endpoint, n_caches=1)
    assert f"pub_endpoint: cannot use {endpoint}" in line_of(caught)


# -- an extra that is missing ----------------------------------------------------------------------

MISSING = {
    "torch": ("import cogrs.torch", "pip install torch"),
    "jax": ("import cogrs.jax", "pip install jax"),
    "prometheus_client": ("import cogrs.replay.metrics", "pip install 'cogrs[metrics]'"),
    "pyarrow": (
        "import cogrs.sdk; cogrs.sdk.ParquetSink('no-such-folder')",
        "pip install 'cogrs[parquet]'",
    ),
    "gymnasium": (
        "import cogrs; cogrs.GameContext('gymnasium', cogrs.ContextOptions(num_games=1), 'x')",
        "pip install gymnasium",
    ),
    "gymnasium ": (
        "from cogrs import sdk; sdk.GymnasiumEnvironment.factory('CartPole-v1')",
        "pip install gymnasium",
    ),
}


def hide(name: str) -> str:
    # An import that finds None in `sys.modules` fails as if the module were not installed.
    return f"import sys; sys.modules[{name!r}] = None"


@pytest.mark.parametrize("name", MISSING)
def test_missing_package_is_named_with_the_install_command(name):
    program, advice = MISSING[name]
    done = subprocess.run(
        [sys.executable, "-c", f"{hide(name.strip())}\n{program}"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 1
    error = done.stderr.strip().splitlines()[-1]
    assert error.startswith(("ImportError: ", "ModuleNotFoundError: "))
    assert advice in error


@pytest.mark.parametrize("name", ["jax", "gymnasium", "optax"])
def test_demo_without_a_package_names_the_extra_to_install(name):
    done = cli("demo", before=hide(name))
    assert done.returncode == 2
    line = last_line(done)
    assert name in line
    assert "pip install 'cogrs[demo]'" in line


# -- wrong shapes ----------------------------------------------------------------------------------


def test_entry_with_a_wrong_shape_is_refused_by_its_field():
    memory = cogrs.ReplayMemory(*TEMPLATES, max_step=10)
    memory.new_episode()
    with pytest.raises(ValueError, match="state: expected") as caught:
        memory.add_entry(np.zeros((1, 4), np.float32), 0, 0.0, 1.0, 0.0, EMPTY, 1.0)
    assert line_of(caught) == "state: expected float32 (4,), got float32 (1, 4)"
    assert memory.num_entry == 0


def test_reward_template_of_two_dimensions_is_refused_by_name():
    with pytest.raises((TypeError, ValueError), match="reward_buf: expected") as caught:
        cogrs.ReplayMemory(*TEMPLATES[:2], np.zeros((2, 2), np.float32), *TEMPLATES[3:], 10)
    line_of(caught)


def test_reply_with_a_wrong_shape_is_refused():
    co = cogrs.ContextOptions(num_games=2)
    description = {"actor": ({"s": "", "_batchsize": 2}, {"a": ""})}
    with cogrs.GCWrapper(cogrs.GameContext("cartpole", co), co, description) as games:

        def act(batch, batch_gpu, reply):
            reply[0]["a"][:] = np.zeros((2, 3))

        games.reg_callback("actor", act)
        games.Start()
        with pytest.raises(ValueError, match=r"\(2,3\).*\(2,\)") as caught:
            games.Run(30)
        line_of(caught)


# -- a server that was not started -----------------------------------------------------------------


def test_replay_client_without_a_server_times_out_with_the_endpoint(unused):
    endpoint = f"tcp://127.0.0.1:{unused}"
    with (
        cogrs.ReplayMemoryClient(endpoint, endpoint, endpoint, timeout=0.2) as client,
        pytest.raises(TimeoutError, match="sync_sizes: no answer from") as caught,
    ):
        client.sync_sizes(100)
    assert f"{endpoint} after 0.2 s" in line_of(caught)


def test_sampler_without_a_server_times_out_with_the_endpoint(unused):
    endpoint = f"tcp://127.0.0.1:{unused}"
    with (
        cogrs.ReplaySampler([endpoint]) as sampler,
        pytest.raises(TimeoutError, match="no answer from") as caught,
    ):
        sampler.get_batch(1, wait=0.2)
    assert endpoint in line_of(caught)


def test_run_trial_without_an_orchestrator_raises_with_the_address(unused):
    with pytest.raises(ConnectionError, match="no orchestrator answers at") as caught:
        sdk.run_trial(f"127.0.0.1:{unused}", timeout=30)
    assert f"127.0.0.1:{unused}: is it started" in line_of(caught)


def test_play_without_an_orchestrator_raises_one_line(unused):
    with pytest.raises(ConnectionError, match="no orchestrator answers at") as caught:
        sdk.play(f"127.0.0.1:{unused}", int, actor_class="person", timeout=30)
    line_of(caught)


def test_trial_command_without_an_orchestrator_prints_the_address(unused):
    done = cli("trial", "start", "--endpoint", f"127.0.0.1:{unused}")
    assert done.returncode == 1
    assert f"127.0.0.1:{unused}" in last_line(done)


class Plain:
    """An environment with only the methods that the documentation requires."""

    observation_space = gymnasium.spaces.Box(0, 9, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(1, self.steps, np.float32), 1.0, self.steps == 3, False, {}


@pytest.mark.filterwarnings("error")
def test_environment_without_close_ends_without_a_warning(caplog):
    co = cogrs.ContextOptions(num_games=2, seed=0)
    description = {"actor": ({"s": "", "_batchsize": 2}, {"a": ""})}
    with cogrs.GCWrapper(cogrs.GameContext("gymnasium", co, Plain), co, description) as games:
        games.reg_callback("actor", lambda batch, batch_gpu, reply: reply[0].update(a=1))
        games.Start()
        for _ in range(8):
            games.Run()
    vector = cogrs.collector.VectorEnv(Plain, num_envs=2)
    vector.reset(seed=0)
    vector.close()
    never = cogrs.GameContext("gymnasium", co, Plain)
    never.Stop()
    assert caplog.records == []


def test_environment_with_the_required_methods_alone_plays_a_trial(caplog):
    local = {
        "env": sdk.local_environments({"": sdk.GymnasiumEnvironment.factory(Plain, seed=0)}),
        "bot": sdk.local_agents({"": sdk.FunctionAgent(lambda seen: 0)}),
    }
    actor = {"name": "a", "endpoint": "local://bot"}
    params = {"environment": {"endpoint": "local://env"}, "actors": [actor]}
    with cogrs.serve_orchestrator({"trial_params": params}, port=0, local=local) as server:
        trial = sdk.run_trial(f"127.0.0.1:{server.port}", timeout=60)
    assert trial.end_reason == "environment: final update"
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_endpoint_that_is_an_integer_is_refused_by_name():
    with pytest.raises(TypeError, match=r"endpoint: expected .* got int"):
        sdk.run_trial(9000, timeout=1)


def test_reason_of_a_failed_trial_is_logged_by_default(caplog):
    agents = {"bot": sdk.FunctionAgent(lambda seen: 0)}
    environments = {"": sdk.GymnasiumEnvironment.factory(Plain, seed=0)}
    with sdk.serve_endpoint(environments=environments, agents=agents) as endpoint:
        actor = {"name": "a", "endpoint": endpoint.address, "implementation": "nope"}
        params = {"environment": {"endpoint": endpoint.address}, "actors": [actor]}
        with (
            cogrs.serve_orchestrator({"trial_params": params}, port=0) as server,
            pytest.raises(sdk.TrialFailedError, match="implementation"),
        ):
            sdk.run_trial(f"127.0.0.1:{server.port}", timeout=60)
    (said,) = [record for record in caplog.records if " ends: " in record.getMessage()]
    assert said.levelname == "WARNING"
    assert "implementation" in said.getMessage()
