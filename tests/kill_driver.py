"""Writes random entries into one session, one acknowledged line on its output for each, until it is killed."""

import random
import sys
from pathlib import Path

from app.protocol.entries import LEAF, CustomEntry, LabelEntry, MessageEntry
from app.protocol.messages import UserMessage
from app.sessions.jsonl import JsonlSessionStore


def main(folder: Path, seed: int, prefix: str) -> None:
    chance = random.Random(seed)
    session = JsonlSessionStore(folder / "sessions", folder / "trash").open("s")
    number = 0
    while True:
        batch = []
        leaf = session.leaf_id
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            number += 1
            base = {"id": f"{prefix}{number}", "parent_id": leaf, "timestamp": "2026-01-02T03:04:05.678Z"}
            kind = chance.random()
            if kind < 0.15 and leaf is not None:
                batch.append(LabelEntry(**base, target_id=leaf, label=f"label {number}"))
            elif kind < 0.25 and len(session.outline):
                target = session.chain_entry(chance.choice(session.outline.ids))
                batch.append(CustomEntry(**{**base, "parent_id": target}, custom_type=LEAF, data={}))
                leaf = target
            else:
                text = "x" * chance.choice((1, 50, 5_000))
                batch.append(MessageEntry(**base, message=UserMessage(content=text)))
                leaf = batch[-1].id
        session.append_all(batch, durable=chance.random() < 0.5)
        print(*(entry.id for entry in batch), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
