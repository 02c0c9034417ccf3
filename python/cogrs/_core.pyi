"""The compiled core. Private: import these names from `cogrs`."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, final, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

from cogrs.collector.description import Collector
from cogrs.replay.batch import (
    AnyBatch,
    Batch,
    Episode,
    NStepSample,
    NStepWeightedSample,
    Sample,
    WeightedSample,
)
from cogrs.replay.prefetcher import Prefetcher
from cogrs.replay.recorder import Recorder, VectorEnvironment
from cogrs.replay.sequence_batch import (
    NStepSequences,
    NStepWeightedSequences,
    Sequences,
    WeightedSequences,
)
from cogrs.replay.stats import MemoryStats

__all__ = [
    "CacheFrames",
    "CacheStore",
    "CollectorContext",
    "CollectorDelivery",
    "RateLimiter",
    "ReplayMemory",
    "ReplayView",
    "ReplayWriter",
    "RequestBatcher",
    "RequestDelivery",
    "SampleColumns",
    "SampleMixer",
    "TransitionWriter",
    "__debug_build__",
    "__version__",
    "builtin_columns",
    "cache_layout",
    "cache_sequences",
    "compress_cache",
    "draw_cache",
    "frames_of_samples",
    "game_spec",
    "importance_weights",
    "physics_step",
    "publish_through",
    "samples_of_frames",
    "set_cache_sequences",
    "settings_version",
    "start_ids",
    "unlimited_writer",
    "wait_to_insert",
]

__version__: str
"""The version of the package, as in Cargo.toml."""
__debug_build__: bool
"""True when the core was compiled without optimisation: never measure such a build."""

_Float32: TypeAlias = npt.NDArray[np.float32]
_Buffers: TypeAlias = tuple[Any, ...]
_Sampler: TypeAlias = Literal[
    "prioritized", "stratified", "uniform", "fifo", "lifo", "highest", "lowest"
]
_Ids: TypeAlias = int | npt.NDArray[np.uint64] | Sequence[int]

# -- writer.rs ------------------------------------------------------------------------------------

@disjoint_base
class ReplayWriter:
    """Writes an episode of its own into a `ReplayMemory`.

    `ReplayMemory.writer()` creates one; the memory itself is a writer too. Any number of writers
    may be filled side by side, from any threads, and none of them sees another's entries. A writer
    has one open episode, which threads that share the writer share too, so give each thread its
    own. A writer keeps its memory alive, and drops its open episode when it is deleted.
    """

    def new_episode(self) -> None:
        """Open an episode; drop the entries of one that is open already."""
    def get_entry_buf(self) -> tuple[npt.NDArray[Any], ...]:
        """Return arrays to fill and give to `add_entry`, which copies them.

        Returns:
            Zeros `(s, a, r, p, v, i)`, each of its template's dtype and shape, new at each call.
        """
    def add_entry(
        self,
        s: npt.ArrayLike | None = None,
        a: npt.ArrayLike | None = None,
        r: npt.ArrayLike | None = None,
        p: npt.ArrayLike | None = None,
        v: npt.ArrayLike | None = None,
        i: npt.ArrayLike | None = None,
        init_w: float | None = None,
        *,
        weight: float | None = None,
        state: npt.ArrayLike | None = None,
        action: npt.ArrayLike | None = None,
        reward: npt.ArrayLike | None = None,
        prob: npt.ArrayLike | None = None,
        value: npt.ArrayLike | None = None,
        info: npt.ArrayLike | None = None,
        recurrent: npt.ArrayLike | None = None,
    ) -> int:
        """Add one entry to the open episode, by value.

        When `max_step` entries are held, the oldest closed episode makes room. Every field has to
        be given: by position, by letter or by long name.

        Args:
            s: State, of `state_buf`'s shape; other dtypes are converted by the 'same_kind' rule.
            a: Action, likewise.
            r: Reward, likewise; finite.
            p: Probability of the action, likewise.
            v: Value, likewise.
            i: Info, likewise.
            init_w: Initial sampling weight, finite and >= 0 (normally 1.0); an entry with 0 is
                padding, stored and never drawn.
            weight: Another name of `init_w`; one of the two has to be given.
            state: Another name of `s`.
            action: Another name of `a`.
            reward: Another name of `r`.
            prob: Another name of `p`.
            value: Another name of `v`.
            info: Another name of `i`.
            recurrent: The policy's recurrent state before this step, of `recurrent`'s shape; only
                of a memory that was made with one. Stored before each recurrent_period-th step,
                where it has to be given; before step 0 it is the template's value.

        Returns:
            The entry's id: never used again, consecutive inside an episode.

        Raises:
            ValueError: A shape differs, an integer does not fit its dtype, `r` is not finite, or
                `init_w` is negative or not finite; or `recurrent` is missing where it is stored.
                Nothing is stored.
            TypeError: A dtype cannot be converted, neither or both names of a field are given, or
                `recurrent` is given to a memory without. Nothing is stored.
            RuntimeError: No episode is open, or open episodes alone fill `max_step`.
        """
    def add_entries(
        self,
        s: npt.ArrayLike | None = None,
        a: npt.ArrayLike | None = None,
        r: npt.ArrayLike | None = None,
        p: npt.ArrayLike | None = None,
        v: npt.ArrayLike | None = None,
        i: npt.ArrayLike | None = None,
        init_w: npt.ArrayLike | None = None,
        *,
        state: npt.ArrayLike | None = None,
        action: npt.ArrayLike | None = None,
        reward: npt.ArrayLike | None = None,
        prob: npt.ArrayLike | None = None,
        value: npt.ArrayLike | None = None,
        info: npt.ArrayLike | None = None,
        recurrent: npt.ArrayLike | None = None,
    ) -> int:
        """Add T entries to the open episode: the arguments of `add_entry` with a leading T.

        The rows are T consecutive steps of one episode. `ReplayMemory.recorder` takes the rows of a
        vector environment, which are not.

        `init_w` has to be given: of shape (T,), or one number for all. After an error nothing is
        stored.

        Returns:
            The id of the first entry; the others have the ids that follow.

        Raises:
            ValueError: As `add_entry`, or the leading dimensions differ.
            TypeError: As `add_entry`.
            RuntimeError: As `add_entry`, or T entries do not fit beside the open episodes.
        """
    def close_episode(
        self,
        episodic_weight_multiplier: float = 1.0,
        do_update_value: bool = True,
        do_update_weight: bool = True,
        *,
        bootstrap_value: npt.ArrayLike | None = None,
        final_state: npt.ArrayLike | None = None,
        final_info: npt.ArrayLike | None = None,
        terminated: bool | None = None,
        truncated: bool | None = None,
        wait: float | None = None,
    ) -> None:
        """Close the open episode: compute its returns and weights, so that it can be sampled.

        Args:
            episodic_weight_multiplier: Scales the weights of the episode, finite and >= 0.
            do_update_value: Compute qvest; otherwise it is all zeros.
            do_update_weight: Compute weights from |q - v|; otherwise weight = init_w * multiplier.
                Without effect unless `new_priority` is "returns".
            bootstrap_value: Value of the observation after the last action, float32 of reward's
                shape, when the episode was truncated; None when it terminated. Any value means
                truncated, 0.0 too.
            final_state: The observation after the last action. It is stored as one more entry that
                is only ever the `next` of a sample, so that the transitions of the last
                `multi_step` actions can be sampled too. Its reward and weight are 0, its value and
                qvest the bootstrap value, 0 when the episode terminated.
            final_info: Info of that entry; zeros if None.
            terminated: Whether the episode terminated, as Gymnasium's `step` says. With
                `truncated`, this replaces `bootstrap_value`: True is the same as None there,
                whatever `truncated` is.
            truncated: Whether the episode was truncated, the same as `bootstrap_value` 0. If there
                is a value, give only that.
            wait: Seconds to wait while the memory's rate limiter lets no entry come: until one may
                come, and then the whole episode goes in. None: as long as it takes; 0: not at all.
                An episode without entries, or a memory without limiter, never waits.

        Raises:
            TypeError: `bootstrap_value` is given beside `terminated` or `truncated`.
            ValueError: An argument is out of range or of a wrong shape, `terminated` and
                `truncated` are given and neither is True, or a return or a weight is not finite in
                float32. The episode stays open and nothing is changed.
            RuntimeError: No episode is open; weights are asked for without values; value or qvest
                has size 0 and an update is asked for; or `final_state` does not fit. An open
                episode stays open and nothing is changed.
            TimeoutError: The rate limiter let no entry come for `wait` seconds; the text names the
                clause, the counts and what would free it. The episode stays open, and so it does
                after a KeyboardInterrupt: the call can be repeated.
        """
    def abort_episode(self) -> None:
        """Drop the open episode and its entries; `RuntimeError` when no episode is open."""
    def add_episode(
        self,
        s: npt.ArrayLike | None = None,
        a: npt.ArrayLike | None = None,
        r: npt.ArrayLike | None = None,
        p: npt.ArrayLike | None = None,
        v: npt.ArrayLike | None = None,
        i: npt.ArrayLike | None = None,
        init_w: npt.ArrayLike | None = None,
        episodic_weight_multiplier: float = 1.0,
        do_update_value: bool = True,
        do_update_weight: bool = True,
        *,
        bootstrap_value: npt.ArrayLike | None = None,
        final_state: npt.ArrayLike | None = None,
        final_info: npt.ArrayLike | None = None,
        terminated: bool | None = None,
        truncated: bool | None = None,
        state: npt.ArrayLike | None = None,
        action: npt.ArrayLike | None = None,
        reward: npt.ArrayLike | None = None,
        prob: npt.ArrayLike | None = None,
        value: npt.ArrayLike | None = None,
        info: npt.ArrayLike | None = None,
        wait: float | None = None,
        recurrent: npt.ArrayLike | None = None,
    ) -> int:
        """Add a whole closed episode beside the open one: all of it or, after an error, nothing.

        Arguments and errors as `add_entries` and `close_episode`.

        Returns:
            The id of the first entry.
        """

def unlimited_writer(memory: ReplayMemory) -> ReplayWriter:
    """Create a writer whose episodes do not wait for the rate limiter when they are closed."""

def wait_to_insert(memory: ReplayMemory, wait: float | None = None) -> None:
    """Wait until the rate limiter lets one entry come; returns at once without a limiter.

    Raises:
        TimeoutError: It did not within `wait` seconds; None waits as long as it takes.
    """

# -- prefetch.rs ----------------------------------------------------------------------------------

def settings_version(memory: ReplayMemory) -> int:
    """Return a number that changes with each change of a setting, and with `restore`.

    Raises:
        RuntimeError: In a forked child.
    """

# -- memory.rs ------------------------------------------------------------------------------------

@final
class ReplayMemory(ReplayWriter):
    """A ring of whole episodes with prioritized sampling.

    An entry is (s, a, r, p, v, q, i): state, action, reward, prob of the action, value, qvest (the
    multi-step return, computed when the episode is closed) and info. The seven templates fix dtype
    and shape of each; their values are not used.

    Any thread may call any method. The memory is its own first writer: `new_episode`, `add_entry`,
    ... fill an episode of its own; `writer()` creates others, to be filled at the same time.

    Returns and priorities (T entries, each reward dimension d on its own; gamma is
    `discount_factor`, lambda `mix_lambda`, b the bootstrap value or 0)::

        q[T-1] = r[T-1] + gamma * b
        q[t]   = r[t] + gamma * (lambda * q[t+1] + (1 - lambda) * v[t+1])
        weight[t] = init_w[t] * multiplier * (error[t] + priority_epsilon) ** priority_exponent
        error[t]  = sum_d coeff[d] * |q[t,d] - v[t,d]|, and 0 where that is negative

    Steps t < frame_stack - 1 are not drawn (but see `frame_padding`), nor are steps t >= T -
    multi_step where no final state was stored, so that a sample never leaves its episode. The first
    two formulas are the lambda-return (Sutton and Barto, section 12.1), the others the proportional
    priority of prioritized experience replay (Schaul et al. 2016, section 3.3).

    Args:
        state_buf: Template, any dtype of fixed size and any shape; bfloat16, float8 and int4 of
            ml_dtypes too.
        action_buf: Template, as `state_buf`.
        reward_buf: Template, float32, shape () or (R,).
        prob_buf: Template, float32, shape ().
        value_buf: Template, float32, of reward's shape; or of size 0, and then episodes can only be
            closed with `do_update_value=False, do_update_weight=False`.
        qvest_buf: Template, as `value_buf`.
        info_buf: Template, as `state_buf`.
        max_step: Entries held at most, 0 or more. Their memory is reserved here and used as it is
            written.
        uuid: 32-bit number that names this memory; drawn from the system's random source if None.
        seed: Makes the draws of `get_batch` and `sample` reproducible, 0 <= seed < 2**64.
        allow_overcommit: Do not compare sizes with the memory that the machine has available, or
            the room on the disk.
        limiter: How many samples may be drawn for each entry inserted; None: any number. With one,
            `close_episode` and `add_episode` are where inserts wait, and `get_batch` and `sample`
            are where samples wait; `add_entry` never waits, and caches that a client draws from the
            memory are neither limited nor counted. It cannot be changed.
        recurrent: Template of the policy's recurrent state, any dtype of fixed size and any shape,
            for `sample_sequences`; its value is the state before step 0 of every episode. None: no
            such states are stored.
        recurrent_period: Steps from one stored recurrent state to the next, 1 or more.
        compress: Codec of each field that is compressed, 'state', 'action' or 'info':
            {"state": "lz4"}. "lz4" is fast; "zstd" and "zstd:1" to "zstd:19" are smaller and
            slower; "delta+lz4" and "delta+zstd" store the difference to the value before in the
            episode, which is smaller where frames change little. Samples are the same to the bit.
            It cannot be changed.
        max_bytes: Bytes that compressed values may take. Whichever is full first, `max_step` or
            these, evicts the oldest episode. None: as many as are available when the memory is
            created, with `storage` on the disk.
        storage: Folder for large fields: state, action and info of more than 128 bytes, and what is
            compressed. They lie in files there that have no names and end with the memory, and the
            system keeps in memory what fits of them; so a memory can be larger than the machine's.
            Only `save` keeps entries for later. The folder is created if its parent exists, and one
            memory uses it at a time. None: all fields are in memory. It cannot be changed.

    All other keyword arguments are settings, described at the properties of the same names. They
    are checked before memory is reserved, and the error names the wrong one. `cache_flags` and
    `fields` say the same, so only one of them can be given.

    Raises:
        TypeError: A keyword is not a setting, or a setting has the wrong type. Or a template has
            object dtype, one of another library than NumPy and ml_dtypes or one that JAX cannot
            hold (float6, int1, complex32), or fields of a record that overlap; or reward, prob,
            value or qvest is not float32. Or there is `max_bytes` without `compress`.
        ValueError: A shape does not fit as said above; `max_step`, `uuid` or a setting is out of
            range, or `min_size` of the limiter exceeds `max_step`; a codec does not exist, or the
            field is not one that can be compressed: of 1 byte to 256 MiB; or not even one entry
            fits into `max_bytes`; or `storage` is given and nothing would lie there.
        OSError: `storage` cannot be written, or its file system has less room than `max_step`
            entries can take there, `max_bytes` included, unless `allow_overcommit=True`.
        RuntimeError: Another memory uses the folder `storage`.
        MemoryError: `max_step` entries, in episodes of one step, take more memory than is
            available, `max_bytes` included if there is no `storage`.
    """

    def __new__(
        cls,
        state_buf: npt.ArrayLike,
        action_buf: npt.ArrayLike,
        reward_buf: npt.ArrayLike,
        prob_buf: npt.ArrayLike,
        value_buf: npt.ArrayLike,
        qvest_buf: npt.ArrayLike,
        info_buf: npt.ArrayLike,
        max_step: int,
        *,
        uuid: int | None = None,
        seed: int | None = None,
        allow_overcommit: bool = False,
        limiter: RateLimiter | None = None,
        recurrent: npt.ArrayLike | None = None,
        recurrent_period: int = 1,
        compress: Mapping[str, str] | None = None,
        max_bytes: int | None = None,
        storage: str | bytes | os.PathLike[str] | None = None,
        priority_exponent: float = 0.5,
        mix_lambda: float = 1.0,
        frame_stack: int = 1,
        multi_step: int = 1,
        cache_size: int = 32,
        max_episode: int = 0,
        reuse_cache: bool = False,
        discount_factor: float | Sequence[float] | npt.NDArray[Any] = 1.0,
        reward_coeff: float | Sequence[float] | npt.NDArray[Any] = 1.0,
        cache_flags: Sequence[bool | int] | npt.NDArray[Any] = ...,
        fields: Mapping[str, str | Sequence[str]] = ...,
        new_priority: Literal["returns", "max"] | float = "returns",
        priority_epsilon: float = 0.0,
        frame_padding: Literal["none", "repeat", "zero"] = "none",
        sequence_eta: float = 0.9,
        sampler: _Sampler = "prioritized",
        max_times_sampled: int = 0,
        remover: Literal["fifo", "lifo", "lowest", "highest"] = "fifo",
    ) -> Self: ...
    @staticmethod
    def from_spaces(
        observation_space: Any,
        action_space: Any,
        capacity: int,
        *,
        gamma: float | Sequence[float] | npt.NDArray[Any] = 0.99,
        n_step: int = 1,
        alpha: float = 0.6,
        frame_stack: int = 1,
        **settings: Any,
    ) -> ReplayMemory:
        """Create a memory for observations and actions of Gymnasium spaces, set as a DQN needs it.

        A Dict or a Tuple space, nested too, is stored as records. Steps are added as the
        environment returns them, as dicts and tuples. Samples and episodes have dicts and tuples of
        arrays in place of arrays, `prev.s["image"]` of shape (B, frame_stack, *image) for example;
        so have those of loaded memories, and of servers and their clients. Reward, prob and value
        are scalars, info has size 0.

        Values of Discrete and MultiDiscrete are int32 where that holds them, and keep their start;
        other parts have the dtypes of their spaces.

        Args:
            observation_space: Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple of
                them.
            action_space: As `observation_space`.
            capacity: `max_step`: entries held at most, last observations included.
            gamma: `discount_factor`.
            n_step: `multi_step`: n-step returns end with the episode.
            alpha: `priority_exponent`.
            frame_stack: States stacked in a sample. Stacks at the start of an episode repeat the
                first frame, as `frame_padding="repeat"` says.
            settings: All other keyword arguments of `ReplayMemory`. Unless given here,
                `new_priority` is "max" (a new entry gets the largest weight so far) and
                `priority_epsilon` is 1e-3.

        Raises:
            TypeError: A part of a space is Text, Sequence, Graph or another that is not an array,
                or a key is not text: the error names the part. Or a setting is given by two names,
                is not known, or has the wrong type.
            ValueError: A setting is out of range, or a Dict or Tuple has no parts.
            ImportError: Gymnasium is not installed.
            MemoryError: As the constructor.
        """
    @staticmethod
    def from_env(
        env: Any,
        capacity: int,
        *,
        gamma: float | Sequence[float] | npt.NDArray[Any] = 0.99,
        n_step: int = 1,
        alpha: float = 0.6,
        frame_stack: int = 1,
        **settings: Any,
    ) -> ReplayMemory:
        """Create a memory for an environment, or a vector environment, whose single spaces count.

        The other arguments and the errors are those of `from_spaces`. `frame_stack` is 1 where a
        wrapper stacks frames already. Where the environment has a `reward_space` of shape (R,), as
        in MO-Gymnasium, reward and value have this shape.

        Raises:
            TypeError: As `from_spaces`; or `env` has no spaces.
            ValueError: As `from_spaces`; or `reward_space` has more than one dimension.
        """

    # Templates and sizes.
    @property
    def state_buf(self) -> npt.NDArray[Any]:
        """Template of state: zeros of its dtype and shape."""
    @property
    def action_buf(self) -> npt.NDArray[Any]:
        """Template of action: zeros of its dtype and shape."""
    @property
    def reward_buf(self) -> _Float32:
        """Template of reward: zeros, float32, shape () or (R,)."""
    @property
    def prob_buf(self) -> _Float32:
        """Template of prob: zero, float32, shape ()."""
    @property
    def value_buf(self) -> _Float32:
        """Template of value: zeros, float32, reward's shape or size 0."""
    @property
    def qvest_buf(self) -> _Float32:
        """Template of qvest: zeros, float32, reward's shape or size 0."""
    @property
    def info_buf(self) -> npt.NDArray[Any]:
        """Template of info: zeros of its dtype and shape."""
    @property
    def recurrent(self) -> npt.NDArray[Any] | None:
        """The recurrent state before step 0 of every episode, a copy; None without `recurrent`."""
    @property
    def recurrent_period(self) -> int:
        """Steps from one stored recurrent state to the next; 1 where none is stored."""
    @property
    def entry_size(self) -> int:
        """Bytes of one entry: the plain sum of its seven sizes."""
    @property
    def max_step(self) -> int:
        """Entries held at most."""
    @property
    def compress(self) -> dict[str, str]:
        """Codecs of the compressed fields, by name."""
    @property
    def max_bytes(self) -> int | None:
        """Bytes that compressed values may take; None where there is no such limit."""
    @property
    def storage(self) -> Path | None:
        """The folder that large fields lie in; None if they are in memory."""
    @property
    def uuid(self) -> int:
        """32-bit number that names this memory."""
    @property
    def nbytes(self) -> int:
        """Bytes of memory for entries, weights, bookkeeping, if it is full of episodes of one step.

        Of compressed fields it is what they would take if all values compressed as those held do,
        and at most `max_bytes`; of a memory without values what they take uncompressed. What lies
        in `storage` does not count: `stats().storage` has those bytes.

        With long episodes it is `max_step * (entry_size + 21)`. Settings that are changed between
        two closes are not counted: each change keeps some 200 bytes, and 16 for each dimension of
        the reward, until the episodes closed under them are gone. Counts of `max_times_sampled` and
        views are not counted either.
        """

    # Contents.
    @property
    def num_entry(self) -> int:
        """Entries held now, those of open episodes included."""
    @property
    def total_episodes(self) -> int:
        """Episodes ever closed, evicted ones included."""
    @property
    def total_steps(self) -> int:
        """Entries of the episodes ever closed, final states left out: the steps taken."""
    @property
    def weight_sum(self) -> float:
        """Sum of the sampling weights of all entries that can be drawn now."""
    @property
    def num_drawable(self) -> int:
        """Entries that can be drawn now, also with weight 0, as sampler "uniform" draws them.

        Those inside the borders of a closed episode whose `init_w * multiplier` is above 0, unless
        they have been drawn `max_times_sampled` times.
        """
    @property
    def num_sampleable(self) -> int:
        """Entries that can be drawn now in proportion to weight: those with a weight above 0."""
    @property
    def min_weight(self) -> float:
        """Smallest weight of an entry that can be drawn now; 0.0 when nothing can."""
    @property
    def limiter(self) -> RateLimiter | None:
        """The rate limiter; None without one."""
    def stats(self) -> MemoryStats:
        """Return figures of this moment: `limiter` has those of the rate limiter.

        `compression` has those of compressed fields, and `storage` those of the folder.
        """
    def num_episode(self) -> int:
        """Closed episodes held now."""
    def __len__(self) -> int:
        """Entries held now, as `num_entry`."""

    # Settings hold for episodes that are closed from then on, except those of borders and draws:
    # frame_stack, frame_padding, multi_step and max_times_sampled decide at once which closed
    # entries are drawn.
    @property
    def priority_exponent(self) -> float:
        """Exponent of the priority (alpha of the PER paper), >= 0. Default 0.5."""
    @priority_exponent.setter
    def priority_exponent(self, value: float) -> None: ...
    @property
    def mix_lambda(self) -> float:
        """Lambda of the multi-step return, in [0, 1]. Default 1."""
    @mix_lambda.setter
    def mix_lambda(self, value: float) -> None: ...
    @property
    def frame_stack(self) -> int:
        """States stacked in a sample, >= 1. Default 1.

        The first frame_stack - 1 entries of an episode are not drawn, unless `frame_padding` is
        set. Entries that lose their stack when it is raised are drawn again when it is lowered.
        """
    @frame_stack.setter
    def frame_stack(self, value: int) -> None: ...
    @property
    def multi_step(self) -> int:
        """Steps between prev and next, >= 1. Default 1.

        n steps end with the episode: where a `final_state` was stored, every action is drawn, and
        the `next` of the last n is that state. Without one the last n actions have no `next` and
        are not drawn. Entries that lose their `next` when it is raised are drawn again when it is
        lowered. `prev.r` is the reward of prev's own step; `sample(nstep_return=True)` sums.
        """
    @multi_step.setter
    def multi_step(self, value: int) -> None: ...
    @property
    def cache_size(self) -> int:
        """Samples in a cache, >= 1. Default 32."""
    @cache_size.setter
    def cache_size(self, value: int) -> None: ...
    @property
    def max_episode(self) -> int:
        """Closed episodes held at most, enforced when one is closed; 0: any number. Default 0.

        The one that `remover` names is dropped, but first those without entries, of which at most
        64 are held, whatever this setting is.
        """
    @max_episode.setter
    def max_episode(self, value: int) -> None: ...
    @property
    def reuse_cache(self) -> bool:
        """Whether a server gives the samples of a cache more than once. Default False."""
    @reuse_cache.setter
    def reuse_cache(self, value: bool) -> None: ...
    @property
    def discount_factor(self) -> list[float]:
        """Gamma of each reward dimension, >= 0. Default all 1.

        Set a number for all dimensions, or a list; a shorter one sets the leading dimensions.
        """
    @discount_factor.setter
    def discount_factor(self, value: float | Sequence[float] | npt.NDArray[Any]) -> None: ...
    @property
    def reward_coeff(self) -> list[float]:
        """Coefficient of each reward dimension in the priority. Default all 1.

        Set it like `discount_factor`.
        """
    @reward_coeff.setter
    def reward_coeff(self, value: float | Sequence[float] | npt.NDArray[Any]) -> None: ...
    @property
    def cache_flags(self) -> list[bool]:
        """Which fields samples carry: 14 flags, prev s,a,r,p,v,q,i and then next. Default all True.

        A field whose flag is False has first dimension 0. A shorter list sets the leading flags.
        """
    @cache_flags.setter
    def cache_flags(self, value: Sequence[bool | int] | npt.NDArray[Any]) -> None: ...
    @property
    def fields(self) -> dict[str, str]:
        """`cache_flags` by names: a dict of the letters of the fields of prev and of next.

        `{"prev": "sarp", "next": "s"}`, for instance. Set both ends, each to letters or to a list
        of letters and long names (`["state", "action"]`); "" leaves all fields of an end out.
        """
    @fields.setter
    def fields(self, value: Mapping[str, str | Sequence[str]]) -> None: ...
    @property
    def new_priority(self) -> str | float:
        """How the weight of a new entry is computed. Default "returns".

        "returns": as `close_episode` says, `init_w * multiplier * (|q - v| + priority_epsilon) **
        priority_exponent`. "max": `init_w * multiplier` times the largest weight that the memory
        ever gave, each as a multiple of its entry's `init_w * multiplier`, and 1 at first (Schaul
        et al. 2016, algorithm 1); so that every new entry is drawn soon. A number >= 0: `init_w *
        multiplier` times that. "max" and numbers also apply with `do_update_weight=False`.
        """
    @new_priority.setter
    def new_priority(self, value: Literal["returns", "max"] | float) -> None: ...
    @property
    def priority_epsilon(self) -> float:
        """Number added to each error before the exponent, at a close and in `update_priority`.

        Finite and >= 0, default 0: an entry whose error is 0 then has weight 0 and is not drawn
        (Schaul et al. 2016, section 3.3).
        """
    @priority_epsilon.setter
    def priority_epsilon(self, value: float) -> None: ...
    @property
    def frame_padding(self) -> str:
        """What fills a stack before the first frame of an episode. Default "none".

        "none": the first frame_stack - 1 steps are not drawn; "repeat": the first frame, as
        Gymnasium's FrameStackObservation; "zero": zeros.
        """
    @frame_padding.setter
    def frame_padding(self, value: Literal["none", "repeat", "zero"]) -> None: ...
    @property
    def sequence_eta(self) -> float:
        """Share of the largest error in the priority of a sequence, the rest is the mean's.

        In [0, 1], default 0.9: the error of a sequence is eta * max + (1 - eta) * mean of the
        errors of the steps that are learned from (Kapturowski et al. 2019, section 2.3).
        """
    @sequence_eta.setter
    def sequence_eta(self, value: float) -> None: ...
    @property
    def sampler(self) -> str:
        """How `sample` and `get_batch` choose entries. Default "prioritized".

        - "prioritized": in proportion to weight, with replacement (Schaul et al. 2016, section
          3.3).
        - "stratified": the same, but one draw from each of B equal parts of the sum of weights,
          over entries oldest first (Schaul et al. 2016, appendix B.2.1).
        - "uniform": all entries alike, with replacement, also those with weight 0.
        - "fifo", "lifo": the oldest, or newest, first, by the order in which episodes were closed.
        - "highest", "lowest": by weight, also 0, ties the oldest first. Each batch reads all
          weights.

        The last four give no entry twice in a batch. A server's clients draw their caches by it.
        """
    @sampler.setter
    def sampler(self, value: _Sampler) -> None: ...
    @property
    def max_times_sampled(self) -> int:
        """How often an entry is given at most, within a batch too; 0: any number. Default 0.

        An entry that was given so often is no longer drawable, by any sampler. Samples then have
        `times_sampled`. Counts belong to entries, are saved with them, and are kept only while
        there is a limit: 0 forgets them, and one that is lowered to n makes larger counts n. They
        take one byte per entry, and some 14 more per entry that was drawn more than 254 times.
        """
    @max_times_sampled.setter
    def max_times_sampled(self, value: int) -> None: ...
    @property
    def remover(self) -> str:
        """Which closed episode is evicted first. Default "fifo", the oldest.

        "lifo": the newest; "lowest", "highest": the one with the lowest or highest mean weight of
        its steps, ties the oldest first. When `max_episode` is exceeded, the episode that was just
        closed stays. Open episodes are never evicted.
        """
    @remover.setter
    def remover(self, value: Literal["fifo", "lifo", "lowest", "highest"]) -> None: ...

    # Writing, beside what every writer does.
    def writer(self) -> ReplayWriter:
        """Create a writer into this memory, which has an open episode of its own."""
    def recorder(
        self,
        num_envs: int | VectorEnvironment,
        autoreset_mode: Any = None,
        *,
        do_update_value: bool | None = None,
        do_update_weight: bool | None = None,
    ) -> Recorder:
        """Create a recorder of the steps of a vector environment.

        It has a writer for each environment, and closes episodes where they end; see
        `cogrs.replay.Recorder`, and `Recorder.add` for the parts of a step.

        Args:
            num_envs: Environments, 1 or more; or a vector environment, which says their number
                and the mode.
            autoreset_mode: When they are reset: "next_step" (None is that) or "same_step", as
                Gymnasium's vector environments have it; or its `AutoresetMode`.
            do_update_value: As of `close_episode`; None is True where the memory has values.
            do_update_weight: As of `close_episode`; None is `do_update_value`.

        Raises:
            TypeError: `num_envs` is neither an integer nor a vector environment, or a flag is
                neither True nor False.
            ValueError: `num_envs` is below 1 or above `max_step`, the mode does not exist, or no
                episode could be closed with these flags.
        """
    def clear(self) -> None:
        """Drop all entries, open episodes included; ids are not used again."""

    # Correcting what was written.
    def update_priority(
        self,
        id: _Ids,
        priority: float | npt.ArrayLike,
        *,
        absolute: bool = False,
        mask: npt.ArrayLike | None = None,
        sequences: bool = False,
    ) -> int:
        """Compute weights from new errors, or set them.

        weight = `init_w * multiplier * (priority + priority_epsilon) ** priority_exponent`, or the
        priority itself if `absolute`. Entries outside the borders of their episode are not drawn
        until settings move the borders; entries whose `init_w * multiplier` is 0 keep weight 0. Ids
        of dropped entries are ignored. If an id is given several times, its last priority counts.

        Errors of two dimensions, or a mask, set the weights of sequences instead: those of the
        anchors `id` of the length, period and border that `sample_sequences` last asked for. The
        error of a sequence is sequence_eta * max + (1 - sequence_eta) * mean of its row
        (Kapturowski et al. 2019, section 2.3). The weights of steps do not change with it.

        Args:
            id: One id or many.
            priority: The error without exponent, or the weight; finite and >= 0, one for each id or
                one for all. Or errors of the steps of sequences, (n, steps).
            absolute: Whether the priority is the weight.
            mask: Which errors count, bool of the shape of `priority`; a row without any leaves its
                weight as it is. If None, `priority` has `length` columns, and those behind the end
                of an episode do not count.
            sequences: Whether ids are those of anchors, with one priority each.

        Returns:
            Number of the ids whose entries were dropped, or which are not anchors.

        Raises:
            TypeError: An argument has the wrong type; `absolute` is a bool, not a number.
            ValueError: Lengths differ, a priority is negative or not finite, or a weight would not
                be. Nothing is changed.
            RuntimeError: The ids are anchors, and no sequences were drawn yet.
        """
    def add_reward(self, id: int, delta: npt.ArrayLike) -> bool:
        """Add to a stored reward, in an open or a closed episode.

        In a closed episode the returns of that and all earlier entries are computed again, by the
        settings with which it was closed; so are their weights, where they were computed from
        returns. Where it was closed with another `new_priority`, the entry and the `multi_step - 1`
        before it, whose n-step targets change, get the weight of a new entry again. Samples that
        were drawn before do not change.

        Args:
            id: The entry's id.
            delta: float32 of reward's shape, finite.

        Returns:
            False when the entry was dropped.

        Raises:
            ValueError: A wrong shape, a final state's id, or a return or weight that would not be
                finite. Nothing is changed.
        """

    # Reading.
    def get_batch(
        self, batch_size: int, *, wait: float | None = None, out: _Buffers | None = None
    ) -> Batch:
        """Draw transitions by `sampler`: by default with probability `weight / weight_sum`.

        Args:
            batch_size: How many, B >= 1.
            wait: Seconds to wait while there are too few entries, or the rate limiter does not
                allow the batch. 0: not at all. None: as long as it takes with a limiter, and not at
                all without one. Other threads run meanwhile, and Ctrl-C works.
            out: Arrays to fill instead of making new ones: a batch that this call returned before,
                or one of the same shapes and dtypes in memory of another library on the CPU. Slices
                of one batch may be filled from several memories.

        Returns:
            `(prev, next, weight)`: prev and next are named tuples `(s, a, r, p, v, q, i)` with `s`
            of shape (B, frame_stack, *state), oldest frame first (this axis is there also when
            frame_stack is 1), the others (B, *field); weight is float32 (B,). next is `multi_step`
            steps after prev, or the final state where that comes first. The arrays belong to the
            caller and share nothing with the memory. With `out`, returns `out`.

        Raises:
            RuntimeError: There are too few entries and `wait` is None, without a limiter or with
                one that lets no entries come either, in a memory without views; the text says how
                many, or why none can be drawn. Nothing is counted as given.
            TimeoutError: There were too few entries, or the rate limiter did not allow the batch,
                for `wait` seconds; the text names the clause, the counts and what would free it.
                Nothing is counted as given.
            ValueError: batch_size < 1; the rate limiter can never allow so large a batch; `wait` is
                negative; an array of `out` has another shape or dtype, cannot be written to, is not
                C-contiguous or shares memory with another.
            TypeError: `out` does not have the structure of a batch of this call.
        """
    @overload
    def sample(
        self,
        batch_size: int,
        *,
        nstep_return: Literal[False] = False,
        beta: None = None,
        normalize: Literal["batch", "memory", "all"] = "batch",
        sampler: _Sampler | None = None,
        wait: float | None = None,
        out: _Buffers | None = None,
    ) -> Sample:
        """Draw as `get_batch` does, with more about each row.

        Args:
            batch_size: How many, B >= 1.
            nstep_return: Whether to add the discounted sums of the rewards from prev to next, and
                the discounts of next's value.
            beta: Exponent of importance weights, finite and >= 0 (Schaul et al. 2016, section 3.4);
                None leaves them out.
            wait: As of `get_batch`.
            normalize: "batch" divides them by the largest of the batch; "memory", which
                `importance_weights` calls "all" (taken here too), by the largest of all entries,
                which reads all weights.
            sampler: As the property `sampler`, which None stands for.
            wait: As of `get_batch`.
            out: As of `get_batch`.

        Returns:
            `(prev, next, weight, id, probability, next_terminated)`: id is uint64 (B,), probability
            float64 (B,) is weight / weight_sum before the draw, 1 / num_drawable for "uniform", and
            1 for samplers that choose by an order; next_terminated bool (B,) says that next is the
            final state of an episode that terminated. With `nstep_return=True` there follow
            nstep_return and nstep_discount, float32 (B, *reward). With n steps from prev to next,
            these are the sum over k < n of discount_factor ** k * reward[t + k], and
            discount_factor ** n, or 0 where the episode terminated within them; with the present
            discount_factor. `nstep_return + nstep_discount * V(next)` is the n-step target of every
            row (Sutton and Barto, section 7.1). With `max_times_sampled` there follows
            times_sampled, uint32 (B,): how often prev's entry was given, this time included. With
            `beta`, importance_weight comes last: float32 (B,), (num_sampleable * probability) **
            -beta, divided as `normalize` says; it is what `importance_weights` returns. For
            samplers other than "prioritized" and "stratified" it is 1.

        Raises:
            ValueError: `beta` is negative or not finite, or `normalize` or `sampler` is not one of
                these.
            RuntimeError, TimeoutError, ValueError, TypeError: As of `get_batch`.
        """
    @overload
    def sample(
        self,
        batch_size: int,
        *,
        nstep_return: Literal[True],
        beta: None = None,
        normalize: Literal["batch", "memory", "all"] = "batch",
        sampler: _Sampler | None = None,
        wait: float | None = None,
        out: _Buffers | None = None,
    ) -> NStepSample: ...
    @overload
    def sample(
        self,
        batch_size: int,
        *,
        nstep_return: Literal[False] = False,
        beta: float,
        normalize: Literal["batch", "memory", "all"] = "batch",
        sampler: _Sampler | None = None,
        wait: float | None = None,
        out: _Buffers | None = None,
    ) -> WeightedSample: ...
    @overload
    def sample(
        self,
        batch_size: int,
        *,
        nstep_return: Literal[True],
        beta: float,
        normalize: Literal["batch", "memory", "all"] = "batch",
        sampler: _Sampler | None = None,
        wait: float | None = None,
        out: _Buffers | None = None,
    ) -> NStepWeightedSample: ...
    @overload
    def sample_sequences(
        self,
        n: int,
        length: int,
        burn_in: int = 0,
        after: int = 0,
        period: int = 1,
        border: Literal["clip", "shift", "drop"] = "clip",
        sampler: _Sampler | None = None,
        beta: None = None,
        normalize: Literal["batch", "memory", "all"] = "batch",
        nstep_return: Literal[False] = False,
        wait: float | None = None,
        out: Any = None,
    ) -> Sequences:
        """Draw sequences of steps, for learners with a memory of their own (R2D2).

        A sequence is `burn_in` steps, `length` steps to learn from, and `after` steps behind them,
        all of one episode. It is drawn by its anchor, the first step to learn from. The anchors of
        an episode are the multiples of `period` up to the last start from which all `length` steps
        have an action, and that start; 0 in an episode that is shorter. Without `frame_padding`,
        steps before frame_stack - 1 are no anchors; a change of `frame_stack` leaves the priorities
        of all anchors as they are.

        An anchor's weight is its step's initial weight times the error of the sequence to the power
        of `priority_exponent`. That error is sequence_eta * max + (1 - sequence_eta) * mean of the
        errors of the steps that are learned from (Kapturowski et al. 2019, section 2.3), at first
        as they are stored; steps whose initial weight is 0 do not count. `update_priority` sets it.
        The first call, and one with another `length`, `period` or `border`, makes anchors anew from
        the weights of all steps, which takes time and 5 bytes per entry of `max_step`.

        Args:
            n: Sequences, 1 or more.
            length: Steps to learn from, 1 or more.
            burn_in: Steps before them, from which a learner computes its recurrent state.
            after: Steps behind them, for n-step returns.
            period: Steps from one anchor to the next, 1 or more. With `length`, sequences do not
                overlap; with `length // 2` each step is learned from twice, as in R2D2.
            border: "clip": steps outside the episode are not valid; a burn-in that begins before
                step 0 is shorter. "shift": the window is moved into the episode, if that has as
                many entries; `learn` stays on the steps of the anchor. "drop": only windows inside
                the episode are drawn.
            sampler: How anchors are drawn; None is the memory's `sampler`.
            beta: As of `sample`.
            normalize: As of `sample`, among anchors.
            nstep_return: Whether to add `multi_step`-step returns of the learned steps.
            wait: As of `sample`.
            out: Arrays to fill, as a call with the same arguments returned them.

        Returns:
            Arrays (n, T, ...) with T = burn_in + length + after + recurrent_period - 1, as
            `cogrs.replay.Sequences` describes them. A sequence begins at the nearest stored
            recurrent state at or before the first step of the burn-in, which `recurrent` is.

        Raises:
            ValueError: A number is out of range, `border` is not one of these, or `after` is below
                multi_step with `nstep_return`.
            RuntimeError: No sequence can be drawn; the text says why.
            MemoryError: The arrays, or the anchors, take more memory than is available.
        """
    @overload
    def sample_sequences(
        self,
        n: int,
        length: int,
        burn_in: int = 0,
        after: int = 0,
        period: int = 1,
        border: Literal["clip", "shift", "drop"] = "clip",
        sampler: _Sampler | None = None,
        *,
        beta: None = None,
        normalize: Literal["batch", "memory", "all"] = "batch",
        nstep_return: Literal[True],
        wait: float | None = None,
        out: Any = None,
    ) -> NStepSequences: ...
    @overload
    def sample_sequences(
        self,
        n: int,
        length: int,
        burn_in: int = 0,
        after: int = 0,
        period: int = 1,
        border: Literal["clip", "shift", "drop"] = "clip",
        sampler: _Sampler | None = None,
        *,
        beta: float,
        normalize: Literal["batch", "memory", "all"] = "batch",
        nstep_return: Literal[False] = False,
        wait: float | None = None,
        out: Any = None,
    ) -> WeightedSequences: ...
    @overload
    def sample_sequences(
        self,
        n: int,
        length: int,
        burn_in: int = 0,
        after: int = 0,
        period: int = 1,
        border: Literal["clip", "shift", "drop"] = "clip",
        sampler: _Sampler | None = None,
        *,
        beta: float,
        normalize: Literal["batch", "memory", "all"] = "batch",
        nstep_return: Literal[True],
        wait: float | None = None,
        out: Any = None,
    ) -> NStepWeightedSequences: ...
    def prefetch(
        self,
        batch_size: int,
        depth: int = 2,
        *,
        wait: float | None = None,
        nstep_return: bool = False,
        beta: float | None = None,
        normalize: Literal["batch", "memory", "all"] = "batch",
        sampler: _Sampler | None = None,
    ) -> Prefetcher:
        """Draw batches on a thread of its own, while the learner works on the one before.

        Each batch is what `sample` gives with these arguments. `with memory.prefetch(256) as
        batches: for batch in batches: ...` ends the thread. Batches that were drawn before a
        setting changed are dropped and drawn anew.

        Args:
            batch_size: As of `sample`.
            depth: Batches drawn ahead at most, 1 to 64.
            wait: Seconds that the next batch is waited for while there are too few entries, or the
                rate limiter does not allow it; None: as long as it takes.
            nstep_return: As of `sample`.
            beta: As of `sample`.
            normalize: As of `sample`.
            sampler: As of `sample`.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An argument is out of range, or no such sampler exists.
        """
    def episode(self, index: int) -> Episode:
        """Return a copy of a closed episode.

        Args:
            index: 0 is the oldest, -1 the newest.

        Raises:
            IndexError: No such closed episode.
        """
    def save(self, path: str | bytes | os.PathLike[str]) -> None:
        """Write closed episodes, settings and the state of the random generator to a file.

        The rate limiter and its counts are saved too. Entries are streamed, and the file is
        replaced only when it is complete. Open episodes are left out. What lies in `storage` is
        copied by the system; where the file system can share blocks (XFS, btrfs) and the file is
        on the same one, that takes no room. It has a checksum if memory could hold it all.

        Raises:
            OSError: The file cannot be written.
            TypeError: `path` is not a path.
        """
    @staticmethod
    def load(
        path: str | bytes | os.PathLike[str],
        *,
        allow_overcommit: bool = False,
        limiter: RateLimiter | Literal["file"] | None = "file",
        compress: Mapping[str, str] | None = None,
        max_bytes: int | None = None,
        storage: str | bytes | os.PathLike[str] | None = None,
    ) -> ReplayMemory:
        """Create a memory from a file that `save` wrote, and continue where the saved one was.

        Files of cogrs 0.1.0 are read too. Ids and uuid are those of the saved memory. The sequence
        of draws continues too, unless the ring had wrapped around or several writers had been used:
        entries may then be stored in another order, and other entries are drawn, with the same
        probabilities.

        Args:
            path: The file.
            allow_overcommit: As of the constructor.
            limiter: "file": the rate limiter of the saved memory, if it had one. Otherwise this
                one, or None for no limiter. Its counts go on from those in the file; a file without
                counts counts as if its entries, final states left out, had just been inserted.
                Seconds that were waited begin at 0.
            compress: As of the constructor, whatever the file has; {} for no compression. None:
                that of the file, with its `max_bytes`.
            max_bytes: As of the constructor, with `compress`.
            storage: As of the constructor, whether the saved memory had one or not.

        Raises:
            OSError: The file cannot be read, or as the constructor.
            TypeError: `path` is not a path, or another argument has the wrong type.
            ValueError: `save` did not write the file, or it is of another version or damaged; or a
                field's dtype is one of ml_dtypes, which is not installed; or as the constructor.
                The text says which.
            RuntimeError: As the constructor.
            MemoryError: As the constructor, or the values take more than `max_bytes`.
        """
    def restore(
        self,
        path: str | bytes | os.PathLike[str],
        settings: Literal["file", "mine"] | None = None,
        *,
        allow_overcommit: bool = False,
    ) -> None:
        """Replace all that this memory holds by a file that `save` wrote.

        Open episodes are dropped. Until the call is complete both contents take memory, and room in
        `storage`; after an error nothing has changed. The uuid stays; ids are those of the file.
        Views of both are kept: one that only this memory has, or with another exponent under
        settings="mine", gets the weights of a new view. The rate limiter stays, with the counts of
        the file, or as if the restored entries had just been inserted. `total_episodes` and
        `total_steps` never decrease: they are those of the file if these are larger.

        Args:
            path: The file, of a memory with the same templates, `max_step`, `compress` and
                `max_bytes`.
            settings: Whose settings count where they differ: "file", "mine", or None, which makes
                differences an error.
            allow_overcommit: As of the constructor.

        Raises:
            OSError: The file cannot be read, or the disk has no room for both contents.
            TypeError: `path` is not a path.
            ValueError: Settings differ, and `settings` is None: the text has all differences. Or
                templates, `max_step`, `compress` or `max_bytes` differ, or as `load`.
            MemoryError: As the constructor.
        """
    def view(
        self,
        name: str,
        *,
        priority_exponent: float | None = None,
        sampler: _Sampler | None = None,
        max_times_sampled: int | None = None,
    ) -> ReplayView:
        """Return the view of a name, which is created at the first call.

        A view has weights, counts of draws, a sampler and a limit of its own over the entries of
        this memory, which are stored once. It takes some 4.6 bytes for each of `max_step` entries,
        for a limit one more, and some 14 per entry that was drawn more than 254 times. Samplers
        "fifo" and "lifo" take some 20 bytes per episode.

        Entries have the weight of their close under the view's exponent, also those that were there
        before the view. Views are saved and loaded with the memory.

        Args:
            name: Not empty.
            priority_exponent: Exponent of the view's priorities, >= 0; None is the memory's present
                one, or that of the view that is there.
            sampler: As the property `sampler` of memories; None likewise.
            max_times_sampled: As the property of memories; None stands for 0, or for that of the
                view that is there.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An argument is out of range, or the view of this name has another setting.
            MemoryError: There is not enough memory.
        """
    def print_info(self) -> None:
        """Print sizes, settings and fill to `sys.stdout`."""
    def pub_bytes(self, topic: str | bytes, message: str | bytes) -> None:
        """Publish a message, as `ReplayMemoryServer.pub_bytes` of the memory's server.

        Raises:
            RuntimeError: This memory belongs to no server.
        """

