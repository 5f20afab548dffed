"""Which folders are courses, and their lessons in order; pure.

A course is a folder directly in the workspace that has Markdown files in it or below it: its lessons. Sub-folders
named after a language (``en``, ``zh-CN``) hold the same lessons in that language, and one of them is shown. Other
sub-folders are parts of the course. ``notes`` is the tutor's own folder and no course. Markdown files that lie directly
in the workspace are a course only if there is no other.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.courses.survey import NOTES, Judged
from app.courses.titles import natural_key, readable_name

_CODES = "ar bg bn cs da de el en es et fa fi fr he hi hr hu id it ja ko lt lv nl no pl pt ro ru sk sr sv th tr uk zh"
_LANGUAGES = frozenset(re.findall("[a-z]+", _CODES))
_ABOUT = ("readme", "index", "about", "_index")


@dataclass(frozen=True)
class Lesson:
    """A Markdown file of a course: its path in the workspace, its title, its size in bytes, what part it lies in.

    ``part`` is the sub-folder made readable, empty for a lesson directly in the course (or its language folder).
    """

    path: str
    title: str
    size: int
    part: str = ""


@dataclass(frozen=True)
class Course:
    """A course in one of its languages.

    ``path`` is its folder, "." for the workspace itself. ``lang`` is the language of the lessons where a folder says
    so, else empty; ``languages`` are all that there are. ``about`` is the path of its README, which is no lesson
    unless it is all there is. ``problems`` are its files that cannot be read.
    """

    path: str
    title: str
    lessons: list[Lesson]
    lang: str = ""
    languages: tuple[str, ...] = ()
    about: str | None = None
    problems: tuple[Judged, ...] = ()


@dataclass(frozen=True)
class _Source:
    """A file of a course, and where it lies below it: the language of its folder, the folders below that, its name."""

    judged: Judged
    lang: str
    folders: tuple[str, ...]
    name: str


def find_courses(files: Iterable[Judged], lang: str, root_title: str) -> list[Course]:
    """Returns the courses among the judged files of a workspace, with lessons in ``lang`` where there are such.

    They come in natural order of their folders. ``root_title`` is the title of a course that the workspace itself is.
    """
    of_folder: dict[str, list[Judged]] = {}
    for judged in files:
        top, slash, _ = judged.path.partition("/")
        if not (top == NOTES and slash):
            of_folder.setdefault(top if slash else ".", []).append(judged)
    of_root = of_folder.pop(".", [])
    found = [make_course(path, of_folder[path], lang) for path in sorted(of_folder, key=natural_key)]
    courses = [course for course in found if course is not None]
    if not courses:
        course = make_course(".", of_root, lang, title=root_title)
        courses = [course] if course is not None else []
    return courses


def make_course(path: str, files: Sequence[Judged], lang: str, *, title: str = "") -> Course | None:
    """Returns the course in the folder ``path`` with these files, of which some may be unreadable or no lessons.

    None when there is no Markdown file among them. ``title`` is taken when no README gives one; by default the folder's
    name made readable.
    """
    sources = [_source(path, judged) for judged in files if judged.kind == "markdown"]
    if not sources:
        return None
    languages = tuple(sorted({source.lang for source in sources if source.lang}))
    chosen = choose_language(languages, lang)
    shown = sorted((source for source in sources if source.lang in ("", chosen)), key=_order)
    abouts = [source for source in shown if not source.folders and _is_about(source.name)]
    about = next((source for source in abouts if source.lang == chosen), next(iter(abouts), None))
    lessons = [source for source in shown if source not in abouts] or shown
    return Course(
        path,
        (about.judged.title if about else None) or title or readable_name(path, is_file=False),
        [_lesson(source) for source in lessons],
        chosen,
        languages,
        about.judged.path if about else None,
        tuple(judged for judged in files if judged.reason is not None and judged.reason != "picture"),
    )


def choose_language(languages: Sequence[str], wanted: str) -> str:
    """Returns which of ``languages`` to show to someone who reads ``wanted``; English, else the first, if not there.

    A language without region stands for all of its regions, and the other way round. "" when there is none.
    """
    main = wanted.partition("-")[0]
    exact = [language for language in languages if language == wanted]
    same = [language for language in languages if language.partition("-")[0] == main]
    # Simplified characters are what a reader of plain "zh" expects.
    plain = [language for language in same if language in ("zh", "zh-cn", "zh-hans")]
    english = [language for language in languages if language.partition("-")[0] == "en"]
    return next(iter([*exact, *plain, *same, *english, *languages]), "")


def language_of_folder(name: str) -> str:
    """Returns the language that a folder is named after, in lower case with a hyphen ("zh-cn"), else ""."""
    code, _, region = name.casefold().replace("_", "-").partition("-")
    if code not in _LANGUAGES:
        return ""
    if not region:
        return code
    return f"{code}-{region}" if region.isascii() and region.isalpha() and len(region) in (2, 4) else ""


def _source(course: str, judged: Judged) -> _Source:
    *folders, name = judged.path.split("/") if course == "." else judged.path.removeprefix(f"{course}/").split("/")
    lang = language_of_folder(folders[0]) if folders else ""
    return _Source(judged, lang, tuple(folders[1:] if lang else folders), name)


def _order(source: _Source) -> tuple[list[tuple[int, list[str | int], str]], bool]:
    # Lessons of a folder stand before its sub-folders, a README before its neighbours.
    steps = [(2, *natural_key(folder)) for folder in source.folders]
    return [*steps, (0 if _is_about(source.name) else 1, *natural_key(source.name))], source.lang == ""


def _is_about(name: str) -> bool:
    return name.rpartition(".")[0].casefold() in _ABOUT


def _lesson(source: _Source) -> Lesson:
    part = " / ".join(readable_name(folder, is_file=False) for folder in source.folders)
    title = source.judged.title or readable_name(source.name)
    return Lesson(source.judged.path, title, source.judged.file.size, part)
