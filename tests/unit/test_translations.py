"""Every text that a person reads is in the catalogue and said in Chinese; none stands bare in a template or script."""

import ast
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.frontend import CommandLineInterface
from babel.messages.mofile import read_mo, write_mo
from babel.messages.pofile import read_po

from app.models.offline_intents import ExplainYourself, ListFiles, ReadFiles, Search, WriteNote
from app.models.offline_rules import understand
from app.web import errors, preferences
from tests.bare_texts import in_script, in_template
from tests.server import ROOT

FOLDER = ROOT / "app" / "web" / "translations"
PO = FOLDER / "zh" / "LC_MESSAGES" / "messages.po"
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
SCRIPTS = sorted((ROOT / "static").glob("*.js"))
RAISED = frozenset({"ApiError", "Conflict", "NotFound", "NotStored"})
PROGRAMS_ONLY = frozenset(
    {
        "bearer_needed",
        "empty_name",
        "empty_text",
        "idle",
        "invalid",
        "invalid_json",
        "stopping",
        "too_many_waiting",
        "unknown_run",
        "unsupported_media_type",
    }
)
"""Reasons that only the API gives: its messages are English."""
Ids = tuple[str, ...]


def ids_of(message: Message) -> Ids:
    return tuple(message.id) if isinstance(message.id, list | tuple) else (message.id,)


def strings_of(message: Message) -> Ids:
    return tuple(message.string) if isinstance(message.string, list | tuple) else (message.string,)


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """What `make translations` finds in the sources."""
    pot = tmp_path_factory.mktemp("pot") / "messages.pot"
    mapping = ROOT / "pyproject.toml"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        CommandLineInterface().run(["pybabel", "-q", "extract", "-F", str(mapping), "-o", str(pot), "."])
    with pot.open("rb") as file:
        return read_po(file)


@pytest.fixture(scope="module")
def chinese() -> Catalog:
    with PO.open("rb") as file:
        return read_po(file, locale="zh")


# The catalogue


def test_every_language_that_can_be_chosen_but_that_of_the_texts_has_a_catalogue() -> None:
    folders = {folder.name for folder in FOLDER.iterdir() if folder.is_dir()}
    assert folders | {"en"} == set(preferences.LANGUAGES)


def test_the_catalogue_holds_the_texts_of_the_sources_and_no_others(extracted: Catalog, chinese: Catalog) -> None:
    found = {ids_of(message) for message in extracted if message.id}
    held = {ids_of(message) for message in chinese if message.id}
    assert len(found) > 200
    assert (found - held, held - found) == (set(), set()), "run: make translations"
    assert not chinese.obsolete


def test_every_text_is_translated_and_no_translation_is_a_guess(chinese: Catalog) -> None:
    lacking = [message.id for message in chinese if message.id and not all(s.strip() for s in strings_of(message))]
    assert (lacking, [message.id for message in chinese if message.id and message.fuzzy]) == ([], [])


def test_chinese_has_one_form_for_every_number(chinese: Catalog) -> None:
    assert (chinese.num_plurals, chinese.plural_expr) == (1, "0")
    assert {len(strings_of(message)) for message in chinese if message.id} == {1}


PLACE = re.compile(r"%\(\w+\)[a-z]|%[a-z%]")


def test_a_translation_has_the_places_of_its_text(chinese: Catalog) -> None:
    for message in chinese:
        if message.id:
            wanted = sorted(PLACE.findall(ids_of(message)[-1]))
            assert sorted(PLACE.findall(strings_of(message)[0])) == wanted, message.id
            assert not list(message.check(chinese))


HAN = r"[\u3400-\u9fff]"
WRONG = re.compile(rf"{HAN}[,;:?!()\"]|{HAN}\.(?![a-z])|[,;:?!()]{HAN}|{HAN} | {HAN}|您|[!！]")


def test_translations_are_written_as_chinese_is(chinese: Catalog) -> None:
    """Full-width punctuation after Chinese, no space where the style sheet sets one, 你 and never 您."""
    commands = {"读取 %(path)s", "读取 README.md"}
    for message in chinese:
        (text, *_) = strings_of(message)
        if message.id and text not in commands:
            assert not re.search(rf"{HAN}[,;:?!()\"]|{HAN}\.(?![a-z])|[,;:?!()]{HAN}|{HAN} | {HAN}|您|[!！]", text), (
                text
            )


