"""Text of others on terminals and in logs."""

from __future__ import annotations

import logging
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogrs.escape import escaped
from cogrs.orchestrator.service.log_format import PlainFormatter


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("plain ä€😀 text \\n", "plain ä€😀 text \\n"),
        ("a\nb\r\tc\0", r"a\nb\r\tc\x00"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x7f\x85\x9b31m", r"\x7f\x85\x9b31m"),
        ("\u202e\u2066\u200f", r"\u202e\u2066\u200f"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_unprintable_characters_are_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown


@given(st.text(st.characters()))
def test_escaped_text_is_a_line_that_prints_and_can_be_sent(text: str) -> None:
    found = escaped(text)
    assert found.isprintable()
    assert len(found.splitlines()) <= 1
    assert not any(unicodedata.category(char).startswith("C") for char in found)
    found.encode()


def test_plain_log_has_no_forged_records_of_peers() -> None:
    formatter = PlainFormatter("%(levelname)s %(message)s")
    try:
        raise ValueError("a\nERROR forged\x1b[2J")
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("n", logging.INFO, "p", 1, "said %s", ("x\nERROR y\x1b",), info)
    text = formatter.format(record)
    assert r"INFO said x\nERROR y\x1b" in text
    record.stack_info = "Stack\nERROR forged\x1b[2J"
    text = formatter.format(record)
    assert "\x1b" not in text
    assert not any(line.startswith("ERROR") for line in text.splitlines())
