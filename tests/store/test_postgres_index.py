"""A store whose index is in PostgreSQL, with several writers, while one or the server is killed."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from cogrs.store import TrialFilter, open_store
from cogrs.store.location import Location
from cogrs.store.postgres_index import PostgresIndex
from cogrs.store.writer import StoreWriter, open_writer
from tests.store.kill import check, killed
from tests.store.trials import DONE, params, record, sample, samples, stored

if TYPE_CHECKING:
    from pathlib import Path

LONG = settings.get_current_profile_name() == "soak"


def write(writer: StoreWriter, *names: str, ticks: int = 2) -> None:
    for name in names:
        log = writer.begin(name, params(), "")
        for each in samples(ticks):
            log.sample(each)
        log.close()


def listed(url: str, folder: Path, count: int, seconds: float = 60.0) -> dict[str, Any]:
    """Wait until so many trials are listed, and return them."""
    end = time.monotonic() + seconds
    while True:
        with open_store(url, files=folder) as store:
            found = {each.trial_id: each for each in store.trials()}
        if len(found) >= count:
            return found
        assert time.monotonic() < end, f"only {len(found)} of {count} trials came"
        time.sleep(0.1)


def test_trials_of_two_orchestrators_are_in_one_index(postgres, folder):
    writers = [StoreWriter(Location(folder, postgres.url)) for _ in range(2)]
    for number, writer in enumerate(writers):
        write(writer, *(f"w{number}-{k}" for k in range(5)))
    for writer in writers:
        writer.close()
    found = listed(postgres.url, folder, 10)
    assert len(found) == 10
    assert not (folder / "index.sqlite").exists()
    with open_store(postgres.url, files=folder) as store:
        assert list(store.verify()) == []
        assert [each.tick for each in store.read("w1-3")[1]] == [0, 1, 2]
        assert store.add_reward("w0-0", "a", 1, 2.0).returns == {"a": 4.0}
        assert [each.trial_id for each in store.trials(TrialFilter(min_return=3))] == ["w0-0"]
        store.remove(["w0-0"])
        assert len(list(store.trials())) == 9


def test_store_of_postgres_takes_in_files(postgres, folder, tmp_path):
    with open_store(postgres.url, files=folder, create=True) as store:
        stored(store, tmp_path, "t0", "t1")
        assert [each.trial_id for each in store.trials()] == ["t0", "t1"]
        with pytest.raises(ValueError, match=r"no trial 't2' in postgresql://cogrs@/"):
            store.trial("t2")


def test_server_that_is_gone_is_an_error_that_names_the_server(postgres, folder):
    postgres.server.stop()
    with pytest.raises(OSError, match="postgresql://cogrs@/"):
        StoreWriter(Location(folder, postgres.url))
    with pytest.raises(OSError, match="postgresql://cogrs@/"):
        open_store(postgres.url, files=folder)


def test_start_of_an_orchestrator_waits_for_a_server_that_is_gone(postgres, folder, caplog):
    caplog.set_level(logging.WARNING)
    postgres.server.stop()

    async def start() -> StoreWriter:
        opening = asyncio.create_task(open_writer(Location(folder, postgres.url), 60.0))
        while "tried again" not in caplog.text:
            assert not opening.done()
            await asyncio.sleep(0.01)
        await asyncio.to_thread(postgres.server.start)
        return await opening

    writer = asyncio.run(asyncio.wait_for(start(), 60.0))
    write(writer, "t0")
    writer.close()
    assert set(listed(postgres.url, folder, 1)) == {"t0"}
    assert caplog.text.count("tried again") == 1


def test_start_of_an_orchestrator_raises_if_the_server_stays_gone(postgres, folder):
    postgres.server.stop()
    with pytest.raises(ConnectionError, match="postgresql://cogrs@/"):
        asyncio.run(open_writer(Location(folder, postgres.url), 0.3))


@pytest.mark.parametrize("change", [("/db", "/absent"), ("cogrs@", "stranger@")])
def test_database_or_user_that_does_not_exist_is_refused_without_a_wait(
    postgres, folder, caplog, change
):
    with pytest.raises(OSError, match="does not exist") as caught:
        asyncio.run(open_writer(Location(folder, postgres.url.replace(*change)), 600.0))
    assert not isinstance(caught.value, ConnectionError)
    assert not caplog.text


def test_url_that_is_no_url_is_refused(folder):
    with pytest.raises((OSError, ValueError), match="postgresql"):
        open_store("postgresql://[bad", files=folder)


def test_trials_that_end_during_a_restart_of_the_server_are_listed_afterwards(
    postgres, folder, caplog
):
    caplog.set_level(logging.WARNING)
    writer = StoreWriter(Location(folder, postgres.url))
    write(writer, "before")
    listed(postgres.url, folder, 1)
    postgres.server.stop()
    write(writer, *(f"meanwhile-{k}" for k in range(5)))
    end = time.monotonic() + 30
    while "trials wait" not in caplog.text:
        assert time.monotonic() < end
        time.sleep(0.05)
    postgres.server.start()
    write(writer, "after")
    assert len(listed(postgres.url, folder, 7)) == 7
    writer.close()
    assert writer.lost == 0
    assert "can be written again" in caplog.text
    with open_store(postgres.url, files=folder) as store:
        assert list(store.verify()) == []


def test_writer_that_closes_while_the_server_is_gone_leaves_its_trials_to_the_next(
    postgres, folder
):
    writer = StoreWriter(Location(folder, postgres.url))
    write(writer, "t0")
    listed(postgres.url, folder, 1)
    postgres.server.stop()
    write(writer, "t1")
    writer.close(2.0)
    postgres.server.start()
    assert set(listed(postgres.url, folder, 2)) == {"t0", "t1"}
    with open_store(postgres.url, files=folder) as store:
        assert list(store.verify()) == []


@pytest.mark.parametrize("seed", range(20 if LONG else 1))
def test_one_orchestrator_is_killed_and_the_server_restarts_while_another_goes_on(
    postgres, folder, seed
):
    chance = random.Random(seed)
    writer = StoreWriter(Location(folder, postgres.url))
    stop = threading.Event()
    names: list[str] = []

    def go_on() -> None:
        while not stop.is_set():
            names.append(f"mine-{len(names):04}")
            write(writer, names[-1])
            time.sleep(0.1)

    def restart() -> None:
        time.sleep(chance.uniform(0, 1))
        postgres.server.stop()
        time.sleep(chance.uniform(0, 0.3))
        postgres.server.start()

    threads = [threading.Thread(target=each) for each in (go_on, restart)]
    for thread in threads:
        thread.start()
    told = killed(folder, chance.uniform(1.2, 2.5), postgres.url, name="other")
    threads[1].join(60)
    check(folder, told, postgres.url)
    stop.set()
    threads[0].join(60)
    writer.close(30.0)
    assert writer.lost == 0
    found = check(folder, told, postgres.url)
    assert {name for name in found if name.startswith("mine")} == set(names)
    assert not any(found[name].partial for name in names)


def test_connection_that_the_server_ended_is_made_anew(postgres):
    index = PostgresIndex(postgres.url)
    index.add([record(1)])
    postgres.server.stop()
    postgres.server.start()
    with pytest.raises(index.errors):
        index.count()
    assert index.count() == 1
    index.close()


def test_text_with_a_zero_byte_is_stored_with_a_space(postgres, folder):
    writer = StoreWriter(Location(folder, postgres.url))
    log = writer.begin("t", params(), "")
    log.sample(sample(0, last=f"{DONE}\0", user="a\0b"))
    log.close()
    writer.close()
    found = listed(postgres.url, folder, 1)["t"]
    assert (found.user, found.end_reason) == ("a b", f"{DONE} ")
