"""Creates environments by ids of Gymnasium, callables, or the names of those."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cogrs.collector.environments.agent_game import agent_game
from cogrs.optional_dependency import import_optional
from cogrs.suggest import misspelt

if TYPE_CHECKING:
    from collections.abc import Callable

_IMPORTABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class Factory:
    """Creates environments, one after the other.

    Attributes:
        source: An id that `gymnasium.make` knows, `"package.module:function"`, or a callable. One
            that needs one positional argument is given the number of the environment.
        options: Keyword arguments of each call.
        known: The caller's own options, for suggestions where an option is misspelt.
    """

    source: str | Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    known: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise a TypeError if `source` is neither text nor a callable."""
        if hasattr(self.source, "observation_space") and not isinstance(self.source, type):
            raise TypeError(
                "env: expected an id or a callable that creates environments, got an environment: "
                "each game needs its own"
            )
        if not isinstance(self.source, str) and not callable(self.source):
            got = type(self.source).__name__
            raise TypeError(f"env: expected an id, 'module:function' or a callable, got {got}")

    @property
    def name(self) -> str:
        """The name of its games."""
        source = self.source
        return source if isinstance(source, str) else getattr(source, "__name__", repr(source))

    def make(self, number: int) -> Any:
        """Create the environment of this number; Gymnasium's checker is only for the first.

        ImportError for an id where Gymnasium is not installed.
        """
        is_id = isinstance(self.source, str) and not _IMPORTABLE.fullmatch(self.source)
        more = {"disable_env_checker": True} if is_id and number else {}
        function = self._function()
        first = (number,) if not is_id and _takes_number(function, self.options) else ()
        try:
            return function(*first, **{**more, **self.options})
        except TypeError as error:
            hint = misspelt(error, self.options, self.known)
            if not hint:
                raise
            raise TypeError(f"{error}; {hint}") from error

    def _function(self) -> Callable[..., Any]:
        if not isinstance(self.source, str):
            return self.source
        if _IMPORTABLE.fullmatch(self.source):
            return _imported(self.source)
        gymnasium = gymnasium_module()
        return lambda **options: gymnasium.make(self.source, **options)

    def described(self) -> dict[str, Any]:
        """Return what another process needs to create it.

        Raises:
            ValueError: The callable cannot be imported by a name, or JSON has no such options.
        """
        described = {"source": self._importable(), "options": dict(self.options)}
        try:
            json.dumps(described)
        except TypeError as error:
            raise ValueError(f"processes: expected options that JSON can hold: {error}") from None
        return described

    def _importable(self) -> str:
        if isinstance(self.source, str):
            return self.source
        where = (
            f"{getattr(self.source, '__module__', '')}:{getattr(self.source, '__qualname__', '')}"
        )
        if _IMPORTABLE.fullmatch(where) and not where.startswith("__main__:"):
            return where
        raise ValueError(
            "processes: expected an id, 'module:function', or a function of a module that other "
            f"processes can import, got {self.source!r}"
        )


@dataclass(frozen=True)
class Factories:
    """The factories of environments by their numbers: one for all, or one for each.

    Attributes:
        factories: These.
        count: The number of environments that they are for; None if it is free.
        of_agents: Whether the environments are PettingZoo's; they are made as `AgentGame`.
    """

    factories: tuple[Factory, ...]
    count: int | None = None
    of_agents: bool = False

    @classmethod
    def of(
        cls,
        source: Any,
        options: Mapping[str, Any] | None = None,
        known: tuple[str, ...] = (),
        each_options: Any = None,
        *,
        of_agents: bool = False,
    ) -> Factories:
        """Return the factories of a source, or of a sequence of sources.

        Args:
            source: As for Factory, or a sequence of such.
            options: Keyword arguments of all.
            known: As for Factory.
            each_options: More keyword arguments, as a mapping for all, or a sequence of mappings
                for one environment each.
            of_agents: Whether the environments are PettingZoo's; a source cannot be an id then.

        Raises:
            TypeError: A source or options of the wrong type.
            ValueError: A sequence is empty, the two sequences differ in length, or a source is an
                id of PettingZoo.
        """
        given = {"env": listed(source), "env_kwargs": listed(each_options)}
        lengths = {name: len(each) for name, each in given.items() if each is not None}
        for name, length in lengths.items():
            if not length:
                raise ValueError(f"{name}: expected at least one, got an empty sequence")
        if len(set(lengths.values())) > 1:
            expected = f"{lengths['env']} mappings, one for each of `env`"
            raise ValueError(f"env_kwargs: expected {expected}, got {lengths['env_kwargs']}")
        count = max(lengths.values(), default=None)
        sources = given["env"] or [source] * (count or 1)
        more = given["env_kwargs"] or [each_options] * (count or 1)
        for each in more:
            if each is not None and not isinstance(each, Mapping):
                expected = "a mapping of keyword arguments, or a sequence of mappings"
                raise TypeError(f"env_kwargs: expected {expected}, got {type(each).__name__}")
        pairs = zip(sources, more, strict=True)
        factories = (
            Factory(one, {**(options or {}), **(each or {})}, known) for one, each in pairs
        )
        made = cls(tuple(factories), count, of_agents)
        for factory in made.factories if of_agents else ():
            if isinstance(factory.source, str) and not _IMPORTABLE.fullmatch(factory.source):
                expected = "a function, or 'package.module:function'"
                hint = f'pettingzoo.make, env_type="parallel", id={factory.source!r}'
                raise ValueError(f"env: expected {expected}; for an id of PettingZoo {hint}")
        return made

    @property
    def name(self) -> str:
        """The name of the first environment."""
        return self.factories[0].name

    def make(self, number: int) -> Any:
        """Create the environment of this number."""
        env = self.factories[0 if self.count is None else number].make(number)
        return agent_game(env) if self.of_agents else env

    def check_count(self, name: str, number: int) -> None:
        """Refuse another number of environments, the argument `name`, by a ValueError."""
        if self.count not in (None, number):
            raise ValueError(
                f"{name}: expected {self.count}, one for each of the given, got {number}"
            )

    def as_json(self) -> str:
        """Return it as text for another process; errors as of `Factory.described`."""
        described = [factory.described() for factory in self.factories]
        return json.dumps([self.count, self.of_agents, described])

    @classmethod
    def from_json(cls, text: str) -> Factories:
        """Create it from the result of `as_json`."""
        count, of_agents, factories = json.loads(text)
        return cls(tuple(Factory(**each) for each in factories), count, of_agents)


def listed(given: Any) -> list[Any] | None:
    """Return several objects as a list; None for one object, text and mappings included."""
    one = isinstance(given, str | bytes | Mapping) or hasattr(given, "observation_space")
    return list(given) if isinstance(given, Iterable) and not one and not callable(given) else None


def _takes_number(function: Callable[..., Any], options: Mapping[str, Any]) -> bool:
    """Return whether a callable needs exactly one positional argument that has no option."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of a callable that is not written in Python
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [
        each
        for each in parameters
        if each.kind in kinds and each.default is each.empty and each.name not in options
    ]
    return len(needed) == 1


def gymnasium_module() -> Any:
    """Import and return Gymnasium; ImportError if it is not installed."""
    return import_optional("gymnasium", "games in Python need Gymnasium", "gymnasium")


def _imported(where: str) -> Callable[..., Any]:
    module, _, path = where.partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    if not callable(found):
        raise TypeError(f"env: expected a callable at {where!r}, got {type(found).__name__}")
    return found  # type: ignore[no-any-return]
