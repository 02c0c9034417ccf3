"""Key pairs, their files, and values that are not keys."""

import copy
import logging
import os
import pickle
import socket
import stat
import time
from pathlib import Path

import pytest
import zmq
import zmq.auth

from cogrs import KeyPair
from cogrs.replay.net.curve import AllowList, Curve
from cogrs.replay.net.key_folder import KeyFolder


def test_pair_is_saved_and_loaded(tmp_path):
    pair = KeyPair.new()
    public, secret = pair.save("learner", tmp_path / "new" / "keys")
    assert (public.name, secret.name) == ("learner.key", "learner.key_secret")
    assert KeyPair.load(secret) == KeyPair.load(str(secret)) == pair
    assert pair != KeyPair.new()


@pytest.mark.parametrize(
    "use", [pickle.dumps, copy.copy, copy.deepcopy], ids=lambda use: use.__name__
)
def test_secret_is_not_copied(use):
    pair = KeyPair.new()
    for holder in (pair, [pair], {"key": pair}):
        if use is copy.copy and holder is not pair:
            continue
        with pytest.raises(TypeError, match="key_secret") as caught:
            use(holder)
        assert pair.secret not in str(caught.value)


SECRET = KeyPair.new().secret


@pytest.mark.parametrize(
    "text",
    [
        SECRET + "\n",
        f" {SECRET}",
        SECRET[:-1],
        f"'{SECRET}'",
        f'public-key = "x"\nsecret-key = "{SECRET}"\n',
    ],
    ids=["newline", "blank", "cut", "quoted", "file"],
)
def test_text_that_may_be_secret_is_never_repeated(text):
    pair = KeyPair.new()
    for take in (
        KeyPair.load,
        lambda given: KeyPair(pair.public, given),
        lambda given: KeyPair(given, pair.secret),
        lambda given: Curve.of_client(given, pair.public),
        lambda given: Curve.of_client(pair, given),
        lambda given: Curve.of_client(pair, Path(given)),
        lambda given: Curve.of_server(given, []),
        lambda given: Curve.of_server(pair, [Path(given)]),
        lambda given: Curve.of_server(pair, given + "/"),
        lambda given: Curve.of_server(pair, [], given + "/"),
    ):
        with pytest.raises((ValueError, OSError)) as caught:
            take(text)
        error = caught.value
        while error is not None:
            assert SECRET[:-1] not in f"{error!r} {error} {vars(error)}"
            error = error.__context__


def odd_files(folder):
    """What is not a regular file, and one that is too large."""
    os.mkfifo(folder / "pipe.key")
    (folder / "folder.key").mkdir()
    (folder / "loop.key").symlink_to(folder / "loop.key")
    (folder / "device.key").symlink_to("/dev/zero")
    (folder / "linked.key").symlink_to(folder / "pipe.key")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder / "socket.key"))
    (folder / "large.key").write_bytes(b"# " + bytes(100_000))
    return sorted(folder.iterdir())


def test_only_regular_files_are_read(tmp_path, caplog):
    odd = odd_files(tmp_path)
    own, one = KeyPair.new(), KeyPair.new()
    one.save("one", tmp_path)
    allowed = AllowList(own.public.encode(), tmp_path)
    for _ in range(3):
        assert allowed.role_of("clients", raw(one))
        assert not allowed.role_of("clients", raw(KeyPair.new()))
    assert len(caplog.records) == len(odd)
    assert all(sum(str(path) in line for line in caplog.messages) == 1 for path in odd)
    for path in odd:
        with pytest.raises((OSError, ValueError), match="expected"):
            KeyPair.load(path)


def test_known_key_is_answered_without_reading_the_folder(tmp_path, monkeypatch):
    own, one, two = (KeyPair.new() for _ in range(3))
    one.save("one", tmp_path)
    allowed = AllowList(own.public.encode(), tmp_path)
    assert allowed.role_of("clients", raw(one), read=False) is None
    assert allowed.role_of("clients", raw(one))
    monkeypatch.setattr(os, "scandir", None)  # listing the folder fails now
    assert allowed.role_of("clients", raw(one), read=False) == "sampler"
    assert allowed.role_of("clients", raw(two), read=False) is None


