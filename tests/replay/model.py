"""A replay memory in plain lists and loops, to compare the real one with.

It has the methods and settings of `cogrs.ReplayMemory`, without its checks of single arguments.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.replay.model_entry import (
    NaiveEntry,
    NaiveEpisode,
    NaiveFields,
    NaiveTransition,
    NaiveView,
)

FIELDS = ("s", "a", "r", "p", "v", "q", "i")
BUFFERS = ("state", "action", "reward", "prob", "value", "qvest", "info")


def lambda_returns(
    r: np.ndarray, v: np.ndarray, gamma: np.ndarray, lambda_: float, bootstrap: np.ndarray | float
) -> np.ndarray:
    """The multi-step return of each step; all float64, time first."""
    q = np.zeros_like(r)
    for t in reversed(range(len(r))):
        if t == len(r) - 1:
            q[t] = r[t] + gamma * bootstrap
        else:
            q[t] = r[t] + gamma * (lambda_ * q[t + 1] + (1 - lambda_) * v[t + 1])
    return q


class NaiveWriter:
    def __init__(self, memory: NaiveMemory) -> None:
        self.memory = memory
        self.open: NaiveEpisode | None = None

    def _require_open(self) -> NaiveEpisode:
        if self.open is None:
            raise RuntimeError("no episode is open")
        return self.open

    def new_episode(self) -> None:
        self.open = NaiveEpisode()

    def abort_episode(self) -> None:
        self._require_open()
        self.open = None

    def add_entry(self, s, a, r, p, v, i, init_w) -> int:
        episode = self._require_open()
        self.memory.make_room(1)
        entry = self.memory.make_entry({"s": s, "a": a, "r": r, "p": p, "v": v, "i": i}, init_w)
        episode.entries.append(entry)
        return entry.id

    def add_entries(self, s, a, r, p, v, i, init_w) -> int:
        episode = self._require_open()
        self.memory.make_room(len(s))
        weights = np.broadcast_to(init_w, len(s))
        first = self.memory.next_id
        for row in zip(s, a, r, p, v, i, weights, strict=True):
            episode.entries.append(
                self.memory.make_entry(dict(zip("sarpvi", row[:6], strict=True)), row[6])
            )
        return first

    def close_episode(
        self,
        multiplier: float = 1.0,
        do_update_value: bool = True,
        do_update_weight: bool = True,
        *,
        bootstrap_value: Any = None,
        final_state: Any = None,
        final_info: Any = None,
    ) -> None:
        episode = self._require_open()
        memory = self.memory
        memory.check_updates(do_update_value, do_update_weight)
        if final_state is not None:
            memory.make_room(1)
            self._add_final(final_state, final_info, bootstrap_value)
        episode.bootstrap = bootstrap_value
        episode.settings = memory.settings()
        episode.updates_value = do_update_value
        episode.updates_weight = do_update_weight
        for entry in episode.entries:
            entry.base *= multiplier
        self.open = None
        memory.episodes.append(episode)
        memory.update(episode, len(episode))
        if memory.new_priority != "returns":
            memory.renew(episode, range(len(episode.steps())))
        memory.note(episode, range(len(episode)))
        while memory.max_episode and len(memory.episodes) > memory.max_episode:
            # An episode without entries makes none go that has some.
            empty = [k for k, each in enumerate(memory.episodes) if not len(each)]
            newest = len(memory.episodes) - 1
            first = 0 if memory.remover == "fifo" else newest - 1
            memory.episodes.pop(newest if newest in empty else empty[0] if empty else first)

    def _add_final(self, state: Any, info: Any, bootstrap: Any) -> None:
        zero = {name: np.zeros_like(self.memory.templates[name]) for name in FIELDS}
        value = zero["v"] if bootstrap is None or zero["v"].size == 0 else bootstrap
        fields = {**zero, "s": state, "v": value, "i": zero["i"] if info is None else info}
        episode = self._require_open()
        episode.entries.append(self.memory.make_entry(fields, 0.0))
        episode.has_final_state = True


class NaiveMemory(NaiveWriter):
    """The memory is its own first writer."""

    def __init__(self, templates: dict[str, np.ndarray], max_step: int) -> None:
        super().__init__(self)
        self.templates = templates
        self.max_step = max_step
        self.episodes: list[NaiveEpisode] = []
        self.writers: list[NaiveWriter] = [self]
        self.next_id = 0
        self.priority_exponent = 0.5
        self.mix_lambda = 1.0
        self.frame_stack = 1
        self.multi_step = 1
        self.max_episode = 0
        self.cache_flags = [True] * 14
        self.new_priority: str | float = "returns"
        self.priority_epsilon = 0.0
        self.frame_padding = "none"
        self.remover = "fifo"
        self._max_times_sampled = 0
        self.largest = 1.0
        self._discount_factor = [1.0] * templates["r"].size
        self._reward_coeff = [1.0] * templates["r"].size

    @property
    def discount_factor(self) -> list[float]:
        return self._discount_factor

    @discount_factor.setter
    def discount_factor(self, value: list[float]) -> None:
        self._discount_factor = [*value, *self._discount_factor[len(value) :]]

    @property
    def reward_coeff(self) -> list[float]:
        return self._reward_coeff

    @reward_coeff.setter
    def reward_coeff(self, value: list[float]) -> None:
        self._reward_coeff = [*value, *self._reward_coeff[len(value) :]]

    @property
    def max_times_sampled(self) -> int:
        return self._max_times_sampled

    @max_times_sampled.setter
    def max_times_sampled(self, value: int) -> None:
        self._max_times_sampled = value
        for episode in self.episodes:
            for entry in episode.entries:
                entry.times = min(entry.times, value)

    def settings(self) -> dict[str, Any]:
        return {
            "gamma": np.array(self.discount_factor),
            "coeff": np.array(self.reward_coeff),
            "lambda": self.mix_lambda,
            "exponent": self.priority_exponent,
            "epsilon": self.priority_epsilon,
            "new_priority": self.new_priority,
        }

    # -- what it holds --

    def num_episode(self) -> int:
        return len(self.episodes)

    def open_entries(self) -> int:
        return sum(len(writer.open or ()) for writer in self.writers)

    @property
    def num_entry(self) -> int:
        return self.open_entries() + sum(len(episode) for episode in self.episodes)

    @property
    def weight_sum(self) -> float:
        return sum(episode.entries[t].weight for episode, t in self.drawable())

    def is_drawable(self, episode: NaiveEpisode, t: int) -> bool:
        """Whether a sample of step t stays in its episode under the present settings."""
        stacked = t >= self.frame_stack - 1 or self.frame_padding != "none"
        limit, times = self.max_times_sampled, episode.entries[t].times
        return stacked and self.step_of_next(episode, t) is not None and not 0 < limit <= times

    def step_of_next(self, episode: NaiveEpisode, t: int) -> int | None:
        """The step of `next`, if there is one."""
        if t >= len(episode.steps()):
            return None
        after = t + self.multi_step
        if episode.has_final_state:
            return min(after, len(episode) - 1)
        return after if after < len(episode) else None

    def drawable(self) -> list[tuple[NaiveEpisode, int]]:
        return [
            (episode, t)
            for episode in self.episodes
            for t in range(len(episode))
            if self.is_drawable(episode, t)
        ]

    def find(self, id_: int) -> tuple[NaiveEpisode, int] | None:
        """The episode, open or closed, and the step of an id."""
        opened = [writer.open for writer in self.writers if writer.open is not None]
        for episode in self.episodes + opened:
            for t, entry in enumerate(episode.entries):
                if entry.id == id_:
                    return episode, t
        return None

    # -- writing --

    def writer(self) -> NaiveWriter:
        self.writers.append(NaiveWriter(self))
        return self.writers[-1]

    def drop_writer(self, writer: NaiveWriter) -> None:
        self.writers.remove(writer)

    def clear(self) -> None:
        self.episodes = []
        for writer in self.writers:
            writer.open = None

    def add_episode(
        self,
        s,
        a,
        r,
        p,
        v,
        i,
        init_w,
        multiplier: float = 1.0,
        do_update_value: bool = True,
        do_update_weight: bool = True,
        **end: Any,
    ) -> int:
        self.check_updates(do_update_value, do_update_weight)
        # The entries would make room for themselves before the final state finds none.
        self.check_room(len(s) + (end.get("final_state") is not None))
        beside = self.writer()
        beside.new_episode()
        first = beside.add_entries(s, a, r, p, v, i, init_w)
        beside.close_episode(multiplier, do_update_value, do_update_weight, **end)
        self.drop_writer(beside)
        return first

    def make_entry(self, given: dict[str, Any], init_w: float) -> NaiveEntry:
        fields = {
            name: np.array(given.get(name, np.zeros_like(template)), template.dtype)
            for name, template in self.templates.items()
        }
        self.next_id += 1
        return NaiveEntry(fields, self.next_id - 1, float(init_w))

    def check_updates(self, do_update_value: bool, do_update_weight: bool) -> None:
        if do_update_weight and not do_update_value:
            raise RuntimeError("weights need values")
        if do_update_value and self.templates["v"].size == 0:
            raise RuntimeError("value is missing")

    def check_room(self, count: int) -> None:
        if self.open_entries() + count > self.max_step:
            raise RuntimeError("open episodes fill the memory")

    def make_room(self, count: int) -> None:
        self.check_room(count)
        while self.num_entry + count > self.max_step:
            self.episodes.pop(0 if self.remover == "fifo" else -1)

    def renew(self, episode: NaiveEpisode, steps: range) -> None:
        """Give entries the weight of new ones, where that is not made of returns."""
        new = episode.settings["new_priority"]
        for entry in episode.entries[steps.start : steps.stop]:
            entry.given = entry.base * (self.largest if new == "max" else new)

    def note(self, episode: NaiveEpisode, steps: range) -> None:
        """Keep the largest weight that was ever given."""
        for t in steps:
            entry = episode.entries[t]
            if entry.base > 0 and self.is_drawable(episode, t):
                self.largest = max(self.largest, entry.weight / entry.base)

    def update(self, episode: NaiveEpisode, count: int) -> None:
        """Make returns, and the weights of the first `count` entries, by the episode's settings."""
        if episode.updates_value:
            self._update_values(episode)
        if episode.updates_weight and episode.settings["new_priority"] == "returns":
            for entry in episode.steps()[:count]:
                self._update_weight(entry, episode)

    @staticmethod
    def _update_values(episode: NaiveEpisode) -> None:
        if episode.has_final_state:
            final = episode.entries[-1].fields
            final["q"] = np.float64(final["v"])
        steps = episode.steps()
        if not steps:
            return
        r = np.array([entry.fields["r"] for entry in steps], np.float64)
        v = np.array([entry.fields["v"] for entry in steps], np.float64)
        gamma = episode.settings["gamma"].reshape(r.shape[1:])
        bootstrap = 0.0 if episode.bootstrap is None else np.float64(episode.bootstrap)
        q = lambda_returns(r, v, gamma, episode.settings["lambda"], bootstrap)
        for entry, value in zip(steps, q, strict=True):
            entry.fields["q"] = value

    @staticmethod
    def _update_weight(entry: NaiveEntry, episode: NaiveEpisode) -> None:
        coeff = episode.settings["coeff"]
        apart = np.abs(entry.fields["q"] - entry.fields["v"]).ravel()
        entry.error = sum(c * e for c, e in zip(coeff, apart, strict=True))
        entry.exponent = episode.settings["exponent"]
        entry.epsilon, entry.given = episode.settings["epsilon"], None
        largest = max(np.abs(e.fields[name]).max() for e in episode.entries for name in "qv")
        entry.slop = 2.0**-22 * float(largest * np.abs(coeff).sum())

    # -- correcting --

    def update_priority(
        self, ids: list[int], priority: list[float], *, absolute: bool = False
    ) -> int:
        gone, changed = 0, []
        for id_, error in zip(ids, priority, strict=True):
            found = self.find(id_)
            if found is None:
                gone += 1
                continue
            changed.append(found)
            entry = found[0].entries[found[1]]
            entry.error, entry.slop, entry.epsilon = error, 0.0, self.priority_epsilon
            entry.exponent = self.priority_exponent
            entry.given = error if absolute else None
        for episode, step in changed:  # of an id given twice the last weight is the one that counts
            self.note(episode, range(step, step + 1))
        return gone

    def add_reward(self, id_: int, delta: np.ndarray) -> bool:
        found = self.find(id_)
        if found is None:
            return False
        episode, t = found
        fields = episode.entries[t].fields
        fields["r"] = np.float32(fields["r"] + delta)
        if episode in self.episodes:
            self.update(episode, t + 1)
            first = 0
            if episode.settings["new_priority"] != "returns":
                first = max(0, t + 1 - self.multi_step)
                self.renew(episode, range(first, t + 1))
            self.note(episode, range(first, t + 1))
        return True

    # -- reading --

    def episode(self, index: int) -> NaiveView:
        episode = self.episodes[index]
        columns = {
            name: np.array(
                [e.fields[name] for e in episode.entries] or np.zeros(0, template.dtype)
            ).reshape(len(episode), *template.shape)
            for name, template in self.templates.items()
        }
        weight = [
            e.weight if self.is_drawable(episode, t) else 0.0 for t, e in enumerate(episode.entries)
        ]
        return NaiveView(
            NaiveFields(**columns),
            np.array(weight, np.float64),
            np.array([e.id for e in episode.entries], np.uint64),
            episode.bootstrap is not None,
            episode.has_final_state,
        )

    def transition(self, episode: NaiveEpisode, t: int) -> NaiveTransition:
        """The sample of step t."""
        after = self.step_of_next(episode, t)
        terminates = (
            episode.has_final_state and episode.bootstrap is None and after == len(episode) - 1
        )
        gamma = self._gamma()
        rewards = [entry.fields["r"].astype(np.float64) for entry in episode.entries[t:after]]
        discounted = (gamma**k * reward for k, reward in enumerate(rewards))
        return NaiveTransition(
            self._stacked(episode, t),
            self._stacked(episode, after),
            episode.entries[t].weight_range(),
            terminates,
            sum(discounted, np.zeros(gamma.shape)),
            gamma * 0 if terminates else gamma ** (after - t),
        )

    def _gamma(self) -> np.ndarray:
        return np.array(self.discount_factor, np.float64).reshape(self.templates["r"].shape)

    def _stacked(self, episode: NaiveEpisode, t: int) -> dict[str, np.ndarray]:
        frames = [entry.fields["s"] for entry in episode.entries[: t + 1]]
        before = np.zeros_like(frames[0]) if self.frame_padding == "zero" else frames[0]
        stack = [*[before] * (self.frame_stack - 1), *frames][-self.frame_stack :]
        return {**episode.entries[t].fields, "s": np.array(stack)}
