"""What a model may call a file: the check of the words alone, before anything on disk is looked at.

A path is relative to the workspace, with ``/`` between its parts. The rules are the same on every system, so
that a course folder can be moved from one to another: a name that Windows would read as something else is
refused everywhere.
"""

import json
import re
import unicodedata

from app.protocol.codec import clean_text
from app.protocol.tools import ToolError

MAX_PATH_BYTES = 4096
MAX_NAME_BYTES = 255

_DRIVE = re.compile(r"[A-Za-z]:")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://?")
_RESERVED = frozenset(
    ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"]
    + [device + digit for device in ("COM", "LPT") for digit in "0123456789¹²³"]
)
_UNPRINTABLE = frozenset(["Cc", "Cs", "Zl", "Zp"])
_BANK_ENDINGS = (".gift", ".gift.txt", ".aiken.txt", ".bank.md")
_QUIZ_ENDINGS = (".xml", ".xml.txt")
_BACKUP = re.compile(r"(~|\.bak|\.old|\.orig|\.save|\.tmp)+\Z")
_WHAT_IS_RIGHT = 'Give a path relative to the workspace, such as "lessons/01.md".'


def quoted(path: str) -> str:
    """Returns ``path`` fit for a message: in quotes, control characters escaped, at most 120 characters."""
    text = clean_text(path)
    shown = json.dumps(text if len(text) <= 120 else text[:117] + "...", ensure_ascii=False)
    return "".join(f"\\u{ord(character):04x}" if _is_unprintable(character) else character for character in shown)


def split_path(path: str) -> tuple[str, ...]:
    """Returns the names that lead from the workspace root to ``path``; none for the root itself ("", ".").

    Raises ToolError that says what is wrong with the path and what would be right.
    """
    problem = _path_problem(path)
    if problem is None:
        names = tuple(name for name in path.split("/") if name not in ("", "."))
        problem = next(filter(None, map(_refusal, names)), None)
    if problem is not None:
        raise ToolError(f"The path {quoted(path)} is refused: {problem}. {_WHAT_IS_RIGHT}")
    return names


def _path_problem(path: str) -> str | None:
    if _DRIVE.match(path):
        return "it begins with a drive letter"
    if _SCHEME.match(path):
        return "it is an address, not a path"
    if path.startswith("/"):
        return "it is absolute"
    if "\\" in path:
        return 'it holds a backslash; the parts of a path are separated by "/"'
    if len(clean_text(path).encode()) > MAX_PATH_BYTES:
        return f"it is longer than {MAX_PATH_BYTES} bytes"
    return None


def _refusal(name: str) -> str | None:
    if name == "..":
        return '".." would lead out of its folder'
    if is_hidden(name):
        return "names that begin with a dot are hidden and not course text"
    if is_bank(name):
        return "it is a question bank, which holds the answers and is not course text"
    return name_problem(name)


def name_problem(name: str) -> str | None:
    """Returns why no path may hold ``name``, or None. Hidden names and question banks are not its subject."""
    if any(map(_is_unprintable, name)):
        return "it holds a control character or one that is not valid Unicode"
    if "\\" in name or ":" in name:
        return "a name may not hold a colon or a backslash"
    if len(name.encode()) > MAX_NAME_BYTES:
        return f"a name in it is longer than {MAX_NAME_BYTES} bytes"
    if name.split(".")[0].rstrip(" ").upper() in _RESERVED:
        return "it holds a name that Windows keeps for a device"
    if name[-1:] in (".", " "):
        return "a name may not end with a dot or a space"
    return None


def _is_unprintable(character: str) -> bool:
    return unicodedata.category(character) in _UNPRINTABLE


def is_hidden(name: str) -> bool:
    """Says whether ``name`` is a dot file or dot folder."""
    return _folded(name).startswith(".") or name.startswith(".")


def is_bank(name: str) -> bool:
    """Says whether ``name`` is that of a question bank, or of an editor's backup of one."""
    return _BACKUP.sub("", _folded(name)).endswith(_BANK_ENDINGS)


def may_be_quiz(name: str) -> bool:
    """Says whether ``name`` is one under which Moodle's quizzes are kept, backups included; the content decides."""
    return _BACKUP.sub("", _folded(name)).endswith(_QUIZ_ENDINGS)


def same_name(one: str, other: str) -> bool:
    """Says whether two names differ at most in how their accents are stored (macOS takes them apart)."""
    return unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)


def _folded(name: str) -> str:
    # A file system may ignore case, how accents are stored and (HFS+) invisible characters: a bank must not
    # be readable under a spelling that only differs in those.
    visible = (character for character in name if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFC", "".join(visible)).casefold().rstrip(" .")
