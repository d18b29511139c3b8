PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Modules are compiled when first imported and kept then: all that comes along would take far longer.
INSTALL := $(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt
unexport PYTHONDONTWRITEBYTECODE

.PHONY: tune ruff lint test tiers slow check attack bench bench-against gpu docs pictures wheel clean

tune: $(VENV)/core
	$(BIN)/lmtune tune pydocs

ruff: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell lmtune docs experiments benchmarks course examples *.md

lint: ruff
	$(BIN)/mypy

# The first tier.
test: ruff
	$(BIN)/pytest

# The first tier, in which no test may take more than 3 CPU seconds. Run it after `make test`: first imports count.
tiers: $(VENV)/dev
	LMTUNE_TEST_SECONDS=3 $(BIN)/pytest

# The second tier.
slow: $(VENV)/dev
	$(BIN)/pytest -m slow

check: test lint slow

attack: $(VENV)/dev
	LMTUNE_FUZZ_CASES=50000 LMTUNE_COLLECTIONS=2000 LMTUNE_KILLS=30 LMTUNE_EACH_TOPIC=1 LMTUNE_EACH_LOSS=1 LMTUNE_TWICE=1 \
		$(BIN)/pytest -m "slow or not slow" tests/attack tests/candidates tests/measures tests/models \
		tests/losses tests/tuning/certificate tests/losses/test_loss_bits.py \
		tests/losses/test_fused.py tests/experiments tests/fusion/test_fusing.py \
		tests/index/lucene/test_anserini_feedback.py tests/matrix tests/test_pictures.py

bench: $(VENV)/dev
	$(BIN)/python benchmarks/indexing.py
	$(BIN)/python benchmarks/tuning.py
	$(BIN)/python benchmarks/surrogates.py
	$(BIN)/python benchmarks/lucene.py
	$(BIN)/python benchmarks/evaluate.py

# The engine against another commit, REV or the last one: ratios of alternating pairs.
bench-against: $(VENV)/dev
	$(BIN)/python benchmarks/against.py $(or $(REV),HEAD)

gpu: $(VENV)/dev
	$(BIN)/python benchmarks/gpu.py

docs: $(VENV)/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

pictures: $(VENV)/dev
	$(BIN)/python docs/pictures/make.py

# The wheel is built from the sdist, and tried where nothing else is installed.
wheel: $(VENV)/dev
	rm -rf dist build/bare
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*
	$(BIN)/python -m venv build/bare
	build/bare/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt dist/*.whl
	cd build && bare/bin/lmtune --version && bare/bin/lmtune tune pydocs

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("lmtune needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/core: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[report]'
	$(BIN)/python tests/compile_tuning.py &
	touch $@

$(VENV)/dev: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[dev]'
	touch $@ $(VENV)/core

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis results site
