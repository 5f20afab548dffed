"""The only place that knows Flask: pages, JSON API, streams, and who may use them."""

from collections.abc import Callable

from flask import Flask

from app.agent.guards import DEFAULT_HOOKS
from app.models.catalogue import open_model
from app.runs.conductor import Equipment
from app.runs.eventlog import JsonlEventLogs
from app.runs.supervisor import Supervisor
from app.runs.system_prompt import SYSTEM_PROMPT
from app.sessions.jsonl import JsonlSessionStore
from app.settings import MAX_WAITING, Settings, resource
from app.tools.registry import workspace_tools
from app.tools.truncate import limit_for_window
from app.tools.workspace import Workspace
from app.web import errors, security
from app.web.api import api
from app.web.pages import pages
from app.web.services import Services
from app.web.sse import Slots
from app.web.transcript import session_url


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
    app.jinja_env.globals["session_url"] = session_url
    supervisor = build_supervisor(settings)
    app.extensions["hornbook"] = Services(
        settings=settings,
        supervisor=supervisor,
        streams=Slots(settings.max_streams),
        waiting=Slots(MAX_WAITING),
        current_token=token,
    )
    security.install(app, settings, token)
    errors.install(app)
    app.register_blueprint(pages)
    app.register_blueprint(api)
    return app


def build_supervisor(settings: Settings) -> Supervisor:
    """Returns the supervisor of all sessions, with the model and the tools that the settings name."""
    model = open_model(settings.model)
    tools = workspace_tools(Workspace(settings.workspace), max_bytes=limit_for_window(model.context_window))
    return Supervisor(
        JsonlSessionStore(settings.data / "sessions", settings.data / "trash"),
        JsonlEventLogs(settings.data / "runs", settings.data / "trash"),
        Equipment(model, tools, DEFAULT_HOOKS, SYSTEM_PROMPT, settings.max_turns),
        cwd=str(settings.workspace),
    )
