"""Builds the package by maturin, and says in one line if Rust is missing.

By itself maturin downloads a toolchain then, unasked, and where it cannot, what is seen is the
traceback of that.
"""

from __future__ import annotations

import os
import shutil
import sys

import maturin
from maturin import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

# maturin then asks for no installer of Rust.
os.environ["MATURIN_NO_INSTALL_RUST"] = "1"


def get_requires_for_build_wheel(config_settings: dict[str, object] | None = None) -> list[str]:
    """Return what else a build needs; what front ends ask first, so Rust is looked for here."""
    if shutil.which("cargo") is None:
        sys.exit(
            "cogrs: no wheel fits this machine, so it is compiled, which needs Rust, and cargo is "
            "not there: install it from https://rustup.rs and run this again"
        )
    return maturin.get_requires_for_build_wheel(config_settings)


get_requires_for_build_editable = get_requires_for_build_wheel