# -- view.rs --------------------------------------------------------------------------------------

@final
class ReplayView:
    """Weights, counts of draws and a limit of its own over the entries of a `ReplayMemory`.

    `ReplayMemory.view` creates it. Several learners, or players of a league, draw from one store of
    data without disturbing each other's priorities. A view keeps its memory alive. `frame_stack`,
    `multi_step`, `priority_epsilon` and the flags are the memory's.
    """

    @property
    def name(self) -> str:
        """Its name."""
    @property
    def priority_exponent(self) -> float:
        """Exponent of its priorities. RuntimeError after `close`, as of all that follow."""
    @property
    def sampler(self) -> str:
        """How it chooses entries, as `ReplayMemory.sampler`."""
    @property
    def max_times_sampled(self) -> int:
        """How often it gives an entry at most; 0: any number."""
    @property
    def weight_sum(self) -> float:
        """Sum of its weights of all entries that can be drawn now."""
    @property
    def num_drawable(self) -> int:
        """Entries that it can draw now, with weight 0 too."""
    @property
    def num_sampleable(self) -> int:
        """Entries that it can draw now in proportion to weight."""
    @property
    def min_weight(self) -> float:
        """Its smallest weight of an entry that can be drawn now; 0.0 when nothing can."""
    def get_batch(
        self, batch_size: int, *, wait: float | None = None, out: _Buffers | None = None
    ) -> Batch:
        """Draw from this view, as `ReplayMemory.get_batch` does from the memory.

        Raises:
            RuntimeError: The view was closed.
            RuntimeError, TimeoutError, ValueError, TypeError: As of `ReplayMemory.get_batch`.
        """
    @overload
    def sample(
        self,
        batch_size: int,
        *,
        nstep_return: Literal[False] = False,
        beta: None = None,
        normalize: Literal["batch", "memory", "all"] = "batch",
        sampler: _Sampler | None = None,
        wait: float | None = None,
        out: _Buffers | None = None,
    ) -> Sample:
        """Draw from this view, as `ReplayMemory.sample` does from the memory.

        Raises:
            RuntimeError: The view was closed.
            RuntimeError, TimeoutError, ValueError, TypeError: As of `ReplayMemory.sample`.
        """
    @overload
    def sample(
        self,
        batch_size: int,
        *,
        nstep_return: Literal[True],
        beta: None = None,
        normalize: Literal["batch", "memory", "all"] = "batch",
        sampler: _Sampler | None = None,
        wait: float | None = None,
        out: _Buffers | None = None,
    ) -> NStepSample: ...
    @overload
    def sample(
        self,
        batch_size: int,
        *,
        nstep_return: Literal[False] = False,
        beta: float,
        normalize: Literal["batch", "memory", "all"] = "batch",
        sampler: _Sampler | None = None,
        wait: float | None = None,
        out: _Buffers | None = None,
    ) -> WeightedSample: ...
    @overload
    def sample(
        self,
        batch_size: int,
        *,
        nstep_return: Literal[True],
        beta: float,
        normalize: Literal["batch", "memory", "all"] = "batch",
        sampler: _Sampler | None = None,
        wait: float | None = None,
        out: _Buffers | None = None,
    ) -> NStepWeightedSample: ...
    def update_priority(
        self, id: _Ids, priority: float | npt.ArrayLike, *, absolute: bool = False
    ) -> int:
        """Compute or set weights of this view, as `ReplayMemory.update_priority` does.

        Returns:
            Number of the ids whose entries were dropped.

        Raises:
            RuntimeError: The view was closed.
            ValueError: As of `ReplayMemory.update_priority`. Nothing is changed.
        """
    def close(self) -> None:
        """Drop its weights and counts; without effect when it is closed.

        All objects of this view are closed with it. A later `ReplayMemory.view` of the name creates
        a new view.
        """

