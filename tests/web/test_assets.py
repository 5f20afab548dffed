"""Static files are kept by browsers until they change; text goes compressed, streams never; the first page is small."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app.web import assets
from tests.support import FakeModel
from tests.web.helpers import Gate, page, say_to, start

ZIP = {"Accept-Encoding": "gzip, deflate, br"}
STATIC = Path(__file__).parents[2] / "static"
SHEET_BYTES = 16 * 1024
FIRST_PAGE_BYTES = 60_000
FIRST_PAGE_REQUESTS = 8


def fetch(client: FlaskClient, path: str, **headers: str) -> Any:
    """Returns a whole answer and closes its file, as a server does."""
    return client.get(path, headers=headers, buffered=True)


def address_of(client: FlaskClient, name: str) -> str:
    """Returns a static file's address as a page names it."""
    found = re.search(rf'"(/static/{re.escape(name)}\?v=[^"]+)"', fetch(client, "/").text)
    assert found is not None
    return found[1]


def plain(response: Any) -> bytes:
    """Returns an answer's bytes as a browser sees them."""
    data: bytes = response.data
    return gzip.decompress(data) if response.headers.get("Content-Encoding") == "gzip" else data


def asset_of(folder: Path) -> tuple[Flask, Any]:
    """Returns a bare app over a folder of static files, with its ``asset``."""
    app = Flask("bare", static_folder=str(folder), static_url_path="/static")
    assets.install(app)
    return app, app.jinja_env.globals["asset"]


# Addresses


def test_the_address_of_a_file_changes_with_its_content_and_with_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "static"
    (folder / "vendor").mkdir(parents=True)
    (folder / "a.css").write_text("one")
    (folder / "vendor" / "b.js").write_text("one")
    _, asset = asset_of(folder)
    first, other = asset("a.css"), asset("vendor/b.js")
    assert re.fullmatch(r"/static/a\.css\?v=[0-9a-f]{12}", first) and other.startswith("/static/vendor/b.js?v=")
    (folder / "vendor" / "b.js").write_text("two")
    _, asset = asset_of(folder)
    assert asset("a.css") == first
    assert asset("vendor/b.js") != other


def test_a_file_that_there_is_not_has_no_address(tmp_path: Path) -> None:
    _, asset = asset_of(tmp_path)
    with pytest.raises(KeyError):
        asset("missing.css")


def test_only_the_address_of_the_present_content_is_kept_for_ever(client: FlaskClient) -> None:
    address = address_of(client, "app.css")
    kept = fetch(client, address)
    assert kept.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    for other in (
        "/static/app.css",
        "/static/app.css?v=",
        address + "0",
        f"/static/app.css?v={address_of(client, 'page.js')[-12:]}",
    ):
        response = fetch(client, other)
        assert response.status_code == 200
        assert response.headers["Cache-Control"] == "no-cache", other
    assert fetch(client, "/").headers["Cache-Control"] == "no-store", "a page is no asset"


# Compression


@pytest.mark.parametrize("path", ["/", "/static/app.css"])
def test_text_is_compressed_for_those_who_take_it(client: FlaskClient, path: str) -> None:
    whole = fetch(client, path).data
    takes = ["gzip", "br, GZIP;q=0.1", "*"]
    for accepted in (*takes, "", "br", "identity", "gzip;q=0", "gzip;q=0, *", "*;q=0"):
        response = fetch(client, path, **{"Accept-Encoding": accepted})
        assert (response.headers.get("Content-Encoding") == "gzip") is (accepted in takes), accepted
        assert int(response.headers["Content-Length"]) == len(response.data)
        assert "Accept-Encoding" in response.vary, "a cache between would hand it to one who does not take it"
        assert plain(response) == whole


def test_a_file_comes_out_as_it_is_on_disk(client: FlaskClient) -> None:
    for name in ("app.css", "page.js", "hornbook.svg", "vendor/htmx.min.js"):
        assert plain(fetch(client, f"/static/{name}", **ZIP)) == (STATIC / name).read_bytes(), name


def test_an_answer_of_the_api_is_compressed_once_it_is_worth_it(client: FlaskClient) -> None:
    session_id = say_to(client, "hello " * 300)["sessionId"]
    small, large = (
        fetch(client, "/api/health", **ZIP),
        fetch(client, f"/api/session?sessionId={session_id}", **ZIP),
    )
    assert len(small.data) < 1_000 and "Content-Encoding" not in small.headers and small.json
    assert large.headers["Content-Encoding"] == "gzip"
    assert b"hello hello" in plain(large)


