"""Tokens and keys in files: read, warned of, and never repeated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cogrs.orchestrator import Security
from cogrs.orchestrator.service.config import read_config
from cogrs.tls import ClientTls, ServerTls
from cogrs.tokens import TokenSet, bearer, read_token, read_tokens, read_tokens_by_target
from tests.secured import TOKEN, Authority


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_file_of_tokens_is_read_line_by_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "tokens", f"# ours\n\n  {TOKEN}\n{TOKEN}==\n")
    assert read_tokens("--tokens", path) == (TOKEN, f"{TOKEN}==")
    path = write(tmp_path / "links", f"host:1 {TOKEN}\n[::1]:2  {TOKEN}\nhost {TOKEN}\n")
    found = read_tokens_by_target("--link-tokens", path)
    assert found == dict.fromkeys(("host:1", "[::1]:2", "host"), TOKEN)
    assert caplog.text == ""


@pytest.mark.parametrize(
    "text", ["", "\n# none\n", f"{TOKEN}\nshort", f"{TOKEN} and more", "€" * 20]
)
def test_file_without_tokens_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "tokens", text)
    for read in (read_tokens, read_tokens_by_target):
        with pytest.raises(ValueError, match=str(path)) as caught:
            read("--tokens", path)
        assert not any(word in str(caught.value) for word in (TOKEN, "short", "€"))


@pytest.mark.parametrize("given", [TOKEN, TOKEN + "/" + TOKEN, "/" + TOKEN + "/x", "x" * 5000])
def test_token_in_place_of_its_file_is_not_shown(given: str) -> None:
    with pytest.raises(OSError, match="--tokens: expected the path of a file") as caught:
        read_tokens("--tokens", given)
    assert given not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_missing_file_of_tokens_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere-at-all-in-this-folder"):
        read_tokens("--tokens", tmp_path / "nowhere-at-all-in-this-folder")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620])
def test_secret_file_that_others_can_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    path = write(tmp_path / "tokens", TOKEN, mode)
    read_tokens("--tokens", path)
    assert f"{path} can be read by users other than its owner: chmod 600" in caplog.text
    caplog.clear()
    read_tokens_by_target("--link-tokens", write(tmp_path / "links", f"host {TOKEN}", mode))
    assert "links can be read by users other than its owner" in caplog.text
    caplog.clear()
    pair = Authority(tmp_path).pair()
    ServerTls(**pair).credentials()
    assert caplog.text == ""
    pair["key"].chmod(mode)
    ServerTls(**pair).credentials()
    assert f"{pair['key']} can be read by users other than its owner: chmod 600" in caplog.text
    assert TOKEN not in caplog.text


def test_token_is_recognized_by_the_whole_header() -> None:
    known = TokenSet(["x" * 16, TOKEN])
    assert known.shown_in([bearer(TOKEN)])
    assert not known.shown_in(None)
    for wrong in ("", TOKEN, f"bearer {TOKEN}", f"Bearer {TOKEN} ", f"Bearer {TOKEN[:-1]}"):
        assert not known.shown_in([("authorization", wrong)])
    assert not known.shown_in([("authorization", b"\xff\xfe")])
    assert not TokenSet([]).shown_in([bearer("")])
    assert TOKEN not in repr(known) + repr(vars(known))


@pytest.mark.parametrize("make", [ServerTls, ClientTls])
@pytest.mark.parametrize("name", ["certificate", "key", "ca"])
def test_text_of_a_key_in_place_of_its_path_is_not_shown(make: Any, name: str) -> None:
    pem = f"-----BEGIN PRIVATE KEY-----\n{TOKEN}\n-----END PRIVATE KEY-----\n"
    name = "client_ca" if name == "ca" and make is ServerTls else name
    for text, error in (
        (pem, ValueError),
        (pem.replace("\n", ""), ValueError),
        (f"{TOKEN}\n", ValueError),
        (pem.encode(), TypeError),
    ):
        with pytest.raises(error, match=f"^{name}: expected") as caught:
            make(**{"certificate": "c", "key": "k", name: text})
        assert TOKEN not in repr(caught.value)


@pytest.mark.parametrize("shown", [(TOKEN, TOKEN), (TOKEN, "x" * 20), ("x" * 20, TOKEN)])
def test_call_with_several_tokens_is_refused(shown: tuple[str, str]) -> None:
    known = TokenSet([TOKEN])
    assert known.shown_in([bearer(TOKEN), ("other", "x")])
    assert not known.shown_in([bearer(token) for token in shown])


@pytest.mark.parametrize("kind", ["pipe", "large", "endless"])
def test_file_of_secrets_is_read_up_to_a_limit_and_without_waiting(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "endless":
        path = Path("/dev/zero")
    else:
        path.write_text(f"{TOKEN}\n" * 100_000)
    for read in (read_tokens, read_token, read_tokens_by_target):
        with pytest.raises(ValueError, match=f"{path}: expected (a file|at most 1048576 bytes)"):
            read("--tokens", path)
    with pytest.raises(ValueError, match=f"{path}: expected"):
        read_config(path)
    for tls in (ServerTls(certificate=path, key=path), ClientTls(ca=path)):
        with pytest.raises(
            ValueError, match=f"{path}: expected (a regular file|at most 1048576 bytes)"
        ):
            tls.credentials()


def test_tokens_are_read_from_a_pipe_of_a_shell(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    try:
        os.write(theirs, TOKEN.encode())
        os.close(theirs)
        assert read_tokens("--tokens", f"/dev/fd/{ours}") == (TOKEN,)
    finally:
        os.close(ours)


def test_token_in_a_wrong_argument_is_not_shown(tmp_path: Path) -> None:
    places: list[dict[str, Any]] = [{"slot_secrets": TOKEN}, {"link_tokens": {TOKEN: "host:1"}}]
    for given in places:
        with pytest.raises(ValueError, match=next(iter(given))) as caught:
            Security(**given)
        assert TOKEN not in str(caught.value)
    for text in (f"{TOKEN}: 1", f"slot_secrets: {TOKEN}", f"insecure: {TOKEN}"):
        path = write(tmp_path / "cogment.yaml", f"security: {{{text}}}")
        with pytest.raises(ValueError, match=r"slot_secrets|security\.") as caught:
            read_config(path)
        assert TOKEN not in str(caught.value)
