# Every target sets up what it needs. PYTHON chooses the interpreter (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
READY := $(VENV)/.ready
BENCH := .venv-bench
LLM := .venv-llm
DOCS := .venv-docs

# Tests start a thousand Python processes: none should have to compile what another has compiled.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test suite check test-long test-llm format reference pictures docs map bench clean

# Run a command and say how long it took: $(call timed,name,command)
timed = @begun=$$(date +%s); $(2); status=$$?; echo "$(1): $$(( $$(date +%s) - begun )) seconds"; exit $$status

help:  ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

setup: $(READY)  ## Make the virtual environment

# The SDK of Claude is built from its source: its wheel carries 366 MB of a program that no test runs. The models of
# harbor, which judge our exports, run on Python 3.11 with pydantic alone, whatever the package says of itself.
$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) ..."
	$(call timed,set-up,$(PYTHON) -m venv $(VENV) && $(PIP) install --constraint constraints.txt --no-binary claude-agent-sdk --editable '.[dev]' && $(PIP) install --constraint constraints.txt --no-deps --ignore-requires-python harbor && $(BIN)/python scripts/browsers.py && touch $@)

demo: $(READY)  ## Record, take in logs, search, redact, verify and tamper, on sessions of our own
	@$(BIN)/python examples/demo.py

# Both at once, and more workers than cores: tests wait for servers and processes most of the time.
test: $(READY)  ## Linters, types, architecture and the whole test suite
	@$(MAKE) --no-print-directory --jobs 2 check suite

suite: $(READY)  ## The whole test suite
	$(call timed,tests,$(BIN)/python -m pytest --numprocesses 4 --dist worksteal)

check: $(READY)  ## Format, lint, types and layers
	$(call timed,format and lint,$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .)
	$(call timed,scripts of pages,$(BIN)/oxlint --quiet --deny-warnings src/treering/surfaces)
	$(call timed,types,$(BIN)/mypy --no-error-summary)
	$(call timed,layers,$(BIN)/lint-imports --no-cache > $(VENV)/imports.txt || (cat $(VENV)/imports.txt; exit 1))

# The same tests in a random order, on every database, ten to thirty times as many examples and rounds.
SEED := $(shell date +%s)
TESTS := tests
test-long: $(READY)  ## Hunt for an hour with a random seed; SEED=… and TESTS=… repeat a failure
	@echo "seed $(SEED); repeat a failure with: make test-long SEED=$(SEED) TESTS=tests/…::test_…"
	$(call timed,long tests,TREERING_TEST_SEED=$(SEED) $(BIN)/python -m pytest $(LONG) $(TESTS))

LONG := --override-ini 'addopts=-ra --strict-markers --strict-config --import-mode=importlib -p no:langsmith_plugin' \
  --override-ini timeout=3000 --override-ini faulthandler_timeout=3300 \
  -m 'not llm' --randomly-seed=$(SEED) --hypothesis-seed=$(SEED) --numprocesses 3 --dist worksteal

test-llm: $(LLM)/.ready  ## The tests with a real, small model; builds its runtime, which takes minutes
	@$(LLM)/bin/python -m pytest -m llm tests/llm

# The runtime of the model is compiled, so it lives apart.
$(LLM)/.ready: pyproject.toml tests/llm/constraints.txt
	@echo "Setting up $(LLM) ..."
	@$(PYTHON) -m venv $(LLM)
	@$(LLM)/bin/python -m pip --disable-pip-version-check --quiet install --constraint tests/llm/constraints.txt --editable '.[llm]'
	@touch $@

format: $(READY)  ## Format and fix what can be fixed
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format .

reference: $(READY)  ## Write the generated parts of the docs from help texts and docstrings
	@$(BIN)/python scripts/make_aio_types.py
	@$(BIN)/python scripts/make_reference.py

pictures: $(READY)  ## Take the pictures of the README again; needs Chromium
	@$(BIN)/python scripts/make_pictures.py

docs: $(DOCS)/.ready  ## Build the site of the docs in site/ and check its links
	@$(DOCS)/bin/python scripts/build_site.py

# The generator brings packages of its own, so it lives apart.
$(DOCS)/.ready: pyproject.toml docs/constraints.txt
	@echo "Setting up $(DOCS) ..."
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip --disable-pip-version-check --quiet install --constraint docs/constraints.txt --editable '.[docs]'
	@touch $@

map:  ## Print every module with what it is for
	@$(PYTHON) scripts/print_map.py

bench: $(BENCH)/.ready  ## Measure against the bare limit and peers; writes benchmarks/RESULTS.md
	@$(BENCH)/bin/python benchmarks/run.py

# The peers bring many packages of their own, so they live apart.
$(BENCH)/.ready: pyproject.toml benchmarks/constraints.txt
	@echo "Setting up $(BENCH) ..."
	@$(PYTHON) -m venv $(BENCH)
	@$(BENCH)/bin/python -m pip --disable-pip-version-check --quiet install --constraint benchmarks/constraints.txt --editable '.[bench]'
	@touch $@

clean:  ## Remove the virtual environment and caches
	@rm -rf $(VENV) $(BENCH) $(LLM) $(DOCS) site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis demo-output
