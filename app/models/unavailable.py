"""The error that every way to open a model raises."""


class ModelUnavailable(ValueError):
    """The model that was asked for cannot be had; the text says what was given and what would be right."""
