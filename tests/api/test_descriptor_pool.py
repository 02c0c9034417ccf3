"""The private descriptor pool, beside other generated code in the same process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from google.protobuf.internal import api_implementation

import cogrs
from cogrs.api import (
    _pool,
)

OTHERS = """
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.internal import builder

file = descriptor_pb2.FileDescriptorProto(name="common.proto", package="cogment", syntax="proto3")
for name in ("Observation", "Reward"):
    field = file.message_type.add(name=name).field.add(name="theirs", number=1)
    field.type, field.label = field.TYPE_STRING, field.LABEL_OPTIONAL
others = {}
added = descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
builder.BuildMessageAndEnumDescriptors(added, others)
builder.BuildTopDescriptorsAndMessages(added, "common_pb2", others)
"""
OURS = """
from cogrs.api import agent_pb2_grpc, datalog_pb2_grpc, environment_pb2_grpc, hooks_pb2_grpc
from cogrs.api import common_pb2, orchestrator_pb2_grpc
"""
BOTH = """
from google.protobuf import descriptor_pool

assert others["Observation"](theirs="x").SerializeToString() == b"\\n\\x01x"
assert common_pb2.Observation(tick_id=1).SerializeToString() == b"\\x08\\x01"
found = descriptor_pool.Default().FindMessageTypeByName("cogment.Observation")
assert found.file.name == "common.proto"
try:
    descriptor_pool.Default().FindMessageTypeByName("cogment.TrialParams")
except KeyError:
    pass
else:
    raise AssertionError("our messages are in the default pool")
"""


@pytest.mark.parametrize("implementation", ["upb", "python"])
@pytest.mark.parametrize("order", ["others first", "ours first"])
def test_other_generated_code_for_the_package_can_be_loaded(
    order: str, implementation: str
) -> None:
    first, second = (OTHERS, OURS) if order == "others first" else (OURS, OTHERS)
    check = f"""
        from google.protobuf.internal import api_implementation
        assert api_implementation.Type() == {implementation!r}
    """
    assert cogrs.__file__ is not None
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(cogrs.__file__).parents[1]),
        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation,
    }
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(check) + first + second + BOTH],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_error_of_the_descriptor_pool_names_the_cause() -> None:
    with pytest.raises(ImportError, match=r"protobuf \d+\.\d+.* private descriptor pool .*cogment"):
        _pool.add_file(b"no descriptor")


def test_this_run_uses_the_usual_implementation() -> None:
    wanted = os.environ.get("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "upb")
    assert api_implementation.Type() == wanted