def test_what_is_packed_already_is_sent_as_it_is(client: FlaskClient) -> None:
    for name in ("vendor/latinmodern-math.woff2", "screenshot.png"):
        response = fetch(client, f"/static/{name}", **ZIP)
        assert "Content-Encoding" not in response.headers, name
        assert response.data == (STATIC / name).read_bytes()


def test_streams_are_never_compressed(new_app: Callable[..., Flask], gate: Callable[..., Gate]) -> None:
    held = gate("x" * 5_000)
    client = new_app(FakeModel(held)).test_client()
    run_id, session_id = start(client, "q")
    held.wait()
    for path in (f"/sessions/{session_id}/stream?after=0", f"/api/runs/{run_id}/events"):
        response = client.get(path, headers=ZIP, buffered=False)
        assert response.mimetype == "text/event-stream"
        assert "Content-Encoding" not in response.headers and "Content-Length" not in response.headers
        assert next(iter(response.iter_encoded())).startswith(b"retry:"), "what is said comes at once"
        response.close()


def test_a_part_of_a_file_is_not_compressed(client: FlaskClient) -> None:
    response = fetch(client, "/static/app.css", **ZIP, **{"Range": "bytes=0-4999"})
    assert response.status_code == 206 and "Content-Encoding" not in response.headers
    assert response.data == (STATIC / "app.css").read_bytes()[:5_000]


@pytest.mark.parametrize("path", ["/", "/static/app.css"])
def test_head_says_what_get_says_and_sends_nothing(client: FlaskClient, path: str) -> None:
    got, asked = fetch(client, path, **ZIP), client.head(path, headers=ZIP, buffered=True)
    assert (asked.status_code, asked.data) == (200, b"")
    for name in ("Content-Encoding", "Content-Length", "Content-Type", "Vary", "ETag"):
        assert asked.headers.get(name) == got.headers.get(name), name


def test_a_compressed_file_that_has_not_changed_is_not_sent_again(client: FlaskClient) -> None:
    etag = fetch(client, "/static/app.css", **ZIP).headers["ETag"]
    assert etag.startswith("W/"), "other bytes than the plain file's must not share its strong tag"
    again = fetch(client, "/static/app.css", **ZIP, **{"If-None-Match": etag})
    assert (again.status_code, again.data) == (304, b"")
    assert "Content-Encoding" not in again.headers
    assert fetch(client, "/static/app.css", **ZIP, **{"If-None-Match": 'W/"other"'}).status_code == 200


# Weight


def test_the_style_sheet_stays_small() -> None:
    assert (STATIC / "app.css").stat().st_size < SHEET_BYTES


def test_the_first_page_is_small_and_whole_from_this_host(client: FlaskClient) -> None:
    say_to(client, "hello")
    response = fetch(client, "/", **ZIP)
    soup = page(plain(response))
    found = [
        *(str(link["href"]) for link in soup.select("link[href]")),
        *(str(part["src"]) for part in soup.select("script[src], img[src], iframe, source, audio, video")),
    ]
    for address in list(found):
        if urlsplit(address).path.endswith(".css"):
            used = re.findall(rb"url\(([^)]*)\)", plain(fetch(client, address, **ZIP)))
            found += [urljoin(address, part.decode().strip("\"' ")) for part in used]
    addresses = set(found)
    assert len(addresses) >= 3, "the page links to its style, its script and its picture"
    for address in addresses:
        assert not urlsplit(address).netloc and not urlsplit(address).scheme, f"from elsewhere: {address}"
    answers = [fetch(client, address, **ZIP) for address in addresses]
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    assert all("immutable" in answer.headers["Cache-Control"] for answer in answers)
    assert 1 + len(answers) <= FIRST_PAGE_REQUESTS
    assert sum(len(answer.data) for answer in (response, *answers)) <= FIRST_PAGE_BYTES


def test_a_file_that_there_is_not_is_not_kept_for_ever(client: FlaskClient) -> None:
    assert "immutable" not in client.get("/static/nothing.js").headers.get("Cache-Control", "")


def test_an_answer_that_nothing_changed_says_on_what_it_depends(client: FlaskClient) -> None:
    headers = {"Accept-Encoding": "gzip"}
    etag = client.get("/static/app.css", headers=headers, buffered=True).headers["ETag"]
    again = client.get("/static/app.css", headers={**headers, "If-None-Match": etag}, buffered=True)
    assert again.status_code == 304 and "Accept-Encoding" in again.vary
