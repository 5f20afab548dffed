"""The command line: ``hornbook serve`` (the default) and ``hornbook link``."""

import argparse
import errno
import os
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.access import TokenFile, link
from app.session_commands import FORMATS, export_session, import_files
from app.sessions.store import StoreError
from app.settings import MAX_WAITING, Settings, SettingsError, check_host, load_settings, prepare_folders

PORTS_TO_TRY = 100
COMMANDS = ("serve", "link", "import", "export")


def parser() -> argparse.ArgumentParser:
    """Returns the parser of all commands and options."""
    top = argparse.ArgumentParser(prog="hornbook", description="A self-hosted tutor that you can watch think.")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    serve = commands.add_parser("serve", help="start the server (the default)")
    serve.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    serve.add_argument("--port", help="port to listen on (default 4317, the next free one if taken; 0: any)")
    serve.add_argument("--workspace", metavar="FOLDER", help="folder of course material to teach from")
    serve.add_argument("--data", metavar="FOLDER", help="folder for sessions, runs, trash and token")
    serve.add_argument("--model", help="who teaches: offline, or script:FILE")
    serve.add_argument("--allow-remote", action="store_true", help="allow a --host that others can reach")
    serve.add_argument("--no-browser", action="store_true", help="do not open the browser")
    show = commands.add_parser("link", help="print the link that opens Hornbook")
    show.add_argument("--new", action="store_true", help="make a new token; the old link stops working")
    show.add_argument("--data", metavar="FOLDER", help="folder for sessions, runs, trash and token")
    show.add_argument("--port", help="port that the server listens on (default 4317)")
    take = commands.add_parser("import", help="take in session files of Pi, of other copies, of older formats")
    take.add_argument("files", nargs="+", metavar="FILE", help="a session file (.jsonl)")
    take.add_argument("--json", action="store_true", help="print one JSON object for each file")
    take.add_argument("--data", metavar="FOLDER", help="folder for sessions, runs, trash and token")
    give = commands.add_parser("export", help="write a session, or one branch of it, as a file")
    give.add_argument("session", metavar="SESSION", help="an id, the beginning of one, or a name")
    give.add_argument("--format", choices=FORMATS, default="jsonl", help="jsonl (the file itself), markdown, or html")
    give.add_argument("--branch", metavar="ENTRY", default="", help="only the way to this entry")
    give.add_argument("--slim", action="store_true", help="without what tools gave and what the model thought")
    give.add_argument("--output", metavar="FILE", help="where to write it (default: standard output)")
    give.add_argument("--data", metavar="FOLDER", help="folder for sessions, runs, trash and token")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code: 0, or 2 for something that the user has to mend."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or (given[0] not in COMMANDS and given[0] not in ("-h", "--help")):
        given.insert(0, "serve")
    options = vars(parser().parse_args(given))
    try:
        settings = load_settings(options, os.environ)
        if options["command"] == "serve":
            return serve(settings)
        if options["command"] == "import":
            return import_files(settings, options["files"], as_json=options["json"])
        if options["command"] == "export":
            chosen = {"kind": options["format"], "entry_id": options["branch"], "slim": options["slim"]}
            return export_session(settings, options["session"], output=options["output"], **chosen)
        return print_link(settings, new=options["new"], port_given=options["port"] is not None)
    except BrokenPipeError:  # who read the output has seen enough
        sys.stderr.close()
        return 0
    except (SettingsError, StoreError, OSError) as problem:
        print(f"hornbook: {problem}", file=sys.stderr)
        return 2


def print_link(settings: Settings, *, new: bool, port_given: bool) -> int:
    """Prints the link, with ``new`` after making a new token.

    Host and port are those of the last server; a port that is given as a flag (``port_given``) counts before.
    """
    token_file = TokenFile(settings.data, settings.token)
    if new and settings.token is not None:
        raise SettingsError("HORNBOOK_TOKEN sets the token, so no new one can be made. Change the variable instead.")
    token = token_file.renew() if new else token_file.current()
    host, port = _last_address(settings.data) or (settings.host, settings.port)
    print(link(host, settings.port if port_given else port, token))
    return 0


