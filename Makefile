# Everything runs from .venv, which `make setup`, and any target that needs it, builds from the lock file.

PYTHON ?= python3
JAVA = $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)

VENV = .venv
RUN = $(VENV)/bin/python
LOCKED = $(VENV)/.locked
INSTALLED = $(VENV)/.installed
# That a Spark session finds the jars of ticdc_assets/resources/jars.lock, and an archive of their classes.
JARS = $(VENV)/.jars
# That the tests find the jars of the Kafka broker there.
BROKER_JARS = $(VENV)/.broker-jars
CATALOG_JARS = $(VENV)/.catalog-jars
# The TiDB that tests read, and the shop of make dev may: Go builds it, from what tests/tidb states.
TIDB = $(VENV)/tidb-server
GO = go
# Where the changefeed of make dev writes: kafka, or else a folder.
SINK =
# Where the shop of make dev works: tidb, mysql://USER@HOST:PORT for a TiDB that runs, or else in memory.
UPSTREAM =
# The object store that a lake is in: make setup STORE=s3, azure or gcs.
STORE =

VERSION = $(shell sed -n 's/^VERSION = "\(.*\)"$$/\1/p' ticdc_assets/version.py)

# Each expands to "yes" if the machine fits, and to nothing otherwise.
python_fits = $(shell "$(PYTHON)" -c 'import sys, venv, ensurepip; print("yes" * (sys.version_info >= (3, 11)))' 2>/dev/null)
java_fits = $(shell "$(JAVA)" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | awk '$$1 >= 17 { print "yes"; exit }')

.DEFAULT_GOAL := help
.PHONY: help setup test test-all test-ui soak check format bench demo dev lock wheel release unreleased clean machine moved

##@ Use

help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(INSTALLED) ## Build .venv: locked dependencies, jars (STORE=s3, azure or gcs: also for a lake there)
	@$(VENV)/bin/ticdc-assets setup $(STORE)
	@touch $(JARS)

demo: $(INSTALLED) $(JARS) ## Take a simulated changefeed through the whole lake (a few minutes)
	$(VENV)/bin/ticdc-assets demo

dev: $(INSTALLED) $(JARS) $(if $(SINK),$(BROKER_JARS)) $(if $(filter tidb,$(UPSTREAM)),$(TIDB)) ## Start Dagster on a simulated changefeed at http://localhost:3000 (SINK=kafka, UPSTREAM=tidb)
	@$(VENV)/bin/ticdc-assets dev $(if $(SINK),--sink $(SINK)) $(if $(UPSTREAM),--upstream $(UPSTREAM))

##@ Develop

# Tests and benchmarks start many interpreters: each would compile the project again, where none may keep
# bytecode.
test test-all soak test-ui bench: export PYTHONDONTWRITEBYTECODE =

test: $(INSTALLED) $(JARS) $(BROKER_JARS) $(CATALOG_JARS) $(TIDB) ## Run the tests (several minutes)
	$(RUN) -m pytest -n auto

test-all: $(INSTALLED) $(JARS) $(BROKER_JARS) $(CATALOG_JARS) $(TIDB) ## Run the tests on all recorded data and in all combinations too (hours)
	$(RUN) -m pytest -n auto --dist load -m "not soak" -o faulthandler_timeout=0

test-ui: $(INSTALLED) $(JARS) ## Test the UI in Chromium; screenshots go to artefacts/ui
	$(RUN) -m pytest -m browser -o faulthandler_timeout=0

soak: $(INSTALLED) $(JARS) $(BROKER_JARS) $(CATALOG_JARS) $(TIDB) ## Run the long random tests (hours)
	$(RUN) -m pytest -n auto --dist load -m soak -o faulthandler_timeout=0

check: $(INSTALLED) ## Check lint rules, format and types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

format: $(INSTALLED) ## Format the code and fix what the linter can
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

bench: $(INSTALLED) $(JARS) $(BROKER_JARS) $(CATALOG_JARS) ## Measure everything beside a baseline: a table, artefacts/bench.json, docs/bench.png (25 minutes)
	$(RUN) -m bench --chart docs/bench.png