def publish_through(
    memory: ReplayMemory, publish: Callable[[str | bytes, str | bytes], object]
) -> None:
    """Make `pub_bytes` of a memory call `publish` from now on.

    Raises:
        RuntimeError: The memory belongs to a server already.
    """

# -- rate_limiter.rs ------------------------------------------------------------------------------

@final
class RateLimiter:
    """How many samples may be drawn for each entry inserted: options of a memory or a server.

    Give it as `limiter=`. It never changes, and may be given to several memories and servers, each
    of which has counts of its own. With I entries inserted, S samples, and D entries removed
    (evicted or used up) since the memory was created, and spi = `samples_per_insert`::

        n may be sampled:   I - D >= min_size      and   I * spi - S - n >= low
        n may be inserted:  I + n - D <= min_size  or    (I + n) * spi - S <= high

    (Cassirer et al. 2021, section 3.3.) Units are entries: a row of a batch is one sample, and a
    closed episode inserts its entries, final state left out. An insert waits until one entry may
    come, and then the whole episode goes in. A batch of more than high - low - spi samples is
    refused, since it could wait for inserts that wait for it; with a queue, one of more than its
    size is refused.

    Limiters are equal when their options are, and can be pickled.

    Args:
        samples_per_insert: Samples for each entry, finite and > 0.
        min_size: Entries held before anything is sampled, >= 1.
        error_buffer: A number, by which `low` lies below and `high` above `min_size *
            samples_per_insert`; at least max(1, samples_per_insert). Or a pair (low, high) with
            `high - low >= 2 * max(1, samples_per_insert)` and `low <= min_size *
            samples_per_insert <= high`. Other limits could block samples and inserts for ever.

    Raises:
        ValueError: An argument is out of range, or both sides could be blocked.
        TypeError: An argument has the wrong type.
    """

    def __new__(
        cls, samples_per_insert: float, min_size: int, error_buffer: float | tuple[float, float]
    ) -> Self: ...
    @staticmethod
    def min_size(m: int) -> RateLimiter:
        """Create a limiter with which nothing is sampled before m >= 1 entries are held.

        It limits nothing else: inserts never wait.
        """
    @staticmethod
    def queue(size: int) -> RateLimiter:
        """Create the limiter of a queue: at most `size` >= 1 entries wait for their sample.

        It is `samples_per_insert` 1, `min_size` 1, low 0 and high `size`, with batches of up to
        `size` samples.
        """
    @property
    def samples_per_insert(self) -> float | None:
        """Samples for each entry; None of `RateLimiter.min_size(m)`."""
    @property
    def min_size_to_sample(self) -> int:
        """Entries held before anything is sampled: the argument `min_size`."""
    @property
    def low(self) -> float | None:
        """Lower limit of I * spi - S after a batch; None of `RateLimiter.min_size(m)`."""
    @property
    def high(self) -> float | None:
        """Upper limit of I * spi - S after an insert; None of `RateLimiter.min_size(m)`."""
    @property
    def largest_batch(self) -> int | None:
        """Samples of the largest batch that is not refused; None where any batch may come."""
    def _check_batch(self, n: int, name: str = "batch_size") -> None:
        """Raise ValueError that names the argument if n samples can never be allowed at once."""
    def _sample_shortage(self, n: int, inserts: int, samples: int, removed: int) -> str | None:
        """Return why n may not be sampled with these counts, and what would free it; or None."""
    def _insert_shortage(self, inserts: int, samples: int, removed: int) -> str | None:
        """Return why not one entry may be inserted, and what would free it; or None."""
    def _inserts_left(self, inserts: int, samples: int, removed: int) -> int | None:
        """Return how many entries may still be inserted with these counts; None without a limit."""

