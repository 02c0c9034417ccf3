"""A user's object in one trial: which thread calls its methods, and one at a time.

A lock keeps methods from overlapping, so an end waits for a step that is under way; an agent's
`act` is cancelled instead, since nobody waits for its action then.

Plain methods run on a thread (`cogrs.threads`), which a component takes for its first one and gives
back at its end, so that environments may be bound to their thread; inline and async ones run on the
event loop. A call that is given up goes on: what follows queues after it, on the thread or on the
loop. Everything else here runs on the event loop.

Any exception of a user's code is its failure (`cogrs.user_errors`): SystemExit, a panic in Rust and
a cancellation would end the loop otherwise, or leave a caller without an answer.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from types import GeneratorType, MethodType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from grpc import StatusCode

from cogrs.hung_calls import names_call, qualified_name
from cogrs.sdk.agent import Agent
from cogrs.sdk.call_error import CallError
from cogrs.sdk.datalog import DatalogSink
from cogrs.sdk.environment import Environment
from cogrs.sdk.wire import received_message
from cogrs.user_errors import as_exception, is_failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from cogrs.api import common_pb2
    from cogrs.threads import ThreadPool, WorkerThread

_logger = logging.getLogger("cogrs.sdk")


UserObject = TypeVar("UserObject", Agent, Environment, DatalogSink, Any)
Result = TypeVar("Result")

_DEFAULTS = frozenset(
    function
    for base in (Agent, Environment, DatalogSink)
    for function in vars(base).values()
    if inspect.isfunction(function)
)
"""Methods that a user's class inherits; they do nothing, so any thread will do."""

_METHODS = ("start", "act", "step", "sample", "reward", "message", "end", "lost")
"""The methods that are called of a user's object."""


def is_inline(given: Any) -> bool:
    """Return whether a class, an object or a function says that its plain methods are quick."""
    return getattr(getattr(given, "func", given), "inline", None) is True


def is_awaitable(value: Any) -> bool:
    """Return whether a value can be awaited, faster than `inspect.isawaitable` does."""
    return hasattr(type(value), "__await__") or (
        isinstance(value, GeneratorType) and inspect.isawaitable(value)
    )


def _runs_on_loop(method: Any) -> bool:
    if isinstance(method, MethodType) and method.__func__ in _DEFAULTS:
        return True
    return inspect.iscoroutinefunction(method)


