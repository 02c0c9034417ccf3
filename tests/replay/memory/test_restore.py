"""Files loaded into memories that exist."""

from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory
from tests.replay.build import OTHER_SETTINGS, UNIFORM, add_uniform, memory, step, vector_memory
from tests.replay.network import made, pair


def saved(path: Any, **changes: Any) -> ReplayMemory:
    rem = memory(16, seed=1, **changes)
    add_uniform(rem, 5, 100)
    rem.save(path)
    return rem


def test_restored_memory_has_the_episodes_and_ids_of_the_file(tmp_path):
    file = saved(tmp_path / "file")
    rem = memory(16)
    add_uniform(rem, 3)
    rem.restore(tmp_path / "file")
    assert rem.num_episode() == 1
    assert rem.episode(0).entries.s.tolist() == file.episode(0).entries.s.tolist()
    assert rem.episode(0).id.tolist() == file.episode(0).id.tolist()
    assert rem.weight_sum == 4
    assert rem.total_episodes == 1


def test_every_setting_that_differs_is_named_with_both_values(tmp_path):
    file = vector_memory(2, 16, **OTHER_SETTINGS)
    file.save(tmp_path / "file")
    rem = vector_memory(2, 16)
    with pytest.raises(ValueError, match=r"^settings: expected 'file' or 'mine'") as refused:
        rem.restore(tmp_path / "file")
    for name in OTHER_SETTINGS:
        assert f"{name} " in str(refused.value)
    assert "sampler lifo and prioritized here" in str(refused.value)
    assert "max_times_sampled 3 and 0 here" in str(refused.value)


def test_settings_are_the_files_or_mine_as_said(tmp_path):
    saved(tmp_path / "file", sampler="fifo", frame_stack=2)
    rem = memory(16, sampler="lifo")
    add_uniform(rem, 3)
    with pytest.raises(ValueError, match=r"sampler fifo and lifo here"):
        rem.restore(tmp_path / "file")
    assert (rem.num_episode(), rem.num_entry, rem.sampler) == (1, 3, "lifo")
    rem.restore(tmp_path / "file", "mine")
    assert (rem.sampler, rem.frame_stack, rem.num_drawable) == ("lifo", 1, 4)
    rem.restore(tmp_path / "file", settings="file")
    assert (rem.sampler, rem.frame_stack, rem.num_drawable) == ("fifo", 2, 3)


def test_counts_come_back_where_both_have_a_limit(tmp_path):
    file = memory(16, sampler="fifo", max_times_sampled=2)
    add_uniform(file, 4)
    file.sample(2)
    file.save(tmp_path / "file")
    rem = memory(16, sampler="fifo", max_times_sampled=2)
    rem.restore(tmp_path / "file")
    assert rem.sample(3).times_sampled.tolist() == [2, 2, 1]
    unlimited = memory(16)
    unlimited.restore(tmp_path / "file", "mine")
    assert (unlimited.max_times_sampled, unlimited.num_drawable) == (0, 3)


@pytest.mark.parametrize(
    ("other", "got"),
    [
        (memory(17), "max_step 17, and 16 here"),
        (memory(16, a=np.int32(0)), "other templates"),
    ],
)
def test_file_of_another_form_is_refused_and_nothing_changes(other, got, tmp_path):
    other.save(tmp_path / "file")
    rem = memory(16)
    add_uniform(rem, 3)
    for settings in (None, "file", "mine"):
        with pytest.raises(ValueError, match=rf"^path: .*{got}"):
            rem.restore(tmp_path / "file", settings)
    assert rem.num_entry == 3


def test_damaged_file_changes_nothing(tmp_path):
    saved(tmp_path / "file")
    whole = (tmp_path / "file").read_bytes()
    rem = memory(16)
    add_uniform(rem, 3)
    for damaged in (whole[:-5], whole[:-9] + b"x" + whole[-8:], b""):
        (tmp_path / "bad").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"expected a saved replay memory"):
            rem.restore(tmp_path / "bad")
        assert rem.episode(0).entries.s.tolist() == [0, 1, 2]
    with pytest.raises(FileNotFoundError):
        rem.restore(tmp_path / "none")
    with pytest.raises(ValueError, match=r"^settings: expected None, 'file' or 'mine', got \"x\""):
        rem.restore(tmp_path / "file", "x")  # type: ignore[arg-type]


def test_open_episode_is_dropped_and_never_taken_for_one_of_the_file(tmp_path):
    saved(tmp_path / "file")
    rem = memory(16)
    writer = rem.writer()
    for _ in range(3):
        writer.new_episode()
    writer.add_entry(**step(7))
    rem.restore(tmp_path / "file")
    with pytest.raises(RuntimeError, match=r"no episode is open"):
        writer.add_entry(**step(8))
    rem.new_episode()
    with pytest.raises(RuntimeError, match=r"no episode is open"):
        writer.close_episode(1.0, **UNIFORM)
    assert rem.num_entry == 5


