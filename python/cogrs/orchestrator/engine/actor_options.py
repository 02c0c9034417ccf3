"""Options for actors that are late, silent or gone."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from cogrs.validation import check_flag, check_kind, check_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cogrs.api.common_pb2 import ActorParams


@dataclass(frozen=True, kw_only=True)
class ActorOptions:
    """Options of an actor, or of all actors of a class. None leaves an option unset."""

    optional: bool | None = None
    """Whether the trial starts, and goes on, without the actor; otherwise it ends. An actor that
    is gone acts by its default action, or by an empty one."""
    default_action: bytes | None = None
    """Stands in for an action that does not come within `response_timeout`, or from an actor that
    is gone: the serialized message, or other bytes that actors of the class send."""
    response_timeout: float | None = None
    """Seconds for an answer to an observation; 0 stands for no limit. Without a default action the
    actor is lost when they are over."""
    initial_connection_timeout: float | None = None
    """Seconds for an agent's OnStart, or for a client to join, instead of `start_timeout` and
    `join_timeout`; 0 stands for no limit."""

    observer: bool | None = None
    """Whether the actor only watches: no tick waits for its answer, and the environment is given
    its default action, or an empty one. Its rewards and messages count as everybody's. It is
    `optional` unless that is said to be False."""

    @property
    def may_be_lost(self) -> bool:
        """Whether the trial starts, and goes on, without the actor."""
        return bool(self.observer if self.optional is None else self.optional)

    def __post_init__(self) -> None:
        """Check all options.

        Raises:
            TypeError: An option has the wrong type.
            ValueError: A timeout is not a finite number of seconds >= 0.
        """
        for name in ("optional", "observer"):
            if getattr(self, name) is not None:
                check_flag(name, getattr(self, name))
        check_kind("default_action", self.default_action, bytes | None, "bytes")
        for name in ("response_timeout", "initial_connection_timeout"):
            if (value := getattr(self, name)) is not None:
                check_seconds(name, value)

    def over(self, other: ActorOptions) -> ActorOptions:
        """Return these options, with those of `other` where they are unset."""
        mine = ((each.name, getattr(self, each.name)) for each in fields(self))
        return ActorOptions(
            **{name: getattr(other, name) if value is None else value for name, value in mine}
        )


_NONE = ActorOptions()


@dataclass(frozen=True, kw_only=True)
class OptionTable:
    """Options by the name of an actor, which come first, and by its class."""

    by_name: Mapping[str, ActorOptions] = field(default_factory=dict)
    by_class: Mapping[str, ActorOptions] = field(default_factory=dict)

    def of(self, actor: ActorParams) -> ActorOptions:
        """Return the options of an actor."""
        named, classed = self.by_name.get(actor.name), self.by_class.get(actor.actor_class)
        if named is None or classed is None:
            return named or classed or _NONE
        return named.over(classed)
