"""Model text as HTML whose links lead into the workspace, rendered once as long as it is remembered."""

import threading
from collections import OrderedDict

from app.render.markdown import Rendered, render_markdown
from app.web.file_urls import resolve_image, resolve_link

REMEMBERED_CHARACTERS = 4_000_000


class Renderer:
    """Renders messages; keeps what it rendered last, at most ``remembered`` characters of text and HTML together."""

    def __init__(self, remembered: int = REMEMBERED_CHARACTERS) -> None:
        self._link, self._image = resolve_link(""), resolve_image("")
        self._limit = remembered
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Rendered] = OrderedDict()
        self._size = 0

    def __call__(self, text: str) -> Rendered:
        """Returns the text as HTML. Safe to call from any thread."""
        with self._lock:
            known = self._known.get(text)
            if known is not None:
                self._known.move_to_end(text)
                return known
        rendered = render_markdown(text, link=self._link, image=self._image)
        with self._lock:
            if text not in self._known:
                self._known[text] = rendered
                self._size += _size(text, rendered)
            while self._size > self._limit:
                self._size -= _size(*self._known.popitem(last=False))
        return rendered


def _size(text: str, rendered: Rendered) -> int:
    return len(text) + len(rendered.html)