def test_file_that_holds_another_key_now(tmp_path):
    own, one, two = (KeyPair.new() for _ in range(3))
    public, _ = one.save("one", tmp_path)
    allowed = AllowList(own.public.encode(), tmp_path)
    assert allowed.role_of("clients", raw(one))
    public.write_text(public.read_text().replace(one.public, two.public))
    assert not allowed.role_of("clients", raw(one))
    assert allowed.role_of("clients", raw(two))


@pytest.mark.parametrize("in_folder", [False, True])
def test_samplers_and_pushers_get_different_roles(tmp_path, in_folder):
    own, pusher, sampler, stranger = (KeyPair.new() for _ in range(4))
    allow, samplers = [pusher], [sampler]
    if in_folder:
        allow, samplers = tmp_path / "all", tmp_path / "samplers"
        pusher.save("pusher", allow)
        sampler.save("sampler", samplers)
    allowed = AllowList(own.public.encode(), allow, samplers)
    roles = [allowed.role_of("clients", raw(each)) for each in (own, pusher, sampler, stranger)]
    assert roles == ["sampler", "pusher", "sampler", ""]
    assert AllowList(own.public.encode(), allow, []).role_of("clients", raw(pusher)) == "pusher"
    assert AllowList(own.public.encode(), allow).role_of("clients", raw(pusher)) == "sampler"


def test_secret_is_for_the_owner_alone(tmp_path, caplog):
    pair = KeyPair.new()
    public, secret = pair.save("learner", tmp_path)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert pair.secret in secret.read_text()
    assert pair.secret not in public.read_text() + repr(pair)
    KeyPair.load(secret)
    assert not caplog.records
    secret.chmod(0o640)
    KeyPair.load(secret)
    assert "chmod 600" in caplog.text


def test_key_files_are_readable_by_pyzmq(tmp_path):
    pair = KeyPair.new()
    _, secret = pair.save("learner", tmp_path)
    assert zmq.auth.load_certificate(secret) == (pair.public.encode(), pair.secret.encode())
    _, theirs = zmq.auth.create_certificates(tmp_path, "theirs")
    assert KeyPair.load(theirs).public.encode() == zmq.auth.load_certificate(theirs)[0]


@pytest.mark.parametrize("there", ["learner.key", "learner.key_secret"])
def test_saving_a_key_pair_never_overwrites_a_file(tmp_path, there):
    (tmp_path / there).write_text("mine")
    with pytest.raises(FileExistsError, match=there):
        KeyPair.new().save("learner", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/tmp/a", "a\0b"])
def test_key_name_must_be_a_file_name(tmp_path, name):
    with pytest.raises(ValueError, match="name: expected"):
        KeyPair.new().save(name, tmp_path)


def test_public_key_file_is_refused_as_a_key_pair(tmp_path):
    public, _ = KeyPair.new().save("learner", tmp_path)
    with pytest.raises(ValueError, match=r"NAME\.key_secret"):
        KeyPair.load(public)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "something else",
        'public-key = "short"',
        f'public-key = "{KeyPair.new().public}"\nsecret-key = "short"',
        f'public-key = "{KeyPair.new().public}"\nsecret-key = "{KeyPair.new().secret}"',
        'public-key = "\u00e4"',
    ],
    ids=["empty", "other", "short", "short secret", "no pair", "no ascii"],
)
def test_file_that_holds_no_pair(tmp_path, text):
    path = tmp_path / "bad.key_secret"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(ValueError, match=str(path)) as caught:
        KeyPair.load(path)
    assert "public-key" not in str(caught.value)


def test_missing_file_is_named_in_the_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        KeyPair.load(tmp_path / "none.key_secret")


@pytest.mark.parametrize("bad", ["", "short", "~" * 40, "#" * 40, "\u00e4" * 40, " " * 40])
def test_invalid_key_is_a_value_error(bad):
    pair = KeyPair.new()
    with pytest.raises(ValueError, match="public: expected"):
        KeyPair(bad, pair.secret)
    with pytest.raises(ValueError, match="secret: expected"):
        KeyPair(pair.public, bad)


