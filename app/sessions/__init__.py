"""Sessions on disk: append-only JSONL trees in Pi's format v3. Imports only app.protocol."""
