"""What several tests of whole runs start from."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.runs.supervisor import Supervisor
from app.tools import folders
from tests.running import supervisor_in
from tests.support import FakeModel


@pytest.fixture(params=["pinned", "checked"])
def way_to_open(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test with folders held open, and with the way of systems that cannot do so."""
    if request.param == "pinned":
        assert folders.CAN_PIN, "these tests need a system with dir_fd"
    monkeypatch.setattr(folders, "CAN_PIN", request.param == "pinned")
    return str(request.param)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Supervisor]]:
    """Makes supervisors on one data folder, with a model that plays the turns given, and closes them in the end."""
    made: list[Supervisor] = []

    def one(*turns: Any, **more: Any) -> Supervisor:
        made.append(supervisor_in(tmp_path, FakeModel(*turns), **more))
        return made[-1]

    yield one
    for supervisor in made:
        supervisor.close()
