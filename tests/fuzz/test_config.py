"""Configurations of orchestrators and servers with any content are refused or read."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from cogrs.orchestrator.service.config import read_config
from cogrs.replay.config import start_server
from cogrs.yaml_document import parse_yaml
from tests.fuzz.harness import corpus, prolonged
from tests.fuzz.strategies import DTYPES, LARGEST, bounded, changed, values

CONFIG: dict[str, Any] = {
    "import": {"proto": ["a.proto"], "descriptor_set": "x"},
    "trial": {"config_type": "a.B", "pre_hooks": ["a:1"], "accept_params": True},
    "datalog": {"type": "grpc", "url": "a:1", "fields": {"exclude": ["rewards"]}},
    "actor_classes": [{"id": "c", "config_type": "a.B", "action": {"space": "a.B"}}],
    "actor_options": [{"name": "a", "default_action": "aGk=", "response_timeout": 1.0}],
    "trial_params": {
        "trial_config": {"content": "aGk="},
        "environment": {"endpoint": "a:1", "config": {"x": 1}},
        "actors": [{"name": "a", "actor_class": "c", "endpoint": "client"}],
        "max_steps": 5,
        "max_inactivity": 3,
    },
}


@prolonged
@given(changed(CONFIG))
def test_config_with_any_content_is_refused_or_read(content: Any) -> None:
    if isinstance(content, dict):
        bounded(lambda: read_config(content), ValueError, OSError)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cogment.yaml"
        path.write_text(json.dumps(content))
        bounded(lambda: read_config(path), ValueError, OSError)


WORDS = [
    "a",
    ": ",
    "- ",
    "&a ",
    "*a",
    "[",
    "]",
    "{",
    "}",
    ",",
    "\n",
    "  ",
    "<<",
    "!!int ",
    "!!bool ",
]
WORDS += [
    "!!timestamp ",
    "!!binary ",
    "!!set ",
    "!!omap ",
    "!!str ",
    "!!float ",
    "1",
    "0x",
    "~",
    "? ",
]
WORDS += [
    "|",
    ">",
    "'",
    '"',
    "\\",
    "#",
    "%",
    "---",
    "...",
    "2001-01-01",
    "é",
    "\0",
    "!",
    "=",
    ".inf",
]


@prolonged
@given(st.lists(st.sampled_from(WORDS), max_size=30).map("".join))
def test_yaml_of_any_words_is_refused_or_read(text: str) -> None:
    bounded(lambda: parse_yaml(text), ValueError)


@pytest.mark.parametrize("path", corpus("yaml"), ids=lambda path: path.name)
def test_yaml_of_the_corpus_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.yaml: "):
        read_config(path)


SERVER = """
n_caches = 1
max_step = 4
{changes}
[templates]
state = {{ dtype = "{dtype}", shape = {shape} }}
action = {{ dtype = "int64", shape = [] }}
reward = {{ dtype = "float32", shape = [1] }}
prob = {{ dtype = "float32" }}
value = {{ dtype = "float32", shape = [1] }}
qvest = {{ dtype = "float32", shape = [1] }}
info = {{ dtype = "int64" }}
"""


@prolonged
@given(st.sampled_from(DTYPES), st.lists(st.sampled_from(LARGEST[:8]), max_size=3), st.data())
def test_server_of_any_file_is_refused_or_starts(dtype: str, shape: list[int], data: Any) -> None:
    name = data.draw(st.sampled_from(["seed", "uuid", "hwm", "pub_hwm", "x", "logfile", "allow"]))
    value = data.draw(values().filter(lambda each: each is not None))
    text = SERVER.format(dtype=dtype, shape=shape, changes=f"{name} = {json.dumps(value)}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.toml"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        server = bounded(lambda: start_server(path), ValueError, OSError, RuntimeError, MemoryError)
        if server is not None:
            server.close()


@pytest.mark.parametrize("path", corpus("toml"), ids=lambda path: path.name)
def test_server_of_the_corpus_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.toml: "):
        start_server(path)
