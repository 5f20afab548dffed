"""What the views work with, made once an app."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import cast

from flask import current_app

from app.runs.supervisor import Supervisor
from app.settings import Settings
from app.tools.workspace import Workspace
from app.web.rendering import Renderer
from app.web.shared import Shared
from app.web.shelf import Shelf
from app.web.sse import Slots


@dataclass(frozen=True)
class Services:
    """The parts behind the views. ``streams`` bounds open streams, ``waiting`` requests that wait for a run.

    ``render`` makes HTML of model text; ``shelf`` knows what is in the workspace; ``shared`` holds what readers of
    streams share.
    """

    settings: Settings
    supervisor: Supervisor
    workspace: Workspace
    shelf: Shelf
    render: Renderer
    shared: Shared
    streams: Slots
    waiting: Slots
    current_token: Callable[[], str | None]


def services() -> Services:
    """Returns the services of the app that handles this request."""
    return cast(Services, current_app.extensions["hornbook"])


def version() -> str:
    """Returns the installed version; "0" when run without an installation."""
    try:
        return metadata.version("hornbook")
    except metadata.PackageNotFoundError:
        return "0"
