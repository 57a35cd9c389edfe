# Everything that this project does, by name. `make` alone lists it.
#
# A fresh machine needs Python 3.10+, make and a C++20 compiler; the targets set up the rest in .venv and repeat nothing that
# is already there: each step leaves a stamp file, which is older than what it depends on only when there is work to do.

PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 8000
VENV ?= .venv
VLLM_VENV ?= .venv-vllm
SGLANG_VENV ?= .venv-sglang
TRANSFORMERS_VENV ?= .venv-transformers
LLAMA_CPP_PYTHON_VENV ?= .venv-llama-cpp-python
AGENTS_VENV ?= .venv-agents
BROWSER_VENV ?= .venv-browser
WHEELS_VENV ?= .venv-wheels
SITE_VENV ?= .venv-site
PYTEST_ARGS ?=
SERVE_ARGS ?=
SANITIZE_SECONDS ?= 60
FUZZ_SECONDS ?= 600
FUZZ_MINUTES ?= 10
SOAK_MINUTES ?= 60
SOAK_ARGS ?=
HOSTILE_RUNS ?= 1000
DATA ?=
BENCH_ARGS ?=
WHEEL_PYTHONS ?= $(PYTHON)

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CORE := $(shell find core CMakeLists.txt -type f 2>/dev/null)
CXX_FILES := $(shell find core -name '*.cpp' -o -name '*.hpp' -o -name '*.h' 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help serve test test-fast test-upstream test-vllm test-sglang test-transformers test-llama-cpp-python test-agents test-agents-short test-browser screenshots lint-page demo lint format bench bench-masks bench-stream instructions instructions-update sanitize fuzz fuzz-schemas soak soak-short hostile wheel wheel-check docs site clean install dev

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "narrows needs Python 3.10 or newer; try make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "this Python has no venv module; on Debian: apt install python3-venv"; exit 1; }
	@$(PIP) install --quiet --upgrade "pip>=25.1"
	@touch $@

# The build is repeated when the C++ core or the metadata changes; Python files are used where they lie (editable install).
# A new module needs a new install, though, so the list of files counts.
$(VENV)/.files: $(VENV)/.created ALWAYS
	@new=$@.$$$$; find src -name '*.py' -o -name '*.pyi' -o -name '*.toml' | sort > $$new; cmp -s $$new $@ && rm $$new || mv $$new $@

ALWAYS:

$(VENV)/.installed: $(VENV)/.created pyproject.toml $(CORE) $(VENV)/.files
	@echo "building and installing narrows into $(VENV) (a minute or two the first time)"
	@$(PIP) install --quiet --editable ".[serve]"
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	@echo "installing the development tools"
	@$(PIP) install --quiet --group dev
	@touch $@

install: $(VENV)/.installed ## build the core and install narrows with its server into .venv
dev: $(VENV)/.dev ## the same, with the tools that test and lint need

serve: $(VENV)/.installed ## start the server with the small model on 127.0.0.1:8000 (HOST, PORT, SERVE_ARGS="--model ...")
	@$(BIN)/narrows serve --host $(HOST) --port $(PORT) $(SERVE_ARGS)

# One worker per core; what a worker has not begun another takes over.
PARALLEL := -n auto --dist worksteal

# The tests start narrows in a hundred processes. Where containers set this, each would compile all of it anew.
test test-fast: export PYTHONDONTWRITEBYTECODE :=

test: $(VENV)/.dev ## the whole test suite
	@$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_ARGS)

test-fast: $(VENV)/.dev ## the tests that need no model
	@$(BIN)/python -m pytest $(PARALLEL) -m "not model" $(PYTEST_ARGS)

test-upstream: $(VENV)/.dev ## 200 streamed requests through narrows before llama.cpp's own server, with the small model; some minutes (NARROWS_UPSTREAM_CALLS)
	@NARROWS_UPSTREAM_CALLS=$${NARROWS_UPSTREAM_CALLS:-200} $(BIN)/python -m pytest tests/engines/upstream $(PYTEST_ARGS)

# vLLM for the CPU, prebuilt, in an environment of its own: 3.2 GB with Triton. What PyPI adds to its torch is built for CUDA, and vLLM does not start beside it.
VLLM_BIN := $(VLLM_VENV)/bin
VLLM_PIP := $(VLLM_BIN)/python -m pip --disable-pip-version-check

