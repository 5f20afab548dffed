"""The token that opens Hornbook: made once, kept in data/token (readable by its owner only)."""

import os
import secrets
from pathlib import Path
from urllib.parse import quote

TOKEN_NAME = "token"


class TokenFile:
    """The token of a data folder. ``fixed`` overrides the file (HORNBOOK_TOKEN)."""

    def __init__(self, data: Path, fixed: str | None = None) -> None:
        self._path = data / TOKEN_NAME
        self._fixed = fixed

    def current(self) -> str:
        """Returns the token, made on first use. Read anew each time, so that a renewal holds at once.

        Raises OSError when the file can be neither read nor written.
        """
        if self._fixed is not None:
            return self._fixed
        try:
            token = self._path.read_text("ascii").strip()
        except (FileNotFoundError, UnicodeDecodeError):
            token = ""
        return token or self.renew()

    def renew(self) -> str:
        """Makes a new token; the old link and all cookies stop working. Returns it."""
        token = secrets.token_urlsafe(32)
        temporary = self._path.with_name(f"{TOKEN_NAME}.{os.getpid()}.new")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(token + "\n")
        os.replace(temporary, self._path)
        return token


def link(host: str, port: int, token: str | None) -> str:
    """Returns the address that opens the first page, with the token if there is one."""
    name = f"[{host}]" if ":" in host else host
    base = f"http://{name}:{port}/"
    return base if token is None else f"{base}?token={quote(token, safe='')}"
