"""Build backend that calls maturin, and says in one line if Rust is missing.

By itself maturin would download a toolchain unasked, or show a traceback where it cannot.
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

# So maturin does not require an installer of Rust.
os.environ["MATURIN_NO_INSTALL_RUST"] = "1"


def _look_for_rust() -> None:
    if shutil.which("cargo") is None:
        sys.exit(
            "cogrs: no wheel fits this machine, so it is compiled, which needs Rust, and cargo is "
            "not installed: install it from https://rustup.rs and run this again"
        )


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Return the requirements of a build, which is the first call of installers."""
    _look_for_rust()
    return maturin.get_requires_for_build_wheel(config_settings)


def prepare_metadata_for_build_wheel(directory: str, config_settings: Settings = None) -> str:
    """Write the metadata, which is the first call of installers without isolation."""
    _look_for_rust()
    return maturin.prepare_metadata_for_build_wheel(directory, config_settings)


get_requires_for_build_editable = get_requires_for_build_wheel
prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel
