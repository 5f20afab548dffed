"""What is read, what is skipped and why; and that nothing tells of hidden files and question banks."""

import os
import socket
from pathlib import Path

import pytest

from app.courses.survey import (
    HEAD_BYTES,
    MAX_FILE_BYTES,
    NOTES,
    Contents,
    Found,
    Judged,
    Survey,
    judge,
    picture_type,
    survey,
)
from app.tools import notes, workspace
from app.tools.workspace import Workspace
from app.web.shelf import Shelf

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
QUIZ = '<?xml version="1.0"?><quiz><question type="shortanswer"/></quiz>'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "study"
    (folder / "maths" / "week1").mkdir(parents=True)
    (folder / "maths" / "week1" / "rank.md").write_text("# Rank\n")
    (folder / "maths" / "plot.py").write_text("print(1)\n")
    return folder


@pytest.fixture
def shelf(root: Path) -> Shelf:
    return Shelf(Workspace(root), root)


def why(found: Survey) -> dict[str, str]:
    return {skipped.path: skipped.reason for skipped in found.skipped}


def test_files_that_are_read_are_counted_by_kind(root: Path, shelf: Shelf) -> None:
    (root / "lab.ipynb").write_text('{"cells": []}')
    (root / "words.txt").write_text("é", "utf-8")
    found = shelf.survey()
    assert found.counts == {"markdown": 1, "other": 1, "notebook": 1, "text": 1}
    assert found.skipped == []
    assert not found.cut


def test_each_file_that_is_skipped_has_its_reason(root: Path, shelf: Shelf) -> None:
    (root / "scan.pdf").write_bytes(b"%PDF-1.7\n" + bytes(30))
    (root / "photo.png").write_bytes(PNG)
    (root / "archive.zip").write_bytes(b"PK\x03\x04" + bytes(30))
    (root / "latin.md").write_bytes("# Caf\xe9\n".encode("latin-1"))
    (root / "wide.txt").write_text("# Tides", "utf-16")
    (root / "half.md").write_bytes("月".encode()[:2])
    with (root / "huge.md").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert why(shelf.survey()) == {
        "scan.pdf": "pdf",
        "photo.png": "picture",
        "archive.zip": "not_text",
        "latin.md": "not_utf8",
        "wide.txt": "not_utf8",
        "half.md": "not_utf8",
        "huge.md": "too_large",
    }


def test_a_character_across_the_end_of_what_is_looked_at_is_no_fault(root: Path, shelf: Shelf) -> None:
    (root / "long.md").write_text("a" * (HEAD_BYTES - 1) + "月" * 10, "utf-8")
    assert shelf.survey().skipped == []


def test_what_leads_out_and_what_is_no_file_is_named(root: Path, shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text("# Outside\n")
    (root / "maths" / "out.md").symlink_to(tmp_path / "outside.md")
    (root / "up").symlink_to(tmp_path)
    (root / "nowhere.md").symlink_to("missing.md")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "maths" / "s"))
        found = shelf.survey()
    assert why(found) == {
        "maths/out.md": "link",
        "up": "link",
        "nowhere.md": "link",
        "pipe": "device",
        "maths/s": "device",
    }
    assert "outside" not in repr(found)


def test_links_inside_count_once(root: Path, shelf: Shelf) -> None:
    (root / "again.md").symlink_to("maths/week1/rank.md")
    (root / "again").symlink_to("maths")
    found = shelf.survey()
    assert [judged.path for judged in found.files] == ["maths/plot.py", "maths/week1/rank.md"]
    assert found.skipped == []


def test_names_that_no_path_may_hold_are_shown_escaped(root: Path, shelf: Shelf) -> None:
    (root / "two\nlines.md").write_text("# x\n")
    (root / "CON.md").write_text("# x\n")
    with open(os.fsencode(root) + b"/\xff.md", "wb"):
        pass
    assert sorted(why(shelf.survey())) == ["CON.md", "two\\nlines.md", "�.md"]
    assert set(why(shelf.survey()).values()) == {"name"}


def test_hidden_files_and_question_banks_are_nowhere(root: Path, shelf: Shelf) -> None:
    secret = "KEY-3f9c"
    for name in (".hidden.md", "final.gift", "a.aiken.txt", "b.bank.md", "FINAL.GIFT~", "maths/c.gift.txt"):
        (root / name).write_text(f"# {secret}\n")
    (root / "export.xml").write_text(QUIZ)
    (root / ".git").mkdir()
    (root / ".git" / "note.md").write_text("# x\n")
    (root / "old.bank.md").mkdir()
    (root / "to-bank.md").symlink_to("final.gift")
    (root / "to-quiz.md").symlink_to("export.xml")
    (root / "to-hidden.md").symlink_to(".hidden.md")
    (root / "to-no-bank").symlink_to("gone.gift")
    found = shelf.survey()
    assert [judged.path for judged in found.files] == ["maths/plot.py", "maths/week1/rank.md"]
    assert found.skipped == []
    assert not shelf.contents(".").skipped


