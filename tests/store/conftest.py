import pytest

from cogrs.store import open_store
from tests.store.postgres import PostgresServer, find_postgres


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def store(folder):
    with open_store(folder, create=True) as store:
        yield store


@pytest.fixture(scope="session")
def postgres_server():
    programs = find_postgres()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with PostgresServer(programs) as server:
        yield server


@pytest.fixture
def postgres(postgres_server):
    """A server that runs, with an empty database."""
    postgres_server.ensure_running()
    return postgres_server.new_database()
