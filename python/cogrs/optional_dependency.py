"""Modules that parts of the package need and the package does without."""

from __future__ import annotations

import importlib
from typing import Any


def import_optional(module: str, who: str, install: str) -> Any:
    """Import a module that may not be installed.

    Args:
        module: Its dotted name.
        who: Who needs what, in the plural: 'games in Python need Gymnasium'.
        install: What to give to `pip install`.

    Raises:
        ImportError: It is not installed; the text says how to get it.
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        text = f"{who}, which is not installed: pip install {install}"
        raise ImportError(text, name=package) from error
