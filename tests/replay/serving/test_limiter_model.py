"""What a server's rate limiter allows and tells, against the formulas worked out in fractions."""

from fractions import Fraction
from typing import Any

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from cogrs import RateLimiter
from cogrs._core import draw_cache
from cogrs.api import replay_pb2 as pb
from cogrs.replay.serving.server_state import ServerState
from cogrs.replay.wire import decode, encode
from tests.replay import build

BATCH = 6


class Model:
    """The naive counts: totals by client, and samples."""

    def __init__(self, spi: Fraction, min_size: int, buffer: Fraction) -> None:
        self.spi, self.min_size = spi, min_size
        self.low, self.high = min_size * spi - buffer, min_size * spi + buffer
        self.samples = self.inserts = 0
        self.known: dict[int, int] = {}

    def tell(self, sender: int, steps: int, restored: bool) -> None:
        if sender in self.known and not restored:
            self.inserts += max(0, steps - self.known[sender])
        self.known[sender] = max(steps, self.known.get(sender, 0))

    def may_sample(self, n: int) -> bool:
        return (
            self.inserts >= self.min_size and self.inserts * self.spi - self.samples - n >= self.low
        )

    def may_insert(self, n: int) -> bool:
        return (
            self.inserts + n <= self.min_size
            or (self.inserts + n) * self.spi - self.samples <= self.high
        )

    def left(self) -> int:
        n = 0
        while self.may_insert(n + 1):
            n += 1
        return n


SENDERS = st.integers(1, 3)
STEPS = st.one_of(
    st.tuples(st.just("sizes"), SENDERS),
    st.tuples(st.just("tell"), SENDERS, st.integers(0, 12), st.booleans()),
    st.tuples(st.just("batch"), st.integers(1, BATCH)),
    st.tuples(st.just("give"), st.integers(1, BATCH)),
)


@given(
    st.sampled_from([Fraction(1, 4), Fraction(1), Fraction(8), Fraction(3, 2)]),
    st.integers(1, 20),
    st.integers(0, 40),
    st.lists(STEPS, max_size=60),
)
def test_server_agrees_with_the_formulas_in_fractions(
    spi: Fraction, min_size: int, extra: int, steps: list[Any]
) -> None:
    # A batch of BATCH is never refused: it is at most high - low - spi.
    buffer = Fraction(BATCH) + spi + max(1, spi) + extra
    model = Model(spi, min_size, buffer)
    memory = build.memory(16, reuse_cache=True, cache_size=4)
    build.add_uniform(memory, 8)
    limiter = RateLimiter(float(spi), min_size, float(buffer))
    state = ServerState(memory, 1, None, None, limiter=limiter)
    rows, weight_sum, _, _, frames = draw_cache(memory)
    assert state.caches.push(rows, weight_sum, frames)

    def ask(sender: int, **body: Any) -> pb.Header:
        return decode(bytes(state.answer([zmq.Frame(encode(sender, **body))])[0]))

    totals = dict.fromkeys((1, 2, 3), 0)
    for name, *given_ in steps:
        if name == "sizes":
            (sender,) = given_
            answer = ask(sender, sizes_request=pb.SizesRequest())
            model.known.setdefault(sender, 0)
        elif name == "tell":
            sender, more, restored = given_
            totals[sender] += more
            counter = pb.Counter(steps=totals[sender], restored=restored)
            answer = ask(sender, counter=counter)
            model.tell(sender, totals[sender], restored)
        elif name == "batch":
            (n,) = given_
            if model.may_sample(n):
                assert len(state.get_batch(n, 0, None).weight) == n
                model.samples += n
            else:
                with pytest.raises(TimeoutError, match="rate limiter"):
                    state.get_batch(n, 0, None)
            answer = ask(9, samples_request=pb.SamplesRequest())
        else:
            (n,) = given_
            answer = ask(9, samples_request=pb.SamplesRequest(rows=n))
            assert (answer.samples.rows == n) == model.may_sample(n)
            assert ("rate limiter" in answer.samples.shortage) != model.may_sample(n)
            model.samples += answer.samples.rows
        assert answer.allowance.inserts == model.left()
        stats = state.stats().limiter
        assert (stats.inserts, stats.samples) == (model.inserts, model.samples)
        # Never are both sides blocked.
        assert model.left() > 0 or model.may_sample(BATCH)
