"""Run proofs that policies learn, and show which hold: `python -m benchmarks.learning`.

Finished runs are kept in a file and not made again, so Ctrl-C loses the present run only. Each run
is a process of its own; settings of a proof take turns seed by seed, so that what is compared meets
the same machine. Exit codes: 0 all proofs that were asked for passed, 1 not all did, 2 wrong
arguments, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.learning import ROOT, catalogue, curves, rows, table
from benchmarks.record import Figure, keep

if TYPE_CHECKING:
    from benchmarks.learning.proof import Proof

TABLE = ROOT / "runs/learning/table.jsonl"
PLOTS = ROOT / "docs/static/learning"


def main(argv: list[str] | None = None) -> int:
    """Run what is asked for and not there yet, print the verdicts; return the exit code."""
    args = parse(argv)
    proofs = load(args.only or catalogue.NAMES)
    if not args.only and not args.all:
        proofs = {name: proof for name, proof in proofs.items() if not proof.long}
    interrupted = False
    if not args.report:
        try:
            run_all(proofs, args)
        except KeyboardInterrupt:
            interrupted = True
            print("interrupted: the same command goes on with the runs that are missing")
    passed = report(proofs, args.table, write=args.limit is None, plots=args.plots)
    return 130 if interrupted else 0 if passed else 1


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learning", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--all", action="store_true", help="the long proofs too, which take hours")
    parser.add_argument(
        "--only", nargs="+", choices=catalogue.NAMES, metavar="NAME", help="these proofs"
    )
    parser.add_argument("--seeds", type=seeds, help="these seeds, such as 1,2")
    parser.add_argument(
        "--limit", type=int, help="steps per run at most: a try, which proves nothing"
    )
    parser.add_argument("--report", action="store_true", help="run nothing, show what is there")
    parser.add_argument("--table", type=Path, default=TABLE, help="file of the finished runs")
    parser.add_argument("--plots", type=Path, default=PLOTS, help="folder for learning curves")
    return parser.parse_args(argv)


def seeds(text: str) -> list[int]:
    """Read seeds that are separated by commas."""
    try:
        found = [int(each) for each in text.split(",")]
    except ValueError:
        found = [-1]
    if min(found) < 0:
        raise argparse.ArgumentTypeError(f"expected integers >= 0 such as 1,2, got {text!r}")
    return found


def load(names: list[str] | tuple[str, ...]) -> dict[str, Proof]:
    """Load the proofs whose packages are installed; name the others."""
    proofs = {}
    for name in names:
        try:
            proof = catalogue.load(name)
            missing = ", ".join(proof.missing())
        except ModuleNotFoundError as error:
            missing = str(error.name)
        if missing:
            print(f"{name} is left out: {missing} is not installed")
        else:
            proofs[name] = proof
    return proofs


def run_all(proofs: dict[str, Proof], args: argparse.Namespace) -> None:
    """Make the runs that are not in the table, in turn."""
    done = rows.finished(rows.read(args.table)) if args.limit is None else set()
    wanted = [
        (name, setting, seed)
        for name, proof in proofs.items()
        for seed in args.seeds or proof.seeds
        for setting in proof.settings
    ]
    missing = [key for key in wanted if key not in done]
    print(f"{len(wanted)} runs, {len(wanted) - len(missing)} of them finished", flush=True)
    for number, key in enumerate(missing, 1):
        print(f"run {number} of {len(missing)}: {key[0]}, {key[1]}, seed {key[2]}", flush=True)
        make_run(key, args)


def make_run(key: rows.Key, args: argparse.Namespace) -> None:
    """Make one run in a process of its own, which ends with this call.

    A process that died without a word, such as one killed for its memory, gets a row, too.
    """
    name, setting, seed = key
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.learning.process"]
    command += [name, setting, str(seed), str(args.table.resolve())]
    if args.limit is not None:
        command += ["--limit", str(args.limit)]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        code = process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if code:
        row = {"proof": name, "setting": setting, "seed": seed, "short": args.limit is not None}
        rows.append(args.table, {**row, "error": f"the process ended with exit code {code}"})


def report(proofs: dict[str, Proof], path: Path, *, write: bool, plots: Path) -> bool:
    """Print tables and verdicts; keep figures and curves; return whether all proofs passed."""
    found, states = rows.read(path), {}
    for name, proof in proofs.items():
        states[name], checks = table.verdict(name, proof, found)
        print(
            f"\n{name}: {proof.title} ({proof.source})",
            *table.markdown(name, proof, found),
            sep="\n",
        )
        for row in found:
            if row["proof"] == name and row["error"] is not None:
                print(f"seed {row['seed']} of {row['setting']}: {row['error']}")
        for check in checks:
            print(f"{'passed' if check.passed else 'FAILED'}: {check.claim}: {check.found}")
        print(f"{name}: {states[name].upper()}")
        if write:
            keep_figures(name, proof, rows.chosen(found, name), plots)
    print("", *(f"{name:15}{state}" for name, state in states.items()), sep="\n")
    return all(state == "passed" for state in states.values())


def keep_figures(name: str, proof: Proof, found: rows.Rows, plots: Path) -> None:
    """Keep returns and times of a proof's runs, and draw its curves."""
    figures = []
    for setting in proof.settings:
        if found.of(setting):
            what = f"learning/{name}/{setting}"
            figures.append(Figure(f"{what}/return", "return", found.scores(setting)))
            seconds = found.figures(setting, "cpu_s")
            figures.append(Figure(f"{what}/CPU time", "s", seconds, less=True))
    if figures:
        keep(figures)
    lines = {each: [row["curve"] for row in found.of(each)] for each in proof.settings}
    if any(map(any, lines.values())):
        curves.plot(plots / f"{name}.svg", proof.title, lines, None)


if __name__ == "__main__":
    # A SIGTERM ends the present run, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
