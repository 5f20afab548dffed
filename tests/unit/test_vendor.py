"""Vendored files are the ones that static/vendor/VERSIONS.md names, byte for byte."""

import hashlib
from pathlib import Path

VENDOR = Path(__file__).resolve().parents[2] / "static" / "vendor"
COLUMNS = ["file", "package", "version", "licence", "sha256"]


def listed() -> list[dict[str, str]]:
    lines = (VENDOR / "VERSIONS.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    header, rule, *body = rows
    assert header == COLUMNS
    assert all(set(cell) == {"-"} for cell in rule)
    return [dict(zip(COLUMNS, row, strict=True)) for row in body]


def test_every_file_is_listed_once_and_every_listed_file_is_there() -> None:
    present = sorted(path.relative_to(VENDOR).as_posix() for path in VENDOR.rglob("*") if path.is_file())
    present.remove("VERSIONS.md")
    assert sorted(row["file"] for row in listed()) == present


def test_every_file_has_the_recorded_sha256() -> None:
    recorded = {row["file"]: row["sha256"] for row in listed()}
    actual = {name: hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() for name in recorded}
    assert actual == recorded


def test_every_row_is_complete() -> None:
    incomplete = [row["file"] for row in listed() if not all(row.values())]
    assert incomplete == []
