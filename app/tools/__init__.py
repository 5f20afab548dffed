"""The tools that a model may call, and the guard that keeps them inside the workspace folder."""
