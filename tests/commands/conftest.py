import pytest

from tests.commands.command import CONFIG


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "cogment.yaml"
    path.write_text(CONFIG)
    return path
