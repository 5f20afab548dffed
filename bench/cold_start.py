"""How long Hornbook takes from its start to its first page, and what it keeps in memory.

Compared, in the same run, with a bare Flask hello under the same server. Claims: at most 2.5 times as long, at
most 60 MB resident after two answers, and no library that was not needed is imported.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from servers import ROOT, bare_flask, hornbook

ROUNDS = 5
NOT_YET = ("regex", "platformdirs", "openai", "anthropic", "textual", "pygments", "bleach", "markdown_it", "hypothesis")


def main() -> None:
    ours: list[float] = []
    bare: list[float] = []
    resident = 0.0
    for _ in range(ROUNDS):
        with bare_flask() as server:
            bare.append(server.seconds_to_first_answer)
        with tempfile.TemporaryDirectory() as folder, hornbook(Path(folder)) as server:
            ours.append(server.seconds_to_first_answer)
            for text in ("list files", "read README.md"):
                body = json.dumps({"text": text}).encode()
                with urllib.request.urlopen(server.request("api/prompt", body)) as answer:
                    assert json.load(answer)["status"] == "done"
            resident = max(resident, server.resident_megabytes())
    ratio = statistics.median(ours) / statistics.median(bare)
    print(
        f"start to first 200, median of {ROUNDS}: Hornbook {statistics.median(ours):.2f} s, bare Flask hello "
        f"{statistics.median(bare):.2f} s, ratio {ratio:.2f} (claim: at most 2.5)"
    )
    print(f"resident after two answers: {resident:.1f} MB (claim: at most 60)")
    print(f"imported before they are needed: {', '.join(_imported_early()) or 'none'} (claim: none)")


def _imported_early() -> list[str]:
    code = (
        "import sys, tempfile, pathlib\n"
        "from app.settings import Settings, prepare_folders\n"
        "from app import create_app, cli\n"
        "data = pathlib.Path(tempfile.mkdtemp())\n"
        "settings = Settings(workspace=pathlib.Path('workspace').absolute(), data=data)\n"
        "prepare_folders(settings)\n"
        "app = create_app(settings)\n"
        "app.test_client().get('/')\n"
        f"print(' '.join(name for name in {NOT_YET!r} if name in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


if __name__ == "__main__":
    main()
