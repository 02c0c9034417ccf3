"""Examples as a newcomer runs them: processes of their own, their output and their exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.program import program

if TYPE_CHECKING:
    import subprocess
    from contextlib import AbstractContextManager

EXAMPLES = Path(__file__).parents[2] / "examples"
DEADLINE = 100.0


def example(name: str, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """Run an example so that it hears SIGINT; it is ended with the block at the latest."""
    path = str(EXAMPLES / f"{name}.py")
    argv = [path, *arguments]
    begin = f"import runpy, sys; sys.argv = {argv!r}; sys.path.insert(0, {str(EXAMPLES)!r})"
    return program(f"{begin}; runpy.run_path({path!r}, run_name='__main__')")


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for its end; return exit code, output and errors, which have no traceback."""
    out, err = process.communicate(timeout=DEADLINE)
    assert "Traceback" not in err
    return process.returncode, out, err
