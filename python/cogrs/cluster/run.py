"""`Run`: what a driver holds of a run on this machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Self

from cogrs.cluster.directory_client import DirectoryClient
from cogrs.cluster.part import directory_endpoint
from cogrs.cluster.state import FAILED, RUNNING, STARTING, RunState
from cogrs.cluster.status import RunStatus, status_of
from cogrs.replay.net.deadline import Deadline
from cogrs.validation import check_count, check_seconds

if TYPE_CHECKING:
    import subprocess

    from cogrs.cluster.run_folder import RunFolder

_LOOK: Final = 0.1
_KILL_AFTER: Final = 15.0
"""Seconds beyond the grace after which the supervisor itself is killed."""
LONGEST_LOG: Final = 1 << 20


class Run:
    """A run under way, of this program or of another one.

    Ctrl-C during `wait` ends the run as `stop` does; a second one leaves at once, and the parts end
    by themselves. As a context manager it ends the run.
    """

    def __init__(
        self, folder: RunFolder, supervisor: subprocess.Popen[bytes] | None = None
    ) -> None:
        """Follow the run of a folder; use `launch` or `attach`."""
        self._folder = folder
        self._supervisor = supervisor
        self._directory = DirectoryClient(
            directory_endpoint(folder),
            key=folder.secret_key("learner"),
            server_key=folder.server_key(),
        )

    @property
    def name(self) -> str:
        """The name of the run."""
        return self._folder.name

    @property
    def state(self) -> str:
        """What the run does: "starting", "running", "ended" or "failed"."""
        return self._state().state

    def status(self) -> RunStatus:
        """Return the run's parts, and what became of its rows; of a run that is over, the last.

        Raises:
            TimeoutError: The directory does not answer.
        """
        state = self._state()
        if not state.is_over:
            try:
                return status_of(self.name, state, self._directory.status())
            except TimeoutError:
                # The directory ends before the supervisor, which has kept the last status by then.
                if not self._folder.has("status.json"):
                    raise
                state = self._state()
        told: dict[str, Any] = {"parts": [], "ended": {}}
        if self._folder.has("status.json"):
            told = self._folder.read("status.json")
        return status_of(self.name, state, told)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the run ends.

        Args:
            timeout: Seconds; None waits without a limit.

        Returns:
            Whether it has ended.

        Raises:
            RunFailedError: It has failed; the text says why.
            KeyboardInterrupt: The run was ended.
        """
        try:
            return self._wait(Deadline.of("timeout", timeout))
        except KeyboardInterrupt:
            try:
                self.stop()
            except KeyboardInterrupt:
                self.kill()
                raise
            raise

    def wait_until_up(self, timeout: float | None) -> None:
        """Wait until all parts have registered.

        Raises:
            TimeoutError: They have not after `timeout` seconds.
            RunFailedError: The run has failed.
        """
        deadline = Deadline.of("timeout", timeout)
        # One that has failed runs until its supervisor has ended, with an error.
        while (found := self._state()).state == STARTING or (found.error and not found.is_over):
            if deadline.passed:
                raise TimeoutError(
                    f"{self.name}: not all parts have registered within {timeout:g} s: see "
                    f"{self._folder.logs}"
                )
            time.sleep(_LOOK)
        found.check(self.name)

    def stop(self, grace: float = 30.0) -> None:
        """End the run: actors first, then shards and the learner, which write checkpoints.

        Args:
            grace: Seconds after which parts that have not ended are killed.

        Raises:
            TypeError, ValueError: `grace` is not a number of seconds >= 0.
        """
        check_seconds("grace", grace)
        deadline = Deadline(grace + _KILL_AFTER)
        is_asked = False
        while self._is_under_way():
            if not is_asked:
                try:
                    self._directory.order(stop=grace)
                    is_asked = True
                except TimeoutError:
                    if self._supervisor is not None:  # which ends the parts on this signal too
                        self._supervisor.terminate()
                        is_asked = True
            if deadline.passed:
                self.kill()
                break
            time.sleep(_LOOK)
        self._reap()

    def scale(self, *, actors: int) -> None:
        """Change the number of actors; those that are too many end after their step.

        Raises:
            TypeError, ValueError: `actors` is not an integer, or below the number of shards.
            RuntimeError: The run is over.
            TimeoutError: The directory does not answer.
        """
        check_count("actors", actors, self._folder.plan().shards)
        self._check_under_way()
        self._directory.order(actors=actors)

    def logs(self, part: str, index: int = 0) -> str:
        """Return what a part has printed, at most the last MiB.

        Args:
            part: "shard", "actor", "learner", "directory" or "supervisor".
            index: Its number.

        Raises:
            FileNotFoundError: There is no such part.
        """
        return self._folder.tail(part, index, LONGEST_LOG).decode(errors="replace")

    def close(self) -> None:
        """Leave the run, which goes on if it is detached."""
        self._directory.close()

    def _state(self) -> RunState:
        is_under_way = self._is_under_way()
        said = self._folder.state()
        if not said.is_over and not is_under_way:
            log = self._folder.log("supervisor", 0)
            return RunState(FAILED, f"the supervisor has ended unexpectedly: see {log}")
        if said.is_over and is_under_way:
            return RunState(RUNNING, said.error)  # it is about to end
        return said

    def _is_under_way(self) -> bool:
        if self._supervisor is not None:
            return self._supervisor.poll() is None
        return self._folder.is_running()

    def _check_under_way(self) -> None:
        if not self._is_under_way():
            raise RuntimeError(f"{self.name}: the run is over")

    def _wait(self, deadline: Deadline) -> bool:
        while not (found := self._state()).is_over:
            if deadline.passed:
                return False
            time.sleep(_LOOK)
        self._reap()
        found.check(self.name)
        return True

    def kill(self) -> None:
        """End the supervisor at once, if it is not detached; the parts then end by themselves."""
        if self._supervisor is not None:
            self._supervisor.kill()
            self._reap()

    def _reap(self) -> None:
        if self._supervisor is not None and self._supervisor.poll() is not None:
            self._supervisor.wait()
            if self._supervisor.stdin is not None:
                self._supervisor.stdin.close()

    def __enter__(self) -> Self:
        """Return the run."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """End it."""
        self.stop()
        self.close()
