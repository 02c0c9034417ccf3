"""`cogrs.ReplayMemoryServer`: caches of many clients in, batches out."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, cast

import zmq

from cogrs._core import ReplayMemory, publish_through
from cogrs.limits import LARGEST_REPLY, MOST_WAITING_OF_ANSWERS
from cogrs.replay.batch import BatchT
from cogrs.replay.endpoint import Bind, Conn, Mode, check_count, check_endpoint, check_mode
from cogrs.replay.net.connection_monitor import ReceiveQuota
from cogrs.replay.net.curve import CLIENTS, WORKERS, Curve
from cogrs.replay.net.transport import Transport
from cogrs.replay.priorities import Priorities
from cogrs.replay.proxy import ProxySide, bind_all, intake_of_requests, pass_on
from cogrs.replay.pubsub.publisher import Publisher
from cogrs.replay.serving.server_state import ServerState
from cogrs.replay.serving.stats_reporter import check_period
from cogrs.replay.serving.worker import answer, take
from cogrs.replay.stats import described

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    import numpy.typing as npt

    from cogrs.replay.key_pair import KeyPair
    from cogrs.replay.stats import ServerStats

_LOOPBACK = "tcp://127.0.0.1:*"


class ReplayMemoryServer(Generic[BatchT]):
    """Receives caches from clients and makes batches of them for a learner.

    The newest `n_caches` caches are kept, first in, first out. For each row of a batch a cache is
    drawn with probability proportional to the sum of weights of the memory that it came from, and
    its next sample is taken, in order: together a sample is drawn as if all memories were one.

    `start` runs a worker of each kind on threads; or call the `..._main` methods on threads of your
    own, several of a kind behind a proxy. Any thread may call any method. Close the server, or use
    it as a context manager.

    Caches are delivered at most once: what a broken connection loses is lost, whole caches only,
    and `total_caches` counts what has arrived.
    """

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
        key: KeyPair | str | os.PathLike[str] | None = None,
        allow: Iterable[KeyPair | str | os.PathLike[str]] | str | os.PathLike[str] | None = None,
        allow_samplers: (
            Iterable[KeyPair | str | os.PathLike[str]] | str | os.PathLike[str] | None
        ) = None,
        insecure: bool = False,
    ) -> None:
        """Make the memory, the store of caches and the publishing socket.

        Args:
            state_buf: Template, as of `ReplayMemory`; so are the next six.
            action_buf: Template.
            reward_buf: Template.
            prob_buf: Template.
            value_buf: Template.
            qvest_buf: Template.
            info_buf: Template.
            max_step: Entries that the server's own memory holds; 0 is usual.
            pub_endpoint: Where to publish; 'tcp://127.0.0.1:*' takes a free port, which the
                property `pub_endpoint` tells.
            n_caches: Caches kept, >= 0; so many must have arrived before `get_batch` works. With 0
                the server publishes, counts and logs, but refuses caches and has no batches.
            uuid: 32-bit number that names this server; random if None.
            seed: Makes the draws of `get_batch` reproducible.
            hwm: Caches of each client that wait for a worker, at most (high-water mark), >= 1.
            pub_hwm: Published messages of a topic that wait for a slow subscriber, at most, >= 1,
                apart from those that are on their way (16 or `pub_hwm`, if that is less); then the
                newest replaces the oldest, which the subscriber counts. Priorities are merged
                instead.
            log_seconds: Seconds between lines about what arrives, which PULL workers log at level
                INFO to the logger 'cogrs.replay.server'; None for no lines.
            ids: Whether caches carry ids, so that `get_batch` tells whose entry each row is and
                `update_priority` sends errors back.
            nstep: Whether caches carry n-step returns and their discounts, so that `get_batch`
                gives what `ReplayMemory.sample(nstep_return=True)` does.
            key: The server's key pair, or its file `NAME.key_secret`. All sockets then use CURVE:
                what goes over the network is enciphered, clients prove who they are and know that
                this is the server. Its workers and proxies, in other processes too, have the same
                pair. None: no keys.
            allow: Public keys of the clients that it takes, or files `NAME.key` of them; or a
                folder of such files, which is looked at when a client connects. Given with `key`.
                These may push, tell totals of their own, and read all that is published.
            allow_samplers: Likewise, of those that may also draw samples, send priorities and have
                messages published, as `ReplaySampler` does; they need not be in `allow` too. None:
                all that are allowed; empty: the holders of `key` alone.
            insecure: Whether to listen without keys where other machines connect, or all users of
                this one (`ipc://@NAME`). Otherwise that is refused, and the socket of `ipc://PATH`
                is for its owner alone.

        Raises:
            TypeError: As `ReplayMemory`, or an argument is of a wrong type.
            ValueError: As `ReplayMemory`, or an argument is out of range, a key is none, or `key`
                or `allow` is given without the other; or others could connect to the endpoint, and
                there are neither keys nor `insecure`.
            OSError: The endpoint cannot be bound, for instance because the port is taken; or a file
                of a key cannot be read.
            RuntimeError: There are keys, and this libzmq was built without CURVE.
        """
        endpoint = check_endpoint("pub_endpoint", pub_endpoint, Bind)
        self._hwm = check_count("hwm", hwm)
        pub_hwm = check_count("pub_hwm", pub_hwm)
        curve = Curve.of_server(key, allow, allow_samplers)
        buffers = (state_buf, action_buf, reward_buf, prob_buf, value_buf, qvest_buf, info_buf)
        self._rem = ReplayMemory(*buffers, max_step, uuid=uuid, seed=seed)
        for name, flag in (("ids", ids), ("nstep", nstep)):
            if not isinstance(flag, bool):
                raise TypeError(f"{name}: expected True or False, got {type(flag).__name__}")
        self._ids = ids
        period = check_period("log_seconds", log_seconds)
        self._inbox = ServerState(self._rem, n_caches, seed, period, ids=ids, nstep=nstep)
        self._bound: dict[int, str] = {}
        self._transport = Transport(type(self).__name__, curve, insecure=insecure)
        try:
            self._transport.guard()
            self._publisher = Publisher(self._transport, endpoint, self._rem.uuid, pub_hwm)
        except BaseException:
            self._transport.abandon()
            raise
        publish_through(self._rem, self._publisher.publish)
        self._inbox.publish = self._publisher.publish_brief
        self._inbox.publish_for_client = self._publisher.publish_for_client
        # No thread of ours holds the server, so one that is forgotten closes.
        parts = (self._transport, self._publisher, self._inbox)
        self._finalize: weakref.finalize[..., Any] = weakref.finalize(self, _close, *parts)

    # What it is and what has arrived.

    @property
    def rem(self) -> ReplayMemory:
        """The server's memory: its templates and settings are those that clients get."""
        return self._rem

    @property
    def logfile(self) -> str | None:
        """Path of the log file; None before `set_logfile`."""
        return self._inbox.logbook.path

    @property
    def total_episodes(self) -> int:
        """Episodes that clients have closed, as they told by `update_counter`."""
        self._transport.check_process()
        return self._inbox.total_episodes

    @property
    def total_steps(self) -> int:
        """Steps of those episodes, final states left out."""
        self._transport.check_process()
        return self._inbox.total_steps

    @property
    def total_caches(self) -> int:
        """Caches that have arrived, whole ones only."""
        self._transport.check_process()
        return self._inbox.total_caches

    @property
    def total_refused(self) -> int:
        """Messages dropped because they were none of this protocol, or did not fit the memory."""
        self._transport.check_process()
        return self._inbox.total_refused

    def stats(self) -> ServerStats:
        """Take the server's figures: what has arrived, from whom, what is held, how old it is.

        Cheap, and waits for nothing: call it as often as you like, after `close` too.

        Raises:
            RuntimeError: In a forked child.
        """
        self._transport.check_process()
        return self._inbox.stats(self._publisher.total_published)

    def print_info(self) -> None:
        """Print `rem.print_info()`, endpoints and what has arrived to `sys.stdout`.

        Raises:
            RuntimeError: In a forked child.
        """
        stats = self.stats()
        self._rem.print_info()
        places = ("pub_endpoint", "rep_endpoint", "pull_endpoint", "logfile")
        where = {name: getattr(self, name) for name in places}
        print("\n".join(described(stats, self._rem.uuid, where)))

    @property
    def weight_sum(self) -> float:
        """Sum of the caches' sums of weights."""
        return self._inbox.caches.weight_sum

    @property
    def pub_endpoint(self) -> str:
        """Where it publishes, with the port that it got."""
        return self._publisher.endpoint

    @property
    def rep_endpoint(self) -> str | None:
        """Where the newest REP worker or proxy listens; None before there is one."""
        return self._bound.get(zmq.ROUTER)

    @property
    def pull_endpoint(self) -> str | None:
        """Where the newest PULL worker or proxy listens; None before there is one."""
        return self._bound.get(zmq.PULL)

    # What a learner calls.

    def get_batch(
        self, batch_size: int, *, wait: float | None = None, out: tuple[Any, ...] | None = None
    ) -> BatchT:
        """Take a batch of samples from the caches: all of them, or none.

        Without `rem.reuse_cache` each sample of a cache is given once; with it, the first comes
        again after the last.

        Args:
            batch_size: Rows B, >= 1.
            wait: Seconds to wait for samples when there are too few; None does not wait.
            out: Arrays to fill, as of `ReplayMemory.get_batch`.

        Returns:
            `(prev, next, weight)`, as of `ReplayMemory.get_batch`; they belong to the caller. With
            `ids=True` an `IdBatch`: `(prev, next, weight, ids, sender)`. With `nstep=True` an
            `NStepBatch` or `NStepIdBatch`: `nstep_return` and `nstep_discount` come last.

        Raises:
            RuntimeError: Fewer than `n_caches` caches have arrived, or fewer than `batch_size`
                unused samples are left; or `n_caches` is 0, or the server was closed. Nothing is
                taken.
            TimeoutError: After `wait` seconds there are still too few. Nothing is taken.
            ValueError: `batch_size` < 1, `wait` < 0, or an array of `out` is not of the right kind.
            TypeError: `out` is not made as what this call returns.
        """
        self._transport.check()
        return cast("BatchT", self._inbox.get_batch(batch_size, wait, out))

    def update_priority(
        self, ids: npt.ArrayLike, sender: npt.ArrayLike, priority: npt.ArrayLike
    ) -> None:
        """Send errors back to the clients, which take them by `apply_priorities`; never waits.

        A message goes to each client that `sender` names. What waits for a client is merged: of
        errors of one entry the newest is sent, and of different entries none is lost while the
        client is connected; for one that is not, some 20,000 are kept.

        Args:
            ids: `IdBatch.ids`, integers (B,).
            sender: `IdBatch.sender`, integers (B,).
            priority: The error of each row without exponent, finite and >= 0, (B,).

        Raises:
            TypeError: An argument is not made of numbers; nothing is sent.
            ValueError: Lengths differ, or a number is out of range; nothing is sent.
            RuntimeError: The server has no ids, or is closed.
        """
        self._transport.check()
        if not self._ids:
            raise RuntimeError("this server has no ids: make it with ids=True")
        priorities = Priorities.of(ids, sender, priority)
        priorities.publish(self._rem.uuid, self._publisher.publish_brief)

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
            TimeoutError: Fewer have within `timeout` seconds.
            RuntimeError: The server is closed.
        """
        self._publisher.wait_subscribers(topic, count, timeout)

    def set_logfile(self, logfile_path: str | bytes | os.PathLike[str], mode: str) -> None:
        """Write the lines of clients' `write_log` to a file, as `timestamp,uuid,message`.

        The timestamp is ISO 8601, the uuid has 8 hexadecimal digits, newlines and all else in the
        message that does not print are escaped. Lines of one client are in order. Flushed each
        second and at close.

        Args:
            logfile_path: Path of the file.
            mode: As of C's `fopen`, one that can write: 'w', 'a' or 'x', each also with '+', or
                'r+', which overwrites a file that is there from its beginning; each also with 'b',
                which changes nothing.

        Raises:
            TypeError: `logfile_path` is no path.
            ValueError: Another mode.
            OSError: The file cannot be opened.
        """
        self._transport.check()
        self._inbox.logbook.open(logfile_path, mode)

    # Workers and proxies.

    def start(self, rep_endpoint: str = _LOOPBACK, pull_endpoint: str = _LOOPBACK) -> Self:
        """Run a REP and a PULL worker on threads; the endpoints are bound when this returns.

        Raises:
            ValueError: An endpoint is none, or others could connect to it, as of the constructor.
            OSError: One cannot be bound.
            RuntimeError: The server is closed.
        """
        rep = self._worker("rep_endpoint", zmq.ROUTER, rep_endpoint, Bind)
        try:
            pull = self._worker("pull_endpoint", zmq.PULL, pull_endpoint, Bind)
        except BaseException:
            rep.close()
            del self._bound[zmq.ROUTER]
            raise
        for name, serve, socket in (("rep", answer, rep), ("pull", take, pull)):
            args = (self._transport, self._inbox, socket, Bind)
            threading.Thread(target=serve, args=args, name=f"cogrs-{name}", daemon=True).start()
        return self

    def rep_worker_main(self, endpoint: str, mode: Mode) -> None:
        """Answer clients' requests for sizes and counters; returns when the server is closed.

        Args:
            endpoint: ZeroMQ endpoint; in mode 'Conn' it can be 'inproc://NAME', where a proxy of
                this server has its `back_ep`.
            mode: 'Bind' to listen there, 'Conn' to connect to a proxy's back.

        Raises:
            ValueError: `endpoint` or `mode` is none, or others could connect (see the constructor).
            OSError: The endpoint cannot be bound.
            RuntimeError: The server is closed already.
        """
        mode = check_mode(mode)
        socket = self._worker("endpoint", zmq.ROUTER, endpoint, mode)
        answer(self._transport, self._inbox, socket, mode)

    def pull_worker_main(self, endpoint: str, mode: Mode) -> None:
        """Receive clients' caches and log lines; returns when the server is closed.

        Arguments and errors as `rep_worker_main`.
        """
        mode = check_mode(mode)
        socket = self._worker("endpoint", zmq.PULL, endpoint, mode)
        take(self._transport, self._inbox, socket, mode)

    def rep_proxy_main(self, front_ep: str, back_ep: str) -> None:
        """Listen to clients at one endpoint and to REP workers at another, and pass on.

        Returns when the server is closed.

        Args:
            front_ep: Where clients connect.
            back_ep: Where workers in mode 'Conn' connect; 'inproc://NAME' for those of this server.

        Raises:
            ValueError: An endpoint is none, or others could connect to it, as of the constructor.
            OSError: One cannot be bound.
            RuntimeError: The server is closed already.
        """
        # Samples that workers give a sampler are not bounded by what clients push.
        self._proxy(zmq.ROUTER, front_ep, zmq.DEALER, back_ep, LARGEST_REPLY)

    def pull_proxy_main(self, front_ep: str, back_ep: str) -> None:
        """Listen to clients at one endpoint and to PULL workers at another, and pass on.

        Returns and errors as `rep_proxy_main`.
        """
        self._proxy(zmq.PULL, front_ep, zmq.PUSH, back_ep, self._inbox.max_frame)

    def close(self) -> None:
        """Stop workers and proxies, wake all that waits, free the ports. Again: nothing."""
        self._finalize()
        self._transport.wait_closed()

    def _worker(self, name: str, kind: int, endpoint: str, mode: Mode) -> zmq.Socket[bytes]:
        # Clients, which connect to a worker that listens, have a context of their own.
        checked = check_endpoint(name, endpoint, mode, inproc=mode == Conn)
        max_frame = self._inbox.max_frame
        socket = self._transport.socket(kind, hwm=self._hwm, max_frame=max_frame)
        # A worker that connects has a proxy of its own on the other side.
        intake = self._intake(kind) if mode == Bind else None
        where = self._transport.attach(socket, name, checked, mode, intake=intake)
        if mode == Bind:
            self._bound[kind] = where
        return socket

    def _intake(self, kind: int) -> ReceiveQuota:
        """Return how much may wait of each peer of a socket that listens to clients."""
        return intake_of_requests() if kind == zmq.ROUTER else self._inbox.intake(self._hwm)

    def _proxy(self, front: int, front_ep: str, back: int, back_ep: str, most: int) -> None:
        max_frame = self._inbox.max_frame
        answers = ReceiveQuota(MOST_WAITING_OF_ANSWERS)
        ends = (
            ProxySide(
                "front_ep",
                front,
                front_ep,
                CLIENTS,
                self._hwm,
                max_frame,
                self._intake(front),
            ),
            ProxySide("back_ep", back, back_ep, WORKERS, self._hwm, most, answers),
        )
        sockets, bound = bind_all(self._transport, ends, inproc=True)
        self._bound[front] = bound[0]
        pass_on(self._transport, *sockets)

    def __enter__(self) -> Self:
        """Return the server."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """Tell where it is and how full."""
        return (
            f"ReplayMemoryServer(uuid=0x{self._rem.uuid:08x}, pub_endpoint={self.pub_endpoint!r}, "
            f"rep_endpoint={self.rep_endpoint!r}, pull_endpoint={self.pull_endpoint!r}, "
            f"total_caches={self._inbox.total_caches})"
        )

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            "a ReplayMemoryServer cannot be pickled or copied: other processes reach it through a "
            "ReplayMemoryClient"
        )


def _close(transport: Transport, publisher: Publisher, inbox: ServerState) -> None:
    if transport.begin_close():
        inbox.wake()
        publisher.finish()
        transport.finish_close()
        inbox.logbook.close()
