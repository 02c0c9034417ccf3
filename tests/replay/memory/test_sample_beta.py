"""Importance weights in samples."""

import pickle
from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory, importance_weights
from tests.replay import build
from tests.replay.build import memory


def weighted(**settings: Any) -> ReplayMemory:
    rem = memory(64, seed=1, **settings)
    for first in (0, 10, 20):
        rem.add_episode(
            **build.steps(10, first) | {"init_w": np.arange(10) + 1.0 + first}, **build.UNIFORM
        )
    return rem


@pytest.mark.parametrize("beta", [0, 0.4, 1.0, np.float32(0.5), 3])
@pytest.mark.parametrize(
    ("normalize", "of"), [("batch", "batch"), ("memory", "all"), ("all", "all")]
)
@pytest.mark.parametrize("nstep", [False, True])
@pytest.mark.parametrize("multi_step", [1, 3])
def test_sample_weights_equal_importance_weights(
    beta: float, normalize: Any, of: Any, nstep: bool, multi_step: int
) -> None:
    rem = weighted(multi_step=multi_step)
    sample = rem.sample(50, nstep_return=nstep, beta=beta, normalize=normalize)
    expected = importance_weights(
        sample.weight,
        exponent=beta,
        total=rem.weight_sum,
        count=rem.num_sampleable,
        normalize=of,
        min_weight=rem.min_weight,
    )
    got = sample.importance_weight
    assert (got.dtype, got.shape) == (np.float32, (50,))
    assert got.tolist() == expected.tolist()
    assert sample._fields[-1] == "importance_weight"
    if of == "batch":
        assert got.max() == 1.0
    by_hand = (rem.num_sampleable * sample.probability) ** -float(beta)
    largest = (
        by_hand.max()
        if of == "batch"
        else (rem.num_sampleable * rem.min_weight / rem.weight_sum) ** -float(beta)
    )
    np.testing.assert_allclose(got, by_hand / largest, rtol=1e-5)


@pytest.mark.parametrize("nstep", [False, True])
def test_beta_adds_one_field_and_draws_the_same(nstep: bool) -> None:
    without = weighted().sample(20, nstep_return=nstep)
    having = weighted().sample(20, nstep_return=nstep, beta=0.4)
    assert having._fields == (*without._fields, "importance_weight")
    for one, other in zip(without[2:], having[2:], strict=False):
        assert one.tolist() == other.tolist()
    assert weighted().sample(20, nstep_return=nstep, beta=None)._fields == without._fields


@pytest.mark.parametrize("nstep", [False, True])
def test_importance_weights_are_filled_into_out(nstep: bool) -> None:
    rem, again = weighted(), weighted()
    out = rem.sample(20, nstep_return=nstep, beta=0.4)
    again.sample(20)
    second = again.sample(20, nstep_return=nstep, beta=0.7)
    assert rem.sample(20, nstep_return=nstep, beta=0.7, out=out) is out
    assert out.importance_weight.tolist() == second.importance_weight.tolist()
    with pytest.raises(TypeError, match=r"^out: expected .*importance_weight"):
        rem.sample(20, nstep_return=nstep, beta=0.7, out=rem.sample(20, nstep_return=nstep))


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"beta": -0.1}, ValueError, "^beta: expected"),
        ({"beta": np.nan}, ValueError, "^beta: expected"),
        ({"beta": np.inf}, ValueError, "^beta: expected"),
        ({"beta": "1"}, TypeError, "^beta: expected a number"),
        ({"beta": 0.4, "normalize": "most"}, ValueError, "^normalize: expected"),
        ({"beta": 0.4, "normalize": None}, TypeError, "^normalize: expected"),
        ({"normalize": "most"}, ValueError, "^normalize: expected"),
    ],
)
def test_wrong_argument_is_refused_and_draws_nothing(
    given: Any, error: type[Exception], match: str
) -> None:
    rem = weighted()
    with pytest.raises(error, match=match):
        rem.sample(4, **given)
    assert rem.sample(8).id.tolist() == weighted().sample(8).id.tolist()


@pytest.mark.parametrize(
    ("name", "option"),
    [("nstep_return", "nstep_return=True"), ("importance_weight", r"beta=0\.4")],
)
def test_column_that_was_not_asked_for_names_the_option(name: str, option: str) -> None:
    sample = weighted().sample(2)
    assert not hasattr(sample, name)
    with pytest.raises(AttributeError, match=rf"no attribute '{name}': sample with {option}$"):
        getattr(sample, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        sample.nonsense  # noqa: B018
    assert pickle.loads(pickle.dumps(sample)).id.tolist() == sample.id.tolist()
