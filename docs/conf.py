"""Settings with which Sphinx builds a site of these pages: `make docs`."""

from __future__ import annotations

import posixpath
import re
from importlib.util import find_spec
from typing import TYPE_CHECKING

import cogrs

if TYPE_CHECKING:
    from pathlib import Path

    from sphinx.application import Sphinx

project = "cogrs"
author = project_copyright = "the authors of cogrs"
version = release = cogrs.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"cogrs {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
exclude_patterns = ["conf.py"]
pygments_style = "friendly"

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

# Docstrings of several parts name types that have the same name.
suppress_warnings = ["ref.python"]
autodoc_member_order = "groupwise"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True, "show-inheritance": True}
# Frameworks whose modules are documented without being installed. Stable-Baselines3 cannot be
# imported beside a mock of PyTorch.
_FRAMEWORKS = ["torch", "stable_baselines3"]
autodoc_mock_imports = [] if all(map(find_spec, _FRAMEWORKS)) else _FRAMEWORKS
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Fields", "params_style")]

# The pages are read in the repository too, where they link to files that are not pages here.
_PAGES = {
    "../README.md": "index.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../ARCHITECTURE.md": "architecture.md",
    "../CHANGELOG.md": "changelog.md",
    "../SECURITY.md": "security-policy.md",
    "../python/cogrs/_core.pyi": "reference/replay.md",
    "../examples": "examples.md",
    "../examples/distributed": "distributed.md",
    "../examples/distributed/README.md": "distributed.md",
}
_FROM_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
    "python/cogrs/_core.pyi": "reference/replay.md",
    "examples/": "examples.md",
    "LICENSE": "../LICENSE",
}
# Docstrings have code in backticks and fences, as in Markdown.
_CODE = re.compile(r"(?<![`:])`([^`]+)`(?!`)")
_MARK = re.compile(r"(?<=[ (,])[*|](?=\w)")
_FENCE = re.compile(r"^(\s*)```python\n(.*?)\n\1```$", re.MULTILINE | re.DOTALL)
# Which file does what: for readers of the code, in docstrings of packages.
_FILES = re.compile(r"^\| question \| file \|\n(?:\|.*\n?)+", re.MULTILINE)
_LITERAL = re.compile(r"(?<=::\n\n)(( +)\S.*(?:\n(?:\2.*)?)*)")
_LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[)#])")


def _link_pages(_app: Sphinx, _name: str, source: list[str]) -> None:
    source[0] = _LINK.sub(lambda link: _PAGES.get(link[1], link[1]), source[0])


def _link_included(_app: Sphinx, file: Path, _name: str, source: list[str]) -> None:
    folder = file.parent.as_posix()

    def page(link: re.Match[str]) -> str:
        if folder != "..":  # its own pages lead to files beside them
            path = posixpath.normpath(f"{folder}/{link[1]}")
            return path.removeprefix("../docs/")
        page = _FROM_ROOT.get(link[1], link[1].removeprefix("docs/"))
        return f"../{page}" if page.endswith(".py") else page

    source[0] = _LINK.sub(page, source[0])


def _escaped(text: str) -> str:
    # A letter after a span, as in `list`s, needs an escape in reST. Elsewhere (k, *action) is not
    # emphasis, and |q - v| not a substitution.
    parts = _CODE.split(text)
    parts[::2] = [_MARK.sub(r"\\\g<0>", part) for part in parts[::2]]
    parts[1::2] = [f"``{code}``\\ " for code in parts[1::2]]
    return "".join(parts)


def _write_as_rst(
    _app: Sphinx, _what: str, _name: str, _obj: object, _options: object, lines: list[str]
) -> None:
    def indented(fence: re.Match[str]) -> str:
        body = "\n".join(f"    {line}" if line else "" for line in fence[2].split("\n"))
        return f"{fence[1]}::\n\n{body}"

    text = _FENCE.sub(indented, _FILES.sub("", "\n".join(lines)))
    # Every second part is code, which stays as it is.
    parts = _LITERAL.split(text)
    del parts[2::3]
    parts[::2] = [_escaped(part) for part in parts[::2]]
    lines[:] = "".join(parts).split("\n")


def setup(app: Sphinx) -> None:
    """Lead links of the repository to pages, and read docstrings as Markdown."""
    app.connect("autodoc-process-docstring", _write_as_rst, priority=400)
    app.connect("source-read", _link_pages)
    app.connect("include-read", _link_included)
