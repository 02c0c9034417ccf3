"""The built-in games as ids of Gymnasium: `gymnasium.make_vec("cogrs/CartPole-v1")`."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env  # noqa: E402

import cogrs  # noqa: E402
from cogrs.collector import BUILT_IN  # noqa: E402
from cogrs.game_ids import BUILT_IN_GAMES  # noqa: E402
from tests.collector.build import LIMIT  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

by_game = pytest.mark.parametrize("game", BUILT_IN)


def run(script: str) -> str:
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, timeout=6 * LIMIT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def id_of(game: str) -> str:
    return f"cogrs/{BUILT_IN_GAMES[game][0]}"


@pytest.mark.parametrize(
    ("imports", "game_id"),
    [
        ("import cogrs, gymnasium", "cogrs/CartPole-v1"),
        ("import gymnasium, cogrs", "cogrs/CartPole-v1"),
        ("import gymnasium", "cogrs:cogrs/CartPole-v1"),
        ("import cogrs, gymnasium", "cogrs:cogrs/CartPole-v1"),
        ("import gymnasium.vector, cogrs.collector", "cogrs/CartPole-v1"),
    ],
)
def test_make_vec_gives_a_vector_env_in_any_order_of_imports(imports: str, game_id: str) -> None:
    script = f"""{imports}
envs = gymnasium.make_vec({game_id!r}, num_envs=64)
print(type(envs).__module__, type(envs).__name__, envs.num_envs, envs.spec.id)
envs.close()
"""
    assert run(script).split() == ["cogrs.collector.vector", "VectorEnv", "64", "cogrs/CartPole-v1"]


def test_import_of_cogrs_leaves_gymnasium_alone() -> None:
    assert run("import sys, cogrs; print('gymnasium' in sys.modules)").strip() == "False"


def test_import_of_an_absent_gymnasium_stays_an_import_error() -> None:
    script = """import sys, cogrs
sys.path[:] = [each for each in sys.path if "site-packages" not in each]
try:
    import gymnasium
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert run(script).strip() == "gymnasium"


def test_import_of_another_module_called_gymnasium_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "gymnasium.py").write_text("mine = 3")
    script = f"""import sys, cogrs
sys.path.insert(0, {str(tmp_path)!r})
import gymnasium
print(gymnasium.mine)
"""
    assert run(script).strip() == "3"


def test_import_of_gymnasium_after_a_reload_of_cogrs_registers_the_ids() -> None:
    script = """import importlib, cogrs, cogrs.game_ids
importlib.reload(cogrs.game_ids)
importlib.reload(cogrs)
import gymnasium
print("cogrs/CartPole-v1" in gymnasium.registry)
"""
    assert run(script).strip() == "True"


def test_reload_of_gymnasium_registers_the_ids_again_by_its_own_loader() -> None:
    script = """import importlib, sys, cogrs, gymnasium
for name in [name for name in sys.modules if name.partition(".")[0] == "gymnasium"]:
    del sys.modules[name]
import gymnasium
importlib.reload(gymnasium)
print("cogrs/CartPole-v1" in gymnasium.registry, type(gymnasium.__spec__.loader).__name__)
"""
    assert run(script).split() == ["True", "SourceFileLoader"]


def test_loader_that_gymnasium_shares_with_other_modules_stays(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("gymnasium.py", "mine = 3")
        archive.writestr("other.py", "mine = 4")
    script = f"""import sys, cogrs
sys.path.insert(0, {str(tmp_path / "all.zip")!r})
import gymnasium, other
print(gymnasium.mine, other.mine, "exec_module" in vars(other.__loader__))
"""
    assert run(script).split() == ["3", "4", "False"]


def test_import_of_cogrs_while_a_thread_imports_gymnasium_registers_the_ids() -> None:
    # The module is in sys.modules, and has not run yet, when cogrs is imported.
    script = """import importlib, sys, threading
begun, go_on = threading.Event(), threading.Event()
importing = threading.Thread(target=importlib.import_module, args=["gymnasium"])
class Gate:
    def find_spec(self, name, path=None, target=None):
        if name == "gymnasium.core":
            begun.set()
            go_on.wait(60)
sys.meta_path.insert(0, Gate())
importing.start()
begun.wait(60)
threading.Timer(0.05, go_on.set).start()
import cogrs
importing.join()
import gymnasium
print("cogrs/CartPole-v1" in gymnasium.registry)
"""
    assert run(script).strip() == "True"


def test_import_of_cogrs_takes_a_mock_in_the_place_of_gymnasium() -> None:
    script = """import sys, unittest.mock
sys.modules["gymnasium"] = unittest.mock.MagicMock()
import cogrs
print(cogrs.ContextOptions().num_games)
"""
    assert run(script).strip()


@by_game
def test_limit_at_gymnasium_is_that_of_the_game(game: str) -> None:
    envs = gymnasium.make_vec(id_of(game), num_envs=2)
    context = cogrs.GameContext(game)
    assert envs.spec.max_episode_steps == context.options.max_episode_steps
    envs.close()


@by_game
def test_make_gives_one_environment_that_passes_gymnasium_s_check(game: str) -> None:
    env = gymnasium.make(id_of(game))
    with warnings.catch_warnings():
        # It recommends other bounds than those of Gymnasium's own games.
        warnings.filterwarnings("ignore", message=".*(infinity|symmetric and normalized).*")
        check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_single_environment_plays_as_the_first_of_a_vector() -> None:
    env = gymnasium.make("cogrs/CartPole-v1")
    envs = cogrs.VectorEnv("cartpole", 1)
    shown, vector_shown = env.reset(seed=5)[0], envs.reset(seed=5)[0]
    for step in range(60):
        np.testing.assert_array_equal(shown, vector_shown[0])
        shown, reward, terminated, truncated, infos = env.step(step % 2)
        vector_shown, *columns, _ = envs.step(np.array([step % 2]))
        assert [reward, terminated, truncated] == [column[0] for column in columns]
        assert infos == {}
        if terminated:
            break
    assert terminated
    env.close()
    envs.close()


@pytest.mark.parametrize("limit", [3, 600])
def test_max_episode_steps_of_make_is_the_only_limit(limit: int) -> None:
    env = gymnasium.make("cogrs/MountainCar-v0", max_episode_steps=limit)
    env.reset(seed=1)
    ends = [env.step(1)[2:4] for _ in range(limit)]
    assert ends == [(False, False)] * (limit - 1) + [(False, True)]
    env.close()


def test_make_vec_takes_the_options_of_vector_env() -> None:
    envs = gymnasium.make_vec("cogrs/Pendulum-v1", 3, max_episode_steps=2, seed=4, num_threads=1)
    twin = cogrs.VectorEnv("pendulum", 3, seed=4)
    np.testing.assert_array_equal(envs.reset()[0], twin.reset()[0])
    actions: Any = np.zeros((3, 1), np.float32)
    assert [envs.step(actions)[3].tolist() for _ in range(2)] == [[False] * 3, [True] * 3]
    with pytest.raises(TypeError, match="render_mode"):
        gymnasium.make_vec("cogrs/Pendulum-v1", 3, render_mode="human")
    envs.close()
    twin.close()


def test_copy_of_a_vector_of_a_built_in_game_is_refused_by_name() -> None:
    envs = gymnasium.make_vec("cogrs/CartPole-v1", 2)
    for copied in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a VectorEnv of a built-in game cannot be copied"):
            copied(envs)
    envs.close()
