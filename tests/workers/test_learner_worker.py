"""The learner's half, with a real server and a real client."""

import numpy as np
import pytest

from cogrs.workers import PARAMETERS, LearnerWorker, pack_arrays, unpack_arrays
from tests.replay import network


class Model:
    """Counts its updates."""

    def __init__(self) -> None:
        self.batches = []

    def update(self, batch):
        self.batches.append(batch)
        return {"loss": float(len(self.batches))}

    def parameters(self):
        return pack_arrays({"updates": np.int64(len(self.batches))})


def published(client):
    message = client.sub_bytes(PARAMETERS, timeout=network.SLACK, last=True)
    return int(unpack_arrays(message)["updates"])


def test_batches_are_learned_from():
    with network.full_pair(cache_size=8) as (server, client):
        model = Model()
        worker = LearnerWorker(server, model.update, model.parameters, batch_size=6)
        assert [client.push_cache() for _ in range(2)] == [0, 0]
        network.arrived(server, 2)
        assert [worker.step(network.SLACK), worker.step(network.SLACK)] == [
            {"loss": 1.0},
            {"loss": 2.0},
        ]
        assert worker.updates == 2
        for batch in model.batches:
            assert batch.weight.shape == (6,)
            network.assert_consistent(batch)


def test_learner_step_waits_for_enough_samples():
    with network.full_pair(cache_size=8) as (server, client):
        model = Model()
        worker = LearnerWorker(server, model.update, model.parameters, batch_size=16)
        assert worker.step(0.01) is None
        assert worker.updates == 0
        assert [client.push_cache() for _ in range(2)] == [0, 0]
        assert worker.step(network.SLACK) == {"loss": 1.0}
        assert worker.step(0.01) is None
        assert len(model.batches) == 1


def test_learner_publishes_at_the_start_and_every_n_updates():
    with network.full_pair(cache_size=8) as (server, client):
        model = Model()
        worker = LearnerWorker(
            server, model.update, model.parameters, batch_size=2, publish_every=3
        )
        # Who comes late gets the first, which came before any update.
        assert published(client) == 0
        assert [client.push_cache() for _ in range(2)] == [0, 0]
        for _ in range(7):
            assert worker.step(network.SLACK) is not None
        assert [published(client), published(client)] == [3, 6]
        with pytest.raises(TimeoutError):
            client.sub_bytes(PARAMETERS, timeout=0.05)


def test_learner_publishes_on_the_given_topic():
    with network.pair() as (server, client):
        LearnerWorker(server, Model().update, lambda: b"mine", topic="other")
        assert client.sub_bytes("other", timeout=network.SLACK, last=True) == b"mine"


def test_exception_of_update_reaches_the_caller_of_step():
    def update(batch):
        raise ArithmeticError("no")

    with network.full_pair(cache_size=8) as (server, client):
        worker = LearnerWorker(server, update, Model().parameters, batch_size=2)
        assert [client.push_cache() for _ in range(2)] == [0, 0]
        with pytest.raises(ArithmeticError):
            worker.step(network.SLACK)
        assert worker.updates == 0


@pytest.mark.parametrize("name", ["batch_size", "publish_every"])
def test_batch_size_and_publish_every_below_one_are_refused(name):
    with network.made() as server, pytest.raises(ValueError, match=name):
        LearnerWorker(server, Model().update, Model().parameters, **{name: 0})