def test_keys_are_strings():
    with pytest.raises(TypeError, match="public: expected a key as str, got bytes"):
        KeyPair(*zmq.curve_keypair())


# -- lists --


def raw(pair):
    return zmq.utils.z85.decode(pair.public.encode())


def test_list_of_keys_files_and_pairs(tmp_path):
    own, one, two, three, four = (KeyPair.new() for _ in range(5))
    public, _ = three.save("three", tmp_path)
    allowed = AllowList(own.public.encode(), [one, two.public, public])
    taken = [bool(allowed.role_of("clients", raw(pair))) for pair in (own, one, two, three, four)]
    assert taken == [True, True, True, True, False]
    taken = [bool(allowed.role_of("workers", raw(pair))) for pair in (own, one, two, three, four)]
    assert taken == [True, False, False, False, False]


def test_folder_is_looked_at_each_time(tmp_path, caplog):
    own, one, two = (KeyPair.new() for _ in range(3))
    allowed = AllowList(own.public.encode(), str(tmp_path))
    assert not allowed.role_of("clients", raw(one))
    public, _ = one.save("one", tmp_path)
    (tmp_path / "bad.key").write_text("nothing")
    (tmp_path / "folder.key").mkdir()
    assert allowed.role_of("clients", raw(one))
    assert not allowed.role_of("clients", raw(two))
    assert not allowed.role_of("workers", raw(one))
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    assert "bad.key" in caplog.text
    public.unlink()
    assert not allowed.role_of("clients", raw(one))


@pytest.mark.parametrize(
    ("allow", "error", "text"),
    [
        ("/nowhere/keys", NotADirectoryError, "/nowhere/keys"),
        (["no key"], FileNotFoundError, "no key"),
        (["~" * 40], ValueError, "in Z85"),
        ([3], TypeError, "got int"),
        (3, TypeError, "got int"),
        (b"bytes", TypeError, "got bytes"),
    ],
)
def test_invalid_allow_list_is_refused(allow, error, text):
    with pytest.raises(error, match=text) as caught:
        AllowList(KeyPair.new().public.encode(), allow)
    assert str(caught.value).startswith("allow: expected")


@pytest.mark.parametrize("path", [None, 3, ["learner"]], ids=repr)
def test_argument_other_than_a_path_is_a_type_error(path):
    with pytest.raises(TypeError, match="path: expected a path, got"):
        KeyPair.load(path)
    with pytest.raises(TypeError, match="folder: expected a path, got"):
        KeyPair.new().save("learner", path)
    with pytest.raises(TypeError, match="name: expected str, got"):
        KeyPair.new().save(path)


def test_one_reading_of_a_folder_answers_all_earlier_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, known = KeyPair.new(), KeyPair.new()
    known.save("known", tmp_path)
    allowed = AllowList(own.public.encode(), tmp_path)
    looks: list[object] = []
    read = KeyFolder._read
    monkeypatch.setattr(KeyFolder, "_read", lambda self: (looks.append(self), read(self)))
    asked_at = time.monotonic()
    for _ in range(50):
        assert allowed.role_of("clients", raw(KeyPair.new()), asked_at=asked_at) == ""
    assert allowed.role_of("clients", raw(known), asked_at=asked_at) == "sampler"
    assert len(looks) == 1
    late = KeyPair.new()
    late.save("late", tmp_path)
    assert allowed.role_of("clients", raw(late), asked_at=time.monotonic()) == "sampler"
    assert len(looks) == 2


def test_names_of_files_do_not_reach_a_terminal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = [b"\x1b[2J.key", b"a\nb.key", b"\xff.key"]
    for name in names:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(b"no key")
    Path(tmp_path, "\x1b]0;t\x07.key").mkdir()
    own = KeyPair.new()
    assert AllowList(own.public.encode(), tmp_path).role_of("clients", raw(KeyPair.new())) == ""
    assert len(caplog.messages) == len(names) + 1
    assert all(message.isprintable() for message in caplog.messages)
