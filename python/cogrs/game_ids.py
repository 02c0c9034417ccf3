"""The built-in games: their names here, their ids at Gymnasium, and their step limits.

Gymnasium has no plugins since 1.0: a package registers its ids when it is imported. `import cogrs`
must not import Gymnasium, so it registers them at once where Gymnasium is imported already, and
has a finder of modules do so later, right after Gymnasium's own import, where it is not.
"""

from __future__ import annotations

import sys

# As a type checker knows it: `typing` takes long to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

BUILT_IN_GAMES = {
    "acrobot": ("Acrobot-v1", 500),
    "cartpole": ("CartPole-v1", 500),
    "catch": ("Catch-v0", 9),
    "connect_four": ("ConnectFour-v0", 42),
    "mountain_car": ("MountainCar-v0", 200),
    "mountain_car_continuous": ("MountainCarContinuous-v0", 999),
    "pendulum": ("Pendulum-v1", 200),
}
"""By name: the id, without the namespace `cogrs`; and the actions after which an episode ends."""


def class_stem(name: str) -> str:
    """Return what the names of a game's classes begin with: "CartPole" of "cartpole"."""
    return BUILT_IN_GAMES[name][0].partition("-")[0]


def _register_games(gymnasium: ModuleType) -> None:
    """Register the ids `cogrs/CartPole-v1`, ...; not with another module of that name, or 0.x."""
    if not hasattr(gymnasium, "make_vec") or gymnasium.__version__.startswith("0."):
        return
    from gymnasium.envs.registration import register, registry

    for name, (game_id, limit) in BUILT_IN_GAMES.items():
        if f"cogrs/{game_id}" not in registry:
            register(
                f"cogrs/{game_id}",
                entry_point="cogrs.collector.single:SingleEnv",
                vector_entry_point="cogrs.collector.vector:VectorEnv",
                max_episode_steps=limit,
                kwargs={"env": name},
            )


def register_games_with_gymnasium() -> None:
    """Register the ids now if Gymnasium is imported, else as soon as it is."""
    module = sys.modules.get("gymnasium")
    if module is not None:
        _register_games(module)
    elif not any(isinstance(finder, _GymnasiumFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _GymnasiumFinder())


class _GymnasiumFinder:
    """Finds Gymnasium by the other finders, and registers the games after its import."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "gymnasium":
            return None
        others = [each for each in sys.meta_path if each is not self]
        found = (each.find_spec(name, path, target) for each in others)
        spec = next((each for each in found if each is not None), None)
        loader = None if spec is None else spec.loader
        if loader is not None:
            execute = loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                _register_games(module)

            loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec
