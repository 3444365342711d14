# make demo: from raw text to a served model, some four minutes on two cores.    make test: the tests.    make lint    make bench
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
RUN := $(VENV)/bin/python

.PHONY: setup demo test test-all lint bench clean

setup: $(VENV)/.ready-dev

# A stamp a requirements file: pip runs once per change of that file.
$(VENV)/.ready-%: requirements-%.txt requirements.txt
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

demo: setup
	$(RUN) -m convnlp.demo --workdir=runs/demo

test: setup
	$(RUN) -m pytest -m "not slow"

test-all: setup
	$(RUN) -m pytest

lint: setup
	$(RUN) -m ruff check .

bench: setup $(VENV)/.ready-bench
	$(RUN) -m benchmarks.parameters

clean:
	rm -rf runs .pytest_cache .ruff_cache
