"""One run from prompt to rest: numbers, replay, states, the worker, repair after a crash."""
