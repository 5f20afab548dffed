"""What the tests of pages, API and streams start from: a small workspace, and apps over a data folder of their own."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app import create_app
from app.settings import Settings, prepare_folders
from tests.web.helpers import Gate

README = "# Tides\n\nThe sea rises and falls twice a day.\nThe moon pulls at the water.\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "lessons").mkdir(parents=True)
    (folder / "README.md").write_text(README, "utf-8")
    (folder / "lessons" / "潮汐.md").write_text("# 潮汐\n\n月亮牵引海水。\n", "utf-8")
    return folder


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., str]:
    """Writes a script and returns the model that plays it; written again it changes what the next start plays."""

    def write(*turns: object, **more: object) -> str:
        path = tmp_path / "script.json"
        path.write_text(json.dumps({"name": "Scripted", "turns": turns, **more}), "utf-8")
        return f"script:{path}"

    return write


@pytest.fixture
def settings(tmp_path: Path, workspace: Path) -> Settings:
    return Settings(workspace=workspace, data=tmp_path / "data")


@pytest.fixture
def new_app(settings: Settings) -> Iterator[Callable[..., Flask]]:
    """Makes apps over the same data folder: ``new_app(model, max_streams=1)``. All are closed after the test."""
    made: list[Flask] = []

    def make(model: Any = None, **changes: Any) -> Flask:
        chosen = replace(settings, **changes)
        prepare_folders(chosen)
        app = create_app(chosen)
        app.testing = True
        if model is not None:
            supervisor = app.extensions["hornbook"].supervisor
            supervisor.equipment = replace(supervisor.equipment, model=model)
        made.append(app)
        return app

    yield make
    for app in made:
        app.extensions["hornbook"].supervisor.close()


@pytest.fixture
def app(new_app: Callable[..., Flask]) -> Flask:
    return new_app()


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


@pytest.fixture
def gate() -> Iterator[Callable[..., Gate]]:
    """Makes turns of a model that wait until the test opens them, at the latest at its end."""
    gates: list[Gate] = []

    def make(first: str = "one ", rest: str = "two") -> Gate:
        gates.append(Gate(first, rest))
        return gates[-1]

    yield make
    for made in gates:
        made.open.set()