def test_no_text_shouts(chinese: Catalog) -> None:
    assert [text for message in chinese if message.id for text in ids_of(message) if "!" in text] == []


def test_the_compiled_catalogue_says_what_the_written_one_says(chinese: Catalog) -> None:
    """Not compared byte by byte: the head names the version of the compiler."""
    compiled = BytesIO()
    write_mo(compiled, chinese)
    compiled.seek(0)
    with PO.with_suffix(".mo").open("rb") as file:
        committed = read_mo(file)
    assert said(committed) == said(read_mo(compiled)), "run: make translations"


def said(catalogue: Catalog) -> dict[Ids, Ids]:
    return {ids_of(message): strings_of(message) for message in catalogue if message.id}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("List the files", ListFiles),
        ("Read README.md", ReadFiles),
        ("Search for tree", Search),
        ("Write a note about the loop", WriteNote),
        ("How do you work?", ExplainYourself),
        ("read %(path)s", ReadFiles),
    ],
)
def test_the_offline_tutor_understands_what_is_put_into_a_learners_mouth(
    chinese: Catalog, text: str, kind: type
) -> None:
    translation = chinese.get(text)
    assert translation is not None
    for language, words in (("en", text), ("zh", strings_of(translation)[0])):
        understood = understand(words.replace("%(path)s", "a-course/1-first.md"))
        assert (type(understood.intent), understood.language) == (kind, language)


# Bare texts


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_text_of_a_template_stands_bare(template: Path) -> None:
    assert in_template(template.read_text("utf-8")) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_holds_no_sentence(script: Path) -> None:
    """Its texts come from data attributes of the page, where they are translated."""
    assert in_script(script.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("<p>Hello</p>", ["Hello"]),
        ("<p>你好</p>", ["你好"]),
        ("<p>{{ _('Hello') }} there</p>", ["there"]),
        ("<p>{{ count }} files</p>", ["files"]),
        ("{% if x %}<b>Yes</b>{% else %}<b>no</b>{% endif %}", ["Yes", "no"]),
        ("{% for x in y %}<li>One {{ x }}</li>{% endfor %}", ["One"]),
        ("{% macro m() %}<i>in a macro</i>{% endmacro %}", ["in a macro"]),
        ("{% block page %}in a block{% endblock %}", ["in a block"]),
        ("{% set words %}kept <b>words</b>{% endset %}", ["kept", "words"]),
        ("<p>Hornbook answers</p>", ["Hornbook answers"]),
        ("<a title='Close'>x</a>", ["Close", "x"]),
        ("<a title='{{ _('Close') }} it'></a>", ["it"]),
        ("<nav{% if x %} aria-label='Pages'{% endif %}></nav>", ["Pages"]),
        ("<img alt='A wave'>", ["A wave"]),
        ("<input placeholder='Name'>", ["Name"]),
        ("<input type='submit' value='Send'>", ["Send"]),
        ("<meta name='description' content='A tutor'>", ["A tutor"]),
        ("<form data-unsent='It was not sent.'></form>", ["It was not sent."]),
        ("<p>{{ 'on' if x else 'off' }}</p>", ["onoff"]),
        ("<p>{{ name or 'untitled' }}</p>", ["untitled"]),
        ("<p>{{ name|default('untitled') }}</p>", ["untitled"]),
        ("<p>{{ {'a': 'first', 'b': _('Second')}[x] }}</p>", ["first"]),
        ("<p>{{ x ~ ' of ' ~ y }}</p>", ["of"]),
        ("<p>{{ '%.2f s'|format(x) }}</p>", ["s"]),
        ("<p>{{ _('In %(place)s', place='the folder' if x else y) }}</p>", ["the folder"]),
        ("<a title=\"{{ 'here' if x else _('There') }}\"></a>", ["here"]),
        ("{% set words = {'a': 'Done well'} %}", ["Done well"]),
        ("{% for key, name in (('a', 'First'), ('b', _('Second'))) %}{{ name }}{% endfor %}", ["First"]),
        ("{{ act(url, 'Stop', 'quiet') }}", ["Stop"]),
        ("{{ act(url, label='停止') }}", ["停止"]),
    ],
)
def test_a_bare_text_is_found(source: str, found: list[str]) -> None:
    assert in_template(source) == found


