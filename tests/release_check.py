"""Build what would be published, install it where nothing else is, and use it as a stranger would.

`make release-check` runs this. The wheels of the runtime dependencies are downloaded to a folder first; the
install itself may look nowhere else.
"""

import http.cookiejar
import json
import os
import queue
import re
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"http://127\.0\.0\.1:\d+/\?token=\S+")
START_SECONDS = 30
ANSWER_SECONDS = 60
STOP_SECONDS = 10


class Failed(Exception):
    """A check that does not hold, in words for the person who runs it."""


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Failed(otherwise)


def command(*args: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(args, cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    require(done.returncode == 0, f"{' '.join(map(str, args))}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def build(out: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel built from that sdist."""
    command(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    (sdist,) = out.glob("hornbook-*.tar.gz")
    (wheel,) = out.glob("hornbook-*.whl")
    return sdist, wheel


def check_sdist(sdist: Path) -> None:
    """It holds every file that git tracks, so that tests and builds need nothing else."""
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    tracked = command("git", "ls-files", "-z", cwd=ROOT).split("\0") if (ROOT / ".git").exists() else []
    lacking = sorted(name for name in tracked if name and name not in held and (ROOT / name).exists())
    require(not lacking, f"tracked files that the sdist lacks: {lacking}")
    require("workspace/README.md" in held, "the sdist lacks the sample workspace")
    notes = [name for name in held if name.startswith("workspace/notes/")]
    require(not notes, f"the sdist holds notes of the person who built it: {notes}")


def check_wheel(wheel: Path) -> None:
    """One package, with pages, scripts and sample inside it."""
    name, version = wheel.name.split("-")[:2]
    with zipfile.ZipFile(wheel) as archive:
        held = archive.namelist()
    tops = {path.partition("/")[0] for path in held}
    require(tops == {"app", f"{name}-{version}.dist-info"}, f"top-level names of the wheel: {sorted(tops)}")
    for folder in ("templates", "static", "workspace"):
        require(any(p.startswith(f"app/bundled/{folder}/") for p in held), f"the wheel lacks {folder}/")
    notes = [path for path in held if path.startswith("app/bundled/workspace/notes/")]
    require(not notes, f"the wheel holds notes of the person who built it: {notes}")


def install(wheel: Path, folder: Path) -> Path:
    """A new environment with the wheel in it, from downloaded wheels only. Returns its Python."""
    wheels = folder / "wheels"
    pip = ("-m", "pip", "--disable-pip-version-check")
    command(sys.executable, *pip, "download", "--only-binary", ":all:", "--dest", wheels, wheel, cwd=folder)
    command(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    env = {**clean_environment(folder), "PIP_CONFIG_FILE": os.devnull}
    command(python, *pip, "install", "--no-index", "--find-links", wheels, "hornbook", cwd=folder, env=env)
    return python


def check_installed(python: Path) -> None:
    """Nothing of ours lies loose in site-packages."""
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(command(python, "-c", where, cwd=python.parent).strip())
    (record,) = packages.glob("hornbook-*.dist-info/RECORD")
    paths = [line.split(",")[0] for line in record.read_text(encoding="utf-8").splitlines()]
    tops = {path.partition("/")[0] for path in paths} - {".."}
    require(tops == {"app", record.parent.name}, f"names put into site-packages: {sorted(tops)}")


def clean_environment(home: Path) -> dict[str, str]:
    """This environment without anything that could lead back to the clone, and with another home."""
    ours = ("HORNBOOK_", "PIP_", "PYTHON", "VIRTUAL_ENV", "XDG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "HOME": str(home)}


@contextmanager
def serving(python: Path, home: Path, env: dict[str, str]) -> Iterator[str]:
    """A running `hornbook serve`; gives the link that it printed."""
    process = subprocess.Popen(
        [python.parent / "hornbook", "serve", "--no-browser", "--port", "0"],
        cwd=home,
        env=env,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    lines: queue.Queue[str | None] = queue.Queue()
    printed: list[str] = []

    def read(stream: Iterator[str]) -> None:
        for line in stream:
            printed.append(line)
            lines.put(line)
        lines.put(None)

    reader = threading.Thread(target=read, args=(process.stdout,), daemon=True)
    reader.start()
    try:
        yield printed_link(lines, printed)
    except Failed as failed:
        raise Failed(f"{failed}\nWhat the server printed:\n{''.join(printed)}") from None
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
            stopped = True
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            stopped = False
        reader.join()
        process.stdout.close()
    require(stopped, f"the server still ran {STOP_SECONDS} s after SIGTERM")


def printed_link(lines: queue.Queue[str | None], printed: list[str]) -> str:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            line = lines.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            raise Failed(f"no link was printed within {START_SECONDS} s") from None
        require(line is not None, "the server ended before it printed a link")
        if found := LINK.search(line or ""):
            return found[0]


class Assets(HTMLParser):
    """The scripts and style sheets that a page asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.styles: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "script" and (source := given.get("src")):
            self.scripts.append(source)
        if tag == "link" and "stylesheet" in (given.get("rel") or "").split() and (target := given.get("href")):
            self.styles.append(target)


def fetch(opener: urllib.request.OpenerDirector, request: str | urllib.request.Request, expected: int = 200):
    url = request if isinstance(request, str) else request.full_url
    path = urllib.parse.urlsplit(url).path
    try:
        response = opener.open(request, timeout=ANSWER_SECONDS)
    except urllib.error.HTTPError as error:
        with error:
            raise Failed(f"{path} answered {error.code}: {error.read(2000)!r}") from None
    except OSError as error:
        raise Failed(f"{path} could not be read: {error}") from None
    require(response.status == expected, f"{path} answered {response.status}, not {expected}")
    return response


def check_pages(link: str) -> str:
    """Follow the printed link as a browser does, open a session, and load what the two pages ask for."""
    no_proxy = urllib.request.ProxyHandler({})
    cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    browser = urllib.request.build_opener(no_proxy, cookies)
    assets = Assets()
    with fetch(browser, link) as response:
        first = response.url
        assets.feed(response.read().decode("utf-8"))
    require("token" not in first, "the token stayed in the page's address")
    new_session = urllib.request.Request(
        urllib.parse.urljoin(first, "sessions"), b"", {"Sec-Fetch-Site": "same-origin"}, method="POST"
    )
    with fetch(browser, new_session) as response:
        require("/sessions/" in response.url, f"a new session led to {response.url}")
        assets.feed(response.read().decode("utf-8"))
    require(bool(assets.scripts and assets.styles), "the pages name no script or no style sheet")
    for asset in dict.fromkeys(assets.scripts + assets.styles):
        with fetch(browser, urllib.parse.urljoin(first, asset)) as response:
            require(bool(response.read()), f"{asset} is empty")
    return f"first page and a session, {len(set(assets.scripts))} scripts, {len(set(assets.styles))} style sheets"


def check_run(link: str, listed: str) -> str:
    """Ask for a listing over the API and read the run's stream to its end."""
    parts = urllib.parse.urlsplit(link)
    base = f"{parts.scheme}://{parts.netloc}"
    token = urllib.parse.parse_qs(parts.query)["token"][0]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    client = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    prompt = json.dumps({"text": "list files"}).encode()
    with fetch(client, urllib.request.Request(f"{base}/api/runs", prompt, headers), expected=201) as response:
        run = json.load(response)["runId"]
    with fetch(client, urllib.request.Request(f"{base}/api/runs/{run}/events", headers=headers)) as response:
        try:
            stream = response.read().decode("utf-8")
        except OSError as error:
            raise Failed(f"the stream of the run did not end: {error}") from None
    events = re.findall(r"^event: ?(\S+)$", stream, re.MULTILINE)
    data = re.findall(r"^data: ?(.+)$", stream, re.MULTILINE)
    require(events.count("run_done") == 1 and events[-1] == "run_done", f"the stream's events were {events}")
    status = json.loads(data[-1])["status"]
    require(status == "done", f"the run ended with the status {status}")
    require(listed in stream, f"the run listed the files and did not mention {listed}")
    return f"a run of {len(events)} events"


def check_use(python: Path, folder: Path, title: str, *, given_folders: bool) -> None:
    """Start the installed command once and go through a first visit."""
    home = folder / title.replace(" ", "-")
    home.mkdir()
    env = clean_environment(home)
    data, listed = home, "how-an-agent-works"
    if given_folders:
        data, workspace, listed = home / "data", home / "course", "apples.md"
        data.mkdir()
        workspace.mkdir()
        (workspace / listed).write_text("# Apples\n\nThey grow on trees.\n", encoding="utf-8")
        env |= {"HORNBOOK_DATA": str(data), "HORNBOOK_WORKSPACE": str(workspace)}
    with serving(python, home, env) as link:
        page = check_pages(link)
        run = check_run(link, listed)
    sessions = [path for path in data.rglob("*.jsonl") if path.parent.name == "sessions"]
    require(bool(sessions), f"no session file was written under {data}")
    print(f"ok: {title}: {page}, {run}")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="hornbook-release-") as name:
        folder = Path(name).resolve()
        try:
            sdist, wheel = build(folder)
            check_sdist(sdist)
            check_wheel(wheel)
            print(f"ok: built {sdist.name} and {wheel.name}")
            python = install(wheel, folder)
            check_installed(python)
            print("ok: installed from downloaded wheels, nothing loose in site-packages")
            check_use(python, folder, "folders given", given_folders=True)
            check_use(python, folder, "platform folders", given_folders=False)
        except Failed as failed:
            print(f"release check failed: {failed}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
