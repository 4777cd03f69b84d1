# Needs Python 3.11 and make; everything else goes into the virtual environment .venv. With g++ or clang++ schedules can
# also run inside MindSpore itself.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.PHONY: help install demo serve bench test lint browser compiler clean

help:
	@echo "make demo      install, then run and show a real training step in less memory (ARGS=... passes options)"
	@echo "make serve     the dashboard over ./hyperoffload.db"
	@echo "make install   the virtual environment .venv with the command hyperoffload"
	@echo "make bench     the measurements in bench/, written to docs/benchmarks.md"
	@echo "make test      all tests, with a real browser where there is one (ARGS=... goes to pytest)"
	@echo "make lint      ruff and mypy"

install: $(VENV)/installed

$(VENV)/python:
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is missing; install Python 3.11, or name it: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "make: $(PYTHON) is not Python 3.11, which MindSpore 2.10 and this project are used with"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "make: no virtual environment could be made; on Debian and Ubuntu: apt-get install python3.11-venv"; rm -rf $(VENV); exit 1; }
	@touch $@

$(VENV)/installed: pyproject.toml $(VENV)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

demo: install
	$(BIN)/hyperoffload demo $(ARGS)

serve: install
	$(BIN)/hyperoffload serve $(ARGS)

bench: install
	$(BIN)/python -m bench

test: $(VENV)/installed-test browser compiler
	$(if $(shell command -v g++),CXX="g++ -Werror") $(BIN)/python -m pytest -n 2 $(ARGS)

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The browser tests drive the system's Chromium; playwright downloads none.
browser:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing chromium for the browser tests"; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } \
		|| echo "chromium could not be installed: the browser tests will be skipped"; \
	else echo "no Chromium here, and only root can install it with apt-get: the browser tests will be skipped"; fi

# Schedules inside MindSpore need it; everything else works without.
compiler:
	@{ [ -n "$$CXX" ] || command -v g++ || command -v clang++; } >/dev/null \
	|| echo "no C++ compiler here (g++, clang++, or one named in CXX): the tests of schedules inside MindSpore will be skipped"

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
