"""Where Hornbook reads and writes and how it listens. Precedence: flag, environment, data/hornbook.toml, default."""

import os
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEFAULT_PORT = 4317
MAX_WAITING = 16
"""Requests that may wait for a run at once: each holds a thread, and some must be left to stop the run."""
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
PACKAGE = Path(__file__).resolve().parent
CONFIG_NAME = "hornbook.toml"


class SettingsError(ValueError):
    """A setting that cannot be used; the text names it and says what would be right."""


@dataclass(frozen=True)
class Settings:
    """Everything the program can be told.

    ``workspace`` is read, and written below its notes/ only; ``data`` holds sessions, runs, trash, token. ``token``
    None means that no token is checked (tests, embedding). ``port`` 0 takes any. ``max_streams`` bounds the open event
    streams, ``max_turns`` the model's responses to one message. ``trusted_hosts`` are further names under which the
    server may be addressed.
    """

    workspace: Path
    data: Path
    model: str = "offline"
    token: str | None = None
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    allow_remote: bool = False
    open_browser: bool = True
    max_streams: int = 48
    max_turns: int = 12
    trusted_hosts: tuple[str, ...] = ()


def clone_root() -> Path | None:
    """Returns the folder of the clone this package lies in, or None when it is installed elsewhere."""
    root = PACKAGE.parent
    return root if (root / "pyproject.toml").is_file() and (root / "templates").is_dir() else None


def resource(name: str) -> Path:
    """Returns the folder of templates, static or workspace: the clone's own, else the one inside the package."""
    root = clone_root()
    return root / name if root is not None else PACKAGE / "bundled" / name


def default_folders() -> tuple[Path, Path]:
    """Returns the default workspace and data folders: a clone's own, else those of the platform."""
    root = clone_root()
    if root is not None:
        return root / "workspace", root / "data"
    from platformdirs import user_data_path

    home = user_data_path("hornbook", appauthor=False)
    return home / "workspace", home / "data"


def load_settings(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Returns the settings from flags (None: not given), the environment and data/hornbook.toml.

    Raises SettingsError for a value that cannot be used. Makes no folder; see ``prepare_folders``.
    """
    default_workspace, default_data = default_folders()
    data = _folder(flags.get("data") or environ.get("HORNBOOK_DATA") or default_data, "data")
    config = read_config(data / CONFIG_NAME)

    def pick(name: str, variable: str | None, default: Any) -> Any:
        if flags.get(name) is not None:
            return flags[name]
        if variable and environ.get(variable):
            return environ[variable]
        return config.get(name, default)

    return Settings(
        workspace=_folder(pick("workspace", "HORNBOOK_WORKSPACE", default_workspace), "workspace"),
        data=data,
        model=str(pick("model", "HORNBOOK_MODEL", "offline")),
        token=environ.get("HORNBOOK_TOKEN") or None,
        host=str(pick("host", None, "127.0.0.1")),
        port=_number(pick("port", "HORNBOOK_PORT", DEFAULT_PORT), "port", 0, 65535),
        allow_remote=bool(flags.get("allow_remote")),
        open_browser=not flags.get("no_browser", False),
        max_streams=_number(config.get("max_streams", 48), "max_streams", 1, 1000),
        max_turns=_number(config.get("max_turns", 12), "max_turns", 1, 1000),
        trusted_hosts=_names(config.get("trusted_hosts", [])),
    )


CONFIG_KEYS = ("workspace", "model", "host", "port", "max_streams", "max_turns", "trusted_hosts")


def read_config(path: Path) -> dict[str, Any]:
    """Returns what data/hornbook.toml says; a missing file says nothing. Raises SettingsError."""
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingsError(f"{path} cannot be read: {problem}") from problem
    try:
        config = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise SettingsError(f"{path} is not valid TOML: {problem}") from problem
    for key in config:
        if key not in CONFIG_KEYS:
            raise SettingsError(f"{path}: there is no setting {key!r}. Settings are: {', '.join(CONFIG_KEYS)}.")
    return config


def _folder(value: Any, name: str) -> Path:
    if not isinstance(value, str | Path):
        raise SettingsError(f"{name} must be the path of a folder, not {value!r}.")
    try:
        return Path(value).expanduser().absolute()
    except RuntimeError as problem:
        raise SettingsError(f"{name} {str(value)!r} starts with a user who is not known here.") from problem


def _number(value: Any, name: str, low: int, high: int) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise SettingsError(f"{name} must be a whole number from {low} to {high}, not {value!r}.") from None
    if isinstance(value, bool | float) or not low <= number <= high:
        raise SettingsError(f"{name} must be a whole number from {low} to {high}, not {value!r}.")
    return number


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise SettingsError(f'trusted_hosts must be a list of names, as in ["study.local"], not {value!r}.')
    return tuple(value)


def check_host(settings: Settings) -> None:
    """Raises SettingsError for a host that others can reach, unless that was allowed."""
    if settings.host not in LOOPBACK_HOSTS and not settings.allow_remote:
        raise SettingsError(
            f"host {settings.host!r} is not a loopback address, so others could reach this server. "
            "Use 127.0.0.1, or add --allow-remote if that is what you want."
        )


def prepare_folders(settings: Settings) -> None:
    """Makes the data folders, and on a first run outside a clone the sample workspace. Raises SettingsError."""
    default_workspace, _ = default_folders()
    if not settings.workspace.exists() and settings.workspace == default_workspace and clone_root() is None:
        _copy_sample(settings.workspace)
    if not settings.workspace.is_dir():
        raise SettingsError(
            f"The workspace {settings.workspace} is not a folder. "
            "Give the folder of your course material with --workspace, or make it first."
        )
    if not os.access(settings.workspace, os.R_OK | os.X_OK):
        raise SettingsError(f"The workspace {settings.workspace} cannot be read by this user.")
    _keep_apart(settings)
    for name in ("sessions", "runs", "trash"):
        folder = settings.data / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise SettingsError(
                f"The data folder {settings.data} cannot be used: {problem.strerror or problem}. "
                "Give another with --data."
            ) from problem
        if not os.access(folder, os.W_OK | os.X_OK):
            raise SettingsError(f"The data folder {folder} cannot be written by this user. Give another with --data.")


def _keep_apart(settings: Settings) -> None:
    """Refuses a data folder that the agent could read, or a workspace in which its own rules and token lie."""
    workspace, data = settings.workspace.resolve(), settings.data.resolve()
    if data.is_relative_to(workspace) or workspace.is_relative_to(data):
        raise SettingsError(
            f"The data folder {settings.data} and the workspace {settings.workspace} lie in one another. The agent "
            "would read its own token and sessions. Give a data folder outside of the workspace with --data."
        )


def _copy_sample(target: Path) -> None:
    try:
        shutil.copytree(resource("workspace"), target, ignore=shutil.ignore_patterns("notes"))
    except OSError as problem:
        raise SettingsError(f"The sample workspace cannot be put at {target}: {problem}") from problem
