"""Skips these tests, visibly, where Stable-Baselines3 or PyTorch is missing."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

# Networks here are small, and other test processes run beside these.
torch.set_num_threads(1)