def test_notes_are_counted_apart(root: Path, shelf: Shelf) -> None:
    (root / "notes" / "deep").mkdir(parents=True)
    (root / "notes" / "a.md").write_text("# a\n")
    (root / "notes" / "deep" / "b.md").write_text("# b\n")
    found = shelf.survey()
    assert found.notes == 2
    assert found.counts["markdown"] == 1


class Disk:
    """A folder tree in memory that counts what is opened."""

    def __init__(self, **folders: list[Found]) -> None:
        self.folders = {name.replace("root", "."): entries for name, entries in folders.items()}
        self.opened: list[str] = []

    def contents(self, path: str) -> Contents:
        if path not in self.folders:
            raise PermissionError(path)
        return Contents(self.folders[path])

    def head(self, path: str) -> bytes:
        self.opened.append(path)
        return b"# Title of " + path.encode()


def test_at_most_the_limit_is_looked_at_and_that_is_said() -> None:
    disk = Disk(root=[Found(f"{number}.md", "file", 5) for number in range(10)])
    found = survey(disk.contents, disk.head, limit=4)
    assert (len(found.files), found.cut, found.limit) == (4, True, 4)
    assert disk.opened == ["0.md", "1.md", "2.md", "3.md"]
    assert not survey(disk.contents, disk.head, limit=10).cut


def test_the_limit_holds_over_all_folders_and_what_it_leaves_out_is_deep() -> None:
    disk = Disk(
        root=[Found("a", "folder"), Found("b", "folder")],
        a=[Found("a/deep", "folder"), Found("a/1.md", "file", 5)],
        b=[Found("b/1.md", "file", 5)],
        **{"a/deep": [Found("a/deep/1.md", "file", 5)]},
    )
    found = survey(disk.contents, disk.head, limit=5)
    assert [judged.path for judged in found.files] == ["a/1.md", "b/1.md"]
    assert found.cut


def test_a_folder_that_may_not_be_opened_is_named_with_its_reason() -> None:
    disk = Disk(root=[Found("locked", "folder"), Found("1.md", "file", 5)])
    found = survey(disk.contents, disk.head)
    assert why(found) == {"locked/": "no_permission"}
    assert [judged.path for judged in found.files] == ["1.md"]


def test_a_file_that_may_not_be_opened_is_skipped_and_tried_again() -> None:
    file = Found("1.md", "file", 5, 7)

    def refuse(path: str) -> bytes:
        raise PermissionError(path)

    judged = judge(file, refuse)
    assert judged.reason == "no_permission"
    disk = Disk(root=[file])
    assert survey(disk.contents, disk.head, known={"1.md": judged}).files[0].kind == "markdown"


def test_a_file_is_looked_at_again_only_when_it_has_changed() -> None:
    disk = Disk(root=[Found("1.md", "file", 5, 7), Found("2.md", "file", 5, 7)])
    known = {
        "1.md": Judged(Found("1.md", "file", 5, 7), "markdown", title="Kept"),
        "2.md": Judged(Found("2.md", "file", 5, 6), "markdown", title="Old"),
    }
    found = survey(disk.contents, disk.head, known=known)
    assert [judged.title for judged in found.files] == ["Kept", "Title of 2.md"]
    assert disk.opened == ["2.md"]


def test_a_shelf_sees_what_changes(root: Path, shelf: Shelf) -> None:
    lesson = root / "maths" / "week1" / "rank.md"
    assert [judged.title for judged in shelf.survey().files] == [None, "Rank"]
    lesson.write_text("# Rank and pivots\n")
    assert [judged.title for judged in shelf.survey().files] == [None, "Rank and pivots"]
    lesson.unlink()
    assert [judged.path for judged in shelf.survey().files] == ["maths/plot.py"]


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"\0\0\0\x1cftypavif", "image/avif"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'>", None),
        (b"\0\0\0\x1cftypmp42", None),
        (b"RIFF\0\0\0\0WAVEfmt ", None),
        (b"", None),
    ],
)
def test_only_pictures_without_scripts_are_pictures(head: bytes, kind: str | None) -> None:
    assert picture_type(head) == kind


def test_the_survey_and_the_tools_mean_the_same() -> None:
    assert MAX_FILE_BYTES == workspace.MAX_FILE_BYTES
    assert NOTES == notes.FOLDER
