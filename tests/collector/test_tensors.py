"""Batches as tensors of PyTorch, and their copies on a GPU."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import cogrs
from tests.collector.build import actor, run

WITHOUT = """
import sys
sys.modules["torch"] = None
import cogrs
co = cogrs.ContextOptions(num_games=2)
described = {"actor": ({"s": "", "_batchsize": 2}, {"a": ""})}
context = cogrs.GameContext("cartpole")
try:
    cogrs.GCWrapper(context, co, described, use_numpy=False)
except ImportError as error:
    print(error)
cogrs.GCWrapper(context, co, described)
"""


def test_missing_pytorch_names_use_numpy() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("", 0)
    assert "pip install torch" in done.stdout
    assert "use_numpy=True" in done.stdout


def test_wrong_device_is_named() -> None:
    for gpu, error in ((-1, ValueError), ("cuda:0", TypeError), (1.5, TypeError)):
        with pytest.raises(error, match="gpu: expected an integer"):
            tensor_games(gpu=gpu, use_numpy=True)
    with pytest.raises(TypeError, match="use_numpy"):
        tensor_games(use_numpy="no")


def tensor_games(**more: Any) -> cogrs.GCWrapper:
    co = cogrs.ContextOptions(num_games=4, seed=1, num_threads=2)
    descriptions = {
        "actor": actor(4),
        "optimizer": ({"s": "2", "a": "", "V": "", "_batchsize": 3, "_T": 2}, None),
    }
    descriptions["actor"][1]["V"] = ""
    options = {"use_numpy": False, **more}
    return cogrs.GCWrapper(cogrs.GameContext("cartpole"), co, descriptions, **options)


def test_batches_are_tensors_over_the_games_memory() -> None:
    torch = pytest.importorskip("torch")
    kept, listened = [], []
    with tensor_games() as games:

        def act(batch: Any, gpu: Any, reply: Any) -> None:
            assert gpu is batch
            shown = batch[0]["s"]
            assert isinstance(shown, torch.Tensor)
            assert (shown.dtype, tuple(shown.shape)) == (torch.float32, (4, 4))
            assert batch[0]["last_terminal"].dtype == torch.uint8
            assert reply[0]["a"].dtype == torch.int64
            assert not reply[0]["a"].any()
            kept.append((batch.copy(), shown.tolist()))
            reply[0]["a"][:] = (shown[:, 2] > 0).long()
            reply[0]["V"] = shown[:, 0].numpy()
            assert torch.equal(reply[0]["V"], shown[:, 0])
            reply[0].update(V=[1.0, 2.0, 3.0, 4.0])
            reply[0]["V"] = 0.5
            with pytest.raises(KeyError):
                reply[0]["pi"] = 1

        def learn(batch: Any, _gpu: Any, reply: Any) -> None:
            assert reply is None
            listened.append(batch.copy())

        games.reg_callback("actor", act)
        games.reg_callback("optimizer", learn)
        games.Start()
        while len(listened) < 10:
            run(games)
        assert isinstance(games.inputs[0][0][0]["s"], torch.Tensor)
        assert isinstance(games.replies[0][0][0]["a"], torch.Tensor)  # type: ignore[index]
    for copied, values in kept:
        assert copied[0]["s"].tolist() == values
    for history in listened:
        assert history[0]["s"].shape == (3, 2, 4)
        assert torch.equal(history[0]["a"], (history[0]["s"][:, 1, 2] > 0).long())
        assert (history[0]["V"] == 0.5).all()


def test_short_batch_is_the_first_rows() -> None:
    torch = pytest.importorskip("torch")
    co = cogrs.ContextOptions(num_games=2, seed=1)
    described = {"actor": actor(8, _timeout_usec=1_000)}
    games = cogrs.GCWrapper(cogrs.GameContext("cartpole"), co, described, use_numpy=False)
    with games:
        games.reg_callback("actor", lambda batch, *_: tuple(batch[0]["s"].shape))
        games.Start()
        for _ in range(4):
            rows, size = run(games)
            assert (rows == games.infos.batchsize) and size == 4  # noqa: PT018
    assert torch.is_tensor(games.inputs[0][0][0]["id"])


def test_missing_gpu_warns_once_and_the_input_is_used() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    for use_numpy in (True, False):
        with pytest.warns(RuntimeWarning, match="gpu=0: CUDA is not available") as caught:
            games = tensor_games(gpu=0, use_numpy=use_numpy)
        assert len(caught) == 1
        with games, warnings.catch_warnings():
            warnings.simplefilter("error")
            games.reg_callback("actor", lambda batch, gpu, _reply: gpu is batch)
            games.reg_callback("optimizer", lambda *_: True)
            games.Start()
            for _ in range(5):
                assert run(games) is True
        with pytest.warns(RuntimeWarning, match="gpu=1"):
            games.setup_gpu(1)
        games.setup_gpu(None)
        assert games.gpu is None


def test_dtype_that_pytorch_lacks_is_named() -> None:
    pytest.importorskip("torch")
    from cogrs.collector.tensors import as_tensors

    with pytest.raises(TypeError, match=r"name: .*use_numpy=True"):
        as_tensors([{"name": np.zeros(3, "U5")}])


def cuda() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


@pytest.mark.skipif(not cuda(), reason="needs CUDA")
@pytest.mark.parametrize("use_numpy", [True, False])
def test_copies_on_a_gpu_equal_the_games_states(use_numpy: bool) -> None:
    import torch

    with tensor_games(gpu=0, use_numpy=use_numpy) as games:

        def act(batch: Any, gpu: Any, reply: Any) -> None:
            shown = gpu[0]["s"]
            assert shown.device == torch.device("cuda", 0)
            assert np.array_equal(shown.cpu().numpy(), np.asarray(batch[0]["s"]))
            if not use_numpy:
                assert batch[0]["s"].is_pinned()
            reply[0]["a"] = (shown[:, 2] > 0).long().cpu().numpy()

        games.reg_callback("actor", act)
        games.reg_callback("optimizer", lambda *_: None)
        games.Start()
        for _ in range(100):
            run(games)
        with pytest.raises(ValueError, match="gpu: expected an integer in"):
            games.setup_gpu(torch.cuda.device_count())
