"""Settings: where each value comes from, and that a bad one is refused by name."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import app.settings
from app.settings import (
    CONFIG_KEYS,
    Settings,
    SettingsError,
    check_host,
    clone_root,
    default_folders,
    load_settings,
    prepare_folders,
    resource,
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def configure(data: Path, text: str) -> None:
    (data / "hornbook.toml").write_text(text, "utf-8")


def load(data: Path, flags: dict[str, Any] | None = None, **environ: str) -> Settings:
    return load_settings({"data": str(data), **(flags or {})}, environ)


def test_without_anything_the_defaults_of_a_clone_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = clone_root()
    assert root == Path(__file__).resolve().parents[2]
    monkeypatch.setattr(app.settings, "default_folders", lambda: (root / "workspace", tmp_path))
    settings = load_settings({}, {})
    assert settings == Settings(workspace=root / "workspace", data=tmp_path)
    assert (settings.host, settings.port, settings.model, settings.token) == ("127.0.0.1", 4317, "offline", None)
    assert (settings.open_browser, settings.allow_remote) == (True, False)


def test_a_clone_uses_its_own_folders() -> None:
    root = clone_root()
    assert root is not None
    assert default_folders() == (root / "workspace", root / "data")
    assert resource("templates") == root / "templates"


def test_an_installation_uses_the_folders_of_the_platform_and_brings_a_sample(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "site-packages" / "app"
    sample = package / "bundled" / "workspace"
    (sample / "notes").mkdir(parents=True)
    (sample / "README.md").write_text("a sample", "utf-8")
    monkeypatch.setattr(app.settings, "PACKAGE", package)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    assert clone_root() is None
    workspace, data = default_folders()
    assert (workspace.name, data.name) == ("workspace", "data")
    assert workspace.parent == data.parent and workspace.parent.name == "hornbook"
    settings = load_settings({}, {})
    prepare_folders(settings)
    assert (settings.workspace / "README.md").read_text("utf-8") == "a sample"
    assert not (settings.workspace / "notes").exists()
    (settings.workspace / "README.md").write_text("mine", "utf-8")
    prepare_folders(settings)
    assert (settings.workspace / "README.md").read_text("utf-8") == "mine"


CHOICES = [
    ("workspace", "HORNBOOK_WORKSPACE", Path("/flag"), Path("/environment"), Path("/config")),
    ("port", "HORNBOOK_PORT", 1001, 1002, 1003),
    ("model", "HORNBOOK_MODEL", "flag", "environment", "config"),
]


@pytest.mark.parametrize(("name", "variable", "flag", "environment", "config"), CHOICES)
def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(
    data: Path, name: str, variable: str, flag: Any, environment: Any, config: Any
) -> None:
    def found(flags: dict[str, Any], **environ: str) -> Any:
        return getattr(load(data, flags, **environ), name)

    default = found({})
    assert default not in (flag, environment, config)
    configure(data, f"{name} = {config if isinstance(config, int) else repr(str(config))}\n")
    assert found({}) == config
    assert found({name: None}, **{variable: ""}) == config
    assert found({name: None}, **{variable: str(environment)}) == environment
    assert found({name: str(flag)}, **{variable: str(environment)}) == flag


def test_the_data_folder_comes_from_flag_or_environment_and_holds_the_file(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, port in ((one, 1), (other, 2)):
        folder.mkdir()
        configure(folder, f"port = {port}\n")
    assert load_settings({}, {"HORNBOOK_DATA": str(one)}).port == 1
    both = load_settings({"data": str(other)}, {"HORNBOOK_DATA": str(one)})
    assert (both.data, both.port) == (other, 2)


def test_the_rest_of_the_file(data: Path) -> None:
    configure(data, '\ufeffhost = "localhost"\nmax_streams = 3\nmax_turns = 5\ntrusted_hosts = ["a.local", "b"]\n')
    settings = load(data)
    assert (settings.host, settings.max_streams, settings.max_turns) == ("localhost", 3, 5)
    assert settings.trusted_hosts == ("a.local", "b")
    assert load(data, {"host": "::1"}).host == "::1"


def test_every_name_in_the_file_is_a_field_of_the_settings(data: Path) -> None:
    assert set(CONFIG_KEYS) <= set(Settings.__dataclass_fields__)
    for secret in ("token", "data", "allow_remote"):
        configure(data, f'{secret} = "x"\n')
        with pytest.raises(SettingsError, match=secret):
            load(data)


def test_the_token_of_the_environment(data: Path) -> None:
    assert load(data, HORNBOOK_TOKEN="mine").token == "mine"
    assert load(data, HORNBOOK_TOKEN="").token is None


def test_a_path_may_start_at_home_and_is_made_absolute(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert load(data, {"workspace": "~/course"}).workspace == tmp_path / "course"
    assert load(data, {"workspace": "course"}).workspace == tmp_path / "course"
    assert load_settings({"data": "data"}, {}).data == data


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", '"many"'),
        ("port", "-1"),
        ("port", "65536"),
        ("port", "80.5"),
        ("port", "80.0"),
        ("port", "inf"),
        ("port", "nan"),
        ("port", "true"),
        ("port", "[80]"),
        ("port", "2026-01-01"),
        ("max_streams", "0"),
        ("max_streams", "1001"),
        ("max_streams", '"few"'),
        ("max_turns", "0"),
        ("max_turns", "false"),
        ("trusted_hosts", '"study.local"'),
        ("trusted_hosts", "[1]"),
        ("workspace", "5"),
        ("workspace", '["a"]'),
        ("workspace", '"~nobody-of-that-name/x"'),
        ("colour", '"red"'),
        ("Port", "80"),
    ],
)
def test_a_bad_value_in_the_file_is_refused_by_name(data: Path, name: str, value: str) -> None:
    configure(data, f"{name} = {value}\n")
    with pytest.raises(SettingsError, match=name):
        load(data)


@pytest.mark.parametrize(
    ("flags", "environ", "name"),
    [
        ({"port": "many"}, {}, "port"),
        ({"port": "70000"}, {}, "port"),
        ({"port": ""}, {}, "port"),
        ({}, {"HORNBOOK_PORT": "eighty"}, "port"),
        ({}, {"HORNBOOK_PORT": "-5"}, "port"),
        ({"workspace": "~nobody-of-that-name"}, {}, "workspace"),
        ({}, {"HORNBOOK_DATA": "~nobody-of-that-name"}, "data"),
    ],
)
def test_a_bad_flag_or_variable_is_refused_by_name(
    data: Path, flags: dict[str, Any], environ: dict[str, str], name: str
) -> None:
    with pytest.raises(SettingsError, match=name):
        load_settings({**({} if "HORNBOOK_DATA" in environ else {"data": str(data)}), **flags}, environ)


@pytest.mark.parametrize(
    "content", [b"port = ", b"port == 1", b"\xff\xfe", b"[table]\nport = 1", b"port = 1\nport = 2"]
)
def test_a_file_that_cannot_be_read_is_refused_by_its_path(data: Path, content: bytes) -> None:
    (data / "hornbook.toml").write_bytes(content)
    with pytest.raises(SettingsError, match=r"hornbook\.toml"):
        load(data)


def test_a_folder_in_the_place_of_the_file_is_refused(data: Path) -> None:
    (data / "hornbook.toml").mkdir()
    with pytest.raises(SettingsError, match=r"hornbook\.toml"):
        load(data)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.7", "127.0.0.1.evil.example", "5", ""])
def test_an_address_that_others_can_reach_needs_the_flag(data: Path, host: str) -> None:
    with pytest.raises(SettingsError, match=r"host.*--allow-remote"):
        check_host(load(data, {"host": host}))
    configure(data, f'host = "{host}"\n')
    with pytest.raises(SettingsError, match=r"host.*--allow-remote"):
        check_host(load(data))
    settings = load(data, {"allow_remote": True})
    check_host(settings)
    assert (settings.host, settings.allow_remote) == (host, True)


# Folders


def test_the_data_folders_are_made(tmp_path: Path) -> None:
    (tmp_path / "course").mkdir()
    settings = Settings(workspace=tmp_path / "course", data=tmp_path / "far" / "away")
    prepare_folders(settings)
    assert sorted(path.name for path in settings.data.iterdir()) == ["runs", "sessions", "trash"]
    prepare_folders(settings)


@pytest.mark.parametrize(("workspace", "data"), [("w", "w/data"), ("d/w", "d"), ("same", "same")])
def test_data_and_workspace_must_not_lie_in_one_another(tmp_path: Path, workspace: str, data: str) -> None:
    (tmp_path / workspace).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / data)
    for folder in (tmp_path / data, tmp_path / "link"):
        with pytest.raises(SettingsError, match=r"lie in one another.*--data"):
            prepare_folders(Settings(workspace=tmp_path / workspace, data=folder))
    assert not (tmp_path / data / "sessions").exists()


def test_folders_side_by_side_whose_names_begin_alike_are_taken(tmp_path: Path) -> None:
    (tmp_path / "course").mkdir()
    prepare_folders(Settings(workspace=tmp_path / "course", data=tmp_path / "course-data"))


def test_a_missing_workspace_is_refused_and_not_made(tmp_path: Path) -> None:
    settings = Settings(workspace=tmp_path / "nowhere", data=tmp_path / "data")
    with pytest.raises(SettingsError, match=r"workspace .*nowhere") as refused:
        prepare_folders(settings)
    assert "--workspace" in str(refused.value)
    assert not (tmp_path / "nowhere").exists()


def test_a_file_as_workspace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", "utf-8")
    with pytest.raises(SettingsError, match=r"workspace .*file is not a folder"):
        prepare_folders(Settings(workspace=tmp_path / "file", data=tmp_path / "data"))


@pytest.mark.parametrize("blocked", ["data", "data/sessions", "data/runs", "data/trash"])
def test_a_file_where_the_data_should_be_is_refused(tmp_path: Path, blocked: str) -> None:
    (tmp_path / blocked).parent.mkdir(exist_ok=True)
    (tmp_path / blocked).write_text("in the way", "utf-8")
    (tmp_path / "course").mkdir()
    with pytest.raises(SettingsError, match=r"data folder .* cannot be used") as refused:
        prepare_folders(Settings(workspace=tmp_path / "course", data=tmp_path / "data"))
    assert "--data" in str(refused.value)
    assert (tmp_path / blocked).read_text("utf-8") == "in the way"


@pytest.mark.parametrize("name", ["workspace", "data"])
def test_a_folder_without_the_rights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "workspace").mkdir()
    settings = Settings(workspace=tmp_path / "workspace", data=tmp_path / "data")
    prepare_folders(settings)
    closed = str(getattr(settings, name))
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).startswith(closed))
    with pytest.raises(SettingsError, match=name):
        prepare_folders(settings)


def test_a_sample_is_put_only_where_the_default_workspace_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.settings, "PACKAGE", tmp_path / "app")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    settings = replace(load_settings({}, {}), workspace=tmp_path / "own")
    with pytest.raises(SettingsError):
        prepare_folders(settings)
    assert not (tmp_path / "own").exists()
