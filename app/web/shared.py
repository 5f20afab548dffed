"""What is rendered once for all readers who want the same at the same moment."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

REMEMBERED = 64


class Shared:
    """What was rendered last, for the readers who want the same at the same moment. Safe for threads."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._slots: OrderedDict[Hashable, _Slot] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Returns what ``make`` gives; of those who ask for the same key at once, one makes it and the others wait."""
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            while len(self._slots) > self._most:
                self._slots.popitem(last=False)
        with slot.lock:
            if slot.value is None:
                slot.value = make()
            return slot.value


@dataclass
class _Slot:
    lock: threading.Lock = field(default_factory=threading.Lock)
    value: bytes | None = None
