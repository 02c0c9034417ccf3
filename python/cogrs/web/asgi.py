"""The page in front of an orchestrator that runs elsewhere: `cogrs.web.app`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cogrs.sdk import ClientActor, TrialController
from cogrs.validation import check_text
from cogrs.web.console import Console
from cogrs.web.page import Page
from cogrs.web.place import Place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.applications import Starlette

    from cogrs.sdk import ClientSession
    from cogrs.store import Store
    from cogrs.tls import ClientTls
    from cogrs.web.game import Game


def app(
    orchestrator: str,
    game: Game,
    *,
    actor_class: str = "",
    actor_name: str = "",
    places: int = 1,
    hosts: Sequence[str] = (),
    judged: Sequence[str] = (),
    patience: float = 30.0,
    tls: ClientTls | None = None,
    token: str | None = None,
    replays: Mapping[str, Any] | None = None,
    store: Store | None = None,
) -> Starlette:
    """Return an ASGI app by which people take places in an orchestrator's trials.

    Its `state.page` is a `Page` and `state.places` are its places: `page.invite(place)` returns the
    token for a link, `page.invite(place, "spectator")` one for people who only watch, and
    `page.console.invite()` one for operators, whose page is at `/console`.

    Args:
        orchestrator: `host:port` of the orchestrator.
        game: What is played, and how.
        actor_class: The class of the actors that people play.
        actor_name: The name of the actor, in place of a class.
        places: How many people may play at a time.
        hosts: Names under which browsers may reach the app, besides those of the loopback.
        judged: Names of the actors that people judge; () for all of other classes, or for the
            person's own if there are no others.
        patience: Seconds for which a trial waits for a person whose connection is lost; at most
            the orchestrator's `reconnect_window`.
        tls: Certificates, where the orchestrator has one.
        token: Shown to the orchestrator, where it asks for one.
        replays: Replay servers or memories of this process by name, whose `stats()` the console
            shows.
        store: A store of trials, which operators can look at; the caller closes it.

    Raises:
        TypeError, ValueError: An argument has the wrong type or value; a name and a class, or
            neither.
    """
    for what, text in (("actor_class", actor_class), ("actor_name", actor_name)):
        check_text(what, text)
    if bool(actor_class) == bool(actor_name):
        raise ValueError(
            f"actor_class, actor_name: expected one of them, got {actor_class!r} and {actor_name!r}"
        )
    controller = TrialController(orchestrator, tls=tls, token=token)
    page = Page(hosts, console=Console(controller, orchestrator, replays, store=store))
    page.add_closer(controller.close)

    def place() -> Place:
        client = ClientActor(orchestrator, reconnect=patience, tls=tls, token=token)
        page.add_closer(client.close)

        async def join() -> ClientSession:
            return await client.join(name=actor_name, actor_class=actor_class, spaces=game.learns)

        return Place(game, join, judged=judged, patience=patience)

    made: Any = page.app
    made.state.places = [place() for _ in range(places)]
    return page.app