# -- transition_writer.rs -------------------------------------------------------------------------

@final
class TransitionWriter:
    """Writes transitions of several environments into a memory, whose steps can be drawn at once.

    Each observation is stored once: the `next_obs` of a step is the `obs` of the next. Where `obs`
    is not the last `next_obs`, another episode begins, and the old one keeps its `next_obs`. With
    `frame_stack` k an observation is a stack of k of the memory's states along its first axis,
    oldest first.

    The info of an entry is `(call * num_envs + environment) << 2`, plus 1 where its episode ended,
    plus 2 where it was truncated; so that of a next is the number of the step after.

    Args:
        memory: A memory with info uint64 of shape () and reward of shape (). Its `sampler` is
            "uniform" or "prioritized", its `remover` "fifo", and it has no limiter, views,
            recurrent states or `max_times_sampled`. Nothing else may write into it, and while
            episodes are open no other samplers draw from it.
        num_envs: Environments, N >= 1.
        capacity: The newest steps of each environment that are kept, >= 1; older ones are dropped
            with the piece of their episode, and earlier where less than `ahead` = min(piece // 2,
            64) slots of each environment are free: so episodes lie in adjacent slots.
        piece: Steps of a piece at most, >= 1. With `max_step` N * (capacity + piece + ahead + 2 *
            (frame_stack + multi_step) + 4) and a `frame_stack` of 1 the memory holds the newest
            half of `capacity`, however short episodes are.
        timeouts: Whether `infos` say which episodes were truncated.
        added: Calls that were made before, of a memory that was loaded.

    Raises:
        ValueError: The memory has other fields or settings, or a number is out of range.
        TypeError: An argument has the wrong type.
        RuntimeError: In a forked child.
    """

    def __new__(
        cls,
        memory: ReplayMemory,
        num_envs: int,
        capacity: int,
        *,
        piece: int,
        timeouts: bool = True,
        added: int = 0,
    ) -> Self: ...
    def add(
        self,
        obs: npt.ArrayLike,
        next_obs: npt.ArrayLike,
        action: npt.ArrayLike,
        reward: npt.ArrayLike,
        done: npt.ArrayLike,
        infos: Sequence[Mapping[str, Any]] | Mapping[str, Any],
    ) -> bool:
        """Add a step of each environment, or after an error nothing.

        Args:
            obs: Observations, (N, *observation) of the state's dtype; others are converted by the
                'same_kind' rule.
            next_obs: Those after the step, likewise.
            action: Actions, likewise; any shape of as many elements.
            reward: Rewards (N,), finite.
            done: Whether the episode ended, (N,).
            infos: A dict for each environment, or one dict of arrays. "TimeLimit.truncated" says
                that an episode was truncated.

        Returns:
            False, and nothing is added, where frames of `obs` and `next_obs` do not overlap. Where
            an episode terminated they need not: only the newest frame of `next_obs` is kept.

        Raises:
            ValueError: A shape differs, a reward is not finite, or the memory has got settings or
                views that are refused at the construction.
            TypeError: A dtype cannot be converted, or `infos` has the wrong type.
            RuntimeError: The memory is too small for the open episodes, or its `frame_stack` has
                changed.
        """
    def sample(self, batch_size: int, *, beta: float | None = None) -> tuple[npt.NDArray[Any], ...]:
        """Draw steps by the memory's `sampler`, as `ReplayMemory.sample` does.

        Args:
            batch_size: How many, B >= 1.
            beta: Exponent of importance weights, finite and >= 0; None leaves them and ids out.

        Returns:
            Observations (B, *observation), actions (B, *action), the observations `multi_step`
            steps later or where the episode ended before, and float32 (B, 1): 1 where it
            terminated by then, the discounted sum of the rewards until then, and `discount_factor`
            to the power of the steps until then. With `beta` there follow importance weights (B,
            1), the largest of which is 1, and ids uint64 (B,).

        Raises:
            ValueError: `batch_size` < 1, or `beta` is out of range.
            RuntimeError: Nothing can be drawn, or the memory's `frame_stack` has changed.
        """
    def finish(self) -> None:
        """Close all open episodes, as if they had been truncated here."""
    @property
    def added(self) -> int:
        """Calls of `add` that added steps, and those made before."""
    def held(self, *, observations: bool = True) -> Batch:
        """Return all steps that the memory holds, each with the state one step later.

        Args:
            observations: Whether states are among the fields.
        """

