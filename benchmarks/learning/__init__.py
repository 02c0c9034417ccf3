"""Proofs that policies learn with cogrs, beside peers in the same script: `make learn`.

| question | file |
|---|---|
| what a proof consists of, and when it passes | `proof.py` |
| which proofs there are | `catalogue.py` |
| how one (proof, setting, seed) runs, and shows its progress | `run.py` |
| where finished runs are kept, and how they are tabulated | `table.py` |
| interquartile means, their intervals, and plots | `curves.py` |
| what the command does, and how it goes on after Ctrl-C | `__main__.py` |

Each other file is one proof. Settings are the published ones, which each file names; none is tuned
on the seeds that are shown.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The examples are scripts that import each other by the names of their files.
sys.path.append(str(ROOT / "examples"))
