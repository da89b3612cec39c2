# Everything a reader runs. Each target first sets up .venv by itself; it installs again only when the lock or pyproject changed.
PYTHON ?= python3
VENV ?= .venv
LAB_FLAGS ?=
PYTEST_FLAGS ?=
BENCH_FLAGS ?=
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
EXTRAS ?= .venv-extras
PIP_FLAGS ?=
SOLUTIONS ?= 1
HW ?=
SUBMISSIONS ?=
OUT ?= results
GRADE_FLAGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup lab book slides slides-pdf site grade check test test-extras bench lint lock clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

setup: $(INSTALLED)  ## create .venv and install the pinned packages

lab: $(INSTALLED)  ## open the chapter in JupyterLab
	$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/notebooks/00_workshop.ipynb $(LAB_FLAGS)

book: $(INSTALLED)  ## execute every notebook and build the site into _build/html (SOLUTIONS=0: without homework solutions)
	SOLUTIONS=$(SOLUTIONS) $(BIN)/python book/build.py

slides: $(INSTALLED) _build/html/index.html  ## write one deck a page into _build/html/slides (builds the site if there is none)
	$(BIN)/python book/slides.py

slides-pdf: $(INSTALLED) _build/html/index.html  ## print every deck as PDF beside it (needs Chromium)
	$(BIN)/python book/slides.py --pdf

_build/html/index.html: | $(INSTALLED)
	$(BIN)/python book/build.py

site: book  ## build the site and pack it, decks too, into _build/site.zip
	$(BIN)/python book/archive.py

check: $(INSTALLED)  ## run the tests of formulas, examples, command and homework without its sandbox: a minute
	$(BIN)/python -m pytest -m "not slow" $(PYTEST_FLAGS)

test: $(INSTALLED)  ## run every test
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

test-extras: $(EXTRAS)/installed  ## run the tests that need torch, in .venv-extras (PIP_FLAGS chooses a build of torch)
	$(EXTRAS)/bin/python -c "import torch, transformers"
	$(EXTRAS)/bin/python -m pytest $(PYTEST_FLAGS) tests/extras

bench: $(INSTALLED)  ## measure this machine and hold it against the limits
	$(BIN)/python -m moe_lib.bench $(BENCH_FLAGS)

grade: $(INSTALLED)  ## grade a folder of submissions: make grade HW=hw1 SUBMISSIONS=folder OUT=results (GRADE_FLAGS: more)
	@test -n "$(HW)" -a -n "$(SUBMISSIONS)" || { echo "Say what to grade: make grade HW=hw1 SUBMISSIONS=folder OUT=results" >&2; exit 2; }
	$(BIN)/python -m moe_homework $(HW) "$(SUBMISSIONS)" --out "$(OUT)" $(GRADE_FLAGS)

lint: $(INSTALLED)  ## check style, types, spelling, links between the sources, and that notebooks carry no outputs
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/nbstripout --keep-id --verify $(wildcard notebooks/*.ipynb notebooks/homework/*.ipynb)
	$(BIN)/codespell
	$(BIN)/python book/links.py

# No hashes: with them pip refuses `-r lock` beside `-e .` (environment.yml, Binder) and `-c lock` (containers, extras).
lock: $(VENV)/pyvenv.cfg  ## pin every package again, for Python 3.11 and newer on every system
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --upgrade --universal --python-version 3.11 --no-emit-index-url --no-emit-find-links --quiet \
		--custom-compile-command "make lock" --extra bench --extra book --extra homework --extra test pyproject.toml --output-file requirements.lock

clean:  ## remove what was built (keeps .venv)
	rm -rf _build .pytest_cache .ruff_cache .mypy_cache .hypothesis

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c '' 2>/dev/null || { \
		echo "Python 3.11 or newer is needed and '$(PYTHON)' does not run: install it, or run make PYTHON=/path/to/python3." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed and '$(PYTHON)' is $$($(PYTHON) -V 2>&1): run make PYTHON=/path/to/a/newer/python3." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "This Python lacks the venv module: install it first (Debian and Ubuntu: sudo apt install python3-venv)." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): $(VENV)/pyvenv.cfg requirements.lock pyproject.toml
	@{ $(BIN)/python -m pip install -r requirements.lock && $(BIN)/python -m pip install --no-deps -e .; } || { \
		echo "Installing the packages failed (see the lines above): the first set-up needs a network connection." >&2; exit 1; }
	$(BIN)/jupyter labextension disable --level=sys_prefix "@jupyterlab/apputils-extension:announcements"
	@touch $@

$(EXTRAS)/installed: requirements.lock pyproject.toml tests/extras/pins.txt
	@$(MAKE) --no-print-directory VENV=$(EXTRAS) $(EXTRAS)/pyvenv.cfg
	$(EXTRAS)/bin/python -m pip install $(PIP_FLAGS) -c requirements.lock -c tests/extras/pins.txt -e ".[gpu,hf]" \
		hypothesis pytest pytest-timeout pytest-xdist pyyaml
	@touch $@
