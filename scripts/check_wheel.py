"""Install the newest wheel of a folder into an empty environment and use it outside the tree."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

USE = """
import numpy as np
import cogrs

state, scalar = np.zeros(4, np.float32), np.float32(0)
memory = cogrs.ReplayMemory(state, np.int64(0), scalar, scalar, scalar, scalar, np.zeros(0), 1000)
memory.new_episode()
for step in range(10):
    memory.add_entry(state + step, step, 1.0, 1.0, 0.0, np.zeros(0), 1.0)
memory.close_episode()
batch = memory.get_batch(32)
assert (batch.next.a - batch.prev.a == 1).all()
print("cogrs", cogrs.__version__, "from", cogrs.__path__[0], "works")
"""


def run(*command: str | Path, cwd: Path) -> None:
    """Run a command in `cwd`, and end with its status when it fails."""
    status = subprocess.run([str(part) for part in command], cwd=cwd).returncode
    if status:
        sys.exit(status)


def main() -> None:
    """Check the newest wheel of the folder named by the first argument."""
    wheels = sorted(Path(sys.argv[1]).glob("*-abi3-*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        sys.exit(f"no abi3 wheel in {sys.argv[1]}")
    with tempfile.TemporaryDirectory() as folder:
        outside = Path(folder)
        venv.create(outside / "venv", with_pip=True)
        python = outside / "venv" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", wheels[-1].resolve(), cwd=outside)
        run(python, "-m", "pip", "check", cwd=outside)
        run(python, "-c", USE, cwd=outside)


if __name__ == "__main__":
    main()
