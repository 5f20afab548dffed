"""Who may talk to the server: host names, token, cookie, origin, headers, sizes, and where no secret may stand."""

import hmac
import json
import re
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import EnvironBuilder, run_wsgi_app

from app.access import TokenFile, link
from app.web import security
from tests.server import Answer, Server, hornbook, lower, running_server
from tests.support import FakeModel, call, say
from tests.web.helpers import Gate, page, start

NewApp = Callable[..., Flask]
NewGate = Callable[..., Gate]
TOKEN = "right-token"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@pytest.fixture
def guarded(new_app: NewApp) -> FlaskClient:
    """A client of an app that wants the token."""
    return new_app(token=TOKEN).test_client()


def status_for_host(app: Flask, host: str | None, path: str = "/api/health") -> int:
    """Sends one request under a Host name; None leaves the header out."""
    environ = EnvironBuilder(path).get_environ()
    environ.pop("HTTP_HOST")
    if host is not None:
        environ["HTTP_HOST"] = host
    body, status, _ = run_wsgi_app(app.wsgi_app, environ, buffered=True)
    b"".join(body)
    return int(status.split()[0])


# Host names


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:4317", "localhost", "LocalHost:80", "localhost:65535", "[::1]", "[::1]:4317"]
)
def test_the_names_of_this_machine_are_answered(app: Flask, host: str) -> None:
    assert status_for_host(app, host) == 200


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        ":",
        ":4317",
        "evil.example",
        "evil.example:4317",
        "127.0.0.1.evil.example",
        "127.0.0.1.nip.io:4317",
        "localhost.evil.example",
        "evil-localhost",
        "localhost.",
        "127.0.0.1.",
        "localhost@evil.example",
        "evil.example@localhost",
        "user:pass@localhost",
        "localhost:80@evil.example",
        "localhost:evil",
        "localhost:80:80",
        "localhost, evil.example",
        "localhost/evil",
        "localhost evil.example",
        "127.0.0.2",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0.0.0.0",
        "[::]",
        "::1",
        "[::1",
        "[::1]evil.example",
        "[::1].evil.example",
        "[::1]:evil",
        "[::ffff:127.0.0.1]",
        "192.168.0.7",
        "\xe9vil",
        "loc\u0430lhost",
    ],
)
def test_every_other_name_is_misdirected(app: Flask, host: str | None) -> None:
    assert status_for_host(app, host) == 421


@pytest.mark.parametrize("path", ["/", "/api/session", "/nothing/here", "/api/nothing", "/static/app.css", "/../x"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "NONSENSE"])
def test_the_host_is_checked_before_the_address_and_the_method(app: Flask, path: str, method: str) -> None:
    environ = EnvironBuilder(path, method=method).get_environ()
    environ["HTTP_HOST"] = "evil.example"
    body, status, headers = run_wsgi_app(app.wsgi_app, environ, buffered=True)
    assert status.startswith("421 ")
    assert set(json.loads(b"".join(body))) == {"reason", "message"}
    assert headers["Content-Type"] == "application/json"


def test_other_headers_cannot_stand_in_for_the_host(client: FlaskClient) -> None:
    forwarded = {"X-Forwarded-Host": "localhost", "Forwarded": "host=localhost"}
    assert client.get("/", headers={"Host": "evil.example", **forwarded}).status_code == 421
    assert client.get("/", headers={"X-Forwarded-Host": "evil.example"}).status_code == 200


def test_a_configured_name_is_answered_and_flask_knows_all_names(new_app: NewApp) -> None:
    app = new_app(trusted_hosts=("Study.local",))
    assert status_for_host(app, "study.local:80") == 200
    assert status_for_host(app, "study.locale") == 421
    assert set(app.config["TRUSTED_HOSTS"]) == {"127.0.0.1", "localhost", "study.local"}


