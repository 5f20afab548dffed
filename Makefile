# make run            start Hornbook from this clone (ARGS="--port 5000" hands options on)
# make test           lint, types, import contracts and tests (PYTEST_ARGS="-k vendor" narrows the tests)
# make test-long      the tests marked long
# make release-check  build, install and use what would be published
#
# .venv is made when it is lacking and filled again only when pyproject.toml has changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
IS_RECENT := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
# Added to pytest's -m expression where there is no browser to drive.
NO_BROWSER = $$(command -v chromium >/dev/null || echo ' and not browser')

.DEFAULT_GOAL := run
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: run test lint format types imports tests test-long release-check chromium

run: $(VENV)/run.stamp
	@$(BIN)/hornbook serve $(ARGS)

test: lint format types imports tests

lint: $(VENV)/test.stamp
	$(BIN)/ruff check

format: $(VENV)/test.stamp
	$(BIN)/ruff format --check

types: $(VENV)/test.stamp
	$(BIN)/mypy

imports: $(VENV)/test.stamp
	$(BIN)/lint-imports

tests: $(VENV)/test.stamp chromium
	$(BIN)/python -m pytest -m "not long$(NO_BROWSER)" $(PYTEST_ARGS)

test-long: $(VENV)/test.stamp chromium
	$(BIN)/python -m pytest -m "long$(NO_BROWSER)" --timeout 3600 $(PYTEST_ARGS)

release-check: $(VENV)/test.stamp
	$(BIN)/python tests/release_check.py

# The browser tests need chromium. Debian's package is installed where that can be done without asking.
chromium:
	@why=; if command -v chromium >/dev/null; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then why='there is no apt-get to install it with'; \
	elif [ "$$(id -u)" = 0 ]; then as_root='env'; \
	elif sudo -n true 2>/dev/null; then as_root='sudo -n env'; \
	else why='installing it needs root: apt-get install chromium'; fi; \
	if [ -z "$$why" ]; then \
		echo 'Installing the chromium package for the browser tests.'; \
		$$as_root apt-get update -qq; \
		$$as_root DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends chromium >/dev/null; \
		command -v chromium >/dev/null || why='apt-get could not install it'; \
	fi; \
	if [ -n "$$why" ]; then echo "Skipped: the browser tests. chromium was not found, and $$why."; fi

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || \
		{ echo 'Hornbook needs Python 3.11 or newer, and "$(PYTHON)" was not found.' >&2; exit 1; }
	@$(PYTHON) $(IS_RECENT) || \
		{ echo "Hornbook needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
		echo 'Name another one: make run PYTHON=python3.12' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo 'This Python lacks its venv module. On Debian or Ubuntu: apt-get install python3-venv' >&2; exit 1; }
	@echo 'Making $(VENV).'
	@$(PYTHON) -m venv --clear $(VENV)

$(VENV)/run.stamp: pyproject.toml | $(BIN)/python
	@echo 'Installing what Hornbook needs into $(VENV). This happens once, and again when pyproject.toml changes.'
	@$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/test.stamp: pyproject.toml | $(BIN)/python
	@echo 'Installing what Hornbook and its tests need into $(VENV).'
	@$(PIP_INSTALL) --editable '.[test]'
	@touch $(VENV)/run.stamp $@
