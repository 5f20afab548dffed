"""What several tests of whole runs start from."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.runs.supervisor import Supervisor
from tests.running import supervisor_in
from tests.support import FakeModel


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
