# Two commands matter: `make demo` and `make test`. Both set everything up themselves.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Without bytecode every start would compile the world again.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
SUPPORTED = import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c '$(SUPPORTED)' 2>/dev/null && { echo "$$p"; break; }; done)
# One more than the two cores of a small machine: many tests wait for a process of their own.
WORKERS ?= 3
PIP = $(BIN)/python -m pip --disable-pip-version-check --quiet
# On all cores at once, which pip does on one. Packages contain templates that are no Python, and
# what a newer Python warns of. The demo imports an eighth of it, and compiles that as it goes.
COMPILE = $(BIN)/python -W ignore::SyntaxWarning -m compileall -qq -j 0 $(VENV)/lib src || true

.PHONY: help demo test test-unit test-breadth test-frameworks fuzz fuzz-service crash-sweep coverage lint format bench bench-compare bench-search bench-mipro bench-small bench-small-mipro bench-mixed bench-real bench-truth soak docs screenshots deps build clean

help: ## show these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.burnish ## tune an agent on the embedded model: no key, no network
	@echo "A small model should give the total price in a message and nothing else. burnish looks for examples"
	@echo "that help it, then measures the result on 30 messages that had no part in the search."
	@$(BIN)/burnish optimize examples/extract/agent.yaml

test: $(VENV)/.burnish-dev ## every test, crashes included
	@$(BIN)/python scripts/prerequisites.py
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not crowd and not breadth" $(ARGS)

deps: $(VENV)/.burnish-dev ## install what some tests need: bubblewrap, databases, models
	@$(BIN)/python scripts/prerequisites.py install

test-unit: $(VENV)/.burnish-dev ## the fast tests only
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not crash and not model and not slow and not crowd and not breadth" $(ARGS)

test-breadth: $(VENV)/.burnish-dev ## further worlds and seeds of what `make test` tests already
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m breadth $(ARGS)

test-frameworks: $(VENV)/.burnish-dev ## agents of frameworks and trackers of runs, in environments of their own; ARGS=NAME
	@$(BIN)/python -m scripts.frameworks $(ARGS)

fuzz-service: $(VENV)/.burnish-dev ## ask the service 200 things per route, and crowd it with 1,900 connections
	@BURNISH_FUZZ_EXAMPLES=200 $(BIN)/python -m pytest -q tests/server/test_openapi.py $(ARGS)
	@$(BIN)/python -m pytest -q -n 0 -m crowd tests/security $(ARGS)

crash-sweep: $(VENV)/.burnish-dev ## cut runs of every strategy at 1,000 points; ARGS='--points N --world NAME --seed S'
	@$(BIN)/python -m tests.crash.sweep $(ARGS)

coverage: $(VENV)/.burnish-dev ## the fast tests, and which lines they miss
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not crash and not model and not slow and not crowd and not breadth" --cov=burnish --cov-report=term-missing:skip-covered $(ARGS)

lint: $(VENV)/.burnish-dev ## style, types, import rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports

format: $(VENV)/.burnish-dev ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(VENV)/.burnish ## measure overhead, efficiency, memory, start-up; ARGS=PART
	@$(BIN)/python -m benchmarks $(ARGS)

bench-compare: $(VENV)/.burnish ## measure another commit beside this tree: REF=HEAD~5 ARGS='overhead startup'
	@$(BIN)/python -m benchmarks.compare $(or $(REF),$(error name a commit: make bench-compare REF=HEAD~5)) $(ARGS)

# Beside the virtual environment's packages, not among them: only this comparison wants it.
$(VENV)/gepa-0.1.4: $(VENV)/.burnish
	@$(PIP) install --no-deps --target $@ gepa==0.1.4

bench-search: $(VENV)/gepa-0.1.4 ## compare searches with gepa in scripted worlds
	@PYTHONPATH=$(VENV)/gepa-0.1.4 $(BIN)/python -m benchmarks.search $(ARGS)

bench-small: $(VENV)/gepa-0.1.4 ## compare searches of 60 to 300 calls at equal cost, in frozen worlds
	@PYTHONPATH=$(VENV)/gepa-0.1.4 $(BIN)/python -m benchmarks.small $(ARGS)

