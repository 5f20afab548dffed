"""The command line: what it prints, which port it takes, how it ends, and what it does not load."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.settings import DEFAULT_PORT
from tests.server import ROOT, SECONDS, Server, clean_environment, hornbook, running_server
from tests.support import SILENT
from tests.web.helpers import parse_stream


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@contextmanager
def taken_port() -> Iterator[int]:
    """Yields a port that somebody listens on, with the next one free."""
    while True:
        with socket.socket() as listener, socket.socket() as next_one:
            listener.bind(("127.0.0.1", 0))
            port: int = listener.getsockname()[1]
            try:
                next_one.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            next_one.close()
            listener.listen()
            yield port
            return


def python(code: str) -> str:
    """Runs code in a fresh interpreter and returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# Start


def test_the_start_prints_link_what_is_read_what_is_written_and_how_to_stop(data: Path, workspace: Path) -> None:
    with running_server(data=data, workspace=workspace) as server:
        lines = server.output().splitlines()
        assert lines[0] == f"Hornbook is open at http://127.0.0.1:{server.port}/?token={server.token}"
        rest = {line.split()[0]: line for line in lines[1:]}
        assert str(workspace) in rest["reads"]
        assert str(workspace / "notes") in rest["writes"] and str(data) in rest["writes"]
        assert "Ctrl+C" in rest["stop"]
        assert server.port != 0
        assert server.get("/api/health").json["ok"] is True
        assert (data / "token").read_text("ascii").strip() == server.token


def test_hornbook_alone_serves(data: Path, workspace: Path) -> None:
    with running_server(data=data, workspace=workspace, command=()) as server:
        assert server.get("/", headers=server.cookie).status == 200


def test_the_token_can_come_from_the_environment(data: Path, workspace: Path) -> None:
    with running_server(data=data, workspace=workspace, HORNBOOK_TOKEN="my own & only") as server:
        assert server.token == "my own & only"
        assert server.get("/api/session").status == 200
        assert not (data / "token").exists()


def test_a_server_on_ipv6_is_reached_by_its_link(data: Path, workspace: Path) -> None:
    if not can_listen_on_ipv6():
        pytest.skip("this machine has no IPv6")
    with running_server("--host", "::1", data=data, workspace=workspace) as server:
        assert server.link.startswith("http://[::1]:")
        assert server.get(f"/?token={server.token}", headers={}).status == 303
        assert server.get("/", headers=server.cookie).status == 200


def can_listen_on_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as listener:
            listener.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_the_help_names_commands_and_options() -> None:
    top, serve = hornbook("--help"), hornbook("serve", "--help")
    assert (top.returncode, serve.returncode) == (0, 0)
    assert "serve" in top.stdout and "link" in top.stdout
    assert str(DEFAULT_PORT) in serve.stdout and "--allow-remote" in serve.stdout


# Ports


def test_the_next_free_port_is_used_where_one_is_taken(data: Path, workspace: Path) -> None:
    with taken_port() as port, running_server(data=data, workspace=workspace, port=port) as server:
        assert server.port > port
        assert server.get("/api/health").json["ok"] is True
        link = hornbook("link", "--data", str(data))
        assert link.stdout.strip() == server.link


def test_link_prints_the_address_last_used_and_a_port_that_is_given_before(data: Path) -> None:
    data.mkdir()
    (data / "address").write_text("::1 5005\n", "utf-8")
    assert hornbook("link", "--data", str(data)).stdout.startswith("http://[::1]:5005/?token=")
    named = hornbook("link", "--data", str(data), "--port", "6006")
    assert named.stdout.startswith("http://[::1]:6006/?token=")
    (data / "address").write_text("nonsense", "utf-8")
    assert hornbook("link", "--data", str(data)).stdout.startswith(f"http://127.0.0.1:{DEFAULT_PORT}/?token=")


def test_link_works_where_the_server_may_be_reached_by_others(data: Path) -> None:
    data.mkdir()
    (data / "hornbook.toml").write_text('host = "192.168.0.7"\n', "utf-8")
    shown = hornbook("link", "--new", "--data", str(data))
    assert shown.stdout.startswith(f"http://192.168.0.7:{DEFAULT_PORT}/?token=")
    refused = hornbook("serve", "--data", str(data))
    assert refused.returncode == 2 and "--allow-remote" in refused.stderr


# What cannot be used


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workspace", "{tmp}/nowhere"], "nowhere"),
        (["--workspace", "{tmp}/file"], "is not a folder"),
        (["--data", "{tmp}/file"], "file"),
        (["--data", "{tmp}/file/below"], "file"),
        (["--workspace", "~nobody-of-that-name"], "workspace"),
        (["--port", "many"], "port"),
        (["--port", "65536"], "port"),
        (["--host", "0.0.0.0"], "--allow-remote"),
        (["--host", "192.0.2.1", "--allow-remote"], "192.0.2.1"),
        (["--host", "é" * 80, "--allow-remote"], "é" * 80),
        (["--model", "oracle"], "oracle"),
        (["--model", "script:{tmp}/nowhere.json"], "nowhere.json"),
        (["--model", "script:{tmp}/file"], "file"),
        (["--colour", "red"], "--colour"),
    ],
)
def test_what_cannot_be_used_is_named_and_ends_with_code_2(
    tmp_path: Path, workspace: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "file").write_text("in the way", "utf-8")
    given = [argument.format(tmp=tmp_path) for argument in arguments]
    defaults = {"--workspace": str(workspace), "--data": str(tmp_path / "data"), "--port": "0"}
    rest = [part for name, value in defaults.items() if name not in given for part in (name, value)]
    done = hornbook("serve", "--no-browser", *given, *rest)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert (tmp_path / "file").read_text("utf-8") == "in the way"


