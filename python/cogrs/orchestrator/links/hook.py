"""The port to a pre-trial hook."""

from __future__ import annotations

import asyncio

from cogrs.api.hooks_pb2 import PreTrialContext
from cogrs.orchestrator.engine.errors import AbortedError, UnavailableError
from cogrs.orchestrator.links.component import HookComponent, checked, describe
from cogrs.orchestrator.links.remote import RemoteError
from cogrs.user_errors import is_failure

_UNREACHABLE = ("UNAVAILABLE", "DEADLINE_EXCEEDED")


class HookLink:
    """One hook; errors name its endpoint."""

    def __init__(self, endpoint: str, component: HookComponent, timeout: float) -> None:
        """Call a component, for `timeout` seconds at most; 0 stands for no limit."""
        self._where = f"pre-trial hook {endpoint}"
        self._component = component
        self._timeout = timeout

    async def pre_trial(self, trial_id: str, context: PreTrialContext) -> PreTrialContext:
        """See `cogrs.orchestrator.engine.orchestrator.Hook.pre_trial`."""
        limit = asyncio.timeout(self._timeout or None)
        try:
            async with limit:
                return checked(
                    await self._component.on_pre_trial(trial_id, context), PreTrialContext
                )
        except BaseException as error:
            if not is_failure(error):
                raise
            if limit.expired():
                within = f"no answer within {self._timeout:g} s"
                raise UnavailableError(f"{self._where}: OnPreTrial: {within}") from error
            what = f"{self._where}: OnPreTrial: {describe(error)}"
            if isinstance(error, RemoteError) and error.status in _UNREACHABLE:
                raise UnavailableError(what) from error
            raise AbortedError(what) from error