bench-small-mipro: $(VENV)/.burnish-dev ## the same with MIPROv2 among them, in the environment of DSPy
	@$$($(BIN)/python -m scripts.frameworks --python dspy) -W ignore -m benchmarks.small $(ARGS)

bench-mixed: $(VENV)/.burnish ## compare auto with single strategies where texts, numbers and demonstrations matter
	@$(BIN)/python -m benchmarks.mixed $(ARGS)

bench-mipro: $(VENV)/.burnish-dev ## compare a search with MIPROv2 of DSPy on one scripted program; ARGS='--seeds N'
	@$$($(BIN)/python -m scripts.frameworks --python dspy) -W ignore -m benchmarks.mipro $(ARGS)

bench-real: $(VENV)/gepa-0.1.4 ## compare rewrites and searches with gepa on a real model: BASE_URL=… MODEL=…
	@PYTHONPATH=$(VENV)/gepa-0.1.4 $(BIN)/python -m benchmarks.real $(if $(BASE_URL),--base-url $(BASE_URL)) $(if $(MODEL),--model $(MODEL)) $(ARGS)

bench-truth: $(VENV)/.burnish ## how often claimed gains are true, in worlds where the truth is known
	@$(BIN)/python -m benchmarks.truth $(ARGS)

soak: $(VENV)/.burnish-dev ## storm a service of three processes for an hour; SHORT=1 for ten minutes, SECONDS=N
	@$(BIN)/python -m benchmarks.soak $(if $(SHORT),--short) $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

fuzz: $(VENV)/.burnish-dev ## 10,000 mutated files over every reader; ARGS='--count N --seed S --reader NAME'
	@$(BIN)/python -m tests.security.fuzz $(ARGS)

docs: $(VENV)/.burnish-dev ## write reference, transcripts and picture, build the site, run every page's examples
	@$(BIN)/python scripts/reference.py
	@$(BIN)/python -m scripts.transcripts
	@$(BIN)/python -m scripts.picture
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir dist/site
	@echo "the site is in dist/site"
	@$(BIN)/python -m pytest -q tests/docs

screenshots: $(VENV)/.burnish-dev ## take the pictures of README and docs/view.md; ARGS=FOLDER uses runs that are there
	@$(BIN)/python scripts/screenshots.py $(ARGS)

# The wheel is installed as a user would, away from the checkout, and run.
build: $(VENV)/.burnish-dev ## wheel and source archive in dist/, tried in a fresh virtual environment
	@rm -rf dist
	@$(BIN)/python -m hatchling build
	@$(BIN)/python -m venv dist/venv
	@dist/venv/bin/python -m pip --disable-pip-version-check --quiet install -c constraints.txt dist/*.whl
	@dist/venv/bin/python scripts/smoke.py
	@rm -rf dist/venv

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) dist .coverage .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# A virtual environment whose Python has gone is made again.
$(VENV)/.created: Makefile
	@test -n "$(PYTHON)" || { echo "burnish needs Python 3.11, 3.12 or 3.13; set PYTHON=/path/to/python3.x" >&2; exit 1; }
	@$(BIN)/python -c '$(SUPPORTED)' 2>/dev/null || rm -rf $(VENV)
	@test -x $(BIN)/python || { echo "making $(VENV) with $$("$(PYTHON)" --version)"; "$(PYTHON)" -m venv $(VENV); }
	@touch $@

$(VENV)/.burnish: $(VENV)/.created pyproject.toml constraints.txt
	@echo "installing burnish into $(VENV): packages, pinned in constraints.txt, and a model of 98 MB"
	@$(PIP) install --no-compile -c constraints.txt hatchling editables
	@$(PIP) install --no-compile -c constraints.txt --no-build-isolation -e '.[local,numeric]'
	@$(BIN)/burnish models pull smollm2 || echo "without its model the demo cannot run"
	@touch $@

$(VENV)/.burnish-dev: $(VENV)/.burnish
	@echo "installing the development tools (pinned in constraints.txt)"
	@$(PIP) install --no-compile -c constraints.txt setuptools wheel # rouge-score is built on the spot
	@$(PIP) install --no-compile -c constraints.txt --no-build-isolation -e '.[all,dev,docs]'
	@$(COMPILE)
	@$(BIN)/burnish models pull minilm || echo "the tests of the embedding model will be skipped"
	@touch $@
