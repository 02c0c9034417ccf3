"""The built-in games: their names here, their ids at Gymnasium, and their step limits.

Gymnasium has no plugins since 1.0: a package registers its ids when it is imported. `import cogrs`
must not import Gymnasium, so it registers them at once where Gymnasium is imported already, and
has a finder of modules do so later, right after Gymnasium's own import, where it is not.
"""

from __future__ import annotations

import importlib
import sys

# As a type checker knows it: `typing` takes long to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

BUILT_IN_GAMES = {
    "acrobot": ("Acrobot-v1", 500),
    "cartpole": ("CartPole-v1", 500),
    "catch": ("Catch-v0", 9),
    "connect_four": ("ConnectFour-v0", 42),
    "mountain_car": ("MountainCar-v0", 200),
    "mountain_car_continuous": ("MountainCarContinuous-v0", 999),
    "pendulum": ("Pendulum-v1", 200),
    "repeat_previous": ("RepeatPrevious-v0", 1000),
    "tmaze": ("TMaze-v0", 500),
}
"""By name: the id, without the namespace `cogrs`; and the actions after which an episode ends."""


def class_stem(name: str) -> str:
    """Return what the names of a game's classes begin with: "CartPole" of "cartpole"."""
    return BUILT_IN_GAMES[name][0].partition("-")[0]


def _register_games(gymnasium: ModuleType) -> None:
    """Register the ids `cogrs/CartPole-v1`, ...; not with another module of that name, or 0.x."""
    version = getattr(gymnasium, "__version__", None)
    if not hasattr(gymnasium, "make_vec") or type(version) is not str or version.startswith("0."):
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
    if module is None:
        if not any(isinstance(finder, _GymnasiumFinder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _GymnasiumFinder())
        return
    if getattr(getattr(module, "__spec__", None), "_initializing", False):
        # Another thread is importing it: this waits until it is done.
        module = importlib.import_module("gymnasium")
    _register_games(module)


class _GymnasiumFinder:
    """Finds Gymnasium by the finders after it, and registers the games after its import."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "gymnasium":
            return None
        # Not all others: a finder before it, such as one of a reloaded cogrs, may call this one.
        finders = list(sys.meta_path)
        after = finders[finders.index(self) + 1 :] if self in finders else []
        found = (each.find_spec(name, path, target) for each in after if hasattr(each, "find_spec"))
        spec = next((each for each in found if each is not None), None)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _RegisteringLoader(spec.loader)  # type: ignore[assignment]
        return spec


class _RegisteringLoader:
    """Loads Gymnasium by its own loader, and then registers the games.

    That loader is left as it is, since other modules may have the same one.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":
            raise AttributeError(name)
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _register_games(module)
