# make run            start Hornbook from this clone (ARGS="--port 5000" hands options on)
# make test           lint, types, import contracts and tests (PYTEST_ARGS="-k vendor" narrows the tests)
# make test-long      the tests marked long
# make release-check  build, install and use what would be published
# make screenshots    photograph every state of the pages into screenshots/ (ARGS="--state lesson --width 390")
# make translations   collect the texts of the pages into the Chinese catalogue, and compile it
#
# .venv is made when it is lacking and filled again only when pyproject.toml has changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
IS_RECENT := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
CATALOGUES := app/web/translations
# One more than there are cores: the tests in a browser wait as often as they work.
WORKERS = $$(( $$($(BIN)/python -c 'import os; print(os.cpu_count() or 1)') + 1 ))
# Added to pytest's -m expression where there is no browser to drive.
NO_BROWSER = $$(command -v chromium >/dev/null || echo ' and not browser')

.DEFAULT_GOAL := run
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: run test lint format types imports tests test-long release-check screenshots translations chromium chinese-font

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
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile -m "not long$(NO_BROWSER)" $(PYTEST_ARGS)

test-long: $(VENV)/test.stamp chromium
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile -m "long$(NO_BROWSER)" --timeout 3600 $(PYTEST_ARGS)

release-check: $(VENV)/test.stamp
	$(BIN)/python tests/release_check.py

# No guesses: a text that has changed must be translated anew. Line numbers and dates stay out, so that only texts differ.
translations: $(VENV)/test.stamp
	@$(BIN)/pybabel --quiet extract --mapping-file pyproject.toml --add-location file --sort-by-file --no-wrap \
		--project Hornbook --output-file $(VENV)/messages.pot .
	@$(BIN)/pybabel --quiet update --input-file $(VENV)/messages.pot --output-dir $(CATALOGUES) --no-wrap \
		--no-fuzzy-matching --ignore-obsolete --ignore-pot-creation-date
	@$(BIN)/pybabel compile --statistics --directory $(CATALOGUES)

screenshots: $(VENV)/test.stamp chromium chinese-font
	@$(BIN)/python -m tests.screenshots $(ARGS)

# Debian's package $(1) for what $(3) names, unless $(2) finds it; installed where that can be done without asking.
define debian_package
@why=; if $(2) >/dev/null; then exit 0; fi; \
if ! command -v apt-get >/dev/null; then why='there is no apt-get to install it with'; \
elif [ "$$(id -u)" = 0 ]; then as_root='env'; \
elif sudo -n true 2>/dev/null; then as_root='sudo -n env'; \
else why='installing it needs root: apt-get install $(1)'; fi; \
if [ -z "$$why" ]; then \
	echo 'Installing the $(1) package for $(3).'; \
	$$as_root apt-get update -qq; \
	$$as_root DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends $(1) >/dev/null; \
	$(2) >/dev/null || why='apt-get could not install it'; \
fi; \
if [ -n "$$why" ]; then echo "$(4) $(1) was not found, and $$why."; fi
endef

chromium:
	$(call debian_package,chromium,command -v chromium,the browser tests,Skipped: the browser tests.)

chinese-font:
	$(call debian_package,fonts-noto-cjk,fc-list :lang=zh-cn 2>/dev/null | grep .,Chinese texts in the pictures,Chinese shows as boxes.)

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