def serve(settings: Settings) -> int:
    """Serves until SIGINT or SIGTERM. Streams are ended first, so that pages reconnect by themselves."""
    check_host(settings)
    prepare_folders(settings)
    listener, settings = listen(settings)
    from app.web import build_app

    token_file = TokenFile(settings.data, settings.token)
    settings = replace(settings, token=token_file.current())
    try:
        app = build_app(settings, token_file.current)
    except ValueError as problem:
        raise SettingsError(str(problem)) from problem
    server = _server(app, listener, settings)
    supervisor = app.extensions["hornbook"].supervisor
    stop = threading.Event()

    def end(signum: int, frame: Any) -> None:
        if not stop.is_set():
            stop.set()
            # First of all, since the server waits for its threads and each open stream holds one.
            supervisor.close()
            raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    address = link(settings.host, settings.port, settings.token)
    _remember_address(settings)
    announce(settings, address, supervisor.equipment.model.name)
    if settings.open_browser:
        open_browser(address)
    try:
        server.run()
    except KeyboardInterrupt:
        pass
    finally:
        supervisor.close()
        server.task_dispatcher.shutdown(timeout=1)
        server.close()
    print("Hornbook has stopped. What was stored stays in", settings.data)
    return 0


def _server(app: Any, listener: socket.socket, settings: Settings) -> Any:
    """Returns the HTTP server; each open stream and each request that waits holds one of its threads."""
    from waitress import create_server

    from app.web.refusals import Channel
    from app.web.security import MAX_UPLOAD_BYTES

    server = create_server(
        app,
        sockets=[listener],
        threads=settings.max_streams + MAX_WAITING + 16,
        connection_limit=settings.max_streams + 200,
        asyncore_use_poll=True,
        channel_timeout=300,
        channel_request_lookahead=1,
        max_request_body_size=MAX_UPLOAD_BYTES + 1_048_576,
        ident=None,
    )
    server.channel_class = Channel
    return server


def listen(settings: Settings) -> tuple[socket.socket, Settings]:
    """Returns a bound socket and the settings with its port: the one asked for, else the next free one.

    Raises SettingsError when the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    last = settings.port + (PORTS_TO_TRY if settings.port else 1)
    for port in range(settings.port, min(last, 65536)):
        listener = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host, port))
            listener.listen(256)
        except (OSError, OverflowError, TypeError) as problem:
            listener.close()
            if getattr(problem, "errno", None) not in _TAKEN:
                raise SettingsError(f"Cannot listen on {settings.host} port {port}: {problem}") from problem
            continue
        return listener, replace(settings, port=listener.getsockname()[1])
    raise SettingsError(f"No free port from {settings.port} to {last - 1}. Give another with --port.")


_TAKEN = (errno.EADDRINUSE, 10048, 10013)
"""In use; and, on Windows, in use (WSAEADDRINUSE) or reserved (WSAEACCES)."""


def announce(settings: Settings, address: str, model: str) -> None:
    """Prints the link, what is read, where is written, and how to stop."""
    print(f"Hornbook is open at {address}")
    print(f"  reads         {settings.workspace}")
    print(f"  writes        {settings.workspace / 'notes'} and {settings.data}")
    print(f"  who teaches   {model}")
    print("  stop          Ctrl+C")
    sys.stdout.flush()


def open_browser(address: str) -> None:
    """Opens the browser where a person sits in front of one; the printed link is there in any case."""
    seen = sys.stdout.isatty() and (
        sys.platform in ("win32", "darwin") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    if seen:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _remember_address(settings: Settings) -> None:
    """Keeps host and port for ``hornbook link``, since they may be others than those asked for."""
    (settings.data / "address").write_text(f"{settings.host} {settings.port}\n", "utf-8")


def _last_address(data: Path) -> tuple[str, int] | None:
    try:
        host, port = (data / "address").read_text("utf-8").split()
        return host, int(port)
    except (OSError, ValueError):
        return None
