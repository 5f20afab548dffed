"""A course's page, and what the first page says about courses and about the folder that is read."""

import os
import re
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from babel import Locale, UnknownLocaleError
from flask import Blueprint, render_template, request

from app.courses.course import Course, Lesson
from app.courses.survey import NOTES, Kind, Survey
from app.protocol.tools import ToolError
from app.settings import Settings, resource
from app.tools.paths import split_path
from app.web.errors import ApiError
from app.web.file_urls import course_url, workspace_url
from app.web.preferences import preferences
from app.web.reasons import reason_words
from app.web.services import services
from app.web.shelf import Shelf
from app.web.texts import _, ngettext

MAX_NAMED = 20
"""Skipped files that are named on the first page."""

MAX_SHOWN = 1_000
"""Lessons on a course's page."""

_PLAIN_PATH = re.compile(r"[A-Za-z0-9][\w./-]*")

courses = Blueprint("courses", __name__)


@dataclass(frozen=True)
class CourseRow:
    """A course on the first page.

    ``languages`` are tags for ``lang`` with what each language calls itself; ``is_sample``: these are the lessons that
    came with the program.
    """

    title: str
    url: str
    lessons: int
    languages: list[tuple[str, str]]
    is_sample: bool


@dataclass(frozen=True)
class Reading:
    """What the first page says about the folder.

    ``kinds`` are counts in words ("6 Markdown files"); ``reasons`` why files are skipped, with how many; ``named`` the
    first skipped files with the reason of each; ``cut_at`` how many entries were looked at if there are more.
    """

    folder: str
    notes_folder: str
    notes: int
    kinds: list[str]
    pictures: int
    skipped: int
    reasons: list[tuple[str, int]]
    named: list[tuple[str, str]]
    cut_at: int | None


@dataclass(frozen=True)
class Start:
    """A lesson on a course's page, counted from 1, with name and first message of a session that begins there."""

    number: int
    lesson: Lesson
    url: str
    name: str
    text: str


@courses.get("/courses/")
def course_of_all() -> Any:
    """The course that the workspace itself is, when it has no folders of lessons."""
    return course(".")


@courses.get("/courses/<path:path>")
def course(path: str) -> Any:
    """A course: its lessons in order, each with a way to start there. ``lessons=zh`` chooses among its languages."""
    shelf = services().shelf
    try:
        path = "/".join(split_path(path)) or "."
    except ToolError as refusal:
        raise ApiError(404, "refused_path", str(refusal)) from refusal
    lang = request.args.get("lessons", "")
    looked = shelf.survey(path)
    found = None if "/" in path else shelf.course(path, looked, lang or preferences().lang)
    if found is None:
        raise ApiError(404, "not_found", _("There is no course at this address. The first page lists those there are."))
    starts = [_start(number, found, lesson) for number, lesson in enumerate(found.lessons[:MAX_SHOWN], 1)]
    return render_template(
        "pages/course.html",
        course=found,
        first=replace(starts[0], name=found.title),
        parts=[(part, list(group)) for part, group in groupby(starts, lambda start: start.lesson.part)],
        more=len(found.lessons) - len(starts),
        lang=html_language(found.lang),
        languages=[(code, language_name(code), code == found.lang) for code in found.languages],
        url=course_url(found.path),
        folder_url=workspace_url(found.path),
        about_url=workspace_url(found.about) if found.about else None,
        problems=[(judged.path, reason_words(judged.reason)) for judged in found.problems if judged.reason],
        html_language=html_language,
        is_cut=looked.cut,
    )


def home_values(shelf: Shelf, settings: Settings, lang: str) -> dict[str, Any]:
    """Returns what partials/courses.html and partials/folder.html show: ``courses`` and ``reading``."""
    found = shelf.survey()
    sample = sample_lessons()
    rows = [
        CourseRow(
            one.title,
            course_url(one.path),
            len(one.lessons),
            [(html_language(code), language_name(code)) for code in one.languages],
            is_sample(one, sample),
        )
        for one in shelf.courses(found, lang)
    ]
    return {"courses": rows, "reading": reading(found, settings.workspace)}


def reading(found: Survey, workspace: Path) -> Reading:
    """Returns a survey in the words of the first page."""
    skipped = [one for one in found.skipped if one.reason != "picture"]
    reasons = [(reason_words(reason), count) for reason, count in found.reasons.most_common() if reason != "picture"]
    return Reading(
        folder=shown_path(workspace),
        notes_folder=shown_path(workspace / NOTES),
        notes=found.notes,
        kinds=_kinds(found),
        pictures=found.reasons["picture"],
        skipped=len(skipped),
        reasons=reasons,
        named=[(one.path, reason_words(one.reason)) for one in skipped[:MAX_NAMED]],
        cut_at=found.limit if found.cut else None,
    )


def sample_lessons() -> frozenset[tuple[str, int]]:
    """Returns the paths and sizes in bytes of the lessons that came with the program."""
    root = resource("workspace")
    lessons = [path for path in root.glob("*/**/*.md") if path.relative_to(root).parts[0] != NOTES]
    return frozenset((path.relative_to(root).as_posix(), path.stat().st_size) for path in lessons)


def is_sample(course: Course, sample: frozenset[tuple[str, int]]) -> bool:
    """Returns whether a course has the lessons of the sample, unchanged, and no other."""
    return bool(sample) and all((lesson.path, lesson.size) in sample for lesson in course.lessons)


def shown_path(path: Path) -> str:
    """Returns a folder as people write it: below their home with ``~``."""
    home = os.path.expanduser("~")
    text = str(path)
    return f"~{text.removeprefix(home)}" if len(home) > 1 and text.startswith(home + os.sep) else text


def language_name(code: str) -> str:
    """Returns what a language calls itself: "English", "中文"; the code when it is not known."""
    try:
        return Locale.parse(code, sep="-").get_display_name() or code
    except (UnknownLocaleError, ValueError):
        return code


def html_language(code: str) -> str:
    """Returns a language of a folder's name as a tag for ``lang``."""
    return "zh-Hans" if code == "zh" else code


def first_message(path: str) -> str:
    """Returns what a learner says first to begin with a lesson, in the language of the page."""
    shown = path if _PLAIN_PATH.fullmatch(path) else f'"{path}"'
    return _("read %(path)s", path=shown)


def _start(number: int, course: Course, lesson: Lesson) -> Start:
    name = _("%(course)s: %(lesson)s", course=course.title, lesson=lesson.title)
    return Start(number, lesson, workspace_url(lesson.path), name, first_message(lesson.path))


def _kinds(found: Survey) -> list[str]:
    return [words for kind, count in sorted(found.counts.items(), key=_kind_order) if (words := _kind(kind, count))]


def _kind_order(item: tuple[Kind, int]) -> int:
    return ("markdown", "notebook", "text", "other").index(item[0])


def _kind(kind: Kind, count: int) -> str:
    match kind:
        case "markdown":
            return ngettext("%(num)d Markdown file", "%(num)d Markdown files", count)
        case "notebook":
            return ngettext("%(num)d notebook, read as JSON", "%(num)d notebooks, read as JSON", count)
        case "text":
            return ngettext("%(num)d text file", "%(num)d text files", count)
        case "other":
            return ngettext("%(num)d file of code or data", "%(num)d files of code or data", count)
