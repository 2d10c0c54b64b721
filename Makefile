# Everything runs from .venv, which `make setup` (or any target that needs it) builds from the lock file.

PYTHON ?= python3
JAVA = $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)

VENV = .venv
RUN = $(VENV)/bin/python
LOCKED = $(VENV)/.locked
INSTALLED = $(VENV)/.installed
# Where a session looks for its jars by itself (resources/jars.py).
JARS = $(VENV)/spark-jars/fetched.txt

# Each gives a word if the machine has what is needed, and nothing otherwise.
python_fits = $(shell "$(PYTHON)" -c 'import sys, venv, ensurepip; print("yes" * (sys.version_info >= (3, 11)))' 2>/dev/null)
java_fits = $(shell "$(JAVA)" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | awk '$$1 >= 17 { print "yes"; exit }')

.DEFAULT_GOAL := help
.PHONY: help setup test test-all test-ui soak check format bench demo dev lock wheel clean machine moved

##@ Use

help: ## Show this help
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(INSTALLED) $(JARS) ## Build .venv: locked dependencies, Spark's jars, the project

demo: $(INSTALLED) $(JARS) ## A simulated changefeed through the whole lake (a few minutes at most)
	$(VENV)/bin/ticdc-assets demo

dev: $(INSTALLED) $(JARS) ## A simulated changefeed and Dagster's UI at http://localhost:3000 (Ctrl-C ends both)
	@$(VENV)/bin/ticdc-assets dev

##@ Develop

test: $(INSTALLED) $(JARS) ## Run the tests (sets up first)
	$(RUN) -m pytest -n auto --maxprocesses 4

test-all: $(INSTALLED) $(JARS) ## Run the tests over all recorded data too (hours)
	$(RUN) -m pytest -n auto --maxprocesses 4 --dist load -m "not soak"

test-ui: $(INSTALLED) $(JARS) ## Look at the UI in Chromium; pictures go to artefacts/ui
	$(RUN) -m pytest -m browser

soak: $(INSTALLED) $(JARS) ## Run the long random tests (hours)
	$(RUN) -m pytest -n auto --maxprocesses 4 --dist load -m soak

check: $(INSTALLED) ## Lint, formatting and types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

format: $(INSTALLED) ## Format the code and mend what the linter can
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

bench: $(INSTALLED) $(JARS) ## Measure the decoders, the lake and the whole loop (half an hour)
	$(RUN) -m bench.decode
	$(RUN) -m bench.lake
	$(RUN) -m bench.latency
	$(RUN) -m bench.latency --connect

lock: $(INSTALLED) ## Choose dependency versions anew (UPGRADE=--upgrade for the newest)
	$(RUN) -m pip install --quiet uv
	$(RUN) -m uv pip compile pyproject.toml --group dev --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
	  --custom-compile-command "make lock" --quiet $(UPGRADE) -o requirements.lock

wheel: $(INSTALLED) ## Build the wheel into dist/
	$(RUN) -m build --wheel --no-isolation

clean: ## Remove .venv, caches and built files
	rm -rf $(VENV) dist .hypothesis .mypy_cache .pytest_cache .ruff_cache

# The machine is looked at every time; order-only, so that looking makes nothing out of date.
machine:
	@:$(if $(python_fits),,$(error "$(PYTHON)" is not Python 3.11 or newer with its venv module: install it (Debian: apt-get install python3 python3-venv) or name it (make PYTHON=/path/to/python)))
	@:$(if $(java_fits),,$(error "$(JAVA)" is not Java 17 or newer: install it (Debian: apt-get install openjdk-17-jre-headless) or name it (JAVA_HOME=/path/to/java)))

# A .venv holds absolute paths: one that was moved or copied with its checkout is built anew.
ifneq ($(shell cat $(LOCKED) 2>/dev/null),$(CURDIR))
$(LOCKED): moved
endif

# The lock is complete; an old pip that looks itself takes "x[y]" and "x" for two packages.
$(LOCKED): requirements.lock | machine
	"$(PYTHON)" -m venv --clear $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@echo "$(CURDIR)" > $@

$(INSTALLED): $(LOCKED) pyproject.toml | machine
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(JARS): resources/jars.py $(LOCKED) | $(INSTALLED)
	$(RUN) -m resources.jars $(@D)
	@touch $@
