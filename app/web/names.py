"""Names of sessions, as people type them."""


def one_line(name: str) -> str:
    """Returns a name on one line without control characters, at most 200 characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in name).split())[:200]
