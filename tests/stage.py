"""What the photographed states stand on: a folder of course material, sessions in it, and servers over them.

The sessions that lie still are made in this process, by the same code that a server runs; what must be caught in the
middle of something is made by the servers themselves.
"""

import json
import shutil
import struct
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app import create_app
from app.models.script import Script, ScriptedModel
from app.protocol.codec import decode_as
from app.protocol.entries import MessageEntry
from app.protocol.messages import AssistantMessage
from app.runs.supervisor import Started, Supervisor
from app.settings import Settings, prepare_folders
from tests.running import settle
from tests.server import ROOT, Server, running_server

RANK = r"""# Rank

The **rank** of a matrix is the number of pivots that elimination finds.
A pivot is the first number of a row that is not zero.

## An example

$$A = \begin{pmatrix} 1 & 2 \\ 2 & 4 \end{pmatrix} \longrightarrow \begin{pmatrix} 1 & 2 \\ 0 & 0 \end{pmatrix}$$

One pivot is left, so $\operatorname{rank} A = 1$. A book that costs \$5 is no formula.

| matrix | pivots | rank | null space |
| --- | ---: | ---: | --- |
| $\begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}$ | 2 | 2 | only $0$ |
| $A$ | 1 | 1 | the line through $(2, -1)$ |

```python
import numpy as np

A = np.array([[1, 2], [2, 4]])
print(np.linalg.matrix_rank(A))  # 1
```

![A wave, drawn point by point](wave.png)

1. Swap rows so that a pivot stands on top.
2. Take multiples of it from the rows below.
   - Count what is left.
"""
SPAN_ZH = r"""# 张成与秩

矩阵的**秩**等于它的*主元个数*，写作 $\operatorname{rank}(A)$。列空间的维数也是秩：

$$\dim \operatorname{Col} A + \dim \operatorname{Nul} A = n$$

> 行变换不改变秩。先消元，再数主元。

1. 把矩阵化为阶梯形；
2. 数一数主元，例如 `np.linalg.matrix_rank(A)`。
"""
ELIMINATE = '''"""Gaussian elimination, step by step."""


def eliminate(rows: list[list[float]]) -> list[list[float]]:
    rows = [row[:] for row in rows]
    for column in range(len(rows[0])):
        pivot = next((row for row in rows[column:] if abs(row[column]) > 1e-12), None)
        if pivot is None:
            continue  # nothing to divide by: this column has no pivot and is free, whatever the rows below say about it
        for row in rows[column + 1 :]:
            factor = row[column] / pivot[column]
            row[:] = [value - factor * above for value, above in zip(row, pivot, strict=True)]
    return rows
'''
EXPLAINED = r"""Elimination leaves **one pivot** here, so the rank is 1. The lesson says it like this:

> The number of pivots is the rank. [2-rank.md:3](linear-algebra/2-rank.md)

$$\begin{pmatrix} 1 & 2 \\ 2 & 4 \end{pmatrix} \xrightarrow{R_2 - 2R_1} \begin{pmatrix} 1 & 2 \\ 0 & 0 \end{pmatrix}$$

In general $\operatorname{rank} A + \dim \operatorname{Nul} A = n$, and for the sum

$$\sum_{k=1}^{n} \lambda_k^2 = \operatorname{tr}(A^2) \qquad \int_0^1 x^2 \, dx = \frac{1}{3}$$

### The same in code

```python
def rank(rows: list[list[float]]) -> int:
    return sum(any(abs(value) > 1e-12 for value in row) for row in eliminate(rows))  # counts rows that are not all zero
```

| step | what is done | rows that are left |
| --- | --- | ---: |
| 1 | divide the first row by its pivot | 2 |
| 2 | take twice the first row from the second | 1 |

- A pivot is never zero.
- Swapping rows changes the *sign* of $\det A$, not the rank. It costs \$0.
"""
EXPLAINED_ZH = r"""可以这样看：矩阵 $A$ 的第二行是第一行的*两倍*，所以消元以后只剩**一个主元**。

1. 秩是 1，即 $\operatorname{rank}(A)=1$；
2. 零空间是一条直线，由向量 $(2,-1)$ 张成。

> 行变换不改变秩。先消元，再数主元。

用 Python 验证时，`np.linalg.matrix_rank(A)` 返回 `1`。
"""
STREAMED = (
    "Think of the columns as arrows. Two arrows that point the same way reach only a line, so the rank is 1.\n\n"
    "- The first arrow is $(1, 2)$.\n- The second one is twice as long, and points the same way.\n\n"
    "```python\nfirst, second = (1, 2), (2, 4)\n```\n\n"
    "What the two of them can reach together is called their span, and here it is "
)
STREAMED_END = "called their span"
UNBROKEN = "an-answer-that-was-cut-off-" * 6


