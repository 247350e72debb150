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

.PHONY: help demo test deps lint format docs bench check build

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.burnish ## tune an agent on the embedded model: no key, no network
	@echo "A small model should give the total price in a message and nothing else. burnish looks for examples"
	@echo "that help it, then measures the result on 30 messages that had no part in the search."
	@$(BIN)/burnish optimize examples/extract/agent.yaml

test: $(VENV)/.burnish-dev ## every test, crashes included
	@$(BIN)/python scripts/prerequisites.py
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not crowd and not breadth" $(ARGS)

deps: $(VENV)/.burnish-dev ## install what some tests need: bubblewrap, databases, models
	@$(BIN)/python scripts/prerequisites.py install

lint: $(VENV)/.burnish-dev ## style, types, import rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports

format: $(VENV)/.burnish-dev ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

SMALL := "not crash and not model and not slow and not crowd and not breadth"
GEPA := PYTHONPATH=$(VENV)/gepa-0.1.4
DSPY = $$($(BIN)/python -m scripts.frameworks --python dspy) -W ignore

# Beside the virtual environment's packages, not among them: only comparisons want it.
$(VENV)/gepa-0.1.4: $(VENV)/.burnish
	@$(PIP) install --no-deps --target $@ gepa==0.1.4

# ARGS are those of the module: `make bench PART=speed ARGS=startup`, `ARGS='--seeds 4'`.
BENCH_speed = $(GEPA) $(BIN)/python -m benchmarks
BENCH_compare = $(BIN)/python -m benchmarks.compare $(or $(REF),$(error name a commit: make bench PART=compare REF=HEAD~5))
BENCH_search = $(GEPA) $(BIN)/python -m benchmarks.search
BENCH_small = $(GEPA) $(BIN)/python -m benchmarks.small
BENCH_small-mipro = $(DSPY) -m benchmarks.small
BENCH_mixed = $(BIN)/python -m benchmarks.mixed
BENCH_mipro = $(DSPY) -m benchmarks.mipro
BENCH_real = $(GEPA) $(BIN)/python -m benchmarks.real $(if $(BASE_URL),--base-url $(BASE_URL)) $(if $(MODEL),--model $(MODEL))
BENCH_truth = $(BIN)/python -m benchmarks.truth

bench: $(VENV)/.burnish-dev $(VENV)/gepa-0.1.4 ## measure: PART=speed compare search small small-mipro mixed mipro real truth
	@$(or $(BENCH_$(or $(PART),speed)),$(error there is no PART=$(PART): make help)) $(ARGS)

# What `make test` leaves out, or tests less of.
CHECK_unit = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m $(SMALL)
CHECK_coverage = $(CHECK_unit) --cov=burnish --cov-report=term-missing:skip-covered
CHECK_breadth = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m breadth
CHECK_frameworks = $(BIN)/python -m scripts.frameworks
CHECK_fuzz = $(BIN)/python -m tests.security.fuzz
CHECK_service = BURNISH_FUZZ_EXAMPLES=200 $(BIN)/python -m pytest -q -n 0 tests/server/test_openapi.py tests/security/test_edge_requests.py
CHECK_crash = $(BIN)/python -m tests.crash.sweep
CHECK_soak = $(BIN)/python -m benchmarks.soak

check: $(VENV)/.burnish-dev ## more tests: PART=unit coverage breadth frameworks fuzz service crash soak
	@$(or $(CHECK_$(or $(PART),unit)),$(error there is no PART=$(PART): make help)) $(ARGS)

docs: $(VENV)/.burnish-dev ## write reference, transcripts and picture, build the site, run every page's examples
	@$(BIN)/python scripts/reference.py
	@$(BIN)/python -m scripts.transcripts
	@$(BIN)/python -m scripts.picture
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir dist/site
	@echo "the site is in dist/site"
	@$(BIN)/python -m pytest -q tests/docs

# The wheel is installed as a user would, away from the checkout, and run.
build: $(VENV)/.burnish-dev ## wheel and source archive in dist/, tried in a fresh virtual environment
	@rm -rf dist
	@$(BIN)/python -m hatchling build
	@$(BIN)/python -m venv dist/venv
	@dist/venv/bin/python -m pip --disable-pip-version-check --quiet install -c constraints.txt dist/*.whl
	@dist/venv/bin/python scripts/smoke.py
	@rm -rf dist/venv

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
