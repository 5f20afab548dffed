"""The loop between model and tools, and the hooks that guard it. Knows no HTTP, files, provider or thread."""
