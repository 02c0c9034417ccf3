"""`cogrs web`: a page in front of an orchestrator that runs elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cogrs.commands import pages
from cogrs.commands.parser import Parser, fail, integer

if TYPE_CHECKING:
    import argparse

    from cogrs.stop_signal import StopSignal
    from cogrs.store import Store
    from cogrs.tls import ClientTls
    from cogrs.web import Game


_ANSWERS_WITHIN = 10.0
"""Seconds for an orchestrator to answer."""


def add_web(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command."""
    web = commands.add_parser(
        "web",
        help="serve a page for the clients of an orchestrator",
        description="Serve a page on which people take part in the trials of an orchestrator that "
        "runs elsewhere, as clients of a class or of a name. Prints a link per person.",
        epilog=pages.CODES,
    )
    add = web.add_argument
    add("--orchestrator", required=True, metavar="HOST:PORT", help="where the orchestrator is")
    actor = web.add_mutually_exclusive_group(required=True)
    actor.add_argument("--actor-class", default="", metavar="CLASS", help="class of the actors")
    actor.add_argument("--actor-name", default="", metavar="NAME", help="name of the actor")
    add(
        "--env",
        metavar="ENV",
        help="what is played, for actions and keys: an id of Gymnasium's, or module:function "
        "(default: what the environments of the trials tell, as those of cogrs.sdk do)",
    )
    add("--judge", action="store_true", help="people only judge: their actors are observers")
    add("--people", type=_people, default=1, help="number of links (default: 1)")
    add("--token", type=Path, metavar="FILE", help="file with the token for the orchestrator")
    add("--tls", action="store_true", help="connect to the orchestrator with TLS")
    add("--ca", type=Path, metavar="FILE", help="connect with TLS, and trust these certificates")
    add("--server-name", metavar="NAME", help="host name in the orchestrator's certificate")
    add(
        "--replay",
        action="append",
        default=[],
        metavar="NAME=URL",
        help="replay server that the console shows, by its Prometheus metrics, such as "
        "learner=http://127.0.0.1:9100/metrics; can be repeated",
    )
    pages.add_store_options(web, "trials of this store are shown to operators")
    pages.add_page_options(web)
    web.set_defaults(run=_run)


def _people(text: str) -> int:
    return integer(text, 1, 1000)


def _run(given: argparse.Namespace, stop: StopSignal) -> int:
    import asyncio

    if (missing := pages.find_missing()) is not None:
        return fail("web", missing)
    try:
        with pages.opened(pages.store_of(given), create=False) as store:
            return asyncio.run(_serve(given, _game(given), stop, store))
    except (ImportError, OSError, TypeError, ValueError) as error:
        return fail("web", str(error))


def _game(given: argparse.Namespace) -> Game:
    from cogrs.web import Game, game_of
    from cogrs.web.environments import environment_maker

    options = pages.game_options(given)
    title = (given.env or given.orchestrator).rpartition("/")[2]
    if given.judge:
        return Game(title=title, controls=None, **options)
    if given.env is None:
        return Game(title=title, controls=None, learns=True, **options)
    return game_of(environment_maker(given.env), title, **options)


def _replays(given: list[str]) -> dict[str, Any]:
    from cogrs.web.replay_metrics import ReplayMetrics

    replays = {}
    for each in given:
        name, equals, url = each.partition("=")
        if not (name and equals) or name in replays:
            raise ValueError(f"--replay: expected NAME=URL, each name once, got {each!r}")
        try:
            replays[name] = ReplayMetrics(url)
        except ValueError as error:
            raise ValueError(f"--replay: {name}: {error}") from error
    return replays


def _client_tls(given: argparse.Namespace) -> ClientTls | None:
    from cogrs.tls import ClientTls

    if not (given.tls or given.ca or given.server_name):
        return None
    return ClientTls(ca=given.ca, server_name=given.server_name)


async def _check_answer(given: argparse.Namespace) -> None:
    """Refuse an orchestrator that does not answer, if its trials are to tell what is played."""
    import asyncio

    from cogrs.sdk import TrialController, UnreachableError
    from cogrs.tokens import read_token

    token = None if given.token is None else read_token("--token", given.token)
    async with TrialController(given.orchestrator, tls=_client_tls(given), token=token) as asks:
        try:
            async with asyncio.timeout(_ANSWERS_WITHIN):
                await asks.versions()
        except (TimeoutError, UnreachableError) as error:
            raise ValueError(
                "--env: expected what is played, for its actions and keys, or --judge for people "
                f"who only judge; got neither, and no orchestrator at {given.orchestrator} whose "
                "trials tell it"
            ) from error


async def _serve(
    given: argparse.Namespace, game: Game, stop: StopSignal, store: Store | None
) -> int:
    import asyncio

    from cogrs.event_loop import handle_exception
    from cogrs.tokens import read_token
    from cogrs.web import app, serve_page

    asyncio.get_running_loop().set_exception_handler(handle_exception)
    if game.learns:
        await _check_answer(given)
    made = app(
        given.orchestrator,
        game,
        actor_class=given.actor_class,
        actor_name=given.actor_name,
        places=given.people,
        hosts=pages.hosts_of(given),
        tls=_client_tls(given),
        token=None if given.token is None else read_token("--token", given.token),
        replays=_replays(given.replay),
        store=store,
    )
    page, places = made.state.page, made.state.places
    role = "judge" if given.judge else "player"
    listener = serve_page(
        page,
        host=given.host,
        port=given.port,
        tls=pages.server_tls(given),
        insecure=given.insecure,
    )
    async with listener:
        urls = [pages.link(given, listener, page.invite(place, role)) for place in places]
        spectator = pages.link(given, listener, page.invite(places[0], "spectator"))
        console = pages.link(given, listener, page.console.invite(), "console")
        links = {
            "url": urls[0],
            "urls": urls,
            "spectator": spectator,
            "console": console,
            "port": listener.port,
            "orchestrator": given.orchestrator,
        }
        lines = [*(f"play     {url}" for url in urls), f"watch    {spectator}"]
        lines.append(f"console  {console}")
        pages.tell(given, links, lines)
        return await pages.until_signal(stop)
