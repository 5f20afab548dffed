"""Moments, lengths, sizes and numbers as a person reads them, in both languages."""

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from flask import Flask
from flask_babel import Babel, force_locale
from hypothesis import given
from hypothesis import strategies as st

from app import web
from app.models.catalogue import open_model
from app.web.words import clock, duration, iso, model_words, number, size
from tests.support import FakeModel

NOW = datetime(2026, 3, 5, 20, 31)  # a Thursday
END_OF_TIME = 253_402_300_799_999
TRANSLATIONS = Path(web.__file__).parent / "translations"


@pytest.fixture(scope="module")
def app() -> Flask:
    bare = Flask("words")
    Babel(bare, default_translation_directories=str(TRANSLATIONS))
    return bare


@pytest.fixture(params=["en", "zh"])
def lang(request: pytest.FixtureRequest, app: Flask) -> Iterator[str]:
    with app.app_context(), force_locale(request.param):
        yield str(request.param)


@pytest.fixture
def english(app: Flask) -> Iterator[None]:
    with app.app_context(), force_locale("en"):
        yield


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Puts this computer into a time zone."""

    def put(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield put
    monkeypatch.undo()
    time.tzset()


def ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        (NOW, {"en": "20:31", "zh": "20:31"}),
        (datetime(2026, 3, 5, 0, 0), {"en": "00:00", "zh": "00:00"}),
        (datetime(2026, 3, 4, 23, 59), {"en": "Wed 23:59", "zh": "周三 23:59"}),
        (datetime(2026, 2, 27, 8, 5), {"en": "Fri 08:05", "zh": "周五 08:05"}),
        (datetime(2026, 2, 26, 8, 5), {"en": "Feb 26 08:05", "zh": "2月26日 08:05"}),
        (datetime(2026, 1, 1, 0, 0), {"en": "Jan 1 00:00", "zh": "1月1日 00:00"}),
        (datetime(2025, 12, 31, 23, 59), {"en": "Dec 31, 2025 23:59", "zh": "2025年12月31日 23:59"}),
        (datetime(2026, 3, 6, 1, 0), {"en": "Fri 01:00", "zh": "周五 01:00"}),
    ],
)
def test_a_moment_is_told_as_exactly_as_it_is_near(moment: datetime, words: dict[str, str], lang: str) -> None:
    assert clock(ms(moment), NOW) == words[lang]


def test_a_day_of_the_week_is_never_that_of_another_week(english: None) -> None:
    for days in range(1, 20):
        shown = clock(ms(NOW - timedelta(days=days)), NOW)
        assert (shown[:3] in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")) is (days < 7), shown


def test_a_week_may_reach_over_the_end_of_a_year(english: None) -> None:
    assert clock(ms(datetime(2025, 12, 30, 9, 0)), datetime(2026, 1, 2)) == "Tue 09:00"


@pytest.mark.parametrize("name", ["UTC", "Asia/Shanghai", "America/New_York", "Pacific/Kiritimati"])
def test_the_end_of_all_years_is_a_moment_everywhere(name: str, zone: Callable[[str], None], english: None) -> None:
    zone(name)
    assert "9999" in clock(END_OF_TIME, NOW)
    assert iso(END_OF_TIME).startswith("9999-12-31T")


def test_a_moment_is_in_the_time_of_this_computer(zone: Callable[[str], None], english: None) -> None:
    zone("Asia/Shanghai")
    assert clock(1_767_323_045_678, datetime(2026, 1, 2, 23, 0)) == "11:04"
    assert iso(1_767_323_045_678) == "2026-01-02T11:04:05+08:00"


@pytest.mark.parametrize("unknown", [0, None])
def test_an_unknown_moment_has_no_words(unknown: int | None, lang: str) -> None:
    assert (clock(unknown), iso(unknown)) == ("", "")


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (None, {"en": "", "zh": ""}),
        (0, {"en": "0 ms", "zh": "0毫秒"}),
        (99, {"en": "99 ms", "zh": "99毫秒"}),
        (100, {"en": "0.1 s", "zh": "0.1秒"}),
        (1_000, {"en": "1 s", "zh": "1秒"}),
        (12_345, {"en": "12.3 s", "zh": "12.3秒"}),
        (99_999, {"en": "100 s", "zh": "100秒"}),
        (100_000, {"en": "2 min", "zh": "2分钟"}),
        (7_200_000, {"en": "120 min", "zh": "120分钟"}),
        (86_400_000_0, {"en": "14,400 min", "zh": "14,400分钟"}),
    ],
)
def test_a_length_of_time_has_the_unit_that_fits(milliseconds: int | None, words: dict[str, str], lang: str) -> None:
    assert duration(milliseconds) == words[lang]


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, {"en": "0 bytes", "zh": "0字节"}),
        (1_023, {"en": "1,023 bytes", "zh": "1,023字节"}),
        (1_024, {"en": "1 KiB", "zh": "1 KiB"}),
        (4_300, {"en": "4.2 KiB", "zh": "4.2 KiB"}),
        (1_048_576, {"en": "1 MiB", "zh": "1 MiB"}),
        (5 * 1024**3, {"en": "5,120 MiB", "zh": "5,120 MiB"}),
    ],
)
def test_a_size_has_the_unit_that_fits(count: int, words: dict[str, str], lang: str) -> None:
    assert size(count) == words[lang]


@given(st.integers(-(10**15), 10**15))
def test_a_number_keeps_each_of_its_digits(app: Flask, value: int) -> None:
    for lang in ("en", "zh"):
        with app.app_context(), force_locale(lang):
            assert int(number(value).replace(",", "")) == value


def test_who_answers_is_said_and_that_it_is_no_ai_is_never_hidden(lang: str, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"name": "Ada 100%(name)s", "turns": []}')
    offline, played = model_words(open_model("offline")), model_words(open_model(f"script:{script}"))
    assert offline == {"en": "Offline tutor: rules, no AI", "zh": "离线导师：只有规则，没有AI"}[lang]
    assert played.startswith("Ada 100%(name)s") and ("no AI" in played or "没有AI" in played)
    assert model_words(FakeModel()) == "Fake (tests)"
