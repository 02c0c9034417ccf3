"""The package works beside others that bring native code, in whatever order they are imported.

All of them at once come first or last; the soak has them in reverse and one by one too.
"""

import itertools
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.combinations import SOAK

# Each brings libraries of its own into the process: protobuf, abseil, OpenSSL, OpenMP, LLVM.
OTHERS = [name for name in ("grpc", "zmq", "jax", "torch", "pyarrow") if find_spec(name)]
USE = {
    "cogrs": """
import numpy as np
import cogrs
zero, scalar = np.zeros(2, np.float32), np.float32(0)
server = cogrs.ReplayMemoryServer(
    zero, scalar, scalar, scalar, scalar, scalar, zero, 100, "tcp://127.0.0.1:*", 1
)
server.rem.new_episode()
for step in range(4):
    server.rem.add_entry(zero, step, 1.0, 1.0, 0.0, zero, 1.0)
server.rem.close_episode()
assert server.rem.get_batch(2).weight.shape == (2,)
server.close()
with cogrs.serve_orchestrator({}, port=0) as orchestrator:
    assert orchestrator.port
""",
    "grpc": "import grpc\ngrpc.insecure_channel('127.0.0.1:1').close()\n",
    "zmq": "import zmq\nzmq.Context().term()\n",
    "jax": "import jax\nassert jax.numpy.ones(3).sum() == 3\n",
    "torch": "import torch\nassert torch.ones(3).sum() == 3\n",
    "pyarrow": "import pyarrow\nassert len(pyarrow.array([1, 2])) == 2\n",
}


ORDERS = [("cogrs", *OTHERS), (*OTHERS, "cogrs")]
if SOAK:
    ORDERS += [(*reversed(OTHERS), "cogrs")]
    ORDERS += [pair for other in OTHERS for pair in itertools.permutations(("cogrs", other))]


@pytest.mark.parametrize("names", ORDERS, ids=" ".join)
def test_modules_work_in_any_order_of_imports(names):
    program = "".join(USE[name] for name in names)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