def test_flask_itself_refuses_a_foreign_host_where_the_first_check_is_passed_by(new_app: NewApp) -> None:
    app = new_app()
    app.wsgi_app = app.wsgi_app._app  # type: ignore[attr-defined, method-assign]
    app.testing = False
    assert status_for_host(app, "localhost") == 200
    assert status_for_host(app, "evil.example") == 400


def test_with_remote_access_addresses_are_answered_but_names_only_if_configured(new_app: NewApp) -> None:
    app = new_app(host="0.0.0.0", allow_remote=True, token=TOKEN, trusted_hosts=("school.example",))
    for host in ("192.168.0.7:4317", "[fe80::1]:4317", "localhost", "school.example"):
        assert status_for_host(app, host) == 200, host
    for host in ("evil.example", "evil.example:4317", "192.168.0.7.evil.example", "", None):
        assert status_for_host(app, host) == 421, host


# The token in the link


def test_the_first_visit_by_link_sets_the_cookie_and_leads_to_the_clean_address(guarded: FlaskClient) -> None:
    response = guarded.get(f"/?token={TOKEN}")
    assert (response.status_code, response.headers["Location"]) == (303, "/")
    cookie = response.headers["Set-Cookie"]
    name, *attributes = [part.strip() for part in cookie.split(";")]
    assert name == f"hornbook-4317={TOKEN}"
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(attributes)
    assert guarded.get("/").status_code == 200


def test_other_parts_of_the_query_are_kept(guarded: FlaskClient) -> None:
    response = guarded.get(f"/sessions/x?after=1&after=2&token={TOKEN}&q=%E6%BD%AE%26&empty=")
    assert response.headers["Location"] == "/sessions/x?after=1&after=2&q=%E6%BD%AE%26&empty="


def test_the_address_is_kept_as_it_was_asked_for(guarded: FlaskClient) -> None:
    response = guarded.get(f"/sessions/%E6%BD%AE%3Fa%23b%2Fc?token={TOKEN}")
    assert response.headers["Location"] == "/sessions/%E6%BD%AE%3Fa%23b/c"


@pytest.mark.parametrize(
    "path", ["//evil.example", "//evil.example/a", "///evil.example", "/\\evil.example", "/\t/evil.example", "//"]
)
def test_the_link_leads_nowhere_else(guarded: FlaskClient, path: str) -> None:
    response = guarded.get("/", query_string={"token": TOKEN}, environ_overrides={"PATH_INFO": path})
    location = response.headers.get("Location", "/")
    assert re.match(r"/(?![/\\\t])", location), location


@pytest.mark.parametrize("given", ["wrong", "", TOKEN + "x", TOKEN[:-1], "rìght-token", TOKEN.upper()])
def test_a_wrong_token_in_the_link_gets_a_page_that_explains_and_holds_no_token(
    guarded: FlaskClient, given: str
) -> None:
    response = guarded.get("/", query_string={"token": given})
    assert response.status_code == 401
    assert "Set-Cookie" not in response.headers
    text = page(response.data).get_text(" ", strip=True)
    assert "hornbook link" in text
    assert TOKEN not in response.text
    assert not given or given not in response.text


def test_without_any_token_a_page_explains_and_the_api_answers_json(guarded: FlaskClient) -> None:
    for path in ("/", "/sessions/x", "/nothing"):
        response = guarded.get(path)
        assert (response.status_code, response.mimetype) == (401, "text/html")
        assert "hornbook link" in page(response.data).get_text()
    for path in ("/api/session", "/api/nothing", "/api/runs/x/events"):
        response = guarded.get(path)
        assert (response.status_code, response.json["reason"]) == (401, "unauthorized")


def test_a_page_that_another_site_led_to_asks_once_more_by_itself(guarded: FlaskClient) -> None:
    led = guarded.get("/", headers={"Sec-Fetch-Site": "cross-site"})
    assert led.status_code == 401
    assert page(led.data).select('meta[http-equiv="refresh"][content="0"]')
    again = guarded.get("/", headers={"Sec-Fetch-Site": "same-origin"})
    assert not page(again.data).select('meta[http-equiv="refresh"]')


