"""Model text to safe HTML: Markdown, math, code, sanitising, streaming. Knows no Flask."""