$(VLLM_VENV)/.created:
	@$(PYTHON) -m venv $(VLLM_VENV)
	@$(VLLM_PIP) install --quiet --upgrade "pip>=25.1"
	@touch $@

$(VLLM_VENV)/.vllm: $(VLLM_VENV)/.created pyproject.toml
	@echo "installing vLLM into $(VLLM_VENV) (a minute or two)"
	@$(VLLM_PIP) install --quiet --group vllm
	@$(VLLM_PIP) uninstall --quiet --yes torchvision torchaudio torchcodec triton
	@touch $@

$(VLLM_VENV)/.files: $(VLLM_VENV)/.vllm ALWAYS
	@new=$@.$$$$; find src -name '*.py' -o -name '*.pyi' -o -name '*.toml' | sort > $$new; cmp -s $$new $@ && rm $$new || mv $$new $@

$(VLLM_VENV)/.installed: $(VLLM_VENV)/.vllm pyproject.toml $(CORE) $(VLLM_VENV)/.files
	@echo "building and installing narrows beside vLLM"
	@$(VLLM_PIP) install --quiet --no-build-isolation --config-settings build-dir=build/vllm --editable ".[vllm]"
	@touch $@

$(VLLM_VENV)/.model: tests/plugins/vllm/model_folder.py tests/plugins/vllm/chat_template.jinja $(VLLM_VENV)/.installed
	@$(VLLM_BIN)/python tests/plugins/vllm/model_folder.py
	@touch $@

# vLLM's V2 model runner wants Triton, whose kernels an interpreter runs for its tests. The other tests do not see it.
$(VLLM_VENV)/triton/.installed: $(VLLM_VENV)/.vllm
	@$(VLLM_PIP) install --quiet --no-deps --upgrade --target $(VLLM_VENV)/triton triton==3.7.1
	@touch $@

test-vllm: $(VLLM_VENV)/.model $(VLLM_VENV)/triton/.installed ## the tests against a real vLLM on the CPU: installs it into .venv-vllm, converts the small model, starts servers
	@$(VLLM_BIN)/python -m pytest tests/plugins/vllm -W default --timeout 3600 $(PYTEST_ARGS)

bench-stream: $(VLLM_VENV)/.installed ## stream parsers beside vLLM's and SGLang's own, which are fetched (BENCH_ARGS="--formats kimi_k2")
	@$(VLLM_PIP) install --quiet orjson dill cohere-melody==0.15.3
	@$(VLLM_BIN)/python bench/stream_peers.py $(BENCH_ARGS)

# SGLang without its dependencies: its parser classes and grammar backends run, its engine does not. With torch and transformers, 1.5 GB.
SGLANG_PIP := $(SGLANG_VENV)/bin/python -m pip --disable-pip-version-check

$(SGLANG_VENV)/.sglang: pyproject.toml
	@$(PYTHON) -m venv $(SGLANG_VENV)
	@$(SGLANG_PIP) install --quiet --upgrade "pip>=25.1"
	@$(SGLANG_PIP) install --quiet --no-deps sglang==0.5.23
	@$(SGLANG_PIP) install --quiet --group sglang 2>/dev/null # it says that SGLang's dependencies are missing, and they are meant to be
	@touch $@

test-sglang: $(SGLANG_VENV)/.sglang ## the tests against SGLang's parser classes and grammar backends, which it installs into .venv-sglang with a torch for the CPU, without the engine
	@$(SGLANG_PIP) install --quiet --no-build-isolation --config-settings build-dir=build/sglang --editable .
	@$(SGLANG_VENV)/bin/python -m pytest tests/plugins/sglang -W default $(PYTEST_ARGS)

# transformers with a torch for the CPU, and the small model.
TRANSFORMERS_PIP := $(TRANSFORMERS_VENV)/bin/python -m pip --disable-pip-version-check

$(TRANSFORMERS_VENV)/.transformers: pyproject.toml
	@$(PYTHON) -m venv $(TRANSFORMERS_VENV)
	@$(TRANSFORMERS_PIP) install --quiet --upgrade "pip>=25.1"
	@echo "installing torch and transformers into $(TRANSFORMERS_VENV)"
	@$(TRANSFORMERS_PIP) install --quiet --group transformers
	@touch $@

