"""The replay buffer: folding, eviction, and waits that sleep until there is something to tell."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from app.protocol.codec import encode_line
from app.protocol.events import Event, MessageEnd, MessageUpdate, TurnStart
from app.protocol.model import TextDelta, TextEnd
from app.runs.buffer import EventBuffer, Record


def record(n: int, run_id: str | None = "r", kind: str = "plain", entry_id: str | None = None) -> Record:
    event: Event
    if kind == "delta":
        delta = TextDelta(content_index=0, delta="x" * 10)
        event = MessageUpdate(n=n, seq=n, run_id=run_id, entry_id=entry_id, assistant_message_event=delta)
    elif kind == "block":
        event = MessageUpdate(n=n, run_id=run_id, entry_id=entry_id, assistant_message_event=TextEnd(content_index=0))
    elif kind == "end":
        event = MessageEnd(n=n, seq=n, run_id=run_id, entry_id=entry_id)
    else:
        event = TurnStart(n=n, seq=n, run_id=run_id)
    return Record(event, encode_line(event))


def numbers(records: list[Record]) -> list[int]:
    return [found.n for found in records]


def message(first: int, deltas: int, entry_id: str) -> list[Record]:
    """A message's deltas and its end."""
    made = [record(first + i, kind="delta", entry_id=entry_id) for i in range(deltas)]
    return [*made, record(first + deltas, kind="end", entry_id=entry_id)]


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Starts ``work`` and returns a function that waits for what it returns."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(20)
        assert found, "it never returned"
        return found[0]

    return result


def counting_looks(buffer: EventBuffer, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notes each look that a reader takes at the records."""
    looks: list[int] = []
    look = buffer._after

    def noting(n: int, run_id: str | None) -> list[Record]:
        looks.append(n)
        return look(n, run_id)

    monkeypatch.setattr(buffer, "_after", noting)
    return looks


def test_nothing_is_folded_below_five_thousand_events_and_a_mebibyte() -> None:
    buffer = EventBuffer()
    records = message(1, 4_998, "a")
    buffer.append(records)
    assert numbers(buffer.after(0)) == numbers(records)


def test_above_five_thousand_events_only_deltas_of_the_message_that_has_ended_go() -> None:
    buffer = EventBuffer()
    plain, before = record(1), message(2, 3, "before")
    finished = message(10, 5_000, "finished")
    open_deltas = [record(6_000 + i, kind="delta", entry_id="open") for i in range(3)]
    buffer.append([plain, *before, *finished[:-1]])
    assert len(buffer.after(0)) == 5 + 5_000
    buffer.append([*finished[-1:], *open_deltas])
    assert numbers(buffer.after(0)) == numbers([plain, *before, *finished[-1:], *open_deltas])


def test_above_a_mebibyte_deltas_are_folded_too() -> None:
    buffer = EventBuffer(fold_bytes=2_000)
    big = message(1, 30, "a")
    assert sum(len(found.data) for found in big[:-1]) > 2_000
    buffer.append(big)
    assert numbers(buffer.after(0)) == [31]


def test_each_run_counts_for_itself() -> None:
    buffer = EventBuffer(fold_events=5)
    for number in range(1, 7):
        buffer.append([record(number, "big")])
    buffer.append([record(7, "small", "delta", "a"), record(8, "small", "end", "a")])
    assert numbers(buffer.after(0, "small")) == [7, 8]


def test_a_reader_in_the_middle_of_a_folded_message_goes_on_after_its_number() -> None:
    buffer = EventBuffer(fold_events=3)
    buffer.append(message(1, 5, "a"))
    assert numbers(buffer.after(3)) == [6]


def test_eviction_drops_a_run_and_what_was_before_it_but_nothing_after() -> None:
    buffer = EventBuffer()
    buffer.append([record(1, "old"), record(2, None), record(3, "old"), record(4, None), record(5, "new")])
    buffer.evict_run("old")
    assert (numbers(buffer.after(0)), buffer.floor, buffer.last) == ([4, 5], 3, 5)
    buffer.evict_run("old")
    buffer.evict_run("unknown")
    assert (numbers(buffer.after(0)), buffer.floor) == ([4, 5], 3)
    buffer.evict_run("new")
    assert (numbers(buffer.after(0)), buffer.floor, buffer.last) == ([], 5, 5)


def test_a_filtered_wait_sleeps_through_other_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = EventBuffer()
    buffer.append([record(1, "other")])
    looks = counting_looks(buffer, monkeypatch)
    assert buffer.wait(0, 0.2, "mine") == []
    assert len(looks) <= 3
    result = in_thread(lambda: buffer.wait(0, 20, "mine"))
    buffer.append([record(2, "other")])
    buffer.append([record(3, "mine")])
    assert numbers(result()) == [3]
    assert len(looks) <= 8


def test_a_wait_that_gathers_sleeps_through_deltas_and_ends_with_the_first_other_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    buffer = EventBuffer()
    buffer.append([record(1, kind="delta")])
    looks = counting_looks(buffer, monkeypatch)
    result = in_thread(lambda: buffer.wait(0, 20, hold=20))
    for number in range(2, 200):
        buffer.append([record(number, kind="delta")])
    buffer.append([record(200, kind="block")])
    assert numbers(result()) == list(range(1, 201))
    assert len(looks) <= 3


def test_a_wait_that_gathers_returns_deltas_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = EventBuffer()
    buffer.append([record(1, kind="delta")])
    looks = counting_looks(buffer, monkeypatch)
    assert numbers(buffer.wait(0, 20, hold=0.05)) == [1]
    assert numbers(in_thread(lambda: buffer.wait(0, 0.05, hold=3_600))()) == [1]
    assert len(looks) <= 8


def test_closing_ends_every_wait_at_once() -> None:
    buffer = EventBuffer()
    waits = [in_thread(lambda: buffer.wait(0, 60)), in_thread(lambda: buffer.wait(0, 60, "r", hold=60))]
    buffer.close()
    assert [result() for result in waits] == [[], []]
    assert buffer.wait(0, 60) == [] and buffer.closed