# -- cache.rs -------------------------------------------------------------------------------------

def set_cache_sequences(
    memory: ReplayMemory,
    length: int,
    burn_in: int = 0,
    after: int = 0,
    period: int = 1,
    border: str = "clip",
    *,
    nstep: bool = False,
) -> None:
    """Make the caches of a memory, and of stores and mixers like it, hold sequences.

    With `nstep`, where caches carry n-step returns, no `multi_step` above `after` can be set.

    Raises:
        TypeError, ValueError: As `ReplayMemory.sample_sequences`.
        RuntimeError: They are set already.
    """

def cache_sequences(memory: ReplayMemory) -> dict[str, Any] | None:
    """Return the arguments of `set_cache_sequences`; None where caches hold transitions."""

def draw_cache(
    memory: ReplayMemory, *, ids: bool = False, nstep: bool = False, pack: int = 0
) -> tuple[int, float, int, int, list[npt.NDArray[np.uint8]] | list[bytes]] | None:
    """Draw `memory.cache_size` samples as a cache, by its sampler; None with too few entries.

    Args:
        memory: The memory.
        ids: Whether to add the ids of prev's entries.
        nstep: Whether to add n-step returns and their discounts.
        pack: Return a cache of at most this many bytes as one buffer, since each buffer costs
            ZeroMQ as much as copying some 10 kB.

    Returns:
        Rows, the share of batches (the sum of all weights before the draw; under sampler "uniform"
        `num_drawable`, under samplers that choose by an order 1), the cache flags with prev's state
        as the lowest bit, `frame_stack`, and the bytes of the columns: weights (float32), ids
        (uint64) if asked for, n-step returns and discounts (float32, of reward's shape) if asked
        for, then each field that the flags name; or one buffer with all of them, one after the
        other.

    Raises:
        MemoryError: There is not enough memory.
    """