test-transformers: $(TRANSFORMERS_VENV)/.transformers ## the tests of generate and of compat with the real transformers, xgrammar and the small model: installs them into .venv-transformers
	@$(TRANSFORMERS_PIP) install --quiet --no-build-isolation --config-settings build-dir=build/transformers --editable .
	@$(TRANSFORMERS_VENV)/bin/python -m pytest tests/plugins/transformers tests/compat/xgrammar tests/compat/llguidance/test_llguidance_torch.py tests/compat/llguidance/test_llguidance_applications.py -W default $(PYTEST_ARGS)

# llama-cpp-python from source, without llama.cpp's reader of images: five minutes on two idle cores. Not for this machine's own CPU: a virtual
# machine may name instructions (AMX) that it cannot run. Without pip's cache, whose wheels do not depend on CMAKE_ARGS. What `make
# test-llama-cpp-python LLAMA_CPP_ARGS=...` gives are options of CMake.
LLAMA_CPP_PYTHON_PIP := $(LLAMA_CPP_PYTHON_VENV)/bin/python -m pip --disable-pip-version-check
LLAMA_CPP_ARGS ?= -DLLAVA_BUILD=OFF -DGGML_NATIVE=OFF

$(LLAMA_CPP_PYTHON_VENV)/.llama-cpp-python:
	@$(PYTHON) -m venv $(LLAMA_CPP_PYTHON_VENV)
	@$(LLAMA_CPP_PYTHON_PIP) install --quiet --upgrade "pip>=25.1"
	@echo "building llama-cpp-python into $(LLAMA_CPP_PYTHON_VENV) (some minutes)"
	@CMAKE_ARGS="$(LLAMA_CPP_ARGS)" $(LLAMA_CPP_PYTHON_PIP) install --quiet --no-cache-dir --no-binary llama-cpp-python llama-cpp-python==0.3.36
	@touch $@

$(LLAMA_CPP_PYTHON_VENV)/.tools: $(LLAMA_CPP_PYTHON_VENV)/.llama-cpp-python pyproject.toml
	@$(LLAMA_CPP_PYTHON_PIP) install --quiet --group llama-cpp-python
	@touch $@

test-llama-cpp-python: $(LLAMA_CPP_PYTHON_VENV)/.tools ## the tests inside the real llama-cpp-python with the small model: builds it into .venv-llama-cpp-python
	@$(LLAMA_CPP_PYTHON_PIP) install --quiet --no-build-isolation --config-settings build-dir=build/llama-cpp-python --editable ".[llama-cpp-python]"
	@$(LLAMA_CPP_PYTHON_VENV)/bin/python -m pytest tests/plugins/llama_cpp_python -W default $(PYTEST_ARGS)

# The clients that people use, in an environment without narrows: those for JavaScript in its folder npm-clients/, LlamaIndex in an environment of its
# own within, and real MCP servers from npm in npm/. The server is that of $(VENV). A version that changes is installed over the former one.
AGENTS_PIP := $(AGENTS_VENV)/bin/python -m pip --disable-pip-version-check

LLAMA_INDEX_PIP := $(AGENTS_VENV)/llama-index/bin/python -m pip --disable-pip-version-check

$(AGENTS_VENV)/.clients: pyproject.toml
	@$(PYTHON) -m venv $(AGENTS_VENV)
	@$(AGENTS_PIP) install --quiet --upgrade "pip>=25.1"
	@echo "installing the clients into $(AGENTS_VENV)"
	@$(AGENTS_PIP) install --quiet --group agents
	@$(PYTHON) -m venv $(AGENTS_VENV)/llama-index
	@$(LLAMA_INDEX_PIP) install --quiet --upgrade "pip>=25.1"
	@$(LLAMA_INDEX_PIP) install --quiet --group agents-llama-index
	@touch $@

$(AGENTS_VENV)/.npm-clients: $(AGENTS_VENV)/.clients tests/agents/node/package.json
	@command -v npm >/dev/null || { echo "the clients for JavaScript need Node 20 or newer with npm; on Debian: apt install npm"; exit 1; }
	@echo "installing the clients for JavaScript into $(AGENTS_VENV)/npm-clients"
	@mkdir -p $(AGENTS_VENV)/npm-clients
	@cp tests/agents/node/package.json $(AGENTS_VENV)/npm-clients/
	@npm install --ignore-scripts --no-audit --no-fund --loglevel=error --prefix $(AGENTS_VENV)/npm-clients
	@touch $@

