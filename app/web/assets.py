"""Static files: addresses that change with their content, so that browsers keep them; and gzip for all that is text.

The stream is never compressed: a compressor would hold its pieces back.
"""

import gzip
import hashlib
from pathlib import Path

from flask import Flask, Response, request

COMPRESSED_TYPES = frozenset(
    {"text/html", "text/css", "text/javascript", "application/javascript", "image/svg+xml", "application/json"}
)
LEAST_BYTES = 1_000
LEVEL = 6
FOR_EVER = "public, max-age=31536000, immutable"


def install(app: Flask) -> None:
    """Gives templates ``asset(name)``, the address of a static file; compresses answers where the browser takes it."""
    folder = Path(app.static_folder or "")
    versions = {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()[:12]
        for file in folder.rglob("*")
        if file.is_file()
    }

    def asset(name: str) -> str:
        return f"{app.static_url_path}/{name}?v={versions[name]}"

    app.jinja_env.globals["asset"] = asset

    @app.after_request
    def send_less(response: Response) -> Response:
        arguments = request.view_args or {}
        version = versions.get(arguments.get("filename", ""))
        there = response.status_code in (200, 304)
        if there and request.endpoint == "static" and version is not None and request.args.get("v") == version:
            response.headers["Cache-Control"] = FOR_EVER
        if there and (request.endpoint == "static" or response.mimetype in COMPRESSED_TYPES):
            response.vary.add("Accept-Encoding")
        if _may_be_compressed(response) and request.accept_encodings["gzip"] > 0:
            _compress(response)
        return response


def _may_be_compressed(response: Response) -> bool:
    return (
        response.mimetype in COMPRESSED_TYPES
        and response.status_code == 200
        and "Content-Encoding" not in response.headers
        and "Content-Range" not in response.headers
    )


def _compress(response: Response) -> None:
    response.direct_passthrough = False
    data = response.get_data()
    if len(data) < LEAST_BYTES:
        return
    response.set_data(gzip.compress(data, LEVEL, mtime=0))
    response.headers["Content-Encoding"] = "gzip"
    etag, _ = response.get_etag()
    if etag:
        response.set_etag(etag, weak=True)
