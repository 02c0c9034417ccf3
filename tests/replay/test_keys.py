"""Pairs of keys: on disk, and what refuses to be one."""

import logging
import pickle
import stat

import pytest
import zmq

from cogrs import KeyPair
from cogrs.replay.keys import Allowed


def test_pair_is_saved_and_loaded(tmp_path):
    pair = KeyPair.new()
    public, secret = pair.save("learner", tmp_path / "new" / "keys")
    assert (public.name, secret.name) == ("learner.key", "learner.key_secret")
    assert KeyPair.load(secret) == KeyPair.load(str(secret)) == pair
    assert pair != KeyPair.new()
    assert pair == pickle.loads(pickle.dumps(pair))


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


def test_files_are_those_of_pyzmq(tmp_path):
    pair = KeyPair.new()
    _, secret = pair.save("learner", tmp_path)
    assert zmq.auth.load_certificate(secret) == (pair.public.encode(), pair.secret.encode())
    _, theirs = zmq.auth.create_certificates(tmp_path, "theirs")
    assert KeyPair.load(theirs).public.encode() == zmq.auth.load_certificate(theirs)[0]


@pytest.mark.parametrize("there", ["learner.key", "learner.key_secret"])
def test_nothing_is_overwritten(tmp_path, there):
    (tmp_path / there).write_text("mine")
    with pytest.raises(FileExistsError, match=there):
        KeyPair.new().save("learner", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/tmp/a", "a\0b"])
def test_name_is_one_of_a_file(tmp_path, name):
    with pytest.raises(ValueError, match="name: expected"):
        KeyPair.new().save(name, tmp_path)


def test_public_file_is_no_pair(tmp_path):
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


def test_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        KeyPair.load(tmp_path / "none.key_secret")


@pytest.mark.parametrize("bad", ["", "short", "~" * 40, "#" * 40, "\u00e4" * 40, " " * 40])
def test_what_is_no_key(bad):
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
    allowed = Allowed(own.public.encode(), [one, two.public, public])
    taken = [allowed.takes("clients", raw(pair)) for pair in (own, one, two, three, four)]
    assert taken == [True, True, True, True, False]
    taken = [allowed.takes("workers", raw(pair)) for pair in (own, one, two, three, four)]
    assert taken == [True, False, False, False, False]


def test_folder_is_looked_at_each_time(tmp_path, caplog):
    own, one, two = (KeyPair.new() for _ in range(3))
    allowed = Allowed(own.public.encode(), str(tmp_path))
    assert not allowed.takes("clients", raw(one))
    public, _ = one.save("one", tmp_path)
    (tmp_path / "bad.key").write_text("nothing")
    (tmp_path / "folder.key").mkdir()
    assert allowed.takes("clients", raw(one))
    assert not allowed.takes("clients", raw(two))
    assert not allowed.takes("workers", raw(one))
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    assert "bad.key" in caplog.text
    public.unlink()
    assert not allowed.takes("clients", raw(one))


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
def test_what_is_no_list(allow, error, text):
    with pytest.raises(error, match=text) as caught:
        Allowed(KeyPair.new().public.encode(), allow)
    assert str(caught.value).startswith("allow: expected")


@pytest.mark.parametrize("path", [None, 3, ["learner"]], ids=repr)
def test_what_is_no_path_is_a_type_error(path):
    with pytest.raises(TypeError, match="path: expected a path, got"):
        KeyPair.load(path)
    with pytest.raises(TypeError, match="folder: expected a path, got"):
        KeyPair.new().save("learner", path)
    with pytest.raises(TypeError, match="name: expected str, got"):
        KeyPair.new().save(path)