$(AGENTS_VENV)/.npm: $(AGENTS_VENV)/.npm-clients tests/agents/mcp_servers.py
	@echo "installing the MCP servers into $(AGENTS_VENV)/npm"
	@$(AGENTS_VENV)/bin/python tests/agents/mcp_servers.py install $(AGENTS_VENV)/npm
	@touch $@

AGENTS_PYTEST := NARROWS_AGENTS_SERVER=$(abspath $(BIN))/narrows $(AGENTS_VENV)/bin/python -m pytest tests/agents -W default --timeout 3600

test-agents: $(VENV)/.installed $(AGENTS_VENV)/.npm ## real clients and agents, and the tools of real MCP servers, against the server: installs them into .venv-agents (NARROWS_AGENTS_TOOLS=20 for fewer tools)
	@$(AGENTS_PYTEST) $(PYTEST_ARGS)

test-agents-short: $(VENV)/.installed $(AGENTS_VENV)/.npm-clients ## one to three scenarios of each client, without the MCP servers
	@$(AGENTS_PYTEST) -m short $(PYTEST_ARGS)

# The page in a headless Chromium, which playwright drives. Debian's `chromium` will do, or one that playwright has installed.
BROWSER_PIP := $(BROWSER_VENV)/bin/python -m pip --disable-pip-version-check

$(BROWSER_VENV)/.tools: pyproject.toml
	@$(PYTHON) -m venv $(BROWSER_VENV)
	@$(BROWSER_PIP) install --quiet --upgrade "pip>=25.1"
	@echo "installing playwright into $(BROWSER_VENV)"
	@$(BROWSER_PIP) install --quiet --group browser
	@touch $@

BROWSER_PYTEST := NARROWS_BROWSER_SERVER=$(abspath $(BIN))/narrows $(BROWSER_VENV)/bin/python -m pytest tests/browser -W default

test-browser: $(VENV)/.installed $(BROWSER_VENV)/.tools ## the playground in a headless Chromium, with the small model: installs playwright into .venv-browser
	@$(BROWSER_PYTEST) $(PYTEST_ARGS)

screenshots: $(VENV)/.installed $(BROWSER_VENV)/.tools ## write the pictures of docs/playground.md
	@NARROWS_BROWSER_SHOTS=docs/playground $(BROWSER_PYTEST) -k screenshots $(PYTEST_ARGS)

lint-page: $(BROWSER_VENV)/.tools ## format and lint of the playground's scripts and of those that drive clients for JavaScript, with biome from npm in .venv-browser/npm
	@command -v npm >/dev/null || { echo "biome needs Node with npm; on Debian: apt install npm"; exit 1; }
	@npm install --silent --no-fund --no-audit --prefix $(BROWSER_VENV)/npm @biomejs/biome@2.6.8
	@$(BROWSER_VENV)/npm/node_modules/.bin/biome check --error-on-warnings .

demo: $(VENV)/.dev ## start the server, drive it with the openai client, print the deltas as they come
	@$(BIN)/python examples/demo.py

lint: $(VENV)/.dev ## style, types, stubs, import contracts, C++ format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest narrows._core --allowlist .ci/stubtest.txt --ignore-disjoint-bases
	$(BIN)/lint-imports --no-cache
	@if [ -n "$(CXX_FILES)" ]; then echo "$(BIN)/clang-format --dry-run --Werror core/"; $(BIN)/clang-format --dry-run --Werror $(CXX_FILES); fi

format: $(VENV)/.dev ## write the style that lint asks for
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .
	@if [ -n "$(CXX_FILES)" ]; then $(BIN)/clang-format -i $(CXX_FILES); fi

bench: $(VENV)/.dev ## the benchmarks that need no peer; bench/README.md names the others
	@for script in bench/stream.py bench/constructs.py bench/serve.py bench/ttft.py; do \
		if [ -f $$script ]; then echo "== $$script"; $(BIN)/python $$script || exit 1; fi; done

$(VENV)/.bench: $(VENV)/.dev pyproject.toml
	@echo "installing the peers that benchmarks compare with (torch comes along)"
	@$(PIP) install --quiet --editable ".[serve,bench]"
	@touch $@

bench-masks: $(VENV)/.bench ## masks that are new to an engine, beside three peers; hours (DATA=.../jsonschemabench/maskbench/data, BENCH_ARGS="--schemas 60")
	@$(BIN)/python bench/first_sight --data "$(DATA)" --page docs/benchmarks.md $(BENCH_ARGS)

