"""How a reader wants pages: how much of the workings, which language, which theme, shortcuts or not.

Each is a link (``?show=raw``), works without JavaScript, and is kept in a cookie.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import cast
from urllib.parse import quote, urlencode

from flask import Flask, Response, g, has_request_context, request

SHOWS = ("lesson", "workings", "raw")
LANGUAGES = ("en", "zh")
THEMES = ("auto", "light", "dark")
KEYS = ("on", "off")
CHOICES: dict[str, tuple[str, ...]] = {"show": SHOWS, "lang": LANGUAGES, "theme": THEMES, "keys": KEYS}
KEPT = (
    *CHOICES,
    "panel",
    "all",
    "as",
    "lines",
    "from",
    "lessons",
    "sessions",
    "refresh",
    "filter",
    "find",
    "node",
    "around",
    "fold",
)
"""Queries that links to the same page take along; never the token, which must not stand in a page."""
_YEAR_SECONDS = 365 * 24 * 3600


@dataclass(frozen=True)
class Preferences:
    """``show`` is the dial's stop, ``keys`` whether single letters are shortcuts."""

    show: str = "lesson"
    lang: str = "en"
    theme: str = "auto"
    keys: str = "on"

    @property
    def html_lang(self) -> str:
        """The language tag of the page."""
        return "zh-Hans" if self.lang == "zh" else self.lang


def read_preferences(
    arguments: Mapping[str, str], cookies: Mapping[str, str], accepted_language: str | None
) -> Preferences:
    """Returns what was chosen: by the address, else by a cookie, else by the browser's languages."""
    chosen = {"lang": accepted_language or LANGUAGES[0]}
    for name, values in CHOICES.items():
        for value in (cookies.get(_cookie(name)), arguments.get(name)):
            if value in values:
                chosen[name] = value
    return Preferences(**chosen)


def _cookie(name: str) -> str:
    return f"hornbook_{name}"


def preferences() -> Preferences:
    """Returns the preferences of the reader who asks; the defaults outside of a request."""
    if not has_request_context():
        return Preferences()
    if "preferences" not in g:
        accepted = request.accept_languages.best_match(LANGUAGES)
        g.preferences = read_preferences(request.args, request.cookies, accepted)
    return cast(Preferences, g.preferences)


def here(**changes: str) -> str:
    """Returns the address of the page that is being made, with some of its query changed."""
    arguments = {name: value for name, value in request.args.items() if name in KEPT} | changes
    path = g.get("page_path") or quote(request.path)
    return f"{path}?{urlencode(arguments)}" if arguments else path


def install(app: Flask) -> None:
    """Gives templates ``prefs`` and ``here``, and keeps in cookies what an address asks for."""
    app.jinja_env.globals["here"] = here

    @app.context_processor
    def for_templates() -> dict[str, object]:
        return {"prefs": preferences()}

    @app.after_request
    def keep(response: Response) -> Response:
        # A stream repeats its page's choices, and an old tab that comes back must not undo a newer choice.
        if response.mimetype != "text/html":
            return response
        response.vary.update(("Cookie", "Accept-Language"))
        if response.status_code >= 400:
            return response
        chosen = preferences()
        for field in fields(Preferences):
            value = getattr(chosen, field.name)
            if request.args.get(field.name) == value:
                response.set_cookie(
                    _cookie(field.name), value, max_age=_YEAR_SECONDS, samesite="Strict", httponly=True, path="/"
                )
        return response