def test_the_link_works_for_reading_only(guarded: FlaskClient) -> None:
    same_origin = {"Sec-Fetch-Site": "same-origin"}
    assert guarded.post(f"/sessions?token={TOKEN}", headers=same_origin).status_code == 401
    assert guarded.get(f"/api/session?token={TOKEN}").status_code == 401


# Bearer and cookie


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER  {TOKEN} "])
def test_the_bearer_opens_the_api(guarded: FlaskClient, header: str) -> None:
    assert guarded.get("/api/session", headers={"Authorization": header}).status_code == 200


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Bearer wrong", TOKEN, f"Basic {TOKEN}", f"Token {TOKEN}", "Bearer \xff"]
)
def test_anything_else_does_not(guarded: FlaskClient, header: str) -> None:
    assert guarded.get("/api/session", headers={"Authorization": header}).status_code == 401


def test_only_the_cookie_with_this_port_counts(new_app: NewApp) -> None:
    for port, status in ((4318, 401), (4317, 200)):
        client = new_app(token=TOKEN).test_client(use_cookies=False)
        assert client.get("/", headers={"Cookie": f"hornbook-{port}={TOKEN}"}).status_code == status
        assert client.get("/api/session", headers={"Cookie": f"hornbook-{port}={TOKEN}"}).status_code == status
    assert client.get("/", headers={"Cookie": f"hornbook={TOKEN}"}).status_code == 401


def test_static_files_and_health_need_no_token(guarded: FlaskClient) -> None:
    for path in ("/static/app.css", "/api/health"):
        with guarded.get(path) as response:
            assert response.status_code == 200


def test_every_other_address_needs_the_token(guarded: FlaskClient) -> None:
    app = guarded.application
    for rule in app.url_map.iter_rules():
        if rule.endpoint in ("static", "api.health"):
            continue
        path = re.sub(r"<[^>]*>", "x", rule.rule)
        for method in sorted(set(rule.methods or ()) - {"HEAD", "OPTIONS"}):
            assert guarded.open(path, method=method).status_code == 401, (method, path)


@pytest.mark.parametrize("answer", [True, False])
def test_every_comparison_with_the_token_takes_constant_time(
    guarded: FlaskClient, monkeypatch: pytest.MonkeyPatch, answer: bool
) -> None:
    seen: list[tuple[Any, Any]] = []

    def compare(given: bytes, token: bytes) -> bool:
        seen.append((given, token))
        return answer

    monkeypatch.setattr(security.hmac, "compare_digest", compare)
    asked: list[tuple[dict[str, Any], bytes]] = [
        ({"headers": {"Authorization": "Bearer one"}}, b"one"),
        ({"headers": {"Cookie": "hornbook-4317=two"}}, b"two"),
        ({"query_string": {"token": "three"}}, b"three"),
    ]
    for how, given in asked:
        seen.clear()
        status = guarded.application.test_client(use_cookies=False).get("/", **how).status_code
        assert (status != 401) is answer
        # With the wrong answer to the first question the second is never asked.
        assert answer or (given, TOKEN.encode()) in seen
        assert all(token == TOKEN.encode() for _, token in seen)
    assert hmac.compare_digest is compare


# Where a change may come from


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "Same-Origin"}, 403),
        ({"Sec-Fetch-Site": ""}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.example"}, 200),
        ({"Origin": "http://localhost"}, 200),
        ({"Origin": "http://localhost:5000"}, 403),
        ({"Origin": "https://localhost"}, 403),
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({}, 200),
    ],
)
@pytest.mark.parametrize("token", [None, TOKEN])
def test_a_change_must_come_from_our_own_pages_or_from_no_browser(
    new_app: NewApp, headers: dict[str, str], status: int, token: str | None
) -> None:
    client = new_app(token=token).test_client()
    response = client.post("/api/branch", json={"leafId": None}, headers={**headers, **BEARER})
    assert response.status_code == status
    if status == 403:
        assert set(response.json) == {"reason", "message"}


