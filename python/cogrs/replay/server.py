"""`cogrs.ReplayMemoryServer`: caches of many clients in, batches out.

```text
client  rem -> draw_cache -> [header | weight | field | ...] -> PUSH   REQ -> sizes, counters  SUB
                                                                 |      |                       ^
server  get_batch <- CacheStore <- ServerState.take <- worker <- PULL  ROUTER -> .answer  Publisher
                         |                                                |
                         +--- give -> [header | weight | field | ...] ----+---> ReplaySampler
```

Threads: any may call any method. This class only checks arguments and starts threads: `ServerState`
and `Publisher` have the locks, a `CacheStore` its own in Rust. Rows are chosen under that lock and
gathered outside of it, from caches that the batch holds too, so receiving never waits for a batch.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Generic, cast

from cogrs._core import RateLimiter, ReplayMemory, publish_through
from cogrs.deprecation import renamed_argument
from cogrs.replay.batch import BatchT
from cogrs.replay.endpoint import Bind, check_endpoint
from cogrs.replay.net.curve import Curve
from cogrs.replay.net.transport import Transport
from cogrs.replay.priorities import Priorities
from cogrs.replay.pubsub.publisher import Publisher
from cogrs.replay.sequence_priority import SequencePriority, set_sequences
from cogrs.replay.serving.listeners import Listeners
from cogrs.replay.serving.server_checkpoint import restore_server, save_server
from cogrs.replay.serving.server_properties import ServerProperties
from cogrs.replay.serving.server_state import ServerState
from cogrs.replay.serving.server_workers import ServerWorkers
from cogrs.validation import check_count, check_flag, check_kind, check_timeout

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import numpy.typing as npt

    from cogrs.replay.key_pair import KeyLike, KeysLike


class ReplayMemoryServer(ServerProperties, ServerWorkers, Generic[BatchT]):
    """Receives caches from clients and makes batches of them for a learner.

    The newest `n_caches` caches are kept, first in, first out. For each row of a batch a cache is
    drawn with probability proportional to the sum of weights of the memory that it came from, and
    its next sample is taken, in order: together a sample is drawn as if all memories were one.

    `start` runs a worker of each kind on threads; or call the `..._main` methods on threads of your
    own, several of a kind behind a proxy. Any thread may call any method. Close the server, or use
    it as a context manager.

    Caches are delivered at most once: a broken connection loses whole caches only, and
    `total_caches` counts those that have arrived.
    """

    _instead: ClassVar[str] = "other processes reach it through a ReplayMemoryClient"

    def __init__(
        self,
        state_buf: npt.ArrayLike,
        action_buf: npt.ArrayLike,
        reward_buf: npt.ArrayLike,
        prob_buf: npt.ArrayLike,
        value_buf: npt.ArrayLike,
        qvest_buf: npt.ArrayLike,
        info_buf: npt.ArrayLike,
        max_step: int,
        pub_endpoint: str,
        n_caches: int,
        *,
        uuid: int | None = None,
        seed: int | None = None,
        hwm: int = 16,
        pub_hwm: int = 16,
        log_seconds: float | None = 10.0,
        ids: bool = False,
        nstep: bool = False,
        sequences: Mapping[str, Any] | None = None,
        recurrent: npt.ArrayLike | None = None,
        recurrent_period: int = 1,
        compress: Mapping[str, str] | None = None,
        max_bytes: int | None = None,
        storage: str | bytes | os.PathLike[str] | None = None,
        key: KeyLike | None = None,
        allow: KeysLike | None = None,
        allow_samplers: KeysLike | None = None,
        insecure: bool = False,
        limiter: RateLimiter | None = None,
    ) -> None:
        """Create the memory and the store of caches, and bind the publishing socket.

        Args:
            state_buf: Template, as of `ReplayMemory`; so are the next six.
            action_buf: Template.
            reward_buf: Template.
            prob_buf: Template.
            value_buf: Template.
            qvest_buf: Template.
            info_buf: Template.
            max_step: Entries that the server's own memory holds; 0 is usual.
            pub_endpoint: Where to publish; 'tcp://127.0.0.1:*' takes a free port, which is in the
                property `pub_endpoint`.
            n_caches: Caches kept, >= 0; so many must have arrived before `get_batch` works. With 0
                the server publishes, counts and logs, but refuses caches and has no batches.
            uuid: 32-bit number that names this server; random if None.
            seed: Makes the draws of `get_batch` reproducible.
            hwm: Caches of each client that wait for a worker, at most (high-water mark).
            pub_hwm: Published messages of a topic that wait for a slow subscriber, at most, >= 1,
                apart from those that are on their way (16 or `pub_hwm`, if that is less); beyond
                that the newest replaces the oldest, which the subscriber counts. Priorities are
                merged instead.
            log_seconds: Seconds between lines about what arrives, which PULL workers log at level
                INFO to the logger 'cogrs.replay.server'; None for no lines.
            ids: Whether caches carry ids, so that batches have the entry and client of each row,
                and `update_priority` sends errors back.
            nstep: Whether caches carry n-step returns and their discounts, so that batches have
                those of `ReplayMemory.sample(nstep_return=True)`.
            sequences: `length`, `burn_in`, `after`, `period`, `border` of
                `ReplayMemory.sample_sequences`: the rows of caches and batches are such sequences.
                With `nstep`, `after` has to be at least `multi_step`, now and when that is set.
            recurrent: As of `ReplayMemory`, for the memories of clients too.
            recurrent_period: As of `ReplayMemory`.
            compress: As of `ReplayMemory`, for the memories of clients too. These fields of caches
                travel compressed, and are decompressed when they arrive.
            max_bytes: As of `ReplayMemory`, of the server's own memory.
            storage: Folder for columns of caches of at least 64 KiB, and for what `ReplayMemory`
                puts there of the server's own memory. Room for `n_caches` caches is checked by
                `start`. None: all caches stay in memory.
            key: The server's key pair, or its file `NAME.key_secret`. All sockets then use CURVE:
                messages are encrypted, and clients and server prove to each other that they hold
                their keys. Its workers and proxies, in other processes too, have the same pair.
                None: no keys.
            allow: Public keys of the clients that may connect, or files `NAME.key` of them; or a
                folder of such files, which is read when a client connects. Given with `key`. They
                may push, tell totals of their own, and read all that is published.
            allow_samplers: Likewise, of those that may also draw samples, send priorities and have
                messages published, as `ReplaySampler` does; they need not be in `allow` too. None:
                all that are allowed; empty: the holders of `key` alone.
            insecure: Whether to listen without keys where other machines, or all users of this one
                (`ipc://@NAME`), can connect. Otherwise that is refused, and the socket of
                `ipc://PATH` is for its owner alone.
            limiter: When `get_batch` and samplers may have samples, and how many entries clients
                are told that they may insert: see `ReplayMemoryClient.wait_to_insert`. Counts begin
                at 0 with the server: inserts are the steps that clients have told by
                `update_counter`, samples those in batches. None: no limit.

        Raises:
            TypeError: As `ReplayMemory`, or an argument has the wrong type.
            ValueError: As `ReplayMemory`, or an argument is out of range, a key is not valid, or
                `key` or `allow` is given without the other; or others could connect to the
                endpoint, and there are neither keys nor `insecure`; or there is a limiter though
                `n_caches` is 0.
            OSError: The endpoint cannot be bound, for instance because the port is taken; or a file
                of a key cannot be read; or as `ReplayMemory`, because of `storage`.
            RuntimeError: There are keys, and this libzmq was built without CURVE; or another memory
                or server uses the folder `storage`.
        """
        endpoint = check_endpoint("pub_endpoint", pub_endpoint, Bind)
        hwm = check_count("hwm", hwm)
        pub_hwm = check_count("pub_hwm", pub_hwm)
        curve = Curve.of_server(key, allow, allow_samplers)
        buffers = (state_buf, action_buf, reward_buf, prob_buf, value_buf, qvest_buf, info_buf)
        stored: Any = {
            "recurrent": recurrent,
            "recurrent_period": recurrent_period,
            "compress": compress,
            "max_bytes": max_bytes,
            "storage": storage,
        }
        self._rem = ReplayMemory(*buffers, max_step, uuid=uuid, seed=seed, **stored)
        self._ids = check_flag("ids", ids)
        self._nstep = nstep = check_flag("nstep", nstep)
        if sequences is not None:
            set_sequences(self._rem, sequences, nstep=nstep)
        period = check_timeout("log_seconds", log_seconds, above=True)
        if limiter is not None:
            check_kind("limiter", limiter, RateLimiter, "a RateLimiter or None")
        self._state = ServerState(
            self._rem, n_caches, seed, period, ids=ids, nstep=nstep, limiter=limiter
        )
        self._transport = Transport(type(self).__name__, curve, insecure=insecure)
        try:
            self._publisher = Publisher(self._transport, endpoint, self._rem.uuid, pub_hwm)
        except BaseException:
            self._transport.abandon()
            raise
        publish_through(self._rem, self._publisher.publish)
        self._state.publish = self._publisher.publish_priorities
        self._state.publish_for_client = self._publisher.publish_for_client
        if self._state.limiter is not None:
            self._state.limiter.publish = self._publisher.publish_allowance
        self._listeners = Listeners(self._transport, self._state, hwm)
        parts = (self._transport, self._publisher, self._state)
        self._finalize = weakref.finalize(self, _close, *parts)

    def get_batch(
        self, batch_size: int, *, wait: float | None = None, out: tuple[Any, ...] | None = None
    ) -> BatchT:
        """Take a batch of samples from the caches: all rows or nothing.

        Without `rem.reuse_cache` each sample of a cache is given once; with it, the first comes
        again after the last.

        Args:
            batch_size: Rows B, >= 1.
            wait: Seconds to wait when there are too few samples, or the limiter allows no more;
                None does not wait, but with a limiter as long as it takes.
            out: Arrays to fill, as of `ReplayMemory.get_batch`.

        Returns:
            `(prev, next, weight)`, as of `ReplayMemory.get_batch`; they belong to the caller. With
            `ids=True` an `IdBatch`: `(prev, next, weight, id, sender)`. With `nstep=True` an
            `NStepBatch` or `NStepIdBatch`: `nstep_return` and `nstep_discount` come last. With
            `sequences` a `SequenceBatch`, `IdSequenceBatch`, ... of B sequences instead.

        Raises:
            RuntimeError: Fewer than `n_caches` caches have arrived, or fewer than `batch_size`
                unused samples are left, and there is neither `wait` nor a limiter; or `n_caches` is
                0, or the server was closed. Nothing is taken.
            TimeoutError: After `wait` seconds there are still too few, or the limiter allows no
                more; the text has the counts. Nothing is taken.
            ValueError: `batch_size` < 1, or more than the limiter can ever allow; `wait` < 0, or an
                array of `out` does not fit the batch.
            TypeError: `out` does not have the structure of a batch of this call.
        """
        self._transport.check()
        return cast("BatchT", self._state.get_batch(batch_size, wait, out))

    @renamed_argument("ids", "id")
    def update_priority(
        self,
        id: npt.ArrayLike,
        sender: npt.ArrayLike,
        priority: npt.ArrayLike,
        *,
        absolute: bool = False,
        mask: npt.ArrayLike | None = None,
    ) -> None:
        """Send errors back to the clients, which take them by `apply_priorities`; never waits.

        A message goes to each client that `sender` names. Errors that wait for a client are merged:
        of several for one entry the newest is sent, and those of different entries are not lost
        while the client is connected; for one that is not, some 20,000 are kept.

        Args:
            id: `IdBatch.id`, integers (B,); of sequences `anchor_id`.
            sender: `IdBatch.sender`, integers (B,).
            priority: The error of each row without exponent, or its weight; finite and >= 0, (B,).
            absolute: Whether the priority is the weight, as of `ReplayMemory.update_priority`.
            mask: Which errors of the steps of sequences, a priority of shape (B, steps), count. If
                None, all of `length` columns: of episodes shorter than `length`, whose ends only
                clients know, also those behind the end.

        Raises:
            TypeError, ValueError: An argument has the wrong type, lengths differ, or a number is
                out of range; nothing is sent.
            RuntimeError: The server has no ids, or is closed.
        """
        self._transport.check()
        if not self._ids:
            raise RuntimeError("this server has no ids: make it with ids=True")
        sequences = SequencePriority.of(self._rem)
        priorities = Priorities.of(
            id, sender, priority, absolute=absolute, mask=mask, sequences=sequences
        )
        priorities.publish(self._rem.uuid, self._publisher.publish_priorities)

    def pub_bytes(self, topic: str | bytes, message: str | bytes | bytearray | memoryview) -> None:
        """Publish a message; never waits.

        The last message of each topic is kept for subscribers that come later.

        Args:
            topic: Matched exactly by `sub_bytes`; any length, a str is UTF-8.
            message: At most 1 GiB.

        Raises:
            TypeError: Topic or message is neither bytes nor str.
            ValueError: The message is too long.
            RuntimeError: The server is closed.
        """
        self._publisher.publish(topic, message)

    def wait_subscribers(
        self, topic: str | bytes, count: int = 1, timeout: float | None = 30.0
    ) -> None:
        """Wait until so many clients have subscribed to a topic.

        Raises:
            TimeoutError: Fewer clients have subscribed within `timeout` seconds.
            TypeError, ValueError: `count` is not an integer >= 0.
            RuntimeError: The server is closed.
        """
        self._publisher.wait_subscribers(topic, count, timeout)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the caches held, clients' totals and the limiter's counts to a file.

        It takes the place of an existing file as a whole, or not at all; caches arrive meanwhile.

        Raises:
            OSError: It cannot be written.
        """
        save_server(self._state, path)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Go on with a file of `save`; call it before `start`, on a server to which nothing came.

        Samples that were given before it was written are not given again.

        Raises:
            OSError: It cannot be read; or `storage` has no room for its caches.
            ValueError: It is damaged, or of a server with other templates, `cache_flags`,
                `frame_stack`, `ids` or `nstep`.
        """
        restore_server(self._state, path)

    def set_logfile(self, logfile_path: str | bytes | os.PathLike[str], mode: str) -> None:
        """Write the lines of clients' `write_log` to a file, as `timestamp,uuid,message`.

        The timestamp is ISO 8601, the uuid has 8 hexadecimal digits; newlines and other characters
        of the message that do not print are escaped. Lines of one client are in order. Flushed each
        second and at close.

        Args:
            logfile_path: Path of the file.
            mode: As of C's `fopen`, one that can write: 'w', 'a' or 'x', each also with '+', or
                'r+', which overwrites an existing file from its beginning; each also with 'b',
                which changes nothing.

        Raises:
            TypeError: `logfile_path` is not a path.
            ValueError: `mode` is not one of these.
            OSError: The file cannot be opened.
        """
        self._transport.check()
        self._state.log_file.open(logfile_path, mode)

    def __repr__(self) -> str:
        """Return the class, the uuid, the endpoints and the number of caches."""
        return (
            f"ReplayMemoryServer(uuid=0x{self._rem.uuid:08x}, pub_endpoint={self.pub_endpoint!r}, "
            f"rep_endpoint={self.rep_endpoint!r}, pull_endpoint={self.pull_endpoint!r}, "
            f"total_caches={self._state.total_caches})"
        )


def _close(transport: Transport, publisher: Publisher, state: ServerState) -> None:
    if transport.begin_close():
        state.wake()
        publisher.finish()
        transport.finish_close()
        state.log_file.close()
