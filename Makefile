# make demo: from a CSV to a served model, two to five minutes on two cores.    make test: the tests.    make lint    make bench
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
RUN := $(VENV)/bin/python
# Processes that share the tests, a file at a time; three keep two cores busy while one waits: make test JOBS=8
JOBS ?= 3
# A process that crashes ends the run: where files are shared, xdist waits forever for one in its place.
SHARED := -n $(JOBS) --dist loadfile --no-loadscope-reorder --max-worker-restart=0
# The packages whose docstrings make the API reference.
REFERENCE := convnlp.models convnlp.layers convnlp.tasks convnlp.objectives convnlp.data convnlp.training convnlp.testing
# What `make fuzz` feeds, and for how long each: make fuzz READERS=records SECONDS=3600
READERS ?= tokenizer_model preset_files saved_model_graph records rest_request http_bytes grpc_message
SECONDS ?= 60
BENCHMARKS := kernels encoder train_step decode matmul cost input

.PHONY: setup demo test test-all test-beam test-tpu fuzz lint lock sbom audit reference bench bench-tpu clean

setup: $(VENV)/.ready-dev

# A stamp a requirements file: pip runs once per change of that file.
$(VENV)/.ready-%: requirements-%.txt requirements.txt
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

demo: setup
	$(RUN) -m convnlp.demo --workdir=runs/demo

# Their processes share what Python has compiled, whatever the environment says.
test test-all: export PYTHONDONTWRITEBYTECODE :=

test: setup
	$(RUN) -m pytest -m "not slow" $(SHARED)

test-all: setup
	$(RUN) -m pytest $(SHARED)

# Apache Beam wants an older protobuf, and so an environment of its own.
test-beam: .venv-beam/.ready
	.venv-beam/bin/python -m pytest tests/bulk tests/corpora -m "beam and not slow"

fuzz: setup $(VENV)/.ready-fuzz
	for reader in $(READERS); do \
		$(RUN) -m tests.fuzz.run --reader=$$reader --workdir=runs/fuzz --seconds=$(SECONDS) || exit 1; \
	done

.venv-beam/.ready: requirements-beam.txt requirements.txt
	@test -x .venv-beam/bin/python || $(PYTHON) -m venv .venv-beam
	.venv-beam/bin/python -m pip install --quiet --disable-pip-version-check \
		-r requirements-beam.txt -c requirements-dev.txt pytest pytest-timeout
	@touch $@

lint: setup
	$(RUN) -m ruff check .

# The versions that the tests have run with, and the sums of their files, for --require-hashes.
lock: setup .venv-audit/.ready
	mkdir -p runs
	$(RUN) -m pip freeze --exclude convnlp | grep -v ' @ ' > runs/installed.txt
	.venv-audit/bin/uv pip compile --quiet requirements.txt --constraints runs/installed.txt --universal \
		--python-version 3.11 --generate-hashes --no-annotate --no-emit-index-url \
		--custom-compile-command "make lock" --output-file requirements.lock

# What a user of requirements.lock has installed, as CycloneDX, held to its schema.
sbom: .venv-audit/.ready .venv-locked/.ready
	mkdir -p runs
	.venv-audit/bin/cyclonedx-py environment .venv-locked/bin/python --pyproject pyproject.toml --mc-type library \
		--output-reproducible --spec-version 1.6 --validate --output-file runs/sbom.json

# Known vulnerabilities of these versions, from a database on the network; --strict: a version it cannot look up fails.
audit: .venv-audit/.ready
	.venv-audit/bin/pip-audit --strict --require-hashes --disable-pip -r requirements.lock

.venv-locked/.ready: requirements.lock pyproject.toml
	@test -x .venv-locked/bin/python || $(PYTHON) -m venv .venv-locked
	.venv-locked/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	.venv-locked/bin/python -m pip install --quiet --disable-pip-version-check --no-deps .
	@touch $@

.venv-audit/.ready: requirements-audit.txt
	@test -x .venv-audit/bin/python || $(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-audit.txt
	@touch $@

reference: setup
	$(RUN) -m pdoc --docformat google --output-directory runs/reference $(REFERENCE)

bench: setup $(VENV)/.ready-bench
	for program in $(BENCHMARKS); do \
		$(RUN) -m benchmarks.$$program --short --json=runs/bench/$$program.json || exit 1; \
	done
	$(RUN) -m benchmarks.report --json_dir=runs/bench --docs_dir=runs/bench

# One small step, to see that it works; docs/tpu.md has the command of the page.
bench-tpu: .venv-tpu/.ready
	.venv-tpu/bin/python -m benchmarks.tpu --short --workdir=runs/tpu

# The tests that need the TPU's compiler, slow ones too; `make test-all` skips them.
test-tpu: .venv-tpu/.ready
	.venv-tpu/bin/python -m pytest tests/benchmarks/compiling/test_compiler.py

.venv-tpu/.ready: requirements-tpu.txt requirements.txt
	@test -x .venv-tpu/bin/python || $(PYTHON) -m venv .venv-tpu
	.venv-tpu/bin/python -m pip install --quiet --disable-pip-version-check \
		-r requirements-tpu.txt -c requirements-dev.txt pytest pytest-timeout
	@touch $@

clean:
	rm -rf runs .pytest_cache .ruff_cache