def test_a_bad_settings_file_ends_every_command_with_code_2(data: Path) -> None:
    data.mkdir()
    (data / "hornbook.toml").write_text("colour = 1\n", "utf-8")
    for command in ("serve", "link"):
        done = hornbook(command, "--data", str(data))
        assert (done.returncode, done.stdout) == (2, "")
        assert "colour" in done.stderr and "Traceback" not in done.stderr


def test_a_token_that_cannot_be_kept_ends_with_code_2(data: Path, workspace: Path) -> None:
    (data / "token").mkdir(parents=True)
    for arguments in (["serve", "--no-browser", "--port", "0", "--workspace", str(workspace)], ["link"]):
        done = hornbook(*arguments, "--data", str(data))
        assert done.returncode == 2
        assert "token" in done.stderr and "Traceback" not in done.stderr


def test_a_token_of_the_environment_cannot_be_renewed(data: Path) -> None:
    done = hornbook("link", "--new", "--data", str(data), HORNBOOK_TOKEN="mine")
    assert (done.returncode, done.stdout) == (2, "")
    assert "HORNBOOK_TOKEN" in done.stderr
    assert not (data / "token").exists()


# End


def run_with_silence(server: Server) -> tuple[str, str]:
    """Starts a run whose model falls silent; returns the ids of run and session."""
    answer = server.post("/api/runs", {"text": "q"}).json
    return answer["runId"], answer["sessionId"]


def test_sigterm_ends_open_streams_properly_and_the_process_with_0(
    data: Path, workspace: Path, script: Callable[..., str]
) -> None:
    with running_server(data=data, workspace=workspace, model=script(SILENT)) as server:
        run_id, session_id = run_with_silence(server)
        with (
            server.stream(f"/api/runs/{run_id}/events") as run,
            server.stream(f"/sessions/{session_id}/stream") as page,
        ):
            begun = [run.readline(), page.readline()]
            server.process.terminate()
            # http.client raises IncompleteRead unless the last chunk and its end mark came.
            rest = run.read()
            assert "run_done" not in [event.event for event in parse_stream(begun[0] + rest)]
            assert parse_stream(begun[1] + page.read())
            assert server.wait() == 0
        assert "Traceback" not in server.output()
        assert "still running" not in server.output()
        assert server.output().splitlines()[-1].startswith("Hornbook has stopped.")


def test_a_prompt_that_waits_when_the_server_stops_is_told_so(
    data: Path, workspace: Path, script: Callable[..., str]
) -> None:
    with running_server(data=data, workspace=workspace, model=script(SILENT)) as server:
        connection = server.connect()
        body = b'{"text": "q"}'
        connection.request("POST", "/api/prompt", body, {**server.bearer(), "Content-Type": "application/json"})
        shape = server.get("/api/session").json
        while shape["state"] != "running":
            shape = server.get("/api/session").json
        assert server.terminate() == 0
        with connection.getresponse() as response:
            assert (response.status, json.load(response)["reason"]) == (503, "stopping")
        connection.close()
    with running_server(data=data, workspace=workspace, model=script(SILENT)) as server:
        about = server.get(f"/api/sessions/{shape['sessionId']}").json
        assert about["interrupted"] == shape["events"][0]["runId"]


# What is loaded


def test_the_vocabulary_and_the_package_load_no_web() -> None:
    loaded = "import sys; {}; print(sorted(m for m in sys.modules if m.partition('.')[0] in {}))"
    web = "('flask', 'werkzeug', 'jinja2', 'waitress')"
    assert python(loaded.format("import app.protocol, app.protocol.codec, app.protocol.events", web)) == "[]"
    assert python(loaded.format("import app.agent.loop, app.runs.supervisor, app.models.catalogue", web)) == "[]"
    assert python(loaded.format("from app import create_app", web)) == "[]"
    assert python("import sys; from app import create_app; print('app.web' in sys.modules)") == "False"
    assert python(loaded.format("import app.web", "('flask',)")) != "[]"


def test_a_started_server_has_loaded_nothing_that_it_does_not_use_yet(data: Path, workspace: Path) -> None:
    code = f"""
import sys
import app.cli

def announced(*_):
    print(" ".join(sorted({{name.partition(".")[0] for name in sys.modules}})))
    sys.exit()

app.cli.announce = announced
sys.exit(app.cli.main(
    ["serve", "--port", "0", "--no-browser", "--data", {str(data)!r}, "--workspace", {str(workspace)!r}]))
"""
    loaded = set(python(code).split())
    assert {"flask", "waitress", "msgspec"} <= loaded
    unwanted = {"platformdirs", "regex", "openai", "anthropic", "httpx", "requests", "textual", "rich", "playwright"}
    assert loaded & unwanted == set()
