# `make` lists the targets.
# Another version of Python needs its own environment: make unit PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# What puts packages into it.
INSTALLER ?= $(BIN)/pip install --quiet --disable-pip-version-check
OUT ?= training-results
SEEDS ?= 10000
# Processes that run tests. One of them starts the stacks, which take 3 GB and most of two cores. Beside Apache Kafka there are two:
# its brokers compute too.
JOBS ?= 3
BESIDE = --dist loadgroup -n
# Processes that tests start read what was compiled once, wherever this is switched off.
export PYTHONDONTWRITEBYTECODE :=
SUPPLY := .venv-supply
FRAMEWORKS := .venv-frameworks

.DEFAULT_GOAL := help
.PHONY: help demo test unit kafka neighbours check simulate chaos rights bench peers formats docs asyncapi client frameworks schemas train sbom vulnerabilities clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml
	@test -d $(VENV) || $(PYTHON) -c "import sys; sys.version_info < (3, 11) and sys.exit('Freki needs Python 3.11, 3.12 or 3.13, and \
	$(PYTHON) is ' + sys.version.split()[0] + ': name another one, such as make $(MAKECMDGOALS) PYTHON=python3.12')"
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@echo "Installing Freki and its tools into $(VENV)"
	@$(INSTALLER) --editable '.[dev]'
	@touch $@

demo: $(READY) ## Build the models, start a local stack, publish samples, send three queries, stop
	@$(BIN)/python -m freki.cli.demo

test: $(READY) ## Run all tests: unit, contract, integration, acceptance, quality; JOBS=3 processes
	@$(BIN)/freki models build
	@$(BIN)/pytest $(BESIDE) $(JOBS) $(ARGS)

unit: $(READY) ## Run the tests that need neither models nor servers: a minute or two
	@$(BIN)/pytest --dist loadgroup -n auto --maxprocesses 8 tests/unit $(ARGS)

kafka: $(READY) ## Run the tests of the broker on Apache Kafka; needs Java 17 and Maven
	@$(BIN)/freki models build
	@FREKI_TEST_STACK=kafka $(BIN)/pytest $(BESIDE) 2 $(or $(ARGS),tests/kafka tests/integration tests/acceptance tests/own_stack)

neighbours: $(READY) ## Run Freki beside Debezium, a schema registry, S3 servers and a collector: minutes; also needs Go and PostgreSQL
	@$(BIN)/freki models build
	@FREKI_TEST_STACK=kafka $(BIN)/pytest $(or $(ARGS),tests/neighbours)

check: $(READY) ## Check lint, format, types and layers
	@$(BIN)/ruff check freki tests bench deploy examples
	@$(BIN)/ruff format --check freki tests bench deploy examples
	@$(BIN)/mypy
	@$(BIN)/lint-imports

simulate: $(READY) ## Simulate workers, broker and store under faults; SEEDS=100000; ARGS="--help" lists the options
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) $(ARGS)

chaos: $(READY) ## Kill, stop, add and remove workers while documents change, and check all answers; ARGS="--faults 200 --seed 1"
	@$(BIN)/python -m tests.chaos $(ARGS)

rights: $(READY) ## Do thousands of random operations of users with tokens, and check what each may see; ARGS="--operations 10000"
	@$(BIN)/python -m tests.rights $(ARGS)

bench: $(READY) ## Measure ingest, queries, freshness, memory and growth on this machine; ARGS="--help" lists the options
	@$(INSTALLER) --editable '.[bench]'
	@$(BIN)/freki models build
	@$(BIN)/python -m bench.pipeline $(ARGS)

peers: $(READY) ## Measure Freki beside other frameworks, each in its own environment; ARGS="--help" lists the options
	@$(INSTALLER) --editable '.[bench]'
	@$(BIN)/freki models build
	@$(BIN)/python -m bench.peers $(ARGS)

formats: $(READY) ## Measure parsing on files written in all formats; ARGS="--help" lists the options
	@$(INSTALLER) --editable '.[bench]'
	@$(BIN)/python -m bench.formats $(ARGS)

docs: $(READY) ## Generate docs/settings.md from the settings, and docs/asyncapi.yaml from topics and contracts
	@$(BIN)/python -m freki.infra.settings.table
	@$(BIN)/python -m freki.streams.asyncapi

asyncapi: ## Validate docs/asyncapi.yaml with the official parser; needs npm
	@npm --prefix tests/asyncapi install --silent --no-audit --no-fund
	@node tests/asyncapi/validate.mjs docs/asyncapi.yaml

client: $(READY) ## Build the thin client as a package of its own, into dist/
	@$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist ./client
	@rm -rf freki_client.egg-info client/build

$(FRAMEWORKS): ; @$(PYTHON) -m venv $@ && $@/bin/pip install --quiet --disable-pip-version-check pytest fastavro langchain-core==1.8.3 llama-index-core==0.14.25 haystack-ai==3.4.1

frameworks: $(FRAMEWORKS) ## Test the retrievers for LangChain, LlamaIndex and Haystack with these, in an environment of their own
	@HAYSTACK_TELEMETRY_ENABLED=False PYTHONPATH=. $(FRAMEWORKS)/bin/pytest -c /dev/null --rootdir . --noconftest -p no:cacheprovider tests/unit/test_frameworks.py

schemas: $(READY) ## Freeze the next version of each Avro contract whose record changed, with its golden bytes; write and compile the protobuf ones
	@$(BIN)/python -m freki.schemas.avro
	@$(BIN)/python -m freki.schemas.proto
	@$(BIN)/python -m tests.golden

train: $(READY) ## Train late interaction on DATA=folder; SETS="folder=N ..." also fits its weights on every N-th query
	@test -n "$(DATA)" || { echo "DATA= is missing: a folder with NAME-LANGUAGE.jsonl.zst files of pairs"; exit 2; }
	@$(INSTALLER) --editable '.[train]'
	@$(BIN)/python -m freki.training train --data $(DATA) --out $(OUT) $(ARGS)
ifneq ($(SETS),)
	@$(BIN)/python -m freki.training weigh $(SETS) --out $(OUT)
endif

$(SUPPLY): ; @$(PYTHON) -m venv $@ && $@/bin/pip install --quiet --disable-pip-version-check cyclonedx-bom==7.5.0 pip-audit==2.10.1

sbom: $(SUPPLY) ## Write the dependencies of the image, with hashes, to sbom.cdx.json (CycloneDX)
	@$(SUPPLY)/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --output-file sbom.cdx.json deploy/requirements.txt

vulnerabilities: $(SUPPLY) ## Compare the dependencies of the image with PyPI's advisories; needs the Internet
	@$(SUPPLY)/bin/pip-audit --requirement deploy/requirements.txt --requirement deploy/requirements-crawl.txt --require-hashes --disable-pip --strict

clean: ## Remove the environments and the local stack's state
	rm -rf .venv .venv-* $(VENV) .freki .peers sbom.cdx.json
