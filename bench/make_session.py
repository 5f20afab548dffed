"""Writes a session file of any length, the same for the same seed: turns with tools, branches, labels, compactions.

python bench/make_session.py 100000 > session.jsonl
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

TOPICS = ("rank", "pivot", "span", "null space", "basis", "eigenvalue", "trace", "determinant", "秩", "主元")
SENTENCE = "the rank of a matrix is the number of its pivots so a row that is a multiple of another adds none to it"
BRANCHING = 0.004
"""How many of the turns begin at an earlier point."""
LABELLED = 0.01
COMPACTED_EVERY = 1_500
"""Entries between two compactions of a branch."""
KEPT = 40
"""Entries that a compaction keeps."""


def lines(count: int, seed: int = 1) -> Iterator[str]:
    """Yields the header and ``count`` entries as lines of JSON, without line ends."""
    maker = _Maker(random.Random(seed))
    header = {"type": "session", "version": 3, "id": f"bench-{count}-{seed}", "timestamp": maker.time(), "cwd": "/"}
    yield json.dumps(header)
    for number, entry in enumerate(maker.entries()):
        if number == count:
            return
        yield json.dumps(entry, ensure_ascii=False, separators=(",", ":"))


class _Maker:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._clock = datetime(2026, 1, 5, 8, tzinfo=UTC)
        self._leaf: str | None = None
        self._parents: dict[str, str | None] = {}
        self._answers: list[str] = []
        self._since: dict[str | None, int] = {None: 0}
        self._number = 0
        self._words = SENTENCE.split()

    def time(self) -> str:
        self._clock += timedelta(seconds=self._chance.randint(1, 40))
        return self._clock.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def entries(self) -> Iterator[dict[str, object]]:
        while True:
            if self._answers and self._chance.random() < BRANCHING:
                self._leaf = self._chance.choice(self._answers[-2_000:])
            yield from self._turn()
            if self._chance.random() < LABELLED:
                yield self._side("label", targetId=self._leaf, label=f"{self._topic()} {self._number}")
            if self._since[self._leaf] >= COMPACTED_EVERY:
                yield self._compaction()

    def _turn(self) -> Iterator[dict[str, object]]:
        topic = self._topic()
        question = {"type": "text", "text": f"What is {topic}? {self._text(12)}"}
        yield self._message({"role": "user", "content": [question]})
        for _ in range(self._chance.choice((0, 1, 1, 2))):
            call = f"call-{self._number}"
            path = f"week{self._chance.randint(1, 9)}/{topic}.md"
            asked = {"type": "toolCall", "id": call, "name": "read_file", "arguments": {"path": path}}
            yield self._answer([{"type": "text", "text": "Let me look."}, asked], "toolUse")
            result = [{"type": "text", "text": "\n".join(self._text(10) for _ in range(self._chance.randint(1, 30)))}]
            yield self._message(
                {"role": "toolResult", "toolCallId": call, "toolName": "read_file", "content": result, "isError": False}
            )
        yield self._answer([{"type": "text", "text": f"**{topic}**: {self._text(60)}"}], "stop")
        assert self._leaf is not None
        self._answers.append(self._leaf)

    def _answer(self, content: list[dict[str, object]], stop: str) -> dict[str, object]:
        return self._message({"role": "assistant", "content": content, "stopReason": stop, "model": "bench"})

    def _message(self, message: dict[str, object]) -> dict[str, object]:
        stamped = {**message, "timestamp": int(self._clock.timestamp() * 1000)}
        return self._chain("message", message=stamped)

    def _compaction(self) -> dict[str, object]:
        kept = self._leaf
        for _ in range(KEPT):
            above = self._parents[kept] if kept is not None else None
            kept = above if above is not None else kept
        entry = self._chain("compaction", summary=self._text(120), firstKeptEntryId=kept, tokensBefore=24_000)
        self._since[self._leaf] = 0
        return entry

    def _chain(self, kind: str, **fields: object) -> dict[str, object]:
        entry = self._side(kind, **fields)
        entry_id = str(entry["id"])
        self._parents[entry_id] = self._leaf
        self._since[entry_id] = self._since[self._leaf] + 1
        self._leaf = entry_id
        return entry

    def _side(self, kind: str, **fields: object) -> dict[str, object]:
        self._number += 1
        entry_id = f"{self._number:08x}"
        return {"type": kind, "id": entry_id, "parentId": self._leaf, "timestamp": self.time(), **fields}

    def _topic(self) -> str:
        return self._chance.choice(TOPICS)

    def _text(self, words: int) -> str:
        return " ".join(self._chance.choice(self._words) for _ in range(words))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, help="entries beside the header")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for line in lines(given.count, given.seed):
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
