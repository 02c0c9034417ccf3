"""Builds the package by maturin, and says in one line if Rust is missing.

By itself maturin downloads a toolchain then, unasked, and where it cannot, what is seen is the
traceback of that.
"""

from __future__ import annotations

import os
import shutil
import sys

import maturin
from maturin import build_editable, build_sdist, build_wheel, get_requires_for_build_sdist

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

Settings = dict[str, object] | None

# maturin then asks for no installer of Rust.
os.environ["MATURIN_NO_INSTALL_RUST"] = "1"


def _look_for_rust() -> None:
    if shutil.which("cargo") is None:
        sys.exit(
            "cogrs: no wheel fits this machine, so it is compiled, which needs Rust, and cargo is "
            "not there: install it from https://rustup.rs and run this again"
        )


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Return what else a build needs; installers ask this first."""
    _look_for_rust()
    return maturin.get_requires_for_build_wheel(config_settings)


def prepare_metadata_for_build_wheel(directory: str, config_settings: Settings = None) -> str:
    """Write what an installer wants to know; without isolation it asks this first."""
    _look_for_rust()
    return maturin.prepare_metadata_for_build_wheel(directory, config_settings)


get_requires_for_build_editable = get_requires_for_build_wheel
prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel
