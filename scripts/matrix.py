"""Test a wheel with the oldest and newest dependencies, on each installed Python.

`python scripts/matrix.py dist [3.11 3.13]` creates two environments per Python in `.venvs/matrix`,
with the newest wheel of the folder, and runs a quick part of the tests there; they use the wheel
and not the tree.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / ".venvs" / "matrix"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

# For 3.11 the lower bounds of pyproject.toml; for later ones the first versions with wheels.
OLDEST = {
    "3.11": "numpy==1.26.0 grpcio==1.62.0 protobuf==4.25.0 pyzmq==25.0.0 PyYAML==6.0",
    "3.12": "numpy==1.26.0 grpcio==1.62.0 protobuf==4.25.0 pyzmq==25.1.1 PyYAML==6.0.1",
    "3.13": "numpy==2.1.0 grpcio==1.66.2 protobuf==4.25.0 pyzmq==26.2.0 PyYAML==6.0.2",
    "3.14": "numpy==2.3.2 grpcio==1.75.1 protobuf==4.25.0 pyzmq==27.1.0 PyYAML==6.0.3",
}
# The lower bounds of the extras, tested on 3.11.
OLDEST_EXTRAS = (
    "gymnasium==1.0.0",
    "pettingzoo==1.24.0",
    "prometheus-client==0.20.0",
    "pyarrow==15.0.0",
    "psycopg[binary]==3.2.1",
    "starlette==0.40.0",
    "uvicorn==0.30.0",
    "websockets==13.0",
    "pillow==10.0.0",
    "uvloop==0.19.0; platform_system != 'Windows'",
    "grpcio-health-checking==1.62.0",
    "grpcio-reflection==1.62.0",
    "grpcio-tools==1.62.0",
    "jax==0.4.30",
    "optax==0.2.0",
    "rich==13.0.0",
    "matplotlib==3.8.0",
)
NEWEST_EXTRAS = tuple(line.partition("==")[0] for line in OLDEST_EXTRAS)
RUNNERS = ("pytest>=9", "pytest-timeout", "pytest-xdist", "hypothesis>=6.100", "trustme")

# Tests of what depends on other packages: NumPy's C interface, sockets, generated code, streams.
TESTS = (
    "tests/api",
    "tests/test_import_order.py",
    "tests/test_package.py",
    "tests/replay/memory/test_golden.py",
    "tests/replay/serving/test_get_batch.py",
    "tests/replay/memory/test_entry.py",
    "tests/replay/memory/test_checkpoint.py",
    "tests/replay/test_wire.py",
    "tests/replay/test_server.py",
    "tests/replay/net/test_curve.py",
    "tests/collector/test_run.py",
    "tests/collector/test_request_batcher.py",
    "tests/orchestrator/test_grpc_trials.py",
    "tests/orchestrator/service/test_server.py",
    "tests/sdk/test_trials.py",
)
TESTS_OF_EXTRAS = (
    "tests/test_jax.py",
    "tests/collector/environments/test_gymnasium.py",
    "tests/replay/test_metrics.py",
    "tests/orchestrator/test_metrics.py",
    "tests/orchestrator/service/test_standard_services.py",
    "tests/sdk/test_gymnasium.py",
    "tests/sdk/test_pettingzoo.py",
    "tests/sdk/test_table.py",
)
# It compares with code that tools of the tree generate.
LEFT_OUT = ("tests/api/test_protos.py::test_generated_code_is_up_to_date",)
# They treat warnings as errors, and protobuf 4 has some on Python 3.12 and later.
STRICT = (
    "tests/orchestrator/service/test_server.py::test_program_that_does_not_stop_its_server_ends_cleanly",
    "tests/orchestrator/service/test_server.py::test_ctrl_c_ends_a_wait",
)


def find_python(version: str) -> str | None:
    """Return an interpreter of a version, those of pyenv included, or None."""
    places = [f"python{version}", sys.executable]
    home = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    places += [str(path) for path in sorted(home.glob(f"versions/{version}.*/bin/python"))]
    for place in places:
        found = shutil.which(place)
        if found is None:
            continue
        question = [found, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        asked = subprocess.run(question, capture_output=True, text=True, check=False)
        if asked.returncode == 0 and asked.stdout.strip() == version:
            return found
    return None


def check_oldest() -> None:
    """Exit if the oldest versions differ from the lower bounds of pyproject.toml."""
    pins = dict(re.findall(r"([\w\[\]-]+)==([\d.]+)", " ".join((OLDEST["3.11"], *OLDEST_EXTRAS))))
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    lines = [*project["dependencies"]]
    for extra, needed in project["optional-dependencies"].items():
        # The oldest version of sb3 would bring an old PyTorch; `make test TORCH=...` tests it.
        # Minari needs NumPy 2.
        lines += [] if extra in ("sb3", "minari") else needed
    for line in lines:
        name, least = re.match(r"([\w\[\]-]+)>=([\d.]+)", line).groups()
        if not (pins.get(name, "nothing") + ".").startswith(least + "."):
            sys.exit(f"matrix: pyproject.toml says {line}, and tested is {pins.get(name)}")


def requirements(version: str, end: str) -> list[str]:
    """Return the requirements beside the wheel for the oldest or newest end of a Python."""
    if end == "newest":
        torch = os.environ.get("TORCH") if version == "3.11" else ""
        return [*NEWEST_EXTRAS, *RUNNERS, *([torch] if torch else [])]
    extras = OLDEST_EXTRAS if version == "3.11" else ()
    return [*OLDEST[version].split(), *extras, *RUNNERS]


def run(python: Path, *arguments: str | Path) -> bool:
    """Run an environment's Python in the tree; return whether it succeeded."""
    command = [str(python), *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL).returncode == 0


def test(interpreter: str, version: str, end: str, wheel: Path) -> bool:
    """Create an environment and run its tests; return whether they passed."""
    folder = ENVIRONMENTS / f"{version}-{end}"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([interpreter, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    if not run(python, *install, "--prefer-binary", wheel, *requirements(version, end)):
        return False
    run(python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check")
    with_extras = end == "newest" or version == "3.11"
    tests = [*TESTS, *(TESTS_OF_EXTRAS if with_extras else ())]
    pytest = ("-m", "pytest", "-q", "-x", "-n2", "--dist=loadfile", "-pno:cacheprovider")
    left_out = (*LEFT_OUT, *(STRICT if end == "oldest" else ()))
    deselected = [f"--deselect={test}" for test in left_out]
    # Warnings of old packages about new ones are not ours.
    return run(python, *pytest, "-W", "default", *deselected, *tests)


def main() -> None:
    """Run the command line."""
    check_oldest()
    folder, *asked = sys.argv[1:]
    wheels = sorted(Path(folder).glob("*-abi3-*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        sys.exit(f"no abi3 wheel in {folder}: run make wheel")
    done: dict[str, str] = {}
    for version in asked or PYTHONS:
        interpreter = find_python(version)
        if interpreter is None:
            done[version] = "not installed"
            continue
        for end in ("oldest", "newest"):
            passed = test(interpreter, version, end, wheels[-1].resolve())
            done[f"{version}, {end}"] = "passed" if passed else "FAILED"
    print("\n".join(f"Python {case}: {how}" for case, how in done.items()))
    if "FAILED" in done.values() or "passed" not in done.values():
        sys.exit(1)


if __name__ == "__main__":
    main()