class HostedComponent(Generic[UserObject]):
    """One object of a user's in one trial.

    Its methods raise `CallError` when the user's code fails, or when they come too late.
    """

    def __init__(self, label: str, threads: ThreadPool) -> None:
        """Take the trial's and the component's name, for errors and the log, and a pool."""
        self.label = label
        self._user_object: UserObject | None = None
        # No method is called while another is awaited: an end must not meet a step.
        self._lock = asyncio.Lock()
        self.over = False
        """Whether the object was brought to its end, or is lost: no method is called any more."""
        self._threads = threads
        self._worker: WorkerThread | None = None
        self._inline = False
        self._abandoned = False
        """Whether the thread may be busy with a call that was given up."""
        self._awaited: tuple[Any, asyncio.Task[Any] | None] | None = None
        """The async method that is under way, and the task that awaits it."""
        self.reported_late = False
        """Whether the log says already that a method does not return."""

    async def make(
        self, make: Callable[[], UserObject], start: Callable[[UserObject], Awaitable[Any]]
    ) -> Any:
        """Create the object, and start it."""
        async with self._lock:
            return await self.wrap_errors("start", self._make(make, start))

    async def run(self, what: str, job: Callable[[UserObject], Awaitable[Result]]) -> Result:
        """Run a job with the object; `what` names the method that it calls, for errors."""
        async with self._lock:
            return await self.wrap_errors(what, job(self._object()))

    async def message(self, messages: Sequence[common_pb2.Message]) -> None:
        """Give the object of an environment or an agent what was sent to it."""
        await self.run("message", lambda it: self.call_messages(it, messages))

    async def call_messages(self, user_object: Any, messages: Sequence[common_pb2.Message]) -> None:
        """Call `message` for each message."""
        for each in messages:
            await self.call_method(user_object.message, received_message(each))

    async def run_last(self, job: Callable[[UserObject], Awaitable[Result]]) -> Result:
        """Run the last job: the end."""
        async with self._lock:
            result = await self.wrap_errors("end", job(self._object()))
            self.over = True
            return result

    async def call_function(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function instead of an object's method, and raise what it raises."""
        self._inline = is_inline(function)
        async with self._lock:
            return await self.call_method(function, *args)

    async def lose(self) -> None:
        """Call `lost`, unless the object was brought to its end, and wait for its thread."""
        async with self._lock:
            if not self.over and self._user_object is not None:
                self.over = True
                try:
                    await self.call_method(self._user_object.lost)
                except BaseException as error:
                    if not is_failure(error):
                        raise
                    _logger.exception("%s: lost failed", self.label)
            if self._abandoned:
                await self._drain_thread()

    async def call_method(self, method: Callable[..., Any], *args: Any) -> Any:
        """Call a method on the thread or the loop, as it needs, and return its result."""
        value = self.start_call(method, *args)
        return await value if is_awaitable(value) else value

    @names_call(lambda local: f"{local['self'].label}: {qualified_name(local['method'])}")
    def start_call(self, method: Callable[..., Any], *args: Any) -> Any:
        """Do what `call_method` does; return the result, or an awaitable of it.

        Quick methods cost no coroutine that way.
        """
        if self._abandoned or not (self._inline or _runs_on_loop(method)):
            return self._call_later(method, *args)
        try:
            value = method(*args)
        except GeneratorExit as error:  # of a generator of the user's: this coroutine goes on
            raise as_exception(error) from error
        return self._await_result(method, value) if is_awaitable(value) else value

    async def _call_later(self, method: Callable[..., Any], *args: Any) -> Any:
        if self._inline or _runs_on_loop(method):
            await self._drain_thread()
            return await self.call_method(method, *args)
        value = await self._on_thread(method, *args)
        return await self._await_result(method, value) if is_awaitable(value) else value

    async def _await_result(self, method: Callable[..., Any], value: Awaitable[Any]) -> Any:
        self._awaited = method, asyncio.current_task()
        try:
            return await value
        finally:
            self._awaited = None

    async def _on_thread(self, method: Callable[..., Any], *args: Any) -> Any:
        if self._worker is None:
            self._worker = self._threads.take()
        outcome = self._worker.call(method, *args)
        if not isinstance(outcome, tuple):
            try:
                if self.over:  # `lost` is called whether or not somebody waits for it
                    await asyncio.wait({outcome})
                outcome = await outcome
            except asyncio.CancelledError:
                self._abandoned = True
                raise
        value, error = outcome
        if error is not None:
            raise error
        return value

    async def _drain_thread(self) -> None:
        if self._worker is not None:
            done = self._worker.call(bool)  # which returns once the calls before it have
            if not isinstance(done, tuple):
                await asyncio.wait({done})
        self._abandoned = False

    @property
    def unfinished(self) -> str:
        """The name of the method that is under way, or ""."""
        if self._worker is not None and (busy := self._worker.busy):
            return qualified_name(busy)
        return "" if self._awaited is None else qualified_name(self._awaited[0])

    @property
    def task(self) -> asyncio.Task[Any] | None:
        """The task that awaits an async method, or None."""
        return None if self._awaited is None else self._awaited[1]

    def close(self) -> None:
        """Give the thread back."""
        if self._worker is not None:
            self._threads.give_back(self._worker)
            self._worker = None

    async def _make(
        self, make: Callable[[], UserObject], start: Callable[[UserObject], Awaitable[Any]]
    ) -> Any:
        self._user_object = make() if is_inline(make) else await self._on_thread(make)
        self._inline = is_inline(self._user_object)
        methods = [getattr(self._user_object, name, None) for name in _METHODS]
        if self._inline or all(each is None or _runs_on_loop(each) for each in methods):
            self.close()
        return await start(self._user_object)

    def _object(self) -> UserObject:
        if self.over or self._user_object is None:
            raise CallError(StatusCode.NOT_FOUND, f"{self.label} is over")
        return self._user_object

    async def wrap_errors(self, what: str, work: Awaitable[Result]) -> Result:
        """Wait for work of the object; a CallError if its method, which `what` names, fails."""
        try:
            return await work
        except BaseException as error:
            if not is_failure(error):
                raise
            _logger.exception("%s: %s failed", self.label, what)
            raise failure_of(f"{self.label}: {what}", error) from error


def failure_of(what: str, error: BaseException) -> CallError:
    """Return the error of a call whose user's code failed."""
    failed = f"{what} failed: {type(error).__name__}"
    return CallError(StatusCode.UNKNOWN, f"{failed}: {error}", f"{failed}; see the log there")


def component_name(trial_id: str, *actor: str) -> str:
    """Return the name, for errors, of a trial's environment or of an actor in it."""
    return f"trial {trial_id}: actor {actor[0]!r}" if actor else f"trial {trial_id}: environment"


def choose(implementations: Mapping[str, Result], name: str) -> Result:
    """Return the implementation of a name, "" for the first; a CallError if it is unknown."""
    if not name:
        return next(iter(implementations.values()))
    if name not in implementations:
        known = ", ".join(repr(each) for each in implementations)
        text = f"implementation: expected one of {known}; got {name!r}"
        raise CallError(StatusCode.NOT_FOUND, text)
    return implementations[name]
