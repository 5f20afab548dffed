"""Who may talk to the server: Host names, token, cookie, origin, and the headers of every answer.

The rule for unsafe methods is the token-free one that browsers made possible: ``Sec-Fetch-Site`` must say
``same-origin`` or ``none``; where it is absent, a matching ``Origin``; where both are absent no browser is talking, and
the bearer token alone decides. ``same-site`` is refused too: on loopback it is another local port, to which browsers
do send SameSite=Strict cookies.
"""

import hmac
import ipaddress
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote, urlencode

from flask import Flask, Request, Response, redirect, request

from app.settings import LOOPBACK_HOSTS, Settings
from app.web.errors import ApiError, wants_json
from app.web.services import services

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
MAX_BODY_BYTES = 256 * 1024
MAX_UPLOAD_BYTES = 64 * 1024 * 1024
UPLOAD_TOO_LARGE = (
    f"The upload is larger than {MAX_UPLOAD_BYTES >> 20} MiB. The command hornbook import takes such a file."
)
UPLOADS = ("imports.upload", "imports.api_import")
"""Endpoints that take session files, which are large."""
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
PUBLIC_ENDPOINTS = ("static", "api.health")

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def trusted_names(settings: Settings) -> frozenset[str]:
    """Returns the host names under which the server answers: loopback, what it is bound to, and those configured."""
    names = {*LOOPBACK_HOSTS, settings.host.casefold(), *(name.casefold() for name in settings.trusted_hosts)}
    return frozenset(names - {"0.0.0.0", "::"})


def host_name(host: str) -> str:
    """Returns the name in a Host header without its port and brackets, in lower case; "" for a malformed one."""
    name, bracket, rest = host.partition("]")
    if name.startswith("["):
        return name[1:].casefold() if bracket and (not rest or _is_port(rest)) else ""
    name, colon, port = host.partition(":")
    return name.casefold() if not colon or port.isdecimal() else ""


def _is_port(text: str) -> bool:
    return text[:1] == ":" and text[1:].isdecimal()


def is_trusted_host(host: str, settings: Settings) -> bool:
    """Returns whether a Host header names us. A page that had its own name pointed at us (DNS rebinding) does not.

    Where remote access is allowed any literal address will do: no name stands behind it that could be pointed at us.
    """
    name = host_name(host)
    if name in trusted_names(settings):
        return True
    if not settings.allow_remote:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class HostCheck:
    """WSGI middleware: refuses a request for a host that is not ours, before anything else looks at it."""

    def __init__(self, app: WsgiApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        host = str(environ.get("HTTP_HOST", ""))
        if is_trusted_host(host, self._settings):
            environ["HTTP_HOST"] = host.casefold()
            return self._app(environ, start_response)
        body = b'{"reason":"misdirected","message":"This server does not answer under that host name."}'
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            *HEADERS.items(),
        ]
        start_response("421 Misdirected Request", headers)
        return [body]


class HostChecked(Request):
    """A request whose host has passed HostCheck. Flask looks once more, but its list can hold no IPv6 address."""

    _names: list[str] | None = None

    @property
    def trusted_hosts(self) -> list[str] | None:
        return None if self.environ["HTTP_HOST"].startswith("[") else self._names

    @trusted_hosts.setter
    def trusted_hosts(self, names: list[str] | None) -> None:
        self._names = names


def cookie_name(settings: Settings) -> str:
    """Returns the cookie's name; it holds the port, since cookies are shared by all ports of a host."""
    return f"hornbook-{settings.port}"


def install(app: Flask, settings: Settings, current_token: Callable[[], str | None]) -> None:
    """Puts all checks and headers onto ``app``. ``current_token`` returns None when no token is checked."""
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.config["MAX_FORM_MEMORY_SIZE"] = MAX_BODY_BYTES
    app.wsgi_app = HostCheck(app.wsgi_app, settings)  # type: ignore[method-assign]
    if not settings.allow_remote:
        app.request_class = HostChecked
        app.config["TRUSTED_HOSTS"] = sorted(name for name in trusted_names(settings) if ":" not in name)

    @app.before_request
    def check() -> Any:
        token = current_token()
        if token is not None and request.endpoint not in PUBLIC_ENDPOINTS:
            answer = _check_token(token, settings)
            if answer is not None:
                return answer
        if request.method not in SAFE_METHODS:
            _check_origin(token, request)
        if request.endpoint in UPLOADS:
            request.max_content_length = MAX_UPLOAD_BYTES
            if (request.content_length or 0) > MAX_UPLOAD_BYTES:
                raise ApiError(413, "upload_too_large", UPLOAD_TOO_LARGE)
        elif (request.content_length or 0) > MAX_BODY_BYTES:
            raise ApiError(413, "too_large", f"The request is larger than {MAX_BODY_BYTES // 1024} KiB.")
        return None

    @app.after_request
    def add_headers(response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if request.endpoint != "static":
            response.headers.setdefault("Cache-Control", "no-store")
        return response


def _check_token(token: str, settings: Settings) -> Any:
    given = request.args.get("token")
    if given is not None and request.method in SAFE_METHODS and not wants_json():
        return _enter(given, token, settings)
    if not _bears(token, settings):
        raise ApiError(401, "unauthorized", "This needs the link that Hornbook printed, or its token as bearer.")
    return None


def _enter(given: str, token: str, settings: Settings) -> Any:
    """First visit by link: sets the cookie and sends the browser to the address without the token."""
    by_cookie = _same(request.cookies.get(cookie_name(settings), ""), token)
    if not by_cookie and not _same(given, token):
        raise ApiError(401, "unauthorized", "The token in this link is not, or no longer, the right one.")
    rest = [(key, value) for key, value in request.args.items(multi=True) if key != "token"]
    query = f"?{urlencode(rest)}" if rest else ""
    # One slash only: "//name" would be another host's address. Quoted: a "?" in a name is not a query.
    response = redirect(quote("/" + request.path.lstrip("/")) + query, 303)
    response.set_cookie(cookie_name(settings), token, httponly=True, samesite="Strict", path="/")
    return response


def has_token() -> bool:
    """Returns whether the request bears the token; always True when none is checked."""
    token = services().current_token()
    return token is None or _bears(token, services().settings)


def _bears(token: str, settings: Settings) -> bool:
    return _same(_bearer(request), token) or _same(request.cookies.get(cookie_name(settings), ""), token)


def _bearer(request: Request) -> str:
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" else ""


def _same(given: str, token: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8"))


def _check_origin(token: str | None, request: Request) -> None:
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if site is not None:
        if site in ("same-origin", "none"):
            return
    elif origin is not None:
        if origin == request.host_url.rstrip("/"):
            return
    elif token is None or _same(_bearer(request), token):
        return
    else:
        raise ApiError(403, "bearer_needed", "A program without Origin header must send the token as bearer.")
    raise ApiError(403, "cross_site", "Requests that change something must come from Hornbook's own pages.")