lock: $(INSTALLED) ## Resolve the lock files (UPGRADE=--upgrade for the newest versions)
	$(RUN) -m uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
	  --custom-compile-command "make lock" --quiet $(UPGRADE) -o requirements.lock
	# What the wheel brings for its users: what it needs itself, in the same versions.
	$(RUN) -m uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
	  --constraints requirements.lock --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-annotate --custom-compile-command "make lock" --quiet -o ticdc_assets/requirements.lock
	# The jars follow from the versions that are locked now.
	@$(MAKE) --no-print-directory $(INSTALLED)
	$(RUN) -m ticdc_assets.resources.jars --lock

wheel: $(INSTALLED) ## Build the wheel into dist/
	$(RUN) -m build --wheel --no-isolation

release: $(INSTALLED) unreleased ## Check, test and build the wheel and the sdist of a version into dist/VERSION
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory unreleased
	rm -rf dist/.new
	# The wheel is built from the sdist, so that has all that it takes.
	$(RUN) -m build --no-isolation --outdir dist/.new
	# Both are there, or neither.
	rm -rf dist/$(VERSION) && mv dist/.new dist/$(VERSION)
	@echo "dist/$(VERSION): now tag v$(VERSION)"

# What is built is what was committed and described.
unreleased:
	@test -z "$$(git status --porcelain)" || { echo "commit everything first: git status"; exit 1; }
	@grep -q '^## \[$(subst .,\.,$(VERSION))\]' CHANGELOG.md || \
	  { echo "CHANGELOG.md has no section [$(VERSION)]"; exit 1; }
	@test -z "$$(git tag --list v$(VERSION))" || { echo "v$(VERSION) is a tag already"; exit 1; }

clean: ## Remove .venv, caches and built files
	rm -rf $(VENV) dist .hypothesis .mypy_cache .pytest_cache .ruff_cache

# The machine is checked every time; order-only, so that the check makes no target out of date.
machine:
	@:$(if $(python_fits),,$(error "$(PYTHON)" is not Python 3.11 or newer with its venv module: install it (Debian: apt-get install python3 python3-venv) or name it (make PYTHON=/path/to/python)))
	@:$(if $(java_fits),,$(error "$(JAVA)" is not Java 17 or newer: install it (Debian: apt-get install openjdk-17-jre-headless) or name it (JAVA_HOME=/path/to/java)))

# A .venv holds absolute paths: rebuild one that was moved or copied with its checkout.
ifneq ($(shell cat $(LOCKED) 2>/dev/null),$(CURDIR))
$(LOCKED): moved
endif

# The lock is complete, so pip resolves nothing; an old pip takes "x[y]" and "x" for two packages.
$(LOCKED): requirements.lock | machine
	"$(PYTHON)" -m venv --clear $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@echo "$(CURDIR)" > $@

$(INSTALLED): $(LOCKED) pyproject.toml | machine
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(JARS): $(addprefix ticdc_assets/resources/,jars.lock jars.py class_archive.py) $(LOCKED) | $(INSTALLED)
	$(VENV)/bin/ticdc-assets setup
	@touch $@

$(BROKER_JARS): $(addprefix ticdc_assets/resources/,jars.lock jars.py) $(LOCKED) | $(INSTALLED)
	$(RUN) -m ticdc_assets.resources.jars kafka-broker
	@touch $@

$(CATALOG_JARS): $(addprefix ticdc_assets/resources/,jars.lock jars.py) $(LOCKED) | $(INSTALLED)
	$(RUN) -m ticdc_assets.resources.jars iceberg-rest
	$(RUN) -m ticdc_assets.resources.jars iceberg-spark
	@touch $@

# Without Go, the tests that read it are skipped, but never in continuous integration.
$(TIDB): $(addprefix tests/tidb/,main.go go.mod go.sum) $(LOCKED)
	@if command -v "$(GO)" > /dev/null; then \
	  echo "building $@: minutes for the first time"; \
	  cd tests/tidb && GOTOOLCHAIN=go1.21.13 "$(GO)" build -buildvcs=false -o "$(CURDIR)/$@" . && touch "$(CURDIR)/$@"; \
	else \
	  echo "NO TIDB: there is no $(GO) (1.21 or newer) to build it with" >&2; \
	  test -z "$$CI"; \
	fi
