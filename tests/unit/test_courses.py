"""Which folders are courses, what their lessons are called, in which order and language they come."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.courses.course import Course, choose_language, find_courses, language_of_folder
from app.courses.survey import Found, Judged, kind_of
from app.courses.titles import MAX_TITLE, front_matter_lines, natural_key, readable_name, title_in


def files(*paths: str, **titles: str) -> list[Judged]:
    return [Judged(Found(path, "file", 10), kind_of(path), title=titles.get(path.replace("/", "_"))) for path in paths]


def courses(*paths: str, lang: str = "en") -> list[Course]:
    return find_courses(files(*paths), lang, "My folder")


def only(*paths: str, lang: str = "en") -> Course:
    (course,) = courses(*paths, lang=lang)
    return course


def lessons(course: Course) -> list[str]:
    return [lesson.path for lesson in course.lessons]


def test_each_top_folder_with_markdown_in_or_below_it_is_a_course() -> None:
    found = courses("maths/rank.md", "README.md", "physics/week1/tides.md", "data/points.csv")
    assert [(course.path, course.title, lessons(course)) for course in found] == [
        ("maths", "Maths", ["maths/rank.md"]),
        ("physics", "Physics", ["physics/week1/tides.md"]),
    ]


def test_notes_of_the_tutor_are_no_course() -> None:
    assert [course.path for course in courses("notes/mine.md", "maths/rank.md")] == ["maths"]
    assert courses("notes/mine.md") == []


def test_files_beside_no_course_folder_are_the_course() -> None:
    course = only("2.md", "10.md", "table.csv", "notes/mine.md")
    assert (course.path, course.title, lessons(course)) == (".", "My folder", ["2.md", "10.md"])


def test_a_folder_without_markdown_is_no_course() -> None:
    assert courses("code/main.py", "code/data.csv") == []
    assert courses() == []


def test_lessons_come_in_the_order_in_which_people_count() -> None:
    course = only("c/10-end.md", "c/2-middle.md", "c/1-start.md", "c/b/1.md", "c/Appendix.md")
    assert lessons(course) == ["c/1-start.md", "c/2-middle.md", "c/10-end.md", "c/Appendix.md", "c/b/1.md"]


def test_sub_folders_are_parts_in_order() -> None:
    course = only("c/week10/a.md", "c/week2/b.md", "c/week2/extra/c.md", "c/week2/1.md")
    assert [(lesson.path, lesson.part) for lesson in course.lessons] == [
        ("c/week2/1.md", "Week2"),
        ("c/week2/b.md", "Week2"),
        ("c/week2/extra/c.md", "Week2 / Extra"),
        ("c/week10/a.md", "Week10"),
    ]


def test_language_folders_are_one_course_shown_in_the_language_asked_for() -> None:
    paths = ("c/en/1.md", "c/en/2.md", "c/zh/1.md", "c/exercises.md")
    english, chinese = only(*paths), only(*paths, lang="zh")
    assert lessons(english) == ["c/en/1.md", "c/en/2.md", "c/exercises.md"]
    assert lessons(chinese) == ["c/zh/1.md", "c/exercises.md"]
    assert english.languages == chinese.languages == ("en", "zh")
    assert (english.lang, chinese.lang) == ("en", "zh")
    assert {lesson.part for lesson in english.lessons} == {""}


def test_a_language_that_is_not_there_falls_back_to_what_is() -> None:
    assert lessons(only("c/de/1.md", "c/fr/1.md", lang="zh")) == ["c/de/1.md"]
    assert lessons(only("c/de/1.md", "c/en/1.md", lang="zh")) == ["c/en/1.md"]


@pytest.mark.parametrize(
    ("there", "wanted", "chosen"),
    [
        (["en", "zh"], "zh", "zh"),
        (["en", "zh-tw", "zh-cn"], "zh", "zh-cn"),
        (["en", "zh-hant"], "zh", "zh-hant"),
        (["en-gb", "fr"], "de", "en-gb"),
        (["fr", "pt"], "zh", "fr"),
        ([], "en", ""),
    ],
)
def test_the_nearest_language_is_chosen(there: list[str], wanted: str, chosen: str) -> None:
    assert choose_language(there, wanted) == chosen


@pytest.mark.parametrize(
    ("folder", "language"),
    [
        ("zh_CN", "zh-cn"),
        ("en", "en"),
        ("ZH-Hans", "zh-hans"),
        ("db", ""),
        ("en-", "en"),
        ("en-week-1", ""),
        ("eng", ""),
    ],
)
def test_only_names_of_languages_are_languages(folder: str, language: str) -> None:
    assert language_of_folder(folder) == language


def test_a_readme_names_the_course_and_is_no_lesson() -> None:
    (course,) = find_courses(files("c/README.md", "c/1.md", **{"c_README.md": "Linear algebra"}), "en", "")
    assert (course.title, course.about, lessons(course)) == ("Linear algebra", "c/README.md", ["c/1.md"])


def test_the_readme_of_the_language_shown_names_the_course() -> None:
    titles = {"c_README.md": "Algebra", "c_zh_README.md": "线性代数"}
    sources = files("c/README.md", "c/en/1.md", "c/zh/README.md", "c/zh/1.md", **titles)
    assert find_courses(sources, "zh", "")[0].title == "线性代数"
    assert find_courses(sources, "en", "")[0].title == "Algebra"


def test_a_readme_alone_is_a_lesson() -> None:
    assert lessons(only("c/README.md")) == ["c/README.md"]


def test_files_of_a_course_that_cannot_be_read_are_its_problems() -> None:
    scan, photo = Found("c/scan.pdf", "file", 1), Found("c/photo.png", "file", 1)
    sources = [*files("c/1.md"), Judged(scan, reason="pdf"), Judged(photo, reason="picture")]
    (course,) = find_courses(sources, "en", "")
    assert [judged.path for judged in course.problems] == ["c/scan.pdf"]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# Tides\n\n# Other\n", "Tides"),
        ("\ufeffsome words\n\n## Deep ##\n", "Deep"),
        ("Tides\n=====\n", "Tides"),
        ("---\nlayout: x\ntitle: 'Front: matter'\n---\n# Heading\n", "Front: matter"),
        ("---\nlayout: x\n---\n# Heading\n", "Heading"),
        ("```\n# a comment\n```\n\n# Real\n", "Real"),
        ("~~~~\n# no\n~~~\n# no\n~~~~\n# yes\n", "yes"),
        ("# The **`rank`** of [a matrix](rank.md)\n", "The rank of a matrix"),
        ("# 2 * 3 * 4 and snake_case_name\n", "2 * 3 * 4 and snake_case_name"),
        ("#no heading\n", None),
        ("# \n\ntext\n", None),
        ("", None),
        ("# a\u202eb\u2066c\n", "a b c"),
        ("# <script>alert(1)</script>\n", "<script>alert(1)</script>"),
    ],
)
def test_a_lesson_is_called_as_it_calls_itself(text: str, title: str | None) -> None:
    assert title_in(text) == title


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("03-the_loop.md", "The loop"),
        ("week-3.md", "Week 3"),
        ("1-循环.md", "循环"),
        ("10.md", "10"),
        ("2024-03-01.md", "2024 03 01"),
        (".md", ".md"),
    ],
)
def test_a_name_is_made_readable(name: str, title: str) -> None:
    assert readable_name(name) == title


def test_a_folder_keeps_what_stands_after_a_dot() -> None:
    assert readable_name("python-3.11", is_file=False) == "Python 3.11"


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("#*_`[]()!-=~ \ntitle:a\ufeff\u202e"), max_size=400) | st.text(max_size=400))
def test_any_text_has_a_short_title_of_one_line_or_none(text: str) -> None:
    title = title_in(text)
    assert title is None or (0 < len(title) <= MAX_TITLE and len(title.splitlines()) == 1 and title == title.strip())


@settings(deadline=None)
@given(st.text(max_size=300))
def test_front_matter_is_never_longer_than_the_text(text: str) -> None:
    assert 0 <= front_matter_lines(text) <= text.count("\n") + 1


@settings(deadline=None)
@given(st.lists(st.text(max_size=20)))
def test_any_names_can_be_sorted(names: list[str]) -> None:
    assert sorted(names, key=natural_key) == sorted(reversed(names), key=natural_key)
