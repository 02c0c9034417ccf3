"""`Plan`: what a run consists of, as a dataclass or a TOML file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cogrs.cluster.import_path import import_path
from cogrs.files import read_bounded
from cogrs.limits import CONFIG_BYTES
from cogrs.replay import RateLimiter
from cogrs.suggest import suggestion
from cogrs.validation import (
    check_count,
    check_flag,
    check_integer,
    check_number,
    check_path,
    check_seconds,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

_LARGEST = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run consists of. It is checked when it is created.

    Attributes:
        make_env: What `cogrs.VectorEnv` takes: the name of a built-in game, an id of Gymnasium, or
            `"package.module:function"`. A function of a module becomes that; others, such as those
            of a script, can be shipped by `cogrs.ray` only. So it is for `policy` and `learner`.
        env_options: Options of the game, or keyword arguments of the function; JSON has to have
            them.
        policy: Creates the `Policy` of an actor from a `PolicyContext`:
            `"package.module:function"`, or a function. So does `learner`.
        learner: Creates the `Learner`, from the observation space and the action space of one
            environment.
        shards: Replay servers, >= 1.
        actors: Processes with environments, at least as many as shards.
        envs_per_actor: Environments of each actor, >= 1, which one call of its policy answers.
        trials: Whether each episode is a trial of one actor, with an orchestrator in each actor's
            process, instead of environments that are stepped together. `make_env` is then the name
            of a built-in game, an id of Gymnasium, or creates an environment of Gymnasium;
            `envs_per_actor` trials run at once, and a call of the policy answers those that wait.
            Stored steps have `cogrs.workers.STEP_INFO` as their info.
        batch_size: Rows of a batch, >= 1.
        updates: Updates after which the run ends; None: it does not end by itself.
        publish_every: Updates between two publications of parameters, >= 1.
        checkpoint_seconds: Seconds between two checkpoints of each shard and of the learner, > 0.
        capacity: Steps that each actor remembers and draws its samples from, >= 1.
        cache_size: Samples that an actor sends at once, >= 1.
        n_caches: Caches that each shard holds, >= 1; so many must have come before it is drawn
            from.
        samples_per_step: Samples that an actor sends for each step, > 0.
        limiter: Arguments of `cogrs.RateLimiter`, of each shard: `samples_per_insert`, `min_size`,
            `error_buffer`. Actors wait at it, and so does the learner. None: nobody waits.
        settings: Settings of `ReplayMemory.from_spaces`, such as `gamma`, `n_step` and `alpha`.
        storage: Folder of runs; that of this one is in it, under its name.
        host: Address at which shards and directory listen.
        ports: First and last port of shards, of which each takes three.
        seed: Seed of environments, policies and draws; None draws from the system. Runs with the
            same seed differ, because process timing varies.

    Raises:
        TypeError, ValueError: An attribute has the wrong type or value; the text begins with its
            name.
    """

    make_env: str | Callable[..., Any]
    policy: str | Callable[..., Any]
    learner: str | Callable[..., Any]
    env_options: Mapping[str, Any] = field(default_factory=dict)
    shards: int = 1
    actors: int = 2
    envs_per_actor: int = 16
    trials: bool = False
    batch_size: int = 64
    updates: int | None = None
    publish_every: int = 20
    checkpoint_seconds: float = 60.0
    capacity: int = 10_000
    cache_size: int = 64
    n_caches: int = 16
    samples_per_step: float = 4.0
    limiter: Mapping[str, Any] | None = field(
        default_factory=lambda: {"samples_per_insert": 8, "min_size": 500, "error_buffer": 4_000}
    )
    settings: Mapping[str, Any] = field(default_factory=dict)
    storage: str | os.PathLike[str] = "runs"
    host: str = "127.0.0.1"
    ports: tuple[int, int] = (20_000, 20_999)
    seed: int | None = None

    def __post_init__(self) -> None:
        """Check all attributes, and turn functions into import paths."""
        self._check_numbers()
        for name in ("env_options", "settings"):
            self._check_table(name, getattr(self, name))
        if self.limiter is not None:
            self._check_table("limiter", self.limiter)
        limiter = self.rate_limiter()
        most = None if limiter is None else limiter.largest_batch
        if most is not None and self.batch_size > most:
            expected = f"at most {most}, which the limiter can ever allow"
            raise ValueError(f"batch_size: expected {expected}, got {self.batch_size}")
        self._check_ports()
        for name in ("policy", "learner"):
            object.__setattr__(self, name, import_path(name, getattr(self, name)))
        if not isinstance(self.make_env, str):
            object.__setattr__(self, "make_env", import_path("make_env", self.make_env))
        object.__setattr__(self, "storage", str(check_path("storage", self.storage)))
        if not isinstance(self.host, str) or not self.host:
            raise ValueError(f"host: expected an address, got {self.host!r}")

    def _check_numbers(self) -> None:
        counts = ("shards", "envs_per_actor", "batch_size", "publish_every")
        for name in (*counts, "capacity", "cache_size", "n_caches"):
            check_count(name, getattr(self, name))
        check_count("actors", self.actors, self.shards)
        check_flag("trials", self.trials)
        for name in ("updates", "seed"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 0, _LARGEST)
        check_seconds("checkpoint_seconds", self.checkpoint_seconds, above=True)
        given = check_number("samples_per_step", self.samples_per_step)
        if given <= 0:
            raise ValueError(f"samples_per_step: expected a number > 0, got {given}")
        if self.capacity < self.envs_per_actor:
            expected = f"at least envs_per_actor = {self.envs_per_actor}"
            raise ValueError(f"capacity: expected {expected}, got {self.capacity}")

    @staticmethod
    def _check_table(name: str, given: object) -> None:
        if not isinstance(given, Mapping):
            raise TypeError(f"{name}: expected a mapping, got {type(given).__name__}")
        try:
            json.dumps(dict(given))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: expected values that JSON can hold: {error}") from None

    def _check_ports(self) -> None:
        given: Any = self.ports
        if not isinstance(given, (tuple, list)) or len(given) != 2:
            raise ValueError(f"ports: expected the first and the last, got {given!r}")
        first, last = (check_integer("ports", port, 1, 65535) for port in given)
        if last - first + 1 < 3 * self.shards:
            expected = f"at least {3 * self.shards} ports, three for each shard"
            raise ValueError(f"ports: expected {expected}, got {first} to {last}")
        object.__setattr__(self, "ports", (first, last))

    def rate_limiter(self) -> RateLimiter | None:
        """Return the limiter of a shard; a ValueError if its arguments are not valid."""
        if self.limiter is None:
            return None
        try:
            return RateLimiter(**self.limiter)
        except (TypeError, ValueError) as error:
            raise ValueError(f"limiter: {error}") from None

    def as_json(self) -> dict[str, Any]:
        """Return the plan as JSON has it, with names in the places of `functions`."""
        return asdict(self) | {name: f"shipped:{name}" for name in self.functions()}

    def with_functions(self, given: Mapping[str, Callable[..., Any]]) -> Plan:
        """Return the plan with functions that `functions` has returned."""
        changes: dict[str, Any] = dict(given)
        return replace(self, **changes)

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return those of the plan's functions that other processes cannot import, by attribute."""
        given = {name: getattr(self, name) for name in ("make_env", "policy", "learner")}
        return {name: each for name, each in given.items() if not isinstance(each, str)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Plan:
        """Create a plan from names and values; errors as of the class."""
        known = {each.name for each in fields(cls)}
        for name in given:
            if name not in known:
                hint = suggestion(name, known)
                raise ValueError(f"{name}: a plan has no such key{f'; {hint}' if hint else ''}")
        for name in ("make_env", "policy", "learner"):
            if name not in given:
                raise ValueError(f"{name}: expected text, got nothing")
        return cls(**given)

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a plan from a TOML file, whose keys are the attributes.

        `storage` is relative to the file.

        Raises:
            OSError: The file cannot be read.
            ValueError: It is not TOML, or a key is unknown, missing or not valid; the text begins
                with the file and the key.
        """
        where = check_path("path", path)
        try:
            given = tomllib.loads(read_bounded(where, CONFIG_BYTES).decode())
            plan = cls.from_json(given)
        except RecursionError:
            raise ValueError(f"{where}: expected fewer levels of nested values") from None
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where}: {error}") from None
        object.__setattr__(plan, "storage", str(where.absolute().parent / Path(plan.storage)))
        return plan
