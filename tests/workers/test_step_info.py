"""What a stored step says of where it comes from."""

import hashlib
import uuid

from hypothesis import given
from hypothesis import strategies as st

from cogrs.workers import STEP_INFO, step_info, trial_number


@given(st.text(), st.integers(0, 2**32 - 1), st.integers(0, 2**31 - 1), st.booleans())
def test_step_info_has_trial_actor_tick_and_terminated(trial, actor, tick, terminated):
    info = step_info(trial, actor, tick, terminated=terminated)
    assert (info.dtype, info.shape) == (STEP_INFO, ())
    assert info.item() == (trial_number(trial), actor, tick, terminated)


def test_trial_numbers_are_the_same_in_every_version():
    digest = hashlib.blake2b(b"0b5e", digest_size=8).digest()
    assert trial_number("0b5e") == int.from_bytes(digest, "little") < 2**64


def test_each_trial_has_its_own_number():
    ids = [str(uuid.UUID(int=k)) for k in range(10_000)]
    assert len({trial_number(each) for each in ids}) == len(ids)
