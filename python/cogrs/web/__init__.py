"""A page by which people play and judge trials in a browser; needs `cogrs[web]`.

`app` returns an ASGI app in front of an orchestrator; `cogrs play` and `cogrs web` serve it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cogrs.web.asgi import app as app
    from cogrs.web.console import Console as Console
    from cogrs.web.controls import Controls as Controls
    from cogrs.web.game import Game as Game
    from cogrs.web.game import game_of as game_of
    from cogrs.web.page import Page as Page
    from cogrs.web.picture import compress_frame as compress_frame
    from cogrs.web.place import Place as Place
    from cogrs.web.server import PageServer as PageServer
    from cogrs.web.server import serve_page as serve_page

_MODULES = {
    "asgi": "app",
    "console": "Console",
    "controls": "Controls",
    "game": "Game game_of",
    "page": "Page",
    "picture": "compress_frame",
    "place": "Place",
    "server": "PageServer serve_page",
}
"""The names that each module has for users; a module is imported when one of them is used."""

_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'cogrs.web' has no attribute {name!r}")
    try:
        module = importlib.import_module(f"cogrs.web.{home}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("cogrs"):
            raise
        needs = f"cogrs.web needs {error.name}, which is not installed"
        raise ImportError(f"{needs}: pip install 'cogrs[web]'", name=error.name) from error
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