def test_the_port_belongs_to_the_origin(client: FlaskClient) -> None:
    def status(host: str, origin: str) -> int:
        return client.post("/api/reset", headers={"Host": host, "Origin": origin}).status_code

    assert status("127.0.0.1:4317", "http://127.0.0.1:4317") == 200
    assert status("[::1]:4317", "http://[::1]:4317") == 200
    assert status("127.0.0.1:4317", "http://127.0.0.1:4318") == 403
    assert status("127.0.0.1:4317", "http://127.0.0.1") == 403


def test_a_cookie_alone_changes_nothing(guarded: FlaskClient) -> None:
    guarded.get(f"/?token={TOKEN}")
    refused = guarded.post("/api/reset")
    assert (refused.status_code, refused.json["reason"]) == (403, "bearer_needed")
    assert guarded.post("/sessions").status_code == 403
    assert guarded.post("/api/reset", headers={"Sec-Fetch-Site": "same-site"}).status_code == 403
    assert guarded.post("/api/reset", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE", "PUT"])
def test_every_changing_method_is_checked(client: FlaskClient, method: str) -> None:
    session_id = client.get("/api/session").json["sessionId"]
    cross_site = {"Sec-Fetch-Site": "cross-site"}
    response = client.open(f"/api/sessions/{session_id}", method=method, json={"name": "x"}, headers=cross_site)
    assert response.status_code in (403, 405)
    assert client.get(f"/api/sessions/{session_id}").json["name"] == ""
    forms = [f"/sessions/{session_id}/{action}" for action in ("prompt", "abort", "continue", "delete")]
    assert [client.post(path, data={"text": "x"}, headers=cross_site).status_code for path in forms] == [403] * 4


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
def test_reading_is_left_to_cookie_and_browser(client: FlaskClient, site: str) -> None:
    assert client.get("/", headers={"Sec-Fetch-Site": site}).status_code == 200


# Headers of every answer


def every_kind_of_answer(new_app: NewApp) -> Iterator[tuple[str, Any]]:
    client = new_app(token=TOKEN, max_streams=1).test_client(use_cookies=False)
    shape = client.post("/api/prompt", json={"text": "list files"}, headers=BEARER).json
    session, run = shape["sessionId"], shape["runId"]
    big = {"data": b"x" * 300_000, "content_type": "application/json"}
    yield "page", client.get("/", headers=BEARER)
    yield "session page", client.get(f"/sessions/{session}", headers=BEARER)
    yield "redirect", client.post("/sessions", headers=BEARER)
    yield "link", client.get(f"/?token={TOKEN}")
    yield "form with a problem", client.post(f"/sessions/{session}/prompt", headers=BEARER)
    yield "nothing for htmx", client.post(f"/sessions/{session}/abort", headers={**BEARER, "HX-Request": "true"})
    yield "404 page", client.get("/nothing", headers=BEARER)
    yield "405 page", client.post("/", headers=BEARER)
    yield "401 page", client.get("/")
    yield "403 page", client.post("/sessions", headers={**BEARER, "Sec-Fetch-Site": "cross-site"})
    yield "413 page", client.post(f"/sessions/{session}/prompt", headers=BEARER, **big)
    yield "API", client.get("/api/session", headers=BEARER)
    yield "health", client.get("/api/health")
    for status, response in {
        400: client.post("/api/prompt", data="{", content_type="application/json", headers=BEARER),
        401: client.get("/api/session"),
        403: client.post("/api/reset", headers={**BEARER, "Origin": "null"}),
        404: client.get("/api/nothing", headers=BEARER),
        405: client.get("/api/reset", headers=BEARER),
        413: client.post("/api/prompt", headers=BEARER, **big),
        415: client.post("/api/prompt", data="x", headers=BEARER),
    }.items():
        assert response.status_code == status
        yield f"API {status}", response
    yield "421", client.get("/", headers={"Host": "evil.example"})
    yield "OPTIONS", client.options("/api/prompt", headers=BEARER)
    held = client.get(f"/sessions/{session}/stream", headers=BEARER, buffered=False)
    yield "page stream", held
    yield "refused page stream", client.get(f"/sessions/{session}/stream", headers=BEARER)
    yield "refused run stream", client.get(f"/api/runs/{run}/events", headers=BEARER)
    held.close()
    yield "run stream", client.get(f"/api/runs/{run}/events", headers=BEARER)
    yield "static", client.get("/static/app.css")
    yield "static 404", client.get("/static/nothing.css")
    client.application.extensions["hornbook"].supervisor.list = None
    client.application.testing = False
    broken = client.get("/", headers=BEARER)
    assert broken.status_code == 500
    yield "500 page", broken


def test_every_kind_of_answer_has_all_headers(new_app: NewApp) -> None:
    for kind, response in every_kind_of_answer(new_app):
        headers = response.headers
        found = {
            name: headers.getlist(name)
            for name in (
                "Content-Security-Policy",
                "X-Content-Type-Options",
                "Referrer-Policy",
                "Cross-Origin-Opener-Policy",
                "Cross-Origin-Resource-Policy",
            )
        }
        assert found == {
            "Content-Security-Policy": [CSP],
            "X-Content-Type-Options": ["nosniff"],
            "Referrer-Policy": ["no-referrer"],
            "Cross-Origin-Opener-Policy": ["same-origin"],
            "Cross-Origin-Resource-Policy": ["same-origin"],
        }, kind
        assert "Access-Control-Allow-Origin" not in headers, kind
        if not kind.startswith("static"):
            assert headers.getlist("Cache-Control") == ["no-store"], kind
        response.close()


def test_an_inner_error_tells_no_secret(new_app: NewApp) -> None:
    app = new_app(token=TOKEN)
    app.testing = False
    app.extensions["hornbook"].supervisor.list = None
    client = app.test_client()
    for response in (client.get("/", headers=BEARER), client.get("/api/sessions", headers=BEARER)):
        assert response.status_code == 500
        assert TOKEN not in response.text
        assert "Traceback" not in response.text and "NoneType" not in response.text


# Pages hold nothing that the policy forbids


def test_no_page_needs_anything_inline(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    model = FakeModel(call(("1", "list_files", {})), say("<b style='x' onclick='y'>done</b>"), held)
    app = new_app(model, token=TOKEN)
    client = app.test_client()
    client.get(f"/?token={TOKEN}")
    session = client.post("/api/prompt", json={"text": "q <script>x</script>"}, headers=BEARER).json["sessionId"]
    pages = [
        client.get("/"),
        client.get("/?trashed=x"),
        client.get(f"/sessions/{session}"),
        client.post(f"/sessions/{session}/prompt", headers={"Sec-Fetch-Site": "same-origin"}),
        client.get("/nothing"),
        app.test_client().get("/", headers={"Sec-Fetch-Site": "cross-site"}),
    ]
    client.post("/api/runs", json={"text": "r"}, headers=BEARER)
    held.wait()
    pages.append(client.get(f"/sessions/{session}"))
    for response in pages:
        assert response.mimetype == "text/html"
        assert what_the_policy_forbids(page(response.data)) == []


def what_the_policy_forbids(soup: Any) -> list[str]:
    """Returns the inline styles, scripts, handlers and foreign addresses of a page."""
    found = [str(tag) for tag in soup.find_all(["style", "iframe", "object", "embed", "base"])]
    for tag in soup.find_all(True):
        found += [f"{tag.name} {name}" for name in tag.attrs if name == "style" or name.startswith(("on", "hx-on"))]
        found += [
            f"{tag.name} {name}={tag[name]}"
            for name in ("href", "src", "action", "hx-post", "hx-get")
            if tag.has_attr(name) and not str(tag[name]).startswith(("/", "#"))
        ]
        found += [f"{tag.name} {n}={tag[n]}" for n in ("href", "src", "action") if str(tag.get(n)).startswith("//")]
    found += [str(tag) for tag in soup.find_all("script") if tag.string or not tag.get("src")]
    return found


# The real server


@pytest.fixture
def server(tmp_path: Path, workspace: Path) -> Iterator[Server]:
    with running_server(data=tmp_path / "data", workspace=workspace) as running:
        yield running


def raw(server: Server, request: bytes) -> Answer:
    """Sends bytes as they are and reads until the server closes."""
    with socket.create_connection((server.host, server.port), timeout=20) as connection:
        connection.sendall(request)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    return Answer(int(first.split()[1]), lower(headers), body)


def test_the_host_is_checked_over_the_wire_too(server: Server) -> None:
    close = b"Connection: close\r\n\r\n"
    assert raw(server, b"GET /api/health HTTP/1.0\r\n\r\n").status == 421
    assert raw(server, b"GET /api/health HTTP/1.1\r\nHost: evil.example\r\n" + close).status == 421
    assert raw(server, b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n" + close).status == 200
    doubled = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n"
    assert raw(server, doubled + close).status in (400, 421)
    absolute = b"GET http://evil.example/api/health HTTP/1.1\r\nHost: evil.example\r\n"
    assert raw(server, absolute + close).status == 421


def test_a_body_over_the_limit_is_413_with_and_without_a_length(server: Server) -> None:
    def post(head: bytes, body: bytes) -> Answer:
        authorised = b"Authorization: Bearer " + server.token.encode() + b"\r\nConnection: close\r\n"
        start = b"POST /api/prompt HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        return raw(server, start + authorised + head + b"\r\n" + body)

    def chunked(body: bytes) -> bytes:
        pieces = [body[at : at + 4096] for at in range(0, len(body), 4096)]
        return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"

    small, large = b'{"text":"hello"}', b'{"text":"%s"}' % (b"x" * 300_000)
    unsized = b"Transfer-Encoding: chunked\r\n"
    assert post(b"Content-Length: %d\r\n" % len(small), small).status == 200
    assert post(unsized, chunked(small)).status == 200
    for answer in (post(b"Content-Length: %d\r\n" % len(large), large), post(unsized, chunked(large))):
        assert (answer.status, answer.json["reason"]) == (413, "too_large")
    assert server.get("/api/session").json["messages"][-1]["role"] == "assistant"


def test_what_the_server_refuses_by_itself_has_our_form_and_headers(server: Server) -> None:
    far_too_large = b"POST /api/prompt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n\r\n"
    upload = b"POST /api/sessions/import HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99000000\r\n\r\n"
    malformed = b"GET / HTTP/1.1\r\nHost: localhost\r\nno colon here\r\n\r\n"
    for request, status, words in (
        (far_too_large, 413, "256 KiB"),
        (upload, 413, "64 MiB"),
        (malformed, 400, "did not take"),
    ):
        answer = raw(server, request)
        assert answer.status == status and words in answer.json["message"]
        assert set(answer.json) == {"reason", "message"}
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["content-security-policy"] == CSP
        assert (answer.headers["x-content-type-options"], answer.headers["cache-control"]) == ("nosniff", "no-store")
        assert "server" not in answer.headers


def test_the_streams_of_the_real_server_have_all_headers(server: Server) -> None:
    shape = server.post("/api/prompt", {"text": "hello"}).json
    for path in (f"/sessions/{shape['sessionId']}/stream", f"/api/runs/{shape['runId']}/events"):
        with server.stream(path) as response:
            headers = lower(response.getheaders())
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        assert headers["content-security-policy"] == CSP
        assert (headers["cache-control"], headers["referrer-policy"]) == ("no-store", "no-referrer")


def test_the_token_stands_nowhere_but_in_the_link_the_cookie_and_its_file(server: Server, tmp_path: Path) -> None:
    token = server.token
    assert len(token) >= 32
    visit = server.get(f"/?token={token}", headers={})
    assert (visit.status, visit.headers["location"]) == (303, "/")
    assert visit.headers["set-cookie"].startswith(f"hornbook-{server.port}={token};")
    answers = [
        server.get("/", headers=server.cookie),
        server.get("/?token=wrong", headers={}),
        server.get(f"/?token={token}x", headers={}),
        server.get(f"/nothing?token={token}", headers={}),
        server.get("/nothing", headers=server.cookie),
        server.get(f"/api/session?token={token}", headers={}),
        server.post("/api/prompt", {"text": "hello"}),
        server.get("/api/health"),
    ]
    # A request that fails inside: the folder of sessions cannot be listed any more.
    sessions = tmp_path / "data" / "sessions"
    sessions.rename(tmp_path / "away")
    sessions.write_text("in the way", "utf-8")
    failed = server.get(f"/?x={token}", headers=server.cookie)
    assert failed.status >= 500
    sessions.unlink()
    (tmp_path / "away").rename(sessions)
    for answer in [*answers, failed]:
        assert token not in answer.text
        assert [name for name, value in answer.headers.items() if token in value] in ([], ["set-cookie"])
    assert server.terminate() == 0
    announced, *rest = server.output().splitlines()
    assert token in announced
    assert [line for line in rest if token in line] == []
    holding = [file for file in (tmp_path / "data").rglob("*") if file.is_file() and token in file.read_text("utf-8")]
    assert holding == [tmp_path / "data" / "token"]


def test_the_token_is_made_once_and_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "data")
    token = file.current()
    assert len(token) >= 32
    assert file.current() == token == TokenFile(tmp_path / "data").current()
    assert stat.S_IMODE((tmp_path / "data" / "token").stat().st_mode) == 0o600
    assert file.renew() != token
    assert stat.S_IMODE((tmp_path / "data" / "token").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["token"]


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe\x00"])
def test_a_token_file_without_a_token_gets_a_new_one(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    token = TokenFile(tmp_path).current()
    assert len(token) >= 32
    assert (tmp_path / "token").read_text("ascii").strip() == token


def test_a_token_of_ones_own_is_quoted_in_the_link(new_app: NewApp) -> None:
    token = "a&b=c d/é%#"
    address = link("127.0.0.1", 4317, token)
    response = new_app(token=token).test_client().get(address.removeprefix("http://127.0.0.1:4317"))
    assert (response.status_code, response.headers["Location"]) == (303, "/")


def test_a_new_link_ends_the_old_one_and_its_cookies_at_once(server: Server, tmp_path: Path) -> None:
    old = server.token
    assert server.get("/", headers=server.cookie).status == 200
    made = hornbook("link", "--new", "--data", str(tmp_path / "data"))
    assert made.returncode == 0, made.stderr
    address = made.stdout.strip()
    assert address.startswith(f"http://127.0.0.1:{server.port}/?token=")
    assert server.get("/", headers=server.cookie).status == 401
    assert server.get(f"/?token={old}", headers={}).status == 401
    assert server.get("/api/session").status == 401
    server.token = address.partition("token=")[2]
    assert server.token != old
    assert server.get(f"/?token={server.token}", headers={}).status == 303
    assert server.get("/", headers=server.cookie).status == 200
    assert hornbook("link", "--data", str(tmp_path / "data")).stdout.strip() == address


def test_a_reader_of_events_needs_the_token_too(new_app: NewApp, gate: NewGate) -> None:
    held = gate()
    client = new_app(FakeModel(held), token=TOKEN).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    run_id, session_id = start(client, "q")
    stranger = client.application.test_client()
    assert stranger.get(f"/api/runs/{run_id}/events").status_code == 401
    assert stranger.get(f"/sessions/{session_id}/stream").status_code == 401
