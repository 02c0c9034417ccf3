"""A server whose replies a test chooses."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import zmq

from cogrs.api import replay_pb2 as pb
from cogrs.replay.serving.server_state import ServerState
from cogrs.replay.wire import encode
from tests.replay import build


class Fake:
    """A REP endpoint that answers as it is told; the sizes are those of a memory of the tests."""

    def __init__(
        self, answer: Callable[[pb.SamplesRequest, ServerState], list[Any] | None]
    ) -> None:
        self.state = ServerState(build.memory(), 1, None, None)
        self._answer = answer
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self.endpoint = f"tcp://127.0.0.1:{self._socket.bind_to_random_port('tcp://127.0.0.1')}"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            if not self._socket.poll(20):
                continue
            peer, empty, request, *_ = self._socket.recv_multipart(copy=False)
            header = pb.Header.FromString(request.bytes)
            if header.WhichOneof("body") == "samples_request":
                answer = self._answer(header.samples_request, self.state)
            else:
                answer = self.state.answer([request])
            if answer is not None:
                self._socket.send_multipart([peer, empty, *answer])

    def __enter__(self) -> "Fake":
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ended.set()
        self._thread.join()
        self._socket.close()
        self._context.term()


def columns(rows: int, first: int = 0) -> list[bytes]:
    """The columns of samples that count from `first`."""
    k = np.arange(first, first + rows)
    side = [k.tobytes(), k.tobytes(), *[np.float32(k).tobytes()] * 4, k.tobytes()]
    return [np.ones(rows, np.float32).tobytes(), *side, *side]


def samples(asked: pb.SamplesRequest, state: ServerState, **changes: Any) -> list[Any]:
    """What a server answers that has all that it is asked for."""
    fields = {
        "number": asked.number,
        "rows": asked.rows,
        "weight_sum": 1.0,
        "unused": 7,
        "template": state._digest,
        "flags": (1 << 14) - 1,
        "frame_stack": 1,
    }
    frames = columns(asked.rows) if asked.rows else []
    frames = changes.pop("frames", lambda given: given)(frames)
    return [encode(1, samples=pb.Samples(**fields | changes)), *frames]
