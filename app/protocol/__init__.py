"""The one vocabulary of Hornbook: messages, events, entries, tools, models. Imports none of our other packages."""
