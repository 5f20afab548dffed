"""Arguments of a tool call, checked against the tool's parameters."""

import json
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from app.protocol.tools import ToolError
from app.protocol.validation import MAX_ECHO, validate


class Option(msgspec.Struct, kw_only=True, rename="camel"):
    text: str
    is_right: bool = False


class Choice(msgspec.Struct, tag_field="type", tag="choice", kw_only=True):
    options: Annotated[list[Option], Meta(min_length=2)]


class Free(msgspec.Struct, tag_field="type", tag="free", kw_only=True):
    lines: int


class Ask(msgspec.Struct, kw_only=True):
    title: Annotated[str, Meta(min_length=1, description="What is asked.")]
    form: Choice | Free
    hints: list[str] = []
    weights: dict[str, float] = {}
    minutes: Annotated[int, Meta(ge=1)] | None = None
    rounds: Annotated[int, Meta(ge=1)] = 3


GOOD: dict[str, Any] = {
    "title": "Why?",
    "form": {"type": "choice", "options": [{"text": "a"}, {"text": "b", "isRight": True}]},
}


def problems_of(arguments: object, parameters: type[msgspec.Struct] = Ask) -> str:
    with pytest.raises(ToolError) as caught:
        validate(arguments, parameters)
    return str(caught.value)


def test_right_arguments_become_the_struct() -> None:
    ask = validate(GOOD, Ask)
    assert isinstance(ask, Ask)
    assert isinstance(ask.form, Choice)
    assert ask.form.options[1].is_right
    assert ask.rounds == 3


def test_every_wrong_path_is_named_at_once() -> None:
    text = problems_of(
        {
            "form": {"type": "choice", "options": [{"isRight": "perhaps"}, {"text": 5}]},
            "hints": ["fine", 7, None],
            "weights": {"a": "heavy", "b": 1},
            "minutes": 0,
        }
    )
    lines = text.splitlines()
    assert "- title: missing, expected string (What is asked.)" in lines
    assert "- form.options[0].text: missing, expected string" in lines
    assert "- form.options[0].isRight: expected `bool`, got `str`" in lines
    assert "- form.options[1].text: expected `str`, got `int`" in lines
    assert "- hints[1]: expected `str`, got `int`" in lines
    assert "- hints[2]: expected `str`, got `null`" in lines
    assert "- weights.a: expected `float`, got `str`" in lines
    assert "- minutes: expected `int` >= 1" in lines
    assert len([line for line in lines if line.startswith("- ")]) == 8


def test_the_error_repeats_what_was_received() -> None:
    text = problems_of({"title": "名", "form": 1})
    assert json.loads(text.rpartition("Received: ")[2]) == {"title": "名", "form": 1}


def test_a_long_call_is_repeated_in_part_only() -> None:
    text = problems_of({"title": ["x" * 10_000]})
    assert len(text) < MAX_ECHO + 500
    assert "characters in all" in text


def test_a_short_list_and_an_unknown_tag_are_named() -> None:
    assert "- form.options: expected `array` of length >= 2" in problems_of(
        {"title": "x", "form": {"type": "choice", "options": [{"text": "a"}]}}
    )
    assert "- form" in problems_of({"title": "x", "form": {"type": "essay"}})
    assert "- form" in problems_of({"title": "x", "form": {}})


@pytest.mark.parametrize("arguments", [None, [], "path", 5, True])
def test_arguments_that_are_no_object_are_refused(arguments: object) -> None:
    text = problems_of(arguments)
    assert "arguments: expected `object`" in text


class Kinds(msgspec.Struct, kw_only=True):
    n: float = -1
    i: int = -1
    b: bool = False
    s: str = ""
    arr: list[str] = []


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"n": "5"}, "n", 5),
        ({"n": "1e3"}, "n", 1000),
        ({"i": "7"}, "i", 7),
        ({"i": 7.0}, "i", 7),
        ({"b": "true"}, "b", True),
        ({"b": 1}, "b", True),
        ({"i": None}, "i", -1),
        ({"b": None, "s": None}, "s", ""),
        ({"s": "x", "extra": {"a": 1}}, "s", "x"),
    ],
)
def test_harmless_differences_are_mended(given: dict[str, Any], field: str, value: object) -> None:
    assert getattr(validate(given, Kinds), field) == value


@pytest.mark.parametrize(
    "wrong", [{"n": "abc"}, {"n": ""}, {"b": "yes"}, {"i": "3.5"}, {"arr": "one"}, {"s": {}}, {"s": ["x"]}]
)
def test_other_differences_are_not_guessed(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    assert f"- {name}: expected" in problems_of(wrong, Kinds)


def test_null_is_no_value_for_a_required_parameter() -> None:
    assert "- title: expected `str`, got `null`" in problems_of(GOOD | {"title": None})


def test_null_stays_null_where_it_is_a_value() -> None:
    assert validate(GOOD | {"minutes": None}, Ask).minutes is None


def test_the_received_arguments_are_not_changed() -> None:
    arguments = {**GOOD, "rounds": None, "minutes": "4"}
    before = json.dumps(arguments)
    validate(arguments, Ask)
    assert json.dumps(arguments) == before


def test_lone_surrogates_and_deep_nesting_are_an_error_like_any_other() -> None:
    assert "title" in problems_of({"title": 1, "x": "\ud800"})
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert "expected" in problems_of({"title": deep})


class Even(msgspec.Struct):
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError("The number must be even")


def test_a_rule_of_the_struct_itself_is_reported() -> None:
    assert "The number must be even" in problems_of({"number": 3}, Even)
