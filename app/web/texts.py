"""Texts of the pages in the reader's language: gettext, typed. ``pybabel`` finds what stands in these calls."""

from typing import Any

import flask_babel
from markupsafe import Markup


def _(text: str, **values: Any) -> str:
    """Returns ``text`` translated, with ``values`` for its %(name)s places."""
    translated: str = flask_babel.gettext(text, **values)
    return translated


def ngettext(singular: str, plural: str, num: int, **values: Any) -> str:
    """Returns the form for ``num``, translated; it stands in the text as %(num)d."""
    translated: str = flask_babel.ngettext(singular, plural, num, **values)
    return translated


def N_(text: str) -> str:
    """Marks a text to be translated where it is used."""
    return text


def locale_name() -> str:
    """Returns the reader's language as the locale library names it."""
    return str(flask_babel.get_locale() or "en")


def as_code(text: str) -> Markup:
    """Returns text set as code, to stand inside a translated sentence."""
    return Markup("<code>{}</code>").format(text)
