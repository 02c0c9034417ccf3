"""The table of messages: what it lets through, and the page of the documentation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogrs.web.wire import (
    DOWN,
    PNG,
    UP,
    WireError,
    as_markdown,
    pack_frame,
    read_message,
    unpack_frame,
    write_message,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=8), each),
    max_leaves=8,
)
TYPES = st.sampled_from([kind.type for kind in UP])
NAMES = st.sampled_from(sorted({field.name for kind in UP for field in kind.fields}))


@given(st.text() | JSON.map(json.dumps))
def test_any_text_is_read_or_refused_in_words(text):
    try:
        message = read_message(text)
    except WireError as error:
        reason, message = str(error), None
    else:
        reason = "read"
    assert 0 < len(reason) <= 120
    assert message is None or message["type"] in {kind.type for kind in UP}


@given(TYPES, st.dictionaries(NAMES, JSON, max_size=4))
def test_message_that_is_read_has_only_fields_of_the_table(kind, fields):
    known = {each.type: {field.name for field in each.fields} for each in UP}[kind]
    try:
        message = read_message(json.dumps({"type": kind, **fields}))
    except WireError:
        return
    assert message is not None
    assert set(message) - {"type"} <= known
    assert all(message[name] == fields[name] for name in set(message) - {"type"})


def test_unknown_type_is_ignored_and_unknown_field_is_left_out():
    assert read_message('{"type": "dance"}') is None
    assert read_message('{"type": "ping", "id": 3, "x": 1}') == {"type": "ping", "id": 3}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected JSON"),
        ("[1]", "expected a JSON object with a type"),
        ('{"type": 1}', "expected a JSON object with a type"),
        ('{"type": "pause"}', "pause: on: expected flag, got nothing"),
        ('{"type": "action", "tick": -1}', "action: tick: expected integer, got -1"),
        ('{"type": "action", "value": "left"}', "action: value: expected value, got 'left'"),
        ('{"type": "feedback", "value": NaN}', "feedback: value: expected number, got nan"),
        ('{"type": "join", "name": "' + "x" * 201 + '"}', "join: name: expected text"),
    ],
)
def test_malformed_message_is_refused(text, reason):
    with pytest.raises(WireError) as caught:
        read_message(text)
    assert str(caught.value).startswith(reason)


def test_server_writes_no_message_beside_the_table():
    with pytest.raises(WireError, match="unknown fields"):
        write_message("tick", tick=0, reward=0.0, score=0.0, colour="red")
    with pytest.raises(WireError, match="tick: expected integer, got nothing"):
        write_message("tick", reward=0.0, score=0.0)


@given(st.integers(0, 2**64 - 1), st.binary())
def test_picture_survives_packing(tick, picture):
    assert unpack_frame(pack_frame(PNG, tick, picture)) == (PNG, tick, picture)


def test_docs_have_the_table_of_the_code():
    page = Path(__file__).parents[2] / "docs" / "web.md"
    assert as_markdown().strip() in page.read_text(encoding="utf-8")
    assert len({kind.type for kind in (*UP, *DOWN)}) == len(UP) + len(DOWN)
