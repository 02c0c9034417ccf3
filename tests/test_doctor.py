import re
import resource
import socket
from importlib import metadata
from pathlib import Path

import pytest

from cogrs import doctor
from cogrs.cli import main
from cogrs.doctor import Finding, examine, report


@pytest.fixture(scope="module")
def findings():
    return list(examine())


def test_report_where_nothing_is_wrong_returns_0(findings, capsys):
    assert report(iter(findings)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "no problem was found"
    assert all(line.startswith(("ok ", "note ", "  ")) for line in lines[:-1])


def test_examine_finds_versions_and_round_trips(findings):
    by_subject = {finding.subject: finding for finding in findings}
    assert by_subject["numpy"] == Finding("ok", "numpy", metadata.version("numpy"))
    assert "a cache and a batch" in by_subject["replay over ZeroMQ, tcp"].found
    assert "version" in by_subject["trials over gRPC"].found


def test_requirement_that_is_old_or_missing_is_wrong(monkeypatch):
    version = metadata.version

    def other(name):
        if name == "pyzmq":
            raise metadata.PackageNotFoundError(name)
        return "1.9" if name == "grpcio" else version(name)

    monkeypatch.setattr(metadata, "version", other)
    by_subject = {finding.subject: finding for finding in doctor._requirements()}
    assert by_subject["grpcio"].verdict == by_subject["pyzmq"].verdict == "wrong"
    assert by_subject["grpcio"].found == "1.9"
    assert by_subject["grpcio"].hint.startswith("pip install --upgrade 'grpcio>=")
    assert by_subject["numpy"].verdict == "ok"


def test_optional_package_that_is_missing_is_a_note_with_its_extra(monkeypatch):
    def nothing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", nothing)
    by_subject = {finding.subject: finding for finding in doctor._optional()}
    assert by_subject["prometheus-client"].verdict == "note"
    assert by_subject["prometheus-client"].hint == "pip install 'cogrs[metrics]'"
    assert by_subject["torch"].hint == "pip install torch"


def test_hint_names_the_extra_that_the_documentation_has_for_a_package(monkeypatch):
    def nothing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", nothing)
    hints = {finding.subject: finding.hint for finding in doctor._optional()}
    assert hints["gymnasium"] == "pip install 'cogrs[demo]'"
    assert hints["pettingzoo"] == "pip install 'cogrs[pettingzoo]'"
    page = (Path(__file__).parents[1] / "docs/install.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith("| `cogrs[demo]` |")]
    assert "Gymnasium" in row
    named = set(re.findall(r"^\| `cogrs\[(\w+)\]` \|", page, re.MULTILINE))
    declared = {extra for _, _, extra in doctor._declared() if extra}
    assert named == declared
    several = {name for name, _, extra in doctor._declared() if extra}
    for name in several:
        extras = {extra for each, _, extra in doctor._declared() if each == name}
        assert len(extras) == 1 or doctor._EXTRA_OF[name] in extras


def test_install_page_is_true_before_a_release():
    page = (Path(__file__).parents[1] / "docs/install.md").read_text(encoding="utf-8")
    commands = re.findall(r"^pip install (\S+)", page, re.MULTILINE)
    assert commands == [".", "'.[demo]'"]


def test_check_that_raises_is_reported_with_its_error_and_a_hint(capsys):
    def refuse():
        raise OSError("no such\ninterface")

    finding = doctor._try("a port on loopback", refuse, "is the interface up?")
    assert finding.verdict == "wrong"
    assert finding.found == "OSError: no such interface"
    assert report(iter([finding])) == 1
    assert f"-> {finding.hint}" in capsys.readouterr().out


def test_port_9000_that_is_taken_is_a_note():
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 9000))
        except OSError:
            pass  # another program has it, which serves as well
        else:
            taken.listen()
        finding = doctor._try("port 9000", doctor._bind_9000, "use another", "note")
    assert finding.verdict == "note"
    assert "in use" in finding.found


def test_proxy_is_a_note_unless_no_proxy_has_the_loopback(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert "environment http_proxy" in [finding.subject for finding in doctor._proxies()]
    monkeypatch.setenv("no_proxy", "localhost,127.0.0.1")
    assert list(doctor._proxies()) == []


def test_doctor_command_prints_findings_and_returns_1_if_one_is_wrong(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "examine", lambda: iter([Finding("wrong", "this", "that", "do")]))
    assert main(["doctor"]) == 1
    assert "wrong this" in capsys.readouterr().out


def test_low_limit_of_open_files_is_a_note(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    (files,) = [each for each in doctor._limits() if each.subject == "open files"]
    assert files.verdict == "note"
    assert files.hint.endswith("ulimit -n 4096")
