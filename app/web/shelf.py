"""The workspace as the survey and the courses look at it: every look goes through the path guard.

Hidden files and question banks are left out here already, links that lead to them included.
"""

import os
import stat
import threading
from collections.abc import Iterable
from pathlib import Path

from app.courses.course import Course, find_courses
from app.courses.survey import HEAD_BYTES, Contents, Found, Judged, Skipped, Survey, by_path, judge_all, survey
from app.courses.titles import readable_name
from app.protocol.tools import ToolError
from app.tools.folders import Folder
from app.tools.paths import is_bank, is_hidden, may_be_quiz, name_problem, quoted, split_path
from app.tools.workspace import Workspace


class Shelf:
    """A workspace's files, judged; what was judged is kept until size or time of change differ. Safe for threads."""

    def __init__(self, workspace: Workspace, root: Path) -> None:
        """``root`` is the folder that ``workspace`` guards."""
        self._workspace = workspace
        self._root = os.path.realpath(root)
        self._known: dict[str, Judged] = {}
        self._lock = threading.Lock()

    def survey(self, start: str = ".") -> Survey:
        """Returns what is read and skipped in the folder ``start`` and below it."""
        with self._lock:
            known = dict(self._known)
        found = survey(self.contents, self.head, start=start, known=known)
        judged = by_path(found.files)
        with self._lock:
            self._known = judged if start == "." else {**self._known, **judged}
        return found

    def courses(self, found: Survey, lang: str) -> list[Course]:
        """Returns the courses in what a survey found, with lessons in ``lang`` where there are such."""
        return find_courses(found.files, lang, readable_name(os.path.basename(self._root), is_file=False))

    def course(self, path: str, found: Survey, lang: str, lesson: str | None = None) -> Course | None:
        """Returns the course in ``path``, a folder directly in the workspace or ("." only) the workspace itself.

        ``found`` is a survey of that folder. With ``lesson`` the course is in the language that this lesson is in; None
        when that is no lesson of it.
        """
        course = self._course(path, found, lang)
        if course is None or lesson is None:
            return course
        of_languages = (self._course(path, found, language) for language in (lang, *course.languages))
        return next((one for one in of_languages if one and any(lesson == its.path for its in one.lessons)), None)

    def _course(self, path: str, found: Survey, lang: str) -> Course | None:
        return next((course for course in self.courses(found, lang) if course.path == path), None)

    def judged(self, entries: Iterable[Found]) -> list[Judged]:
        """Returns the files among ``entries``, judged."""
        with self._lock:
            known = dict(self._known)
        judged = judge_all(entries, self.head, known)
        with self._lock:
            self._known = {**self._known, **by_path(judged)}
        return judged

    def contents(self, path: str) -> Contents:
        """Returns what is directly in a folder, in natural order, and what of it cannot be reached. Raises OSError."""
        names = split_path(path)
        with self._workspace.open_folder(names, "find") as folder:
            on_disk = folder.names()
            try:
                listed = self._workspace.listing(path).entries
            except ToolError as error:
                raise error.__cause__ if isinstance(error.__cause__, OSError) else OSError(str(error)) from error
            entries: list[Found] = []
            for entry in listed:
                if entry.is_link:
                    continue
                try:
                    changed = folder.stat(entry.name).st_mtime_ns
                except OSError:
                    continue
                entries.append(Found(entry.path, entry.kind, entry.size, changed))
            missing = set(on_disk).difference(entry.name for entry in listed)
            skipped = [self._why_left_out(folder, "/".join((*names, name)), name) for name in sorted(missing)]
        return Contents(entries, [one for one in skipped if one is not None])

    def head(self, path: str) -> bytes:
        """Returns the beginning of a file. Raises OSError."""
        names = split_path(path)
        with self._workspace.open_folder(names[:-1], "find") as folder:
            fd = folder.open_file(folder.find(names[-1]))
            with os.fdopen(fd, "rb") as file:
                return file.read(HEAD_BYTES)

    def _why_left_out(self, folder: Folder, path: str, name: str) -> Skipped | None:
        """Returns why a name is in no listing; None where saying so would tell of a hidden file or a question bank."""
        if is_hidden(name) or is_bank(name):
            return None
        if name_problem(name) is not None:
            return Skipped(quoted(path)[1:-1], "name")
        try:
            mode = folder.stat(name).st_mode
        except OSError:
            return None
        if stat.S_ISLNK(mode):
            return self._why_no_link(path)
        if stat.S_ISREG(mode):
            return None if may_be_quiz(name) else Skipped(path, "name")
        return Skipped(f"{path}/", "name") if stat.S_ISDIR(mode) else Skipped(path, "device")

    def _why_no_link(self, path: str) -> Skipped | None:
        target = Path(os.path.realpath(os.path.join(self._root, path)))
        if target.is_relative_to(self._root):
            inside = target.relative_to(self._root).parts
            if any(is_hidden(part) or is_bank(part) or may_be_quiz(part) for part in inside):
                return None
        return Skipped(path, "link")
