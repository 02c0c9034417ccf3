"""Steps the environments of some games as the rows of a step buffer say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from cogrs.collector.environments.env_api import close_env, error_line
from cogrs.collector.environments.outcome import outcome_of
from cogrs.collector.environments.spaces import PLAYER
from cogrs.collector.environments.step_buffer import GOES_ON, ObservationWriter

if TYPE_CHECKING:
    from cogrs.collector.environments.agent_game import AgentGame
    from cogrs.collector.environments.factory import Factories
    from cogrs.collector.environments.query import QueryFactory
    from cogrs.collector.environments.spaces import EnvSpaces
    from cogrs.collector.environments.step_buffer import StepBuffer


@dataclass(frozen=True)
class Failure:
    """A move that failed.

    Attributes:
        row: Its row.
        text: The reason, in a line.
        cause: The exception.
    """

    row: int
    text: str
    cause: BaseException


class Stepper(Protocol):
    """Steps games."""

    def make(self, first: Any) -> None:
        """Make the environments in the order of their games; one that cannot be fails as it begins.

        Args:
            first: The environment of the first game, if that was made already.
        """

    def move(self, count: int) -> list[Failure]:
        """Make the moves in the first rows of the step buffer, and write their outcomes there."""

    def halt(self) -> None:
        """Stop beginning moves, as far as another thread can prevent them."""

    def check(self) -> None:
        """Raise an error that happened while there was nothing to do."""

    def doing(self) -> str:
        """Describe the move under way, for a warning that it hangs."""

    def close(self) -> None:
        """Close the environments."""


class LocalStepper:
    """Environments in this process. One thread makes, moves and closes them.

    The state kept after each row is enough to go on when Ctrl-C breaks off a move that is made
    `inline`, by the thread that waits for a batch.

    Attributes:
        progress: Rows begun and rows ended of the last move.
        failures: Those of them that failed.
    """

    def __init__(
        self,
        factory: Factories,
        spaces: EnvSpaces,
        step_buffer: StepBuffer,
        games: range,
        query_factory: QueryFactory | None = None,
    ) -> None:
        """Move these games in this step buffer; environments get the `query_factory`'s queries."""
        self._factory = factory
        self._spaces = spaces
        self._step_buffer = step_buffer
        self._query_factory = query_factory
        self._numbers = games
        self._envs: dict[int, Any] = {}
        # Errors of environments that could not be made.
        self._unmade: dict[int, BaseException] = {}
        writer = ObservationWriter(spaces, step_buffer.keys)
        self._show, self._pay = writer.show, writer.pay
        self.progress = [0, 0]
        self.failures: list[Failure] = []
        self._games: list[int] = []
        self._seeds: list[int] = []
        self._rewards: list[float] = []
        self._ends: list[int] = []
        self._players: list[int] = []
        self._seqs: list[int] = []
        self._making: int | None = None
        self._closing: int | None = None
        self._halted = False

    def adopt(self, game: int, env: Any) -> None:
        """Use this environment as a game's first."""
        self._envs[game] = env
        if self._query_factory is not None:
            self._query_factory.bind(env, game, self._step_buffer)

    def make(self, first: Any) -> None:
        """See `Stepper`."""
        if first is not None:
            self.adopt(self._numbers[0], first)
        for game in self._numbers:
            if game not in self._envs and not self._halted:
                try:
                    self._make(game)
                except BaseException as error:
                    self._unmade[game] = error

    def _make(self, game: int) -> Any:
        self._making = game
        try:
            env = self._factory.make(game)
        finally:
            self._making = None
        self.adopt(game, env)
        return env

    def move(self, count: int) -> list[Failure]:
        """See `Stepper`."""
        self.make_moves(count, inline=False)
        return self.failures

    def make_moves(self, count: int, *, inline: bool) -> None:
        """Make the moves in the first rows of the step buffer, and keep `progress`.

        Args:
            count: Rows.
            inline: Whether a KeyboardInterrupt is raised, instead of failing a game.
        """
        step_buffer, spaces, show, envs = self._step_buffer, self._spaces, self._show, self._envs
        progress = self.progress
        progress[0] = progress[1] = 0
        self.failures = []
        games = self._games = step_buffer.games[:count].tolist()
        seeds = self._seeds = step_buffer.seeds[:count].tolist()
        rewards = self._rewards = [0.0] * count
        ends = self._ends = [0] * count
        self._players, self._seqs = [0] * count, [0] * count
        pay, of_agents = self._pay, bool(spaces.agents)
        # A copy: an environment may keep its action, and the step buffer is written again.
        actions = step_buffer.actions[:count].copy()
        illegal = spaces.illegal(actions)
        # NumPy's own numbers: spaces of Gymnasium check them faster than Python's.
        listed = list(actions)
        for row, game in enumerate(games):
            if self._halted:
                break
            progress[0] = row + 1
            try:
                if seeds[row] >= 0:
                    self._reset(row, game, seeds[row])
                else:
                    if row in illegal:
                        raise ValueError(illegal[row])
                    shown, reward, terminated, truncated, info = envs[game].step(listed[row])
                    show(row, shown, info)
                    if pay is not None:
                        reward = pay(row, reward)
                    rewards[row], ends[row] = outcome_of(reward, terminated, truncated)
                if of_agents:
                    self._note_turn(row, envs[game])
            except BaseException as error:
                if inline and isinstance(error, KeyboardInterrupt):
                    raise
                self.failures.append(Failure(row, error_line(error), error))
                self._give_up(game)
            progress[1] = row + 1
        self.settle()

    def settle(self) -> None:
        """Write the outcomes of the moves made, and give up the game of one that was broken off."""
        begun, ended = self.progress
        step_buffer = self._step_buffer
        step_buffer.rewards[:begun] = self._rewards[:begun]
        step_buffer.ends[:begun] = self._ends[:begun]
        if self._spaces.agents:
            step_buffer.players[:begun] = self._players[:begun]
            step_buffer.seqs[:begun] = self._seqs[:begun]
            if PLAYER in step_buffer.keys:
                step_buffer.keys[PLAYER][:begun] = self._players[:begun]
        if ended < begun:
            self._give_up(self._games[ended])

    def halt(self) -> None:
        """Stop beginning moves."""
        self._halted = True

    def _reset(self, row: int, game: int, seed: int) -> None:
        if game in self._unmade:
            raise self._unmade.pop(game)
        env = self._envs.get(game)
        if env is None:
            env = self._make(game)
        shown, info = env.reset(seed=seed)
        self._show(row, shown, info)
        if self._pay is not None:
            self._pay(row)

    def _note_turn(self, row: int, game: AgentGame) -> None:
        self._players[row], self._seqs[row] = game.player, game.seq
        if self._ends[row] and game.goes_on:
            self._ends[row] += GOES_ON

    def _give_up(self, game: int) -> None:
        """Close a game's environment: its state is unknown, so the next episode gets a new one."""
        self._closing = game
        env = self._envs.pop(game, None)
        if env is not None:  # it could be made
            close_env(env, f"the environment of game {game}")
        self._closing = None

    def check(self) -> None:
        """See `Stepper`."""

    def doing(self) -> str:
        """See `Stepper`."""
        if self._making is not None:
            return f"the creation of game {self._making}"
        if self._closing is not None:
            return f"the close of game {self._closing}"
        begun, ended = self.progress
        if ended >= begun:
            return "nothing"
        kind = "step" if self._seeds[ended] < 0 else "reset"
        return f"the {kind} of game {self._games[ended]}"

    def close(self) -> None:
        """See `Stepper`."""
        for game in list(self._envs):
            self._give_up(game)