def test_views_of_both_are_kept(tmp_path):
    file = memory(16)
    first = add_uniform(file, 4)
    for name in ("both", "file"):
        file.view(name, priority_exponent=1.0).update_priority(first, 5.0)
    file.save(tmp_path / "file")
    rem = memory(16)
    both, mine = rem.view("both", priority_exponent=1.0), rem.view("mine")
    rem.restore(tmp_path / "file")
    assert (both.weight_sum, mine.weight_sum) == (7, 3)
    assert rem.view("file", priority_exponent=1.0).weight_sum == 7
    both.update_priority(first, 1.0)
    assert (both.weight_sum, rem.view("file").weight_sum) == (3, 7)


def test_view_whose_settings_differ_is_a_difference_too(tmp_path):
    file = memory(16)
    first = add_uniform(file, 4)
    file.view("v", priority_exponent=1.0).update_priority(first, 5.0)
    file.save(tmp_path / "file")
    rem = memory(16)
    view = rem.view("v", priority_exponent=0.5)
    with pytest.raises(ValueError, match=r'view "v" \(priority_exponent=1, .*=0\.5, .* here'):
        rem.restore(tmp_path / "file")
    rem.restore(tmp_path / "file", "mine")
    assert (view.priority_exponent, view.weight_sum) == (0.5, 3)
    rem.restore(tmp_path / "file", "file")
    assert (view.priority_exponent, view.weight_sum) == (1, 7)


def test_view_keeps_weights_and_counts_of_the_file_under_my_sampler_and_limit(tmp_path):
    file = memory(16)
    first = add_uniform(file, 5)
    theirs = file.view("v", priority_exponent=1.0, sampler="fifo", max_times_sampled=2)
    theirs.update_priority(first, 5.0)
    theirs.sample(2)
    theirs.sample(1)
    file.save(tmp_path / "file")
    for limit, times in ((3, [3, 2, 1, 1]), (1, [1, 1]), (0, None)):
        rem = memory(16)
        view = rem.view("v", priority_exponent=1.0, sampler="lifo", max_times_sampled=limit)
        rem.restore(tmp_path / "file", "mine")
        assert (view.sampler, view.max_times_sampled) == ("lifo", limit)
        assert view.weight_sum == (2 if limit == 1 else 8)
        drawn = view.sample(view.num_drawable, sampler="fifo")
        assert (
            getattr(drawn, "times_sampled", None) is times or drawn.times_sampled.tolist() == times
        )


def test_memory_of_a_server_is_restored_in_place(tmp_path):
    saved(tmp_path / "file", cache_size=5)
    with made(1, max_step=16) as server:
        server.rem.restore(tmp_path / "file", settings="file")
        assert (server.rem.num_entry, server.rem.cache_size) == (5, 5)


@pytest.mark.parametrize("emptied", ["restore", "clear"])
@pytest.mark.parametrize("by_hand", [False, True])
def test_recorder_goes_on_after_its_memory_was_emptied(emptied, by_hand, tmp_path):
    rem = memory(16)
    rem.save(tmp_path / "file")
    recorder = rem.recorder(2)
    no, yes = np.zeros(2, bool), np.ones(2, bool)

    def add(state: int, ends: Any = no) -> None:
        numbers = np.full(2, state)
        recorder.add(numbers, numbers, np.float32([0, 0]), ends, no, numbers + 1)

    add(1)
    if emptied == "restore":
        rem.restore(tmp_path / "file")
    else:
        rem.clear()
    if by_hand:
        recorder.reset()
    else:
        with pytest.raises(RuntimeError, match=r"environment 0: .*; environment 1: its episode"):
            add(2)
    add(3)
    add(4, yes)
    assert [rem.episode(k).entries.s.tolist() for k in range(rem.num_episode())] == [[3, 4, 5]] * 2


def test_steps_closed_after_a_restore_of_smaller_totals_are_told_to_the_server(tmp_path):
    with pair(1) as (server, client):
        add_uniform(client.rem, 5)
        client.rem.save(tmp_path / "file")
        add_uniform(client.rem, 20)
        client.update_counter()
        client.rem.restore(tmp_path / "file")
        assert (client.rem.num_entry, client.rem.total_steps) == (5, 25)
        add_uniform(client.rem, 7)
        client.update_counter()
        assert (server.total_episodes, server.total_steps) == (3, 32)
