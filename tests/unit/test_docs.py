"""README.md names every setting, command and address that there is, and none that there is not."""

import argparse
import re
from pathlib import Path

import pytest
from flask import Flask

from app.cli import COMMANDS, parser
from app.settings import CONFIG_KEYS, Settings

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
ADDRESS = re.compile(r"\b(GET|POST|PUT|PATCH|DELETE) (/api/[\w/<>-]*)")


def code(text: str) -> str:
    """Returns README's text between backticks and in code blocks that holds ``text``, for a literal look."""
    return next((found for found in re.findall(r"```.*?```|`[^`]+`", README, re.DOTALL) if text in found), "")


def commands() -> dict[str, argparse.ArgumentParser]:
    (choices,) = [action.choices for action in parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(choices)


def variables() -> set[str]:
    sources = [path.read_text("utf-8") for path in (ROOT / "app").rglob("*.py")]
    return {name for source in sources for name in re.findall(r"\bHORNBOOK_[A-Z_]+\b", source)}


def addresses(app: Flask) -> set[str]:
    """Returns each method and rule of the API, with <id> for whatever stands between < and >."""
    return {
        f"{method} {re.sub('<[^>]*>', '<id>', rule.rule)}"
        for rule in app.url_map.iter_rules()
        for method in set(rule.methods or ()) - {"HEAD", "OPTIONS"}
        if rule.rule.startswith("/api")
    }


@pytest.mark.parametrize("name", CONFIG_KEYS)
def test_every_name_of_the_settings_file_is_explained(name: str) -> None:
    assert f"`{name}`" in README


def test_every_option_is_explained() -> None:
    options = {
        option
        for command in commands().values()
        for action in command._actions
        for option in action.option_strings
        if option.startswith("--") and option != "--help"
    }
    assert {"--port", "--new"} <= options
    assert [option for option in sorted(options) if not re.search(rf"`[^`]*{option}\b", README)] == []


def test_every_variable_is_explained_and_every_explained_one_is_read() -> None:
    assert "HORNBOOK_PORT" in variables()
    assert variables() == set(re.findall(r"\bHORNBOOK_[A-Z_]+\b", README))


def test_every_command_is_explained() -> None:
    assert set(commands()) == set(COMMANDS)
    assert [command for command in COMMANDS if not code(f"hornbook {command}")] == []


def test_every_address_of_the_api_is_explained_and_every_explained_one_exists(app: Flask) -> None:
    there = addresses(app)
    assert "GET /api/runs/<id>/events" in there
    explained = {f"{method} {rule}" for method, rule in ADDRESS.findall(README)}
    assert there == explained


def test_the_default_port_is_the_one_that_the_examples_use() -> None:
    ports = set(re.findall(r"127\.0\.0\.1:(\d+)", README))
    assert ports == {str(Settings(workspace=ROOT, data=ROOT).port)}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_every_file_that_a_page_of_text_links_to_is_there(name: str) -> None:
    file = ROOT / name
    targets = re.findall(r"\]\(([^)#:]+)\)", file.read_text("utf-8"))
    assert [target for target in targets if not (ROOT / target).exists()] == []
