"""Imports of packages that only parts of cogrs need."""

from __future__ import annotations

import importlib
from typing import Any


def import_optional(module: str, need: str, install: str) -> Any:
    """Import a module that may not be installed.

    Args:
        module: The dotted name.
        need: Why it is needed, for the error: 'games in Python need Gymnasium'.
        install: The argument of `pip install`.

    Raises:
        ImportError: The package is not installed; the text says how to install it.
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        text = f"{need}, which is not installed: pip install {install}"
        raise ImportError(text, name=package) from error