@dataclass
class Stage:
    """Servers and what lies on them.

    ``main`` has sessions and courses, ``first`` nothing yet, ``reader`` is a second server over the data of ``main``.
    ``names`` are the ids of sessions and entries that addresses of states name.
    """

    main: Server
    first: Server
    reader: Server
    names: dict[str, str] = field(default_factory=dict)


@contextmanager
def built_stage(folder: Path) -> Iterator[Stage]:
    """Makes everything in an empty folder, yields it, and ends the servers."""
    study, sample = folder / "study", folder / "sample"
    for workspace in (study, sample):
        shutil.copytree(ROOT / "workspace", workspace, ignore=shutil.ignore_patterns("notes"))
    make_course(study / "linear-algebra")
    script = folder / "script.json"
    script.write_text(json.dumps(streaming_script()), "utf-8")
    model = f"script:{script}"
    names = make_sessions(study, folder / "data")
    names["interrupted"] = make_interrupted(study, folder / "data", model)
    with ExitStack() as servers:
        main = servers.enter_context(running_server(data=folder / "data", workspace=study, model=model))
        first = servers.enter_context(running_server(data=folder / "first", workspace=sample))
        make_running(main, names)
        # Who writes first is the writer: the second server then finds the session taken.
        main.request("PATCH", f"/api/sessions/{names['lesson']}", {"name": "Week 3: rank"})
        reader = servers.enter_context(running_server(data=folder / "data", workspace=study, model=model))
        yield Stage(main, first, reader, names)


def make_course(folder: Path) -> None:
    """Writes a course with Markdown, mathematics, code, a picture, Chinese, and files that are not read."""
    folder.mkdir()
    (folder / "1-vectors.md").write_text("# Vectors\n\nAn arrow $v = (v_1, v_2)$.\n", "utf-8")
    (folder / "2-rank.md").write_text(RANK, "utf-8")
    (folder / "3-张成与秩.md").write_text(SPAN_ZH, "utf-8")
    (folder / "eliminate.py").write_text(ELIMINATE, "utf-8")
    (folder / "wave.png").write_bytes(wave_png())
    (folder / "scan.pdf").write_bytes(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    (folder / "old.txt").write_bytes("R\u00e9sum\u00e9 of week 2".encode("latin-1"))
    (folder / "measured.bin").write_bytes(bytes(range(256)))


def wave_png(width: int = 480, height: int = 160) -> bytes:
    """Returns a picture of a triangle wave in eight-bit grey."""
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        for x in range(width):
            wave = abs(x % 160 - 80) * (height - 24) // 80 + 12
            rows.append(40 if abs(y - wave) < 2 else 170 if x % 80 == 0 or y % 40 == 0 else 240)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(rows))), (b"IEND", b""))
    packed = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def streaming_script() -> dict[str, Any]:
    """The model of the running server: it reads a file, begins to answer, and falls silent in mid-sentence."""
    look = {
        "text": "",
        "toolCalls": [call("read_file", path="linear-algebra/2-rank.md"), call("search_files", query="pivot")],
    }
    thought, chunk = "The learner knows arrows already.", 6
    # One piece short of the end, so that the last block stays open.
    deltas = -(-len(thought) // chunk) + -(-len(STREAMED) // chunk) - 1
    fault = {"kind": "hang", "afterDeltas": deltas}
    begin = {"thinking": thought, "text": STREAMED, "chunk": chunk, "fault": fault}
    return {"name": "Scripted", "turns": [look], "after": begin}


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}


