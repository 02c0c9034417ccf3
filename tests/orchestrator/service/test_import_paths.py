"""Strings of a configuration that reach the compiler of protos: paths below its folder alone."""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from cogrs.orchestrator.service.config import read_config

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("grpc_tools")

PROTO = 'syntax = "proto3"; package mine; message Trial { string name = 1; }'
FORMS = {
    "option": "--plugin=protoc-gen-e=/bin/sh",
    "option that ends well": "--python_out=x.proto",
    "short option": "-I.proto",
    "option in a folder": "lib/-x.proto",
    "file of arguments": "@args.proto",
    "absolute": "/etc/types.proto",
    "above": "../types.proto",
    "above, later": "lib/../../types.proto",
    "inside by way of above": "lib/../types.proto",
    "another suffix": "types.txt",
    "suffix alone": "types.proto.txt",
    "empty": "",
    "newline": "types\n.proto",
    "NUL": "types\0.proto",
    "backslash": "lib\\types.proto",
    "search path": "a:b.proto",
    "surrogate": "\udc80.proto",
    "device": "/dev/zero",
}


def config(*protos: str) -> dict[str, Any]:
    return {
        "import": {"proto": list(protos)},
        "trial": {"config_type": "mine.Trial"},
        "trial_params": {"trial_config": {"name": "first"}},
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "config"
    (made / "lib").mkdir(parents=True)
    (made / "types.proto").write_text(PROTO)
    (made / "args.proto").write_text("--descriptor_set_out=written\ntypes.proto\n")
    (tmp_path / "types.proto").write_text(PROTO)
    monkeypatch.chdir(made)
    return made


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("form", FORMS)
def test_proto_that_is_not_a_path_below_the_folder_is_refused(folder: Path, form: str) -> None:
    before = names(folder)
    for protos in ([FORMS[form]], ["types.proto", FORMS[form]]):
        with pytest.raises(ValueError, match=r"import\.proto: expected relative paths"):
            read_config(config(*protos))
    # Refused when it is read, whether or not anything asks for a type.
    with pytest.raises(ValueError, match=r"import\.proto: expected relative paths"):
        read_config({"import": {"proto": [FORMS[form]]}})
    assert names(folder) == before


def test_plugin_that_a_config_names_is_not_run(folder: Path) -> None:
    ran = folder / "ran"
    strings = [
        "--plugin=protoc-gen-e=/bin/sh",
        "--e_out=.",
        f"--e_opt=\n touch {ran} > {ran}\n",
        "types.proto",
    ]
    with pytest.raises(ValueError, match=r"import\.proto"):
        read_config(config(*strings))
    assert not ran.exists()


@pytest.mark.parametrize("what", ["file", "folder", "loop", "imported"])
def test_link_that_leads_out_of_the_folder_is_refused(folder: Path, what: str) -> None:
    outside = folder.parent / "types.proto"
    name = "linked.proto"
    if what == "file":
        (folder / name).symlink_to(outside)
    elif what == "folder":
        (folder / "away").symlink_to(folder.parent, target_is_directory=True)
        name = "away/types.proto"
    elif what == "loop":
        (folder / name).symlink_to(folder / name)
    else:
        (folder / "other.proto").symlink_to(outside)
        (folder / name).write_text('syntax = "proto3"; import "other.proto"; package x;')
    with pytest.raises(ValueError, match=r"import\.proto"):
        read_config(config(name))


def test_link_that_stays_in_the_folder_is_followed(folder: Path) -> None:
    (folder / "linked.proto").symlink_to(folder / "types.proto")
    assert read_config(config("linked.proto")).params.trial_config.content == b"\n\x05first"
    assert read_config(config("./types.proto")).params.trial_config.content == b"\n\x05first"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX alone has pipes with names")
@pytest.mark.parametrize("place", ["given", "imported", "descriptor_set"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "socket"])
def test_file_that_is_not_regular_is_refused_at_once(folder: Path, place: str, kind: str) -> None:
    name = "odd.proto"
    if kind == "pipe":
        os.mkfifo(folder / name)
    elif kind == "folder":
        (folder / name).mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(name)
    content = config(name)
    if place == "imported":
        (folder / "types.proto").write_text('syntax = "proto3"; import "odd.proto";')
        content = config("types.proto")
    elif place == "descriptor_set":
        content["import"] = {"descriptor_set": name}
    with pytest.raises((ValueError, OSError), match=r"odd\.proto"):
        read_config(content)


def test_file_of_the_present_folder_is_not_run_by_the_compiler(folder: Path) -> None:
    ran = folder / "ran"
    for name in ("grpc_tools", "re", "google", "runpy"):
        (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'w')")
    assert read_config(config("types.proto")).params.trial_config.content == b"\n\x05first"
    assert not ran.exists()


def test_files_above_the_limit_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cogrs.orchestrator.service import user_types

    monkeypatch.setattr(user_types, "PROTO_FILES", 3)
    for number in range(4):
        (folder / f"p{number}.proto").write_text(PROTO)
    with pytest.raises(ValueError, match=r"import\.proto: expected at most 3 files"):
        read_config(config(*(f"p{number}.proto" for number in range(4))))
    monkeypatch.setattr(user_types, "PROTO_BYTES", len(PROTO) - 1)
    with pytest.raises(ValueError, match=r"types\.proto: expected at most \d+ bytes"):
        read_config(config("types.proto"))
    monkeypatch.setattr(user_types, "DESCRIPTOR_BYTES", 10)
    with pytest.raises(ValueError, match="expected at most 10 bytes"):
        read_config({**config(), "import": {"descriptor_set": "types.proto"}})


def test_descriptor_set_of_other_bytes_is_refused_by_name(folder: Path) -> None:
    (folder / "types.pb").write_bytes(b"\xff" * 100)
    with pytest.raises(ValueError, match=r"import\.descriptor_set: expected a descriptor set"):
        read_config({**config(), "import": {"descriptor_set": "types.pb"}})


def test_compiler_that_takes_too_long_is_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cogrs.orchestrator.service import user_types

    assert (folder / "types.proto").exists()
    sleeper = folder / "sleeper"
    sleeper.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
    sleeper.chmod(0o755)
    monkeypatch.setattr(user_types.sys, "executable", str(sleeper))
    monkeypatch.setattr(user_types, "PROTO_SECONDS", 0.2)
    with pytest.raises(ValueError, match=r"import\.proto: expected files that compile within"):
        read_config(config("types.proto"))
