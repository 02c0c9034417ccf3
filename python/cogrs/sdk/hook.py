"""Pre-trial hooks, which set the parameters of trials before they start, and their host."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from cogrs.api.common_pb2 import TrialParams
from cogrs.api.hooks_pb2 import PreTrialContext
from cogrs.sdk.component_host import ComponentHost
from cogrs.sdk.hosted_component import HostedComponent, choose, failure_of
from cogrs.user_errors import is_failure

_logger = logging.getLogger("cogrs.sdk")


@dataclass(frozen=True, slots=True)
class NewTrial:
    """A trial that is about to start.

    Attributes:
        id: Its id.
        params: Its parameters: the project's defaults, or those of the hook before. They may be
            changed in place.
        user_id: Name of the user who starts it.
        implementation: Name of the hook that was asked for; "" for any.
    """

    id: str
    params: TrialParams
    user_id: str = ""
    implementation: str = ""


PreTrialHook: TypeAlias = Callable[[NewTrial], "TrialParams | Awaitable[Any] | None"]
"""Returns new parameters, or changes the given ones and returns None. Plain or async.

An exception refuses the trial, with its text.
"""


class HookHost(ComponentHost["HostedComponent[Any]"]):
    """What an orchestrator calls of hooks."""

    def __init__(self, implementations: Mapping[str, PreTrialHook]) -> None:
        """Call these."""
        super().__init__("cogrs-hook")
        self._implementations = implementations

    async def on_pre_trial(self, trial_id: str, context: PreTrialContext) -> PreTrialContext:
        """Return the parameters that a hook sets."""
        hook = choose(self._implementations, context.impl_name)
        params = TrialParams()
        params.CopyFrom(context.params)
        new = NewTrial(trial_id, params, context.user_id, context.impl_name)
        component: HostedComponent[Any] = HostedComponent(
            f"trial {trial_id}: pre-trial hook", self.components.threads
        )
        self.components.open(component)
        try:
            changed = await component.call_function(hook, new)
            if changed is not None and not isinstance(changed, TrialParams):
                kind = type(changed).__name__
                raise TypeError(f"expected TrialParams or None to be returned, got {kind}")
        except BaseException as error:
            if not is_failure(error):
                raise
            _logger.exception("trial %s: pre-trial hook failed", trial_id)
            raise failure_of(component.label, error) from error
        finally:
            self.components.lose(component)
        return PreTrialContext(params=params if changed is None else changed)