class Teller:
    """Holds conversations with scripted turns in this process."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor

    def session(self, name: str) -> str:
        return self.supervisor.create(name).id

    def say(self, session_id: str, text: str, *turns: dict[str, Any]) -> None:
        """Sends a message and lets the model play ``turns`` in answer to it."""
        messages = self.supervisor.open(session_id).snapshot().messages
        played = sum(isinstance(message, AssistantMessage) for message in messages)
        script = {"turns": [{}] * played + [{"chunk": 24, "delayMs": 1, **turn} for turn in turns]}
        model = ScriptedModel(decode_as(json.dumps(script).encode(), Script))
        self.supervisor.equipment = replace(self.supervisor.equipment, model=model)
        begun = self.supervisor.prompt(session_id, text)
        assert isinstance(begun, Started)
        settle(begun.run)

    def answers(self, session_id: str) -> list[str]:
        """Returns the ids of the entries on the path that hold an answer."""
        path = self.supervisor.open(session_id).session.path()
        return [
            entry.id
            for entry in path
            if isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage)
        ]


def make_sessions(workspace: Path, data: Path) -> dict[str, str]:
    """Holds the conversations that lie still, and returns the ids by which states name them."""
    settings = Settings(workspace=workspace, data=data)
    prepare_folders(settings)
    supervisor: Supervisor = create_app(settings).extensions["hornbook"].supervisor
    try:
        return tell_all(Teller(supervisor))
    finally:
        supervisor.close()


def tell_all(teller: Teller) -> dict[str, str]:
    names: dict[str, str] = {}
    names["failed"] = tell_failed(teller)
    names["tree"] = tell_tree(teller)
    tree = teller.supervisor.open(names["tree"], to_write=True)
    names["tree_leaf"] = str(tree.session.leaf_id)
    for at, kind in enumerate(tree.session.outline.kinds):
        if kind == "user":
            asked = tree.session.outline.ids[at]
            tree.label(asked, f"way {at}" if at % 2 else "how it began")
            if not tree.session.outline.is_above(at, tree.session.outline.leaf):
                names["tree_node"] = asked
    tree.mark_main_line(names["tree_leaf"])
    names["summed"] = tell_summed(teller)
    names["guarded"] = tell_guarded(teller)
    names["moved"] = tell_short(teller, "Eigenvalues")
    first_answer = teller.answers(names["moved"])[0]
    teller.supervisor.open(names["moved"], to_write=True).move(first_answer)
    names["deleted"] = tell_short(teller, "Notation, to be thrown away")
    names["empty"] = teller.session("")
    names["lesson"] = tell_lesson(teller)
    names["answer"] = teller.answers(names["lesson"])[1]
    return names


def tell_lesson(teller: Teller) -> str:
    session = teller.session("Week 3: rank")
    look = {
        "toolCalls": [
            call("read_file", path="linear-algebra/2-rank.md", offset=1, limit=12),
            call("search_files", query="pivot"),
        ]
    }
    teller.say(
        session,
        "Why is the rank of this matrix 1?\n\n[1 2]\n[2 4]",
        {
            "text": "Looking at what the lesson says.",
            "thinking": "Rank by pivots; the lesson has this very matrix.",
            **look,
        },
        {"text": EXPLAINED},
    )
    teller.say(
        session,
        "可以用中文再解释一遍吗？",
        {"toolCalls": [call("read_file", path="linear-algebra/3-张成与秩.md")]},
        {"text": EXPLAINED_ZH},
    )
    return session


def tell_guarded(teller: Teller) -> str:
    session = teller.session("What is allowed")
    asked = [
        call("list_files"),
        call("write_note", name="secret-plan", content="The pivots of week 3."),
        call("read_file", path="linear-algebra/9-missing.md"),
        call("read_file", path="linear-algebra/2-rank.md", offset="first"),
        call("write_note", name="pivots", content="# Pivots\n\nCount them: that is the rank.\n"),
    ]
    teller.say(
        session,
        "Look around and write down what matters.",
        {"text": "Looking, and writing it down.", "toolCalls": asked},
        {"text": "The note stands in `notes/pivots.md`. The one with a secret name was not written."},
    )
    return session


def tell_tree(teller: Teller) -> str:
    session = tell_short(teller, "Three ways to see a determinant")
    first = teller.answers(session)[0]
    for question, answer in (
        ("By cofactors?", "Expand along a row: $\\det A = \\sum_j a_{1j} C_{1j}$."),
        ("Explain it with a picture instead", "It is the area that the two columns span."),
    ):
        teller.supervisor.open(session, to_write=True).move(first)
        teller.say(
            session,
            question,
            {"toolCalls": [call("search_files", query="det"), call("list_files")]},
            {"text": answer},
        )
    return session


def tell_summed(teller: Teller) -> str:
    """A branch that was left with a summary, and older parts that were summarised."""
    session = tell_short(teller, "Rank, the long way")
    live = teller.supervisor.open(session, to_write=True)
    first = teller.answers(session)[0]
    begun = teller.supervisor.move(session, first, summary=True)
    assert isinstance(begun, Started)
    settle(begun.run)
    for number in range(14):
        teller.say(session, f"And step {number + 1}?", {"text": "Subtract the row above. " * 260})
    begun = teller.supervisor.compact(live.id)
    settle(begun.run)
    return session


def tell_short(teller: Teller, name: str) -> str:
    session = teller.session(name)
    for text, answer in (
        ("What should I know first?", "How to take one row from another."),
        ("And then?", "What a pivot is, and that there are at most $n$ of them."),
    ):
        teller.say(session, text, {"text": answer})
    return session


def tell_failed(teller: Teller) -> str:
    session = teller.session(UNBROKEN)
    fault = {"kind": "error", "message": "the model server closed the connection", "afterDeltas": 4}
    teller.say(
        session,
        f"See https://example.org/{UNBROKEN} first.",
        {"text": "The page begins with a list of every number", "fault": fault},
    )
    return session


def make_interrupted(workspace: Path, data: Path, model: str) -> str:
    """Returns a session whose server was killed while it answered."""
    with running_server(data=data, workspace=workspace, model=model) as server:
        session = server.post("/api/sessions", {"name": "Cut off in mid-answer"}).json["sessionId"]
        start(server, session, "What does a pivot tell me?")
        server.kill()
    return session


def make_running(server: Server, names: dict[str, str]) -> None:
    """Starts what goes on while it is looked at: an answer, one with messages behind it, one stopped with some."""
    for name, title, queued, stopped in (
        ("streaming", "Span, with arrows", 0, False),
        ("queued", "Null space", 2, False),
        ("returned", "Column space", 2, True),
    ):
        session = names[name] = server.post("/api/sessions", {"name": title}).json["sessionId"]
        run = start(server, session, "Explain it with arrows, and step by step.")
        for text in ("And what if the arrows are equal?", "请再举一个例子。")[:queued]:
            server.post("/api/runs", {"sessionId": session, "text": text, "queue": True})
        if stopped:
            server.post(f"/api/runs/{run}/abort", {})


def start(server: Server, session: str, text: str) -> str:
    """Sends a message, waits until the answer stands at its last words, and returns the run's id."""
    run: str = server.post("/api/runs", {"sessionId": session, "text": text}).json["runId"]
    heard = ""
    with server.stream(f"/api/runs/{run}/events") as events:
        for line in events:
            if line.startswith(b"data:") and b'"text_delta"' in line:
                heard += json.loads(line[5:])["assistantMessageEvent"]["delta"]
                if STREAMED_END in heard:
                    return run
            if line.startswith(b":") and heard:
                break  # a heartbeat: nothing more comes
    raise AssertionError(f"The answer ended early: {heard!r}")
