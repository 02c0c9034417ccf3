"""Transitions as algorithms add them, and buffers to compare."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)
DISCRETE = spaces.Discrete(4)


class Step(NamedTuple):
    """The arguments of `add`."""

    obs: Any
    next_obs: Any
    action: Any
    reward: Any
    done: Any
    infos: list[dict[str, Any]]


def rollout(
    steps: int,
    num_envs: int = 1,
    *,
    end: Any = 0.1,
    gap: float = 0.0,
    seed: int = 0,
    space: Any = BOX,
    action_space: Any = DISCRETE,
) -> Iterator[Step]:
    """Yield steps of environments whose episodes end at random; some are truncated.

    `end` is the probability of an end, of all environments or of each. With probability `gap` an
    environment is reset without an end.
    """
    rng = np.random.default_rng(seed)
    space.seed(seed)
    action_space.seed(seed)
    obs = sampled(space, num_envs)
    for _ in range(steps):
        next_obs = sampled(space, num_envs)
        done = rng.random(num_envs) < end
        cut = done & (rng.random(num_envs) < 0.5)
        reward = rng.normal(size=num_envs).astype(np.float32)
        infos = [{"TimeLimit.truncated": bool(flag)} for flag in cut]
        # The dict buffer of Stable-Baselines3 writes into the dicts that it gets.
        shown = (dict(each) if isinstance(each, dict) else each for each in (obs, next_obs))
        yield Step(*shown, sampled(action_space, num_envs), reward, done, infos)
        fresh = sampled(space, num_envs)
        begins = done | (rng.random(num_envs) < gap)
        obs = merged(begins, fresh, next_obs)


def sampled(space: Any, count: int) -> Any:
    """Return `count` values of a space, stacked."""
    values = [space.sample() for _ in range(count)]
    if isinstance(space, spaces.Dict):
        return {key: np.stack([value[key] for value in values]) for key in space}
    return np.stack(values)


def merged(mask: Any, some: Any, others: Any) -> Any:
    """Return `some` where `mask` is true, else `others`."""
    if isinstance(some, dict):
        return {key: merged(mask, some[key], others[key]) for key in some}
    return np.where(mask.reshape(-1, *[1] * (some.ndim - 1)), some, others)


def stacked_frames(
    steps: int, num_envs: int = 1, *, stack: int = 4, channels: int = 1, end: float = 0.05
) -> Iterator[Step]:
    """Yield steps whose observations are stacks of frames (stack * channels, 6, 5), uint8."""
    rng = np.random.default_rng(0)

    def frame() -> Any:
        return rng.integers(0, 255, (num_envs, channels, 6, 5), np.uint8)

    def first() -> Any:
        shown = np.zeros((num_envs, stack * channels, 6, 5), np.uint8)
        shown[:, -channels:] = frame()
        return shown

    obs = first()
    for _ in range(steps):
        next_obs = np.concatenate([obs[:, channels:], frame()], axis=1)
        done = rng.random(num_envs) < end
        infos: list[dict[str, Any]] = [{} for _ in range(num_envs)]
        reward = rng.normal(size=num_envs).astype(np.float32)
        yield Step(obs, next_obs, rng.integers(0, 4, num_envs), reward, done, infos)
        obs = merged(done, first(), next_obs)


def rows_of(samples: Any) -> set[tuple[bytes, ...]]:
    """Return each row of a batch as the bytes of its fields."""
    parts = []
    for part in samples[:5]:
        each = part.values() if isinstance(part, dict) else [part]
        parts += [tensor.cpu().numpy() for tensor in each]
    return {tuple(part[row].tobytes() for part in parts) for row in range(len(parts[-1]))}


def steps_of(buffer: Any, added: int) -> set[tuple[bytes, ...]]:
    """Return the first `added` steps of a buffer of Stable-Baselines3, as `rows_of`."""
    env_rows = []
    for env in range(buffer.n_envs):
        for at in range(added):
            rows = []
            for part in (buffer.observations, buffer.actions, buffer.next_observations):
                each = part.values() if isinstance(part, dict) else [part]
                rows += [array[at, env].tobytes() for array in each]
            ended = buffer.dones[at, env] * (1 - buffer.timeouts[at, env])
            rows += [np.float32(ended).tobytes(), buffer.rewards[at, env].tobytes()]
            env_rows.append(tuple(rows))
    return set(env_rows)
