"""TorchRL: its slice samplers, uniform and prioritized, over a storage of tensors."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from timing import Job
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import SliceSampler
from workload import BURN_IN, EPISODE, LEARNED, Workload

from peers import Buffer

NAME = "TorchRL"


class Slices(Buffer):
    """A storage of steps with the number of their episode."""

    def __init__(self, load: Workload) -> None:
        """Keep the workload; the buffer is filled when it is timed."""
        self.load = load
        self.entry_size = load.states[0].nbytes + load.actions.itemsize + 4 * load.floats.itemsize

    def sequences(self, count: int) -> Job:
        """Slices within episodes, drawn uniformly."""
        load = self.load
        rows = BURN_IN + LEARNED
        sampler = SliceSampler(
            num_slices=count, traj_key="episode", strict_length=True, cache_values=True
        )
        buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(load.entries), sampler=sampler, batch_size=count * rows
        )
        floats = torch.as_tensor(load.floats)
        for number in range(load.episodes):
            names = ("reward", "prob", "value", "qvest")
            step = dict.fromkeys(names, floats)
            step |= {"state": torch.as_tensor(load.states), "action": torch.as_tensor(load.actions)}
            step["episode"] = torch.full((EPISODE,), number)
            buffer.extend(TensorDict(step, [EPISODE]))
        return Job(buffer.sample)


def vectors(load: Workload) -> Slices:
    """A buffer of W1."""
    return Slices(load)


def frames(load: Workload) -> Slices | None:
    """Without stacks: a buffer stores each step's observation whole."""
    del load
    return None
