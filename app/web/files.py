"""The viewer: folders, files and pictures of the workspace. All reading goes through the path guard."""

from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response, render_template, request
from markupsafe import Markup

from app.courses.survey import Contents, picture_type
from app.courses.titles import front_matter_lines, title_in
from app.protocol.tools import ToolError
from app.render.language import language_of
from app.render.markdown import render_markdown
from app.tools.files import text_lines
from app.tools.paths import quoted, split_path
from app.web.errors import ApiError
from app.web.file_urls import (
    course_url,
    parse_lines,
    picture_ending,
    picture_url,
    resolve_image,
    resolve_link,
    workspace_url,
)
from app.web.preferences import preferences
from app.web.reasons import reason_words
from app.web.services import services
from app.web.source import MAX_LINES, source_of
from app.web.texts import _

__all__ = ["course_url", "files", "picture_url", "resolve_image", "resolve_link", "workspace_url"]

MAX_RENDERED = 120_000
"""Characters of Markdown that are rendered; a longer file takes seconds, and is shown as source."""

MAX_ENTRIES = 2_000
"""Rows of a folder's page."""

files = Blueprint("files", __name__)


@dataclass(frozen=True)
class Crumb:
    """A folder on the way to a file."""

    name: str
    url: str


@files.get("/files/")
def folder() -> Any:
    """The workspace itself."""
    return file(".")


@files.get("/files/<path:path>")
def file(path: str) -> Any:
    """A folder's listing, or a file: Markdown rendered or (``as=source``) as source, other text as source, a picture.

    ``lines=41-52`` marks lines of the source, ``from=20001`` shows the part that begins there.
    """
    try:
        path = "/".join(split_path(path)) or "."
        if services().workspace.kind(path) == "folder":
            return _folder_page(path)
        return _file_page(path)
    except ToolError as refusal:
        raise _not_found(path, refusal) from refusal


@files.get("/pictures/<path:path>")
def picture(path: str) -> Response:
    """A picture, if name and first bytes agree on what it is."""
    try:
        content = services().workspace.read_bytes(path)
    except ToolError as refusal:
        raise _not_found(path, refusal) from refusal
    media_type = picture_type(content)
    if media_type is None or media_type != picture_ending(path):
        raise ApiError(404, "not_found", _("This is not a picture that can be shown."))
    response = Response(content, mimetype=media_type, headers={"Cache-Control": "private, max-age=60"})
    response.add_etag()
    response.make_conditional(request)
    return response


def _folder_page(path: str) -> str:
    workspace = services().workspace
    shelf = services().shelf
    listing = workspace.listing(path)
    try:
        contents = shelf.contents(path)
    except OSError:  # reached by a link, behind which no titles are looked for
        contents = Contents([])
    shown = listing.entries[:MAX_ENTRIES]
    judged = shelf.judged(contents.entries[:MAX_ENTRIES])
    return render_template(
        "pages/folder.html",
        name=path.rpartition("/")[2] if path != "." else "",
        crumbs=_crumbs(path),
        course=course_url(path) if _is_course(path) else None,
        entries=shown,
        titles={one.path: one.title for one in judged if one.title},
        reasons={one.path: reason_words(one.reason) for one in judged if one.reason},
        more=len(listing.entries) - len(shown),
        skipped=[(one.path.rstrip("/").rpartition("/")[2], reason_words(one.reason)) for one in contents.skipped],
        workspace_url=workspace_url,
    )


def _file_page(path: str) -> str:
    workspace = services().workspace
    content = workspace.read_bytes(path)
    values: dict[str, Any] = {
        "name": path.rpartition("/")[2],
        "crumbs": _crumbs(path),
        "size": len(content),
        "view": "none",
    }
    media_type = picture_type(content)
    if media_type is not None:
        if media_type == picture_ending(path):
            values |= {"view": "picture", "picture": picture_url(path)}
        return render_template("pages/file.html", **values)
    try:
        text = workspace.read_text(path)
    except ToolError:
        return render_template("pages/file.html", **values)
    is_markdown = path.casefold().endswith((".md", ".markdown"))
    marked = parse_lines(request.args.get("lines", ""))
    is_long = len(text) > MAX_RENDERED
    as_source = request.args.get("as") == "source" or marked is not None or "from" in request.args
    lines = text_lines(text)
    values |= {
        "is_markdown": is_markdown,
        "is_long": is_markdown and is_long,
        "lang": language_of(text),
        "url": workspace_url(path),
        "total": len(lines),
    }
    if is_markdown:
        values |= {"title": title_in(text[:4096]), "neighbours": _neighbours(path)}
    if is_markdown and not is_long and not as_source:
        return render_template("pages/file.html", **{**values, **_rendered(path, text)})
    source = source_of(lines, path, start=_number(request.args.get("from")), marked=marked)
    return render_template("pages/file.html", **{**values, "view": "source", "source": source, "max_lines": MAX_LINES})


def _rendered(path: str, text: str) -> dict[str, Any]:
    folder = path.rpartition("/")[0]
    hidden = front_matter_lines(text)
    # Blank lines in place of the front matter: line numbers stay what they are.
    body = "\n" * hidden + text.split("\n", hidden)[hidden] if hidden else text
    rendered = render_markdown(body, link=resolve_link(folder), image=resolve_image(folder), line_anchors=True)
    return {"view": "rendered", "html": Markup(rendered.html), "has_math": rendered.has_math}


def _neighbours(path: str) -> dict[str, Any] | None:
    """Returns the course that a file is a lesson of, with the lessons before and after it."""
    top, slash, _rest = path.partition("/")
    shelf, folder = services().shelf, top if slash else "."
    course = shelf.course(folder, shelf.survey(folder), preferences().lang, path)
    if course is None:
        return None
    at = [lesson.path for lesson in course.lessons].index(path)
    before, after = course.lessons[:at][-1:], course.lessons[at + 1 :][:1]
    return {
        "title": course.title,
        "url": course_url(course.path),
        "before": [(lesson.title, workspace_url(lesson.path)) for lesson in before],
        "after": [(lesson.title, workspace_url(lesson.path)) for lesson in after],
    }


def _is_course(path: str) -> bool:
    shelf = services().shelf
    return "/" not in path and shelf.course(path, shelf.survey(path), preferences().lang) is not None


def _not_found(path: str, refusal: ToolError) -> ApiError:
    match refusal.__cause__:
        case FileNotFoundError() | NotADirectoryError() | IsADirectoryError():
            sentence = _("There is no file %(path)s in this folder.", path=quoted(path))
        case PermissionError():
            sentence = _("Hornbook has no permission to open %(path)s.", path=quoted(path))
        case _other:
            return ApiError(404, "refused_path", str(refusal))
    return ApiError(404, "not_found", sentence)


def _crumbs(path: str) -> list[Crumb]:
    names = [name for name in path.split("/") if name != "."]
    folders = ["/".join(names[:depth]) for depth in range(1, len(names))]
    return [Crumb(folder.rpartition("/")[2], workspace_url(folder)) for folder in folders]


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text) else None
