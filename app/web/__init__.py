"""The only place that knows Flask: pages, JSON API, streams, and who may use them."""

from collections.abc import Callable
from pathlib import Path

from flask import Flask
from flask_babel import Babel

from app.agent.guards import DEFAULT_HOOKS
from app.models.catalogue import open_model
from app.runs.equipment import Equipment
from app.runs.eventlog import JsonlEventLogs
from app.runs.rendering import Render
from app.runs.supervisor import Supervisor
from app.runs.system_prompt import SYSTEM_PROMPT
from app.sessions.jsonl import JsonlSessionStore
from app.settings import MAX_WAITING, Settings, resource
from app.tools.registry import workspace_tools
from app.tools.truncate import limit_for_window
from app.tools.workspace import Workspace
from app.web import assets, errors, preferences, security, words
from app.web.api import api
from app.web.compare import compare
from app.web.courses import courses
from app.web.exports import exports
from app.web.files import files
from app.web.ids import dom_id, node_url, place_url, session_url
from app.web.imports import imports
from app.web.pages import pages
from app.web.rendering import Renderer
from app.web.services import Services
from app.web.shared import Shared
from app.web.shelf import Shelf
from app.web.sse import Slots
from app.web.tree import tree


def build_app(settings: Settings, current_token: Callable[[], str | None] | None = None) -> Flask:
    """Returns the application; see ``app.create_app``.

    ``current_token`` is asked at each request, so that a renewed token holds at once; by default the settings' own.
    """
    token = current_token or (lambda: settings.token)
    app = Flask(
        "hornbook",
        template_folder=str(resource("templates")),
        static_folder=str(resource("static")),
        static_url_path="/static",
    )
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    app.jinja_env.globals.update(session_url=session_url, dom_id=dom_id, node_url=node_url, place_url=place_url)
    preferences.install(app)
    words.install(app)
    assets.install(app)
    Babel(
        app,
        locale_selector=lambda: preferences.preferences().lang,
        default_translation_directories=str(Path(__file__).parent / "translations"),
    )
    workspace, render = Workspace(settings.workspace), Renderer()
    supervisor = build_supervisor(settings, workspace, render)
    app.extensions["hornbook"] = Services(
        settings=settings,
        supervisor=supervisor,
        workspace=workspace,
        shelf=Shelf(workspace, settings.workspace),
        render=render,
        shared=Shared(),
        streams=Slots(settings.max_streams),
        waiting=Slots(MAX_WAITING),
        current_token=token,
    )
    security.install(app, settings, token)
    errors.install(app)
    for blueprint in (pages, tree, compare, exports, imports, files, courses, api):
        app.register_blueprint(blueprint)
    return app


def build_supervisor(settings: Settings, workspace: Workspace, render: Render) -> Supervisor:
    """Returns the supervisor of all sessions, with the model and the tools that the settings name."""
    model = open_model(settings.model)
    tools = workspace_tools(workspace, max_bytes=limit_for_window(model.context_window))
    return Supervisor(
        JsonlSessionStore(settings.data / "sessions", settings.data / "trash"),
        JsonlEventLogs(settings.data / "runs", settings.data / "trash"),
        Equipment(model, tools, DEFAULT_HOOKS, SYSTEM_PROMPT, settings.max_turns, render),
        cwd=str(settings.workspace),
    )
