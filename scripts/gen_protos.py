#!/usr/bin/env python3
"""Generate the Python code of the protos: `python scripts/gen_protos.py [--check] [--out DIR]`.

The tools are pinned in an environment of their own, `.venvs/protoc`, which is created on first use:
code of newer tools refuses the oldest protobuf and grpcio that the package supports.
"""

from __future__ import annotations

import argparse
import difflib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
PACKAGE = Path("cogrs/api")
TOOLS = ROOT / ".venvs" / "protoc"

# Installed without their dependencies: grpcio-tools 1.62 asks for protobuf 4, which its protoc
# never imports, and mypy-protobuf, from the first version that types asyncio stubs well, needs 6.
PINS = ("grpcio-tools==1.62.3", "mypy-protobuf==5.1.0", "protobuf==6.33.6")
# The versions for which grpcio-tools 1.62 has wheels and mypy-protobuf 5 runs.
TOOL_PYTHONS = ("3.11", "3.12")

# The default descriptor pool takes each name once per process, and users may have code for it.
PRIVATE_PACKAGE = re.compile(r"^package cogment;$", re.MULTILINE)
SERVICE = re.compile(r"^service \w+ \{$", re.MULTILINE)
PRIVATE_POOL = (
    (
        "from google.protobuf import descriptor_pool as _descriptor_pool\n",
        "from cogrs.api import _pool\n",
    ),
    (
        "from google.protobuf.internal import builder as _builder\n",
        "from cogrs.api._pool import builder as _builder\n",
    ),
    ("_descriptor_pool.Default().AddSerializedFile(", "_pool.add_file("),
)


def tools_ready() -> bool:
    """Return whether the tools are installed in the pinned versions."""
    stamp = TOOLS / "pins.txt"
    return stamp.is_file() and stamp.read_text() == "\n".join(PINS)


def find_python() -> str:
    """Return an interpreter that can run the tools."""
    for name in (sys.executable, *(f"python{version}" for version in TOOL_PYTHONS)):
        question = [name, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        try:
            answer = subprocess.run(question, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        if answer.stdout.strip() in TOOL_PYTHONS:
            return name
    sys.exit(f"gen_protos: needs one of Python {', '.join(TOOL_PYTHONS)} to run {PINS[0]}")


def make_tools() -> None:
    """Create the environment of the tools."""
    subprocess.run([find_python(), "-m", "venv", "--clear", TOOLS], check=True)
    pip = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run(
        [TOOLS / "bin/python", *pip, "--no-deps", "--only-binary=:all:", *PINS], check=True
    )
    (TOOLS / "pins.txt").write_text("\n".join(PINS))


def protoc(protos: list[Path], out: Path, *kinds: str) -> None:
    """Run protoc over some protos, for some kinds of output."""
    command: list[str | Path] = [TOOLS / "bin/python", "-m", "grpc_tools.protoc", f"-I{PROTOS}"]
    command += [
        f"--plugin={plugin}={TOOLS / 'bin' / plugin}"
        for plugin in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")
    ]
    command += [f"--{kind}_out={'quiet:' if 'mypy' in kind else ''}{out}" for kind in kinds]
    subprocess.run([*command, *protos], check=True)


def move_to_private_pool(module: Path) -> None:
    """Change a generated module to use cogrs.api's descriptor pool in place of the default one."""
    code = module.read_text()
    for old, new in PRIVATE_POOL:
        if code.count(old) != 1:
            sys.exit(f"gen_protos: {module.name} does not have one {old!r}")
        code = code.replace(old, new)
    module.write_text(code)


def generate(out: Path) -> None:
    """Generate all code below `out`."""
    texts = {proto: proto.read_text() for proto in sorted((PROTOS / PACKAGE).glob("*.proto"))}
    protoc(list(texts), out, "python", "mypy")
    # A grpc module without services would import gRPC needlessly.
    services = [proto for proto, text in texts.items() if SERVICE.search(text)]
    if services:
        protoc(services, out, "grpc_python", "mypy_grpc")
    for proto, text in texts.items():
        if PRIVATE_PACKAGE.search(text):
            move_to_private_pool(out / PACKAGE / f"{proto.stem}_pb2.py")


def generated(out: Path) -> dict[str, Path]:
    """Return the generated files below `out` by their names."""
    return {path.name: path for path in sorted((out / PACKAGE).glob("*_pb2*.py*"))}


def differences(old: dict[str, Path], new: dict[str, Path]) -> list[str]:
    """Return a diff for each new file that differs from the old one."""
    found = []
    for name in sorted({*old, *new}):
        before = old[name].read_text().splitlines() if name in old else []
        after = new[name].read_text().splitlines() if name in new else []
        if before != after:
            diff = difflib.unified_diff(
                before, after, f"{name} (there)", f"{name} (new)", n=1, lineterm=""
            )
            found.append("\n".join(diff))
    return found


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--out", type=Path, default=ROOT / "python", help="folder for the code")
    parser.add_argument(
        "--check", action="store_true", help="compare with the tree, and write nothing"
    )
    options = parser.parse_args()
    if not tools_ready():
        make_tools()
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        old, new = generated(options.out), generated(Path(folder))
        if options.check:
            if found := differences(old, new):
                sys.exit("\n".join([*found, "gen_protos: the code in the tree is not up to date"]))
            return
        (options.out / PACKAGE).mkdir(parents=True, exist_ok=True)
        for name in old.keys() - new.keys():
            old[name].unlink()
        for name, path in new.items():
            shutil.copyfile(path, options.out / PACKAGE / name)


if __name__ == "__main__":
    main()
