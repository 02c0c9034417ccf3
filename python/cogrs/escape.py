"""Text of peers, files and users as one harmless line for terminals and logs."""

from __future__ import annotations


def escaped(text: str, *, keep: str = "") -> str:
    r"""Return a text with all that does not print escaped, as `repr` does: `\x1b`, `\n`, `\u202e`.

    That is control characters (C0, DEL and C1), line and paragraph separators, what changes the
    direction of text or joins it invisibly, and lone surrogates. Backslashes stay as they are.

    Args:
        text: Any text.
        keep: Characters that are let through, such as the newlines of a traceback.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else ascii(char)[1:-1] for char in text
    )