@pytest.mark.parametrize(
    "source",
    [
        "<p>{{ _('Hello') }}: {{ ngettext('%(num)d file', '%(num)d files', n) }} · 3</p>",
        "<p>{% trans link='hornbook link'|code %}Run {{ link }}.{% endtrans %}</p>",
        "<p>{{ name }} - Hornbook</p>",
        "<a lang='zh-Hans'>中文</a> <a>English</a>",
        "{# A remark. #}<!-- Another. -->",
        "{% extends 'pages/base.html' %}{% block kind %}lesson{% endblock %}{% include 'partials/' ~ x ~ '.html' %}",
        "<b class='{{ 'primary' if x else 'quiet' }}' id='the-b' data-state='{{ 'deleted' if x else y }}'></b>",
        "<input type='hidden' name='back' value='home'><input name='text' value='x'>",
        "<meta name='color-scheme' content='{{ 'light dark' if x else y }}'>",
        "<svg viewBox='0 0 16 16'><path d='{{ {'tick': 'M3 8.5 6.5 12 13 4'}[x] }}'/></svg>{{ mark('tick') }}",
        "<a href='{{ session_url(id, 'tree') }}'>{{ x|size }}</a>{% set off = ' disabled' if x else '' %}",
        "<p>{{ x if kind == 'first' else _('Second') }}</p><pre>{{ '\\n' }}{{ x }}</pre>",
        "<p>{{ '%.2f'|format(x) }}</p><button data-texts='{{ _('It was not sent.') }}'>{{ _('Send') }}</button>",
    ],
)
def test_what_is_no_text_or_is_translated_is_left_alone(source: str) -> None:
    assert in_template(source) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('alert("It was not sent.")', ["It was not sent."]),
        ("say(`Waited for ${n} s`)", ["Waited for ${n} s"]),
        ("say('没有发出')", ["没有发出"]),
        ('link.textContent = "new"', ["new"]),
        ('// A remark: "It was not sent."\nlink.textContent = link.dataset.words;', []),
        ('document.querySelectorAll(".menu[open] > a, input")', []),
        ('event.target.closest("input, textarea, select, [contenteditable]")', []),
        ('addEventListener("htmx:after:swap", look, { passive: true })', []),
        ("const key = `draft:${location.pathname}`;", []),
    ],
)
def test_a_sentence_in_a_script_is_found(source: str, found: list[str]) -> None:
    assert in_script(source) == found


# What the program refuses


@pytest.fixture(scope="module")
def refused() -> list[tuple[str, str, bool]]:
    """Each refusal that the program makes: its file, its reason, and whether its message is translated."""
    return list(refusals())


def refusals() -> Iterator[tuple[str, str, bool]]:
    trees = {file: ast.parse(file.read_text("utf-8")) for file in sorted((ROOT / "app").rglob("*.py"))}
    for file, tree in trees.items():
        values: dict[str, list[ast.expr]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                values.setdefault(node.targets[0].id, []).append(node.value)
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in RAISED:
                reason, message = (values.get(a.id, [a]) if isinstance(a, ast.Name) else [a] for a in call.args[-2:])
                (word,) = reason
                assert isinstance(word, ast.Constant), f"{file}:{call.lineno}: the reason is no constant"
                yield str(file.relative_to(ROOT)), word.value, all(map(is_translated, message))


def is_translated(message: ast.expr) -> bool:
    return isinstance(message, ast.Call) and isinstance(message.func, ast.Name) and message.func.id in ("_", "N_")


def test_every_refusal_that_a_page_can_show_has_a_sentence_in_the_catalogue(
    refused: list[tuple[str, str, bool]],
) -> None:
    assert len(refused) > 30
    known = set(errors._REFUSALS) | PROGRAMS_ONLY
    bare = {(file, reason) for file, reason, translated in refused if reason not in known and not translated}
    assert bare == set()


def test_the_list_of_what_only_programs_are_told_names_no_more_than_there_is(
    refused: list[tuple[str, str, bool]],
) -> None:
    raised = {reason for _, reason, _ in refused}
    assert raised >= PROGRAMS_ONLY
    assert PROGRAMS_ONLY.isdisjoint(errors._REFUSALS)


def test_every_sentence_for_a_refusal_is_in_the_catalogue(chinese: Catalog) -> None:
    sentences = {*errors._REFUSALS.values(), *errors._MESSAGES.values(), errors._INTERNAL}
    assert [sentence for sentence in sentences if sentence not in chinese] == []
