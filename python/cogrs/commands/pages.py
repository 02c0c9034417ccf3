"""What `cogrs play` and `cogrs web` have in common: options, links, and waiting for a signal."""

from __future__ import annotations

import argparse
import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cogrs.commands.parser import DONE, LOOK, Parser, number, port

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cogrs.stop_signal import StopSignal
    from cogrs.store import Store
    from cogrs.store.location import Location
    from cogrs.tls import ServerTls
    from cogrs.web import PageServer

CODES = "Exit codes: 0 done, 2 it could not start, 130 Ctrl-C, 143 SIGTERM."

_NEEDED = ("starlette", "uvicorn", "websockets", "PIL")


def add_page_options(parser: Parser) -> None:
    """Add the options of the page: how it plays, and where it listens."""
    add = parser.add_argument
    add(
        "--mode",
        choices=("hold", "press", "queue"),
        default="hold",
        help="action of a tick: hold: of the keys that are down when it closes, press: it waits "
        "for a press, queue: as press, and early presses wait (default: hold)",
    )
    add("--fps", type=_rate, default=30.0, help="ticks per second at most (default: 30)")
    add(
        "--credit",
        type=number,
        nargs=2,
        metavar=("FROM", "TO"),
        help="feedback is for the steps shown between these two times before it, in seconds, such "
        "as 0.8 0.2 (default: for the picture on the screen)",
    )
    add("--consent", type=Path, metavar="FILE", help="text that people have to consent to first")
    add("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1)")
    add("--port", type=port, default=0, help="port; 0 takes a free one (default: 0)")
    add("--tls-certificate", type=Path, metavar="FILE", help="certificate of the page, PEM")
    add("--tls-key", type=Path, metavar="FILE", help="private key of that certificate")
    add("--insecure", action="store_true", help="let other machines in without TLS")
    add(
        "--public-host",
        metavar="NAME",
        help="name under which other machines reach the page, for links (default: --host)",
    )
    add(
        "--public-url",
        type=_public_url,
        metavar="URL",
        help="address at which a proxy serves the page, such as https://pages.example/play/, for "
        "links",
    )
    add("--json", action="store_true", help="print one line of JSON once the page answers")


def add_store_options(parser: Parser, text: str) -> None:
    """Add the options of a store of trials; `text` says what becomes of it."""
    add = parser.add_argument
    add(
        "--store",
        metavar="DIR",
        help=f"{text}: a folder, or an index at postgresql://... (default: no store)",
    )
    add(
        "--store-files",
        metavar="DIR",
        help="folder of the trials' files if the index is in PostgreSQL",
    )


def store_of(given: argparse.Namespace) -> Location | None:
    """Return where trials are kept, or None; a ValueError if the options do not fit."""
    from cogrs.store.location import locate

    if given.store is None and given.store_files is None:
        return None
    return locate(given.store or "", given.store_files, "--store")


@contextmanager
def opened(where: Location | None, *, create: bool) -> Iterator[Store | None]:
    """Open a store of trials, if there is one, and close it afterwards."""
    if where is None:
        yield None
        return
    from cogrs.store import open_store

    files = where.folder if where.postgres else None
    with open_store(where.postgres or where.folder, files=files, create=create) as store:
        yield store


def _rate(text: str) -> float:
    value = number(text)
    if not 0 < value <= 240:
        raise argparse.ArgumentTypeError(f"expected a number above 0, at most 240, got {text!r}")
    return value


def find_missing() -> str | None:
    """Return what to install for the page, or None."""
    from importlib.util import find_spec

    for name in _NEEDED:
        if find_spec(name) is None:
            return f"{name} is not installed: pip install 'cogrs[web]'"
    return None


def server_tls(given: argparse.Namespace) -> ServerTls | None:
    """Return the certificates of the page, or None; a ValueError if one of two is missing."""
    from cogrs.tls import ServerTls

    files = (given.tls_certificate, given.tls_key)
    if not any(files):
        return None
    if not all(files):
        raise ValueError("--tls-certificate, --tls-key: expected both or neither, got one of them")
    return ServerTls(certificate=files[0], key=files[1])


def game_options(given: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a `Game` that are options."""
    from cogrs.commands.parser import read_text

    return {
        "mode": given.mode,
        "fps": given.fps,
        "credit": None if given.credit is None else tuple(given.credit),
        "consent": "" if given.consent is None else read_text(given.consent),
    }


def _public_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise argparse.ArgumentTypeError(f"expected https://HOST/PATH/, got {text!r}")
    return text if text.endswith("/") else f"{text}/"


def hosts_of(given: argparse.Namespace) -> list[str]:
    """Return the names under which browsers may reach the page."""
    behind = urlsplit(given.public_url or "").hostname
    return [name for name in (given.public_host, given.host, behind) if name]


def link(given: argparse.Namespace, listener: PageServer, token: str, path: str = "") -> str:
    """Return the link with a token, under the name by which browsers reach the page."""
    if given.public_url:
        return f"{given.public_url}{path}#{token}"
    return listener.url(token, given.public_host or "", path)


def tell(given: argparse.Namespace, links: dict[str, Any], lines: Iterable[str]) -> None:
    """Print where the page is: as JSON, or in lines."""
    if given.json:
        print(json.dumps(links), flush=True)
    else:
        print("\n".join(lines), flush=True)


async def open_browser(url: str) -> None:
    """Open a link, if there is a browser."""
    import asyncio
    import webbrowser

    await asyncio.to_thread(webbrowser.open, url)


async def until_signal(stop: StopSignal) -> int:
    """Wait for a signal; return the exit code."""
    import asyncio

    while not stop.is_set():  # noqa: ASYNC110  (a signal handler sets it)
        await asyncio.sleep(LOOK)
    return stop.code or DONE
