"""Addresses of the workspace's files on this site, and where the links of a Markdown file lead; pure.

Nothing here looks at the disk: the pages behind these addresses ask the path guard.
"""

import re
from collections.abc import Callable
from urllib.parse import quote, unquote, urlsplit

from app.protocol.tools import ToolError
from app.tools.paths import split_path

PICTURE_ENDINGS = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".avif": "image/avif",
}
"""Pictures that are shown, by the ending of their names. No vector graphics: they can hold scripts."""

_LINES = re.compile(r"L?([0-9]{1,9})(?:-L?([0-9]{1,9}))?")
_CITED = re.compile(r"(?P<path>.+):(?P<lines>[0-9]{1,9}(?:-[0-9]{1,9})?)", re.DOTALL)

Lines = tuple[int, int]
"""First and last line, from 1."""


def workspace_url(path: str, lines: Lines | int | None = None) -> str:
    """Returns the address of the page that shows a file or folder, with ``lines`` marked and in view."""
    names = "/".join(quote(name, safe="") for name in path.split("/") if name not in ("", "."))
    if lines is None:
        return f"/files/{names}"
    first, last = lines if isinstance(lines, tuple) else (lines, lines)
    marked = f"{first}-{last}" if last > first else f"{first}"
    return f"/files/{names}?lines={marked}#L{first}"


def picture_url(path: str) -> str:
    """Returns the address of a picture in the workspace."""
    return "/pictures/" + "/".join(quote(name, safe="") for name in path.split("/"))


def course_url(path: str) -> str:
    """Returns the address of a course's page."""
    return "/courses/" + "/".join(quote(name, safe="") for name in path.split("/") if name not in ("", "."))


def resolve_link(base_folder: str) -> Callable[[str], str | None]:
    """Returns what maps a relative link in a file that lies in ``base_folder`` to a page of this site.

    A link with a leading slash starts at the workspace. None for a link that leads out of the workspace, to a hidden
    file or to a question bank. Lines may be given as ``#L41``, ``#L41-L52`` or, as the tutor cites, ``file.md:41-52``.
    """

    def resolve(address: str) -> str | None:
        split = _split(address)
        if split is None:
            return None
        path, fragment = split
        lines = parse_lines(fragment)
        if not path:
            return f"#L{lines[0]}" if lines else None
        if (cited := _CITED.fullmatch(path)) and not lines:
            path, lines = cited["path"], parse_lines(cited["lines"])
        place = _place(base_folder, path)
        return None if place is None else workspace_url(place, lines)

    return resolve


def resolve_image(base_folder: str) -> Callable[[str], str | None]:
    """Returns what maps a relative address of a picture to one of this site; None for all that is not shown."""

    def resolve(address: str) -> str | None:
        split = _split(address)
        place = _place(base_folder, split[0]) if split and split[0] else None
        return picture_url(place) if place and picture_ending(place) else None

    return resolve


def picture_ending(path: str) -> str | None:
    """Returns the media type that the ending of a picture's name stands for, None if it is no picture's."""
    name = path.casefold()
    return next((kind for ending, kind in PICTURE_ENDINGS.items() if name.endswith(ending)), None)


def parse_lines(text: str) -> Lines | None:
    """Returns the lines that "41", "41-52", "L41" or "L41-L52" stand for; None for anything else."""
    found = _LINES.fullmatch(text)
    if found is None or int(found[1]) < 1:
        return None
    first = int(found[1])
    return first, max(first, int(found[2] or first))


def _split(address: str) -> tuple[str, str] | None:
    """Returns path and fragment of a relative address, both without percent codes."""
    try:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            return None
        return unquote(parts.path, errors="strict"), unquote(parts.fragment, errors="strict")
    except ValueError:
        return None


def _place(folder: str, path: str) -> str | None:
    names = [] if path.startswith("/") else [name for name in folder.split("/") if name not in ("", ".")]
    for name in path.split("/"):
        if name == "..":
            if not names:
                return None
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    try:
        return "/".join(split_path("/".join(names))) or "."
    except ToolError:
        return None
