"""Columns of each kind of batch: the table of the extension, and fields of the named tuples."""

from typing import Any

import numpy as np
import pytest

import cogrs
from cogrs._core import SampleMixer
from tests.replay.build import add_uniform, memory

SAMPLES = [
    ({}, cogrs.Sample),
    ({"nstep_return": True}, cogrs.NStepSample),
    ({"beta": 0.4}, cogrs.WeightedSample),
    ({"nstep_return": True, "beta": 0.4}, cogrs.NStepWeightedSample),
]
BATCHES = [
    (False, False, cogrs.Batch),
    (True, False, cogrs.IdBatch),
    (False, True, cogrs.NStepBatch),
    (True, True, cogrs.NStepIdBatch),
]


@pytest.mark.parametrize(("options", "kind"), SAMPLES)
def test_columns_of_sample_are_fields_of_its_class(options: dict[str, Any], kind: Any) -> None:
    rem = memory()
    add_uniform(rem, 4)
    assert type(rem.sample(2, **options)) is kind
    with pytest.raises(TypeError) as refused:
        rem.sample(2, out=(), **options)
    assert f"expected ({', '.join(kind._fields)}) as" in str(refused.value)


@pytest.mark.parametrize(("ids", "nstep", "kind"), BATCHES)
def test_columns_of_batch_are_fields_of_its_class(ids: bool, nstep: bool, kind: Any) -> None:
    mixer = SampleMixer(memory(), 1, ids=ids, nstep=nstep)
    with pytest.raises(TypeError) as refused:
        mixer.check(2, out=())
    assert f"expected ({', '.join(kind._fields)}) as" in str(refused.value)


@pytest.mark.parametrize("kind", [cogrs.IdBatch, cogrs.NStepIdBatch])
def test_former_name_of_id_warns(kind: Any) -> None:
    batch = kind(*(np.arange(3) for _ in kind._fields))
    with pytest.warns(DeprecationWarning, match="ids is now id"):
        assert batch.ids is batch.id
