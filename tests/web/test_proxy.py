"""The page behind a proxy that ends TLS: nginx, with the configuration of docs/web.md."""

from __future__ import annotations

import json
import re
import shutil
import signal
import ssl
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from websockets.sync.client import connect

from tests.commands.command import script
from tests.ports import unused_ports
from tests.program import program
from tests.web.browser import browser, needs_browser
from tests.web.stored import Player

if TYPE_CHECKING:
    from collections.abc import Iterator

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
DOCS = Path(__file__).parents[2] / "docs" / "web.md"
SLACK = 60.0

pytestmark = pytest.mark.skipif(NGINX is None, reason="no nginx: apt-get install nginx-light")


def configuration(folder: Path, port: int, behind: int) -> str:
    """The configuration of the page of the documentation, with ports and files of this test."""
    (block,) = re.findall(r"```nginx\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    for old, new in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("server_name pages.example", "server_name localhost"),
        ("/etc/ssl/pages.pem", str(folder / "pages.pem")),
        ("/etc/ssl/pages.key", str(folder / "pages.key")),
        ("127.0.0.1:8000", f"127.0.0.1:{behind}"),
    ):
        assert block.count(old) == 1
        block = block.replace(old, new)
    folders = "".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        f"daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; events {{}}\n"
        f"http {{ access_log off; {folders}\n{block}}}\n"
    )


@contextmanager
def proxied(folder: Path) -> Iterator[tuple[dict[str, Any], ssl.SSLContext]]:
    """Run `cogrs play` behind nginx; yield its links, and what trusts the certificate."""
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    pair = authority.issue_cert("localhost")
    pair.cert_chain_pems[0].write_to_path(folder / "pages.pem")
    pair.private_key_pem.write_to_path(folder / "pages.key")
    trusts = ssl.create_default_context()
    authority.configure_trust(trusts)
    port, behind = unused_ports(2)
    (folder / "nginx.conf").write_text(configuration(folder, port, behind))
    public = f"https://localhost:{port}/play"
    arguments = ("CartPole-v1", "--mode", "press", "--port", str(behind), "--public-url", public)
    assert NGINX is not None
    server = subprocess.Popen([NGINX, "-p", folder, "-c", folder / "nginx.conf"])
    try:
        with program(script("play", *arguments, "--no-browser", "--json")) as process:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            until_served(public, trusts)
            yield json.loads(line), trusts
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
    finally:
        server.terminate()
        server.wait(SLACK)


def until_served(url: str, trusts: ssl.SSLContext) -> None:
    end = time.monotonic() + SLACK
    while True:
        try:
            with urllib.request.urlopen(f"{url}/", timeout=SLACK, context=trusts) as reply:
                assert reply.status == 200
                return
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.1)


def test_page_and_console_are_reached_through_nginx(tmp_path: Path) -> None:
    with proxied(tmp_path) as (at, trusts):
        url, _, token = at["url"].partition("#")
        assert url.startswith("https://localhost:")
        assert at["console"].startswith(f"{url}console#")
        where, origin = url.replace("https", "wss"), url.removesuffix("/play/")
        with connect(f"{where}ws", ssl=trusts, origin=origin) as socket:
            player = Player(socket)
            player.send("join", token=token)
            for tick in range(3):
                player.until("tick", tick=tick)
                player.send("action", tick=tick, value=tick % 2)
            player.until("tick", tick=3)
        with connect(f"{where}console/ws", ssl=trusts, origin=origin) as socket:
            operator = Player(socket)
            operator.send("join", token=at["console"].partition("#")[2])
            assert operator.until("report")["trials"][0]["tick"] == 3


@needs_browser
def test_browser_plays_through_nginx_with_a_certificate_of_its_own(tmp_path: Path) -> None:
    with proxied(tmp_path) as (at, _), browser() as page:
        page.open(at["url"])
        page.join()
        page.until(lambda: page.tick() == 0)
        page.keys("ARROW_LEFT")
        page.until(lambda: page.tick() == 1)
        page.driver.refresh()
        page.until(lambda: page.tick() == 1)
        assert page.script("return location.protocol + isSecureContext") == "https:true"
        page.open(at["console"])
        page.until(lambda: page.script("return document.querySelector('[data-cogrs=trial]')"))
        assert page.errors() == []