instructions: $(VENV)/.dev ## instructions that the core takes for a step, beside bench/instructions/instructions.toml (needs valgrind)
	@$(BIN)/python bench/instructions/instructions.py

instructions-update: $(VENV)/.dev ## write bench/instructions/instructions.toml anew, when the core is meant to take more or fewer
	@$(BIN)/python bench/instructions/instructions.py --update

# With the compiler that builds the core. What a sanitizer reports, or a broken promise, fails the target and names its seed.
sanitize: $(VENV)/.dev ## the core under ASan with UBSan, and under TSan, on random and on real grammars (SANITIZE_SECONDS=60 for each of eight programs)
	@$(BIN)/python core/fuzz/sanitize.py --seconds $(SANITIZE_SECONDS)

fuzz: $(VENV)/.dev ## the same with new seeds for as long as you like (FUZZ_SECONDS=600 for each program), and the longer random tests
	@$(BIN)/python core/fuzz/sanitize.py --seconds $(FUZZ_SECONDS) --first $$(date +%s)000
	@NARROWS_SOAK=1 $(BIN)/python -m pytest -m "soak" --timeout 1800 $(PYTEST_ARGS)

fuzz-schemas: $(VENV)/.dev ## random JSON Schemas and values against an independent validator (FUZZ_MINUTES=10)
	@$(BIN)/python tests/support/schema_fuzz.py --minutes $(FUZZ_MINUTES)

soak: $(VENV)/.dev ## the server under attackers of every kind beside 16 streams that must not notice; an hour (SOAK_MINUTES, SOAK_ARGS="--only mask")
	@$(BIN)/python tests/soak/soak.py --minutes $(SOAK_MINUTES) $(SOAK_ARGS)

soak-short: $(VENV)/.dev ## the same in five minutes
	@$(BIN)/python tests/soak/soak.py --minutes 5 $(SOAK_ARGS)

hostile: $(VENV)/.dev ## random grammars and mutated schemas on a real vocabulary: every call ends soon, or raises (HOSTILE_RUNS of each)
	@$(BIN)/python tests/soak/hostile.py --runs $(HOSTILE_RUNS)

$(WHEELS_VENV)/.tools: pyproject.toml
	@$(PYTHON) -m venv $(WHEELS_VENV)
	@$(WHEELS_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --upgrade "pip>=25.1"
	@echo "installing the tools that build and check wheels into $(WHEELS_VENV)"
	@$(WHEELS_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --group wheels
	@touch $@

wheel: $(WHEELS_VENV)/.tools ## an sdist, and a wheel built from it, in dist/ (from Python 3.12 on, one wheel for all later ones: make PYTHON=python3.12 wheel)
	@rm -f dist/narrows-*
	@$(WHEELS_VENV)/bin/python -m build --outdir dist

wheel-check: wheel ## what is in them, their tags, and tests in new environments (WHEEL_PYTHONS="python3.12 python3.14")
	@NARROWS_DIST=dist $(WHEELS_VENV)/bin/python -m pytest -p no:cacheprovider tests/wheels/test_built.py
	@$(WHEELS_VENV)/bin/python tests/wheels/installed.py dist/narrows-*.whl $(addprefix --python ,$(WHEEL_PYTHONS))

docs: $(VENV)/.installed ## write docs/formats/, the pages of the wire formats, from their definitions
	@$(BIN)/python docs/format_pages.py

# Builds from what lies here: the reference is read from the source, so narrows itself is not installed.
$(SITE_VENV)/.tools: pyproject.toml
	@$(PYTHON) -m venv $(SITE_VENV)
	@$(SITE_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --upgrade "pip>=25.1"
	@echo "installing zensical and mkdocstrings into $(SITE_VENV)"
	@$(SITE_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --group site
	@touch $@

site: $(SITE_VENV)/.tools ## the documentation as a web site in site/, with the API's reference (a broken link fails; look at it with `python3 -m http.server -d site`)
	@$(SITE_VENV)/bin/python docs/site_pages.py build/site
	@$(SITE_VENV)/bin/zensical build --clean --strict
	@$(SITE_VENV)/bin/python docs/site_pages.py --check site

clean: ## remove what the targets made (the downloaded model stays)
	@rm -rf $(VENV) $(VLLM_VENV) $(SGLANG_VENV) $(TRANSFORMERS_VENV) $(LLAMA_CPP_PYTHON_VENV) $(AGENTS_VENV) $(BROWSER_VENV) $(WHEELS_VENV) $(SITE_VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