def compress_cache(
    memory: ReplayMemory, frames: list[npt.NDArray[np.uint8]] | list[bytes]
) -> tuple[list[Any], int]:
    """Compress the columns of a cache whose fields the memory compresses, where they get smaller.

    Args:
        memory: The memory.
        frames: A buffer for each column, as `draw_cache` returns them without `pack`.

    Returns:
        The columns, as bytes where compressed, and a number that has a bit for each, the first one
        lowest: whether it is compressed.
    """

def cache_layout(
    memory: ReplayMemory, *, ids: bool = False, nstep: bool = False
) -> tuple[int, int, int]:
    """Return the layout of caches under the present settings.

    Returns:
        The cache flags as `draw_cache` returns them, `frame_stack`, and the bytes of a row in the
        largest column.
    """

def start_ids(memory: ReplayMemory, random: int) -> None:
    """Start ids at a random number of 64 bits, which other memories' ids hardly ever meet.

    Raises:
        RuntimeError: An episode was opened before.
    """

# -- cache_store.rs -------------------------------------------------------------------------------

_StoreStats: TypeAlias = tuple[
    int,
    int,
    float,
    int,
    int,
    float | None,
    float | None,
    tuple[int, int, int],
    tuple[int, int, int],
    dict[int, tuple[int, int, int]],
]

@final
class CacheFrames:
    """The frames of a cache that a store holds, or held; each is copied when it is asked for."""

    def __getitem__(self, index: int, /) -> bytes:
        """The bytes of a frame; an IndexError if `index` is not one of theirs, from 0 on."""
    def __len__(self) -> int:
        """Frames."""
    def sizes(self) -> list[int]:
        """Bytes of each frame."""

