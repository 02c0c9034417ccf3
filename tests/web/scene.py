"""An orchestrator and a page with one place, in the event loop of the caller."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cogrs import orchestrator, sdk
from cogrs.web import Console, Page, PageServer, Place, game_of, serve_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

PLAYER = {"name": "ada", "actor_class": "person", "endpoint": "client"}


@dataclass
class Scene:
    """A page that listens, and its place."""

    page: Page
    place: Place
    pages: PageServer

    @property
    def socket(self) -> str:
        """The URL of its WebSocket."""
        return f"ws://127.0.0.1:{self.pages.port}/ws"


@asynccontextmanager
async def scene(
    make: Callable[[], Any],
    *,
    title: str = "Walk",
    place: Any = None,
    pictures: bool = True,
    **game: Any,
) -> AsyncIterator[Scene]:
    """Serve trials of an environment, one after the other, to the person in the place.

    `place` has options of `Place`, `game` those of `game_of`; without `pictures` none are sent.
    """
    factory = sdk.GymnasiumEnvironment.factory(make, frames_to=["ada"] if pictures else [])
    params = {"environment": {"endpoint": "local://game"}, "actors": [PLAYER]}
    local = {"game": sdk.local_environments({"": factory})}
    async with (
        await orchestrator.serve({"trial_params": params}, port=0, local=local) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        sdk.ClientActor(f"127.0.0.1:{server.port}") as client,
    ):

        async def join() -> sdk.ClientSession:
            return await client.join((await controller.start_trial()).id, name="ada")

        options = {"leave": controller.terminate_trial, **(place or {})}
        made = Place(game_of(make, title, **game), join, **options)
        page = Page(console=Console(controller, "here"))
        async with serve_page(page) as pages:
            yield Scene(page, made, pages)
