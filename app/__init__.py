"""Hornbook: a self-hosted tutor that you can watch think."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flask import Flask

    from app.settings import Settings


def create_app(settings: Settings) -> Flask:
    """Returns the web application for ``settings``.

    The folders must exist (see ``app.settings.prepare_folders``). With ``settings.token`` None no token is checked, as
    in tests and when embedded; the checks of Host and Origin stay. Raises ValueError for a model that cannot be used.
    """
    from app.web import build_app

    return build_app(settings)