@final
class CacheStore:
    """The newest `n_caches` caches that a server has received.

    Args:
        memory: The server's: its templates and settings decide on the layout of caches, and on
            `reuse_cache`. When `cache_flags` or `frame_stack` change, the caches held are dropped.
            With `storage`, columns of at least 64 KiB are moved to files in that folder.
        n_caches: Caches kept, >= 1; a further one replaces the oldest.
        ids: Whether caches have ids, and batches ids and senders.
        nstep: Whether both have n-step returns and their discounts.
        seed: Makes draws reproducible.
    """

    def __new__(
        cls,
        memory: ReplayMemory,
        n_caches: int,
        *,
        ids: bool = False,
        nstep: bool = False,
        seed: int | None = None,
    ) -> Self: ...
    def push(
        self,
        rows: int,
        weight_sum: float,
        frames: list[Any],
        *,
        sender: int = 0,
        layout: tuple[int, int] | None = None,
        next: int = 0,
        compressed: int = 0,
        max_frame: int = 0,
    ) -> bool:
        """Keep a cache: the store holds its frames, but for those that go to the memory's folder.

        Args:
            rows: Samples in it.
            weight_sum: Sum of weights of the memory that it was drawn from.
            frames: Columns as `draw_cache` returns them, a buffer of bytes for each or one for all,
                which are not written to any more.
            sender: 32-bit number of its client, for `stats`.
            layout: Cache flags and `frame_stack` that it was drawn with; None for those in force.
            next: Row to be given first; those before it were given already.
            compressed: Which frames are compressed, as `compress_cache` returns it. Those are
                decompressed, into as many bytes as the templates say.
            max_frame: Bytes of the largest compressed column that is taken, when decompressed.

        Returns:
            Whether the layout is the one in force. If not, nothing is kept.

        Raises:
            ValueError: Sizes disagree, or a weight is not a finite number >= 0; or a compressed
                column is damaged, has another size, or is of a field that the memory does not
                compress. Nothing is kept.
            TypeError: A frame is not a buffer.
            OSError: The memory's folder has no room. Nothing is kept.
        """
    def held(self) -> tuple[list[tuple[int, float, int, int, CacheFrames]], _StoreStats]:
        """Return the caches held, oldest first, and `stats` of the same moment.

        Returns:
            For each cache its rows, its `weight_sum`, its sender, the row to be given next, and its
            frames, as a list of them is what `push` takes; then the stats. A cache that is replaced
            meanwhile stays until its frames are let go.
        """
    def check_room(self) -> None:
        """Check that the memory's folder has room for `n_caches` caches of `cache_size` samples.

        Raises:
            OSError: It has less; the text has both numbers of bytes.
        """
    @property
    def bytes_on_disk(self) -> int:
        """Bytes of columns in the memory's folder; 0 without one."""
    def get_batch(self, batch_size: int, *, out: _Buffers | None = None) -> AnyBatch:
        """See `ReplayMemoryServer.get_batch`."""
    def give(
        self, rows: int
    ) -> tuple[float, int, int, int, list[npt.NDArray[np.uint8]], str | None]:
        """Take samples as the frames that carry them: all of them, or nothing.

        Returns:
            The state after that: the sum of the caches' sums of weights, 0.0 when there are fewer
            than `n_caches`, and the samples unused; the cache flags and `frame_stack` as
            `draw_cache` returns them; the bytes of the columns, an empty list when `rows` is 0 or
            there are too few: weights (float32), with ids those (uint64) and senders (uint32), with
            n-step returns those and their discounts (float32, of reward's shape), then each field
            that the flags name; and why there are too few, or None.
        """
    def shortage(self, batch_size: int) -> str | None:
        """Return why `get_batch` would raise RuntimeError now; None if it would not."""
    def resume(
        self,
        given: int,
        discarded: int,
        received: Sequence[int],
        others: Sequence[int],
        clients: Sequence[tuple[int, Sequence[int]]],
    ) -> None:
        """Go on with the counts of a store before this one, whose caches were pushed here.

        Args:
            given: As `stats` returns it.
            discarded: Likewise.
            received: Likewise.
            others: Likewise.
            clients: Each client with its counts, the one that sent last comes last.
        """
    def stats(self) -> _StoreStats:
        """Return counters, all of one moment; see `cogrs.replay.stats.ServerStats`.

        Returns:
            Caches held; samples unused; sum of the sums of weights; samples given, discarded; ages
            of the oldest and the newest cache in seconds; caches, samples and bytes received in
            all, from clients that are not counted separately any more, and from each client.
        """
    @property
    def weight_sum(self) -> float:
        """Sum of the caches' sums of weights."""
    @property
    def num_unused(self) -> int:
        """Samples held that have not been given yet."""
    def __len__(self) -> int:
        """Caches held."""

# -- mixer.rs -------------------------------------------------------------------------------------

@final
class SampleMixer:
    """Samples of several servers, and the plan from which server each next row comes.

    Args:
        memory: A memory with their templates and settings, which do not change any more.
        servers: How many.
        ids, nstep, seed: As of `CacheStore`; with ids samples have senders too.
    """

    def __new__(
        cls,
        memory: ReplayMemory,
        servers: int,
        *,
        ids: bool = False,
        nstep: bool = False,
        seed: int | None = None,
    ) -> Self: ...
    def push(self, server: int, rows: int, frames: list[Any]) -> None:
        """Keep samples of a server without copying them; frames as of `CacheStore.give`.

        Raises:
            ValueError, TypeError: As `CacheStore.push`.
            IndexError: No such server.
        """
    @property
    def unused(self) -> list[int]:
        """Samples of each server that have not been used yet."""
    def check(self, batch_size: int, *, out: _Buffers | None = None) -> None:
        """Raise the error that `get_batch` would raise for its arguments."""
    def plan(self, batch_size: int, weights: list[float]) -> None:
        """Draw servers in proportion to `weights` until so many rows are planned.

        Raises:
            ValueError: Not as many weights as servers, or a weight is not a finite number >= 0.
            RuntimeError: All weights are 0.
        """
    def forget(self, server: int) -> None:
        """Remove the rows of a server from the plan."""
    def lacking(self, batch_size: int) -> list[int]:
        """Return how many of the next planned rows each server still has to give."""
    def get_batch(self, batch_size: int, *, out: _Buffers | None = None) -> AnyBatch:
        """Make a batch of the next planned rows: all of them, or nothing.

        Raises:
            RuntimeError: Some rows are not planned, or not received yet.
            ValueError, TypeError: As `ReplayMemory.get_batch`.
        """

# -- importance.rs --------------------------------------------------------------------------------

def importance_weights(
    weight: npt.ArrayLike,
    *,
    exponent: float,
    total: float,
    count: int,
    normalize: Literal["batch", "all"] = "batch",
    min_weight: float | None = None,
) -> _Float32:
    """Return the importance-sampling weights of a prioritized batch.

    w = (N * P) ** -exponent with P = weight / total, divided by the largest w. Schaul et al. 2016,
    section 3.4; their beta is `exponent`.

    Args:
        weight: Sampling weights of the batch, as `get_batch` returns them, all > 0. While other
            threads write, pass `Sample.probability` with `total=1`: both are of the moment of the
            draw.
        exponent: Beta, >= 0. 1 corrects fully, 0 not at all.
        total: Sum of all weights: `memory.weight_sum`.
        count: N, the number of entries with a weight above 0: `memory.num_sampleable`.
        normalize: "batch" divides by the largest w of this batch, "all" by the largest w of any
            entry of the memory.
        min_weight: For "all": the smallest weight above 0, `memory.min_weight`. Not needed when
            `weight` holds all N of them.

    Returns:
        float32, shape of `weight`.

    Raises:
        ValueError: An argument is out of range.
    """

# -- context.rs -----------------------------------------------------------------------------------

_Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

@final
class CollectorDelivery:
    """A batch that a call of `CollectorContext.wait` returned.

    If it is deleted without `CollectorContext.answer`, its batch is delivered again. Calls that
    take it raise RuntimeError when it was given back before.
    """

    @property
    def gid(self) -> int:
        """The collector."""
    @property
    def buffer(self) -> int:
        """Index of the batch among those that the collector fills in turn."""
    @property
    def rows(self) -> int:
        """Rows filled, from the first on."""

@final
class CollectorContext:
    """Games of one kind, stepped by threads of its own and by threads that wait for a batch.

    Any thread may call any method. Numbers of collectors (`gid`) and batches that do not exist
    raise IndexError, those of games ValueError.

    Args:
        game: Name of a built-in game; or, for games that Python steps, an object with `keys`,
            `action`, `num_action` and `players` like `cogrs.collector.description.GameSpec`, and
            `files`: for each env worker None, or the descriptor of the file that holds its step
            buffer.
        collectors: Descriptions that `parse` has checked.
        max_episode_steps: Actions after which an episode is truncated, >= 1; of built-in games.
        game_options: Options of a built-in game, by name; the others have their defaults.
        num_games: Games, >= 1.
        num_threads: Threads beside those that wait, >= 1.
        num_buffers: Batches of each collector, at least two; None for num_games / the sum of all
            batch sizes, but at least two and at most 256.
        seed: Determines the start of an episode, with its game and number; 0 <= seed < 2**64.
        deterministic: Sort batches of `num_games` rows by game, and deliver batches in the order in
            which their rows were assigned.
        on_error: The failure policy: "raise", "restart" or "drop".
        max_restarts: How often each game may restart.
        restart_backoff: Seconds that a game rests before its first restart, >= 0; doubled each
            time, up to a minute.
        queries: Queries that each game may make at once during a step; 0 for built-in games.

    Raises:
        ValueError: An option is out of range, or collectors do not fit the game or each other.
        MemoryError: Games, histories and batches take more memory than is available.
    """

    def __new__(
        cls,
        game: Any,
        collectors: Sequence[Collector],
        *,
        max_episode_steps: int,
        game_options: Mapping[str, float] | None = None,
        num_games: int,
        num_threads: int,
        num_buffers: int | None,
        seed: int,
        deterministic: bool,
        on_error: str,
        max_restarts: int,
        restart_backoff: float,
        queries: int,
    ) -> Self: ...
    def start(self) -> None:
        """Start the games; RuntimeError when it was started or stopped before."""
    def wait(
        self, gid: int | None = None, timeout: float | None = None
    ) -> CollectorDelivery | None:
        """Wait for a batch of one collector or of any, and step games meanwhile.

        Args:
            gid: The collector; None for any.
            timeout: Seconds, >= 0; None for no limit.

        Returns:
            The delivery, its replies all zero; None after the timeout.

        Raises:
            RuntimeError: Not started, stopped, or a game failed; the text says which.
            ValueError: The timeout is not a number >= 0.
        """
    def answer(self, delivery: CollectorDelivery) -> None:
        """Give a batch back, whose games take their replies and go on; do nothing after `stop`."""
    def check_out(self, delivery: CollectorDelivery) -> None:
        """Check that a batch was not given back yet."""
    def put_back(self, delivery: CollectorDelivery) -> None:
        """Return a batch to be delivered again, before all others."""
    def stop(self) -> None:
        """Wake waiting threads with a RuntimeError, join all threads, drop undelivered batches.

        Does nothing in a forked child.
        """
    def num_buffers(self) -> list[int]:
        """Return how many batches each collector fills in turn."""
    def batch(self, gid: int, buffer: int) -> tuple[list[_Arrays], list[_Arrays] | None]:
        """Return the arrays of a batch, all its rows: one dict for each state, oldest first.

        They alias the memory that games write to, and keep it alive.

        Returns:
            Inputs and replies, each array (batch_size, *row); None for replies if the collector has
            no replies.
        """
    def memory(self, gid: int) -> tuple[int, int]:
        """Return the address and the size in bytes of a collector's batches."""
    def summary(self) -> tuple[list[int], list[list[int]]]:
        """Return counters of all that happened so far.

        Returns:
            States, ended episodes, failures of games, restarts, dropped games. For each collector
            batches, rows, short batches, and states that it missed because games failed.
        """
    def failed_game(self) -> int | None:
        """Return the game whose failure ended the run, or None."""
    def query(self, game: int, tid: int, shown: Sequence[bytes]) -> dict[str, bytes]:
        """Ask about a state while an env worker steps the game, and wait for the replies.

        Args:
            game: The game.
            tid: Which of its queries, from 1 on; it is the row's `tid`.
            shown: The state: the bytes of each key of the game.

        Returns:
            The bytes of each reply key.

        Raises:
            ValueError: No such query, or `shown` has other sizes.
            RuntimeError: This query is under way, or the run is over.
        """
    def stay(self, game: int) -> None:
        """Show the state of a game again, instead of the step for which it waits for a reply.

        Only for a caller that holds the game's batch and has not answered it.
        """
    def stay_each(self, games: Sequence[int]) -> None:
        """Do as `stay` for each of these games."""
    def begin(self, game: int, seed: int | None = None) -> None:
        """Start an episode of a game instead of that step, or before its first step.

        `seed`, 0 <= seed < 2**64, determines its episodes from now on; None keeps its seed.
        """
    def fail(self, text: str) -> None:
        """End the run: waiting threads get a RuntimeError with this text."""
    # Below: for env workers, the threads that step games written in Python.
    def step_buffer(self, env_worker: int) -> tuple[list[npt.NDArray[Any]], list[int]]:
        """Return the arrays that carry an env worker's moves and reports; row k is its k-th move.

        Returns:
            Arrays: games (int64), seeds (int64; -1 for a step, else an episode begins), actions,
            rewards (float64), ends (uint8: 0 not over, 1 terminated, 2 truncated; plus 4 where only
            the episode of the row's player is over), players (int32), seqs (int32: the player's
            states before this one) and one for each key of the game. Then where each begins in its
            file. Players and seqs are read of games with `has_agents`.

        Raises:
            IndexError: No such env worker.
        """
    def play(
        self, env_worker: int, begun: int, failed: Sequence[tuple[int, str]], timeout: float
    ) -> int | None:
        """Report the outcome of the last moves, and wait for others.

        Args:
            env_worker: The caller's number.
            begun: Moves made of those that the last call returned, from the first row on; the
                others are handed out again.
            failed: Rows whose games failed, and error texts. Nothing else is read from these rows.
            timeout: Seconds to wait at most, >= 0.

        Returns:
            How many rows of the step buffer have a move; 0 after the timeout, None after the end.

        Raises:
            ValueError: No such env worker or row, or `begun` is more than it was handed.
        """
    def attend(
        self,
        gid: int | None,
        timeout: float | None,
        progress: list[int],
        failed: Sequence[tuple[int, str]],
    ) -> CollectorDelivery | int | None:
        """Wait as `wait` does, or be given moves of the only env worker, which has no thread.

        Moves that were not reported yet are reported first, as by `report`. Arguments and errors
        are those of `wait` and `report`.

        Returns:
            As `wait`; or how many rows of the step buffer have a move for this thread to make.
        """
    def report(self, progress: list[int], failed: Sequence[tuple[int, str]]) -> None:
        """Report the outcome of the moves that `attend` handed to this thread.

        Args:
            progress: Moves begun and moves ended; set to zero. When these differ, the last one was
                broken off, and its game begins an episode. Others are handed out again.
            failed: As for `play`.

        Raises:
            ValueError: More moves than it was handed, or no such row.
        """
    def is_moving(self) -> bool:
        """Return whether this thread has moves from `attend` that it has not reported."""

# -- request_batcher.rs ---------------------------------------------------------------------------

@final
class RequestDelivery:
    """A batch that a call of `RequestBatcher.wait` returned, as `CollectorDelivery`.

    If it is deleted without `RequestBatcher.release`, its batch is delivered again.
    """

    @property
    def buffer(self) -> int:
        """Index of the batch among those that are filled in turn."""
    @property
    def rows(self) -> int:
        """Rows filled, from the first on."""

@final
class RequestBatcher:
    """Collects the rows of many callers in batches.

    Any thread may call any method.

    Args:
        inputs: Name, dtype and shape of one row of each input.
        replies: Likewise of each reply.
        batch_size: Rows of a full batch, >= 1.
        timeout_usec: Microseconds after its first row when a batch goes out short; 0: never.
        num_buffers: Batches filled in turn, >= 1.

    Raises:
        ValueError: A number or a shape is out of range.
        TypeError: A dtype has no fixed size, holds objects, or brings a shape of its own.
        MemoryError: The batches take more memory than is available.
    """

    def __new__(
        cls,
        inputs: Sequence[tuple[str, npt.DTypeLike, tuple[int, ...]]],
        replies: Sequence[tuple[str, npt.DTypeLike, tuple[int, ...]]],
        batch_size: int,
        *,
        timeout_usec: int,
        num_buffers: int,
    ) -> Self: ...
    def put(self, inputs: dict[str, npt.ArrayLike], owner: object) -> None:
        """Put a copy of a row without waiting; it is kept while no batch has room.

        Args:
            inputs: A value for each input; other dtypes are converted by the 'same_kind' rule, and
                refused where a value does not fit.
            owner: The object that `release` passes on for this row.

        Raises:
            ValueError: A name is missing or unknown, a shape differs, or a value does not fit.
                Nothing is put.
            TypeError: A dtype cannot be converted. Nothing is put.
            RuntimeError: The request batcher is closed.
            MemoryError: No batch has room, and memory to keep the row is not available.
        """
    def wait(self, timeout: float | None = None) -> RequestDelivery | None:
        """Wait for a batch.

        Args:
            timeout: Seconds, >= 0; None for no limit.

        Returns:
            The delivery, its replies all zero; None after the timeout.

        Raises:
            RuntimeError: The request batcher is closed.
            ValueError: The timeout is not a number >= 0.
        """
    def flush(self) -> None:
        """Send waiting rows out in a short batch, unless another row comes before `wait`."""
    def put_back(self, delivery: RequestDelivery) -> None:
        """Return a batch to be delivered again, before all others."""
    def release(self, delivery: RequestDelivery, send: Callable[[list[Any]], object]) -> None:
        """Give a batch back to be filled anew; read its replies before.

        Args:
            delivery: The batch.
            send: Called with the owners of its rows, in order; with an empty list if the batcher
                was closed meanwhile. When it raises it is called once more, so that no caller is
                forgotten when Ctrl-C comes in between, and then the exception is raised.
        """
    def close(self, send: Callable[[list[Any]], object]) -> None:
        """Wake waiting threads with a RuntimeError.

        Args:
            send: Called as by `release`, with the owners of all unanswered rows; not in a forked
                child.
        """
    def batch(self, buffer: int) -> tuple[_Arrays, _Arrays]:
        """Return the arrays of a batch, all its rows: inputs and replies, each (batch_size, *row).

        They alias the memory that rows are written to, and keep it alive.

        Raises:
            IndexError: No such batch.
        """

# -- description.rs -------------------------------------------------------------------------------

def builtin_columns() -> dict[str, str]:
    """Return the keys that every game has, and their dtypes; each has shape ().

    Returns:
        `id`, `tid`, `seq` (int32), `last_r` (float32), `last_terminal`, `last_truncated`, `ended`
        and `cut` (uint8).
    """

# -- games.rs -------------------------------------------------------------------------------------

def game_spec(name: str, options: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Return keys, action and players of a built-in game.

    Args:
        name: The game.
        options: Its options, by name; the others have their defaults.

    Returns:
        `keys`: dtype and shape of each key of a state; `action`: dtype and shape of an
        action; `num_action`: numbered actions, or the length of a continuous one; `players`: their
        names.

    Raises:
        ValueError: No such game or option, or an option is out of range.
    """

def physics_step(
    game: str, state: Sequence[float], action: float
) -> tuple[list[float], float, bool]:
    """Compute one step of a game that is equations of motion.

    Args:
        game: "acrobot", "cartpole", "mountain_car", "mountain_car_continuous" or "pendulum".
        state: The variables of the equations, in the order and the units of Gymnasium's
            `env.state`.
        action: An integer for numbered actions, a number that becomes float32 for continuous ones.

    Returns:
        The next state, in float64 but for mountain_car_continuous, whose numbers are float32; the
        action's reward; whether the episode terminates in that state.

    Raises:
        ValueError: No such game or action, or the state has another length.
        TypeError: The action is not an integer where actions are numbered, or not a number.
    """

# -- sample_columns.rs ----------------------------------------------------------------------------

@final
class SampleColumns:
    """The columns of a trial's Parquet file, which grow with its samples.

    Args:
        trial_id: The trial.
        actors: Name and class of each actor, and whether a person plays it.
        parse: Takes the content of an observation or an action, whose form is new, and returns its
            kind, shape, whether it is terminated, whether it is truncated, its head and its data;
            the head is what comes before the data if they end the content, else no bytes.
        max_rows: Rows after which a row group ends.
        max_bytes: Bytes of contents after which it ends.
    """

    def __new__(
        cls,
        trial_id: str,
        actors: Sequence[tuple[str, str, bool]],
        parse: Callable[[bytes], tuple[str, Sequence[int], bool, bool, bytes, bytes]],
        max_rows: int,
        max_bytes: int,
    ) -> Self: ...
    def add(self, samples: Sequence[bytes]) -> bytes:
        """Add serialized `DatalogSample`s, after whose error the columns cannot be used any more.

        Each becomes a row for each actor, and one for the environment if it got messages.

        Returns:
            The next bytes of the file, those of row groups that are complete.

        Raises:
            ValueError: One is not a sample of this trial; also what `parse` raises.
        """
    def finish(self, metadata: Sequence[tuple[bytes, bytes]]) -> bytes:
        """End the file with these keys and values beside the columns; return its last bytes.

        Raises:
            ValueError: A column of a row group has 2 GiB or more.
        """
    def summary(self) -> tuple[int, list[float], bool, str, str, int, int]:
        """Return what all samples say together.

        Returns:
            Number of the last tick; return of each actor; whether a person rewarded an actor; the
            user; why the trial ended; times of the first and the last observations in nanoseconds
            since the Unix epoch, 0 if they are missing.
        """

# -- journal_frames.rs ----------------------------------------------------------------------------

def frames_of_samples(samples: Sequence[bytes]) -> bytes:
    """Return the frames of a journal that hold serialized `DatalogSample`s."""

def samples_of_frames(data: bytes) -> tuple[list[bytes], int, bool]:
    """Return the samples of a journal's frames that are complete.

    Args:
        data: Bytes of a journal, from the front of a frame.

    Returns:
        The samples; the bytes of their frames; whether the next frame is damaged, and not only
        incomplete.
    """
