# The front door: each target does its own set-up in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src -name '*.cpp' -o -name '*.hpp' -o -name CMakeLists.txt) CMakeLists.txt pyproject.toml

.PHONY: help demo test test-arm64 drills lint bench sanitize clean
.PHONY: test-fast coverage docs format tidy wheel check-wheel

help:
	@echo "make demo         train the same model pruned and full-size on real digits (under three minutes)"
	@echo "make test         run all tests"
	@echo "make test-fast    the quick ones, while you work"
	@echo "make test-arm64   build for aarch64 and run what needs no torch under qemu (Debian); TESTS="..." for some"
	@echo "make browser      install Chromium, where that can be done, for the tests of pages"
	@echo "make coverage     all tests, and which lines of Python and C++ they did not reach: build/coverage"
	@echo "make drills       every attack on a federation of real processes (some ten minutes)"
	@echo "make lint         check format, lint and types"
	@echo "make tidy         look for bugs in the C++ with clang-tidy"
	@echo "make format       put Python and C++ into the house's format"
	@echo "make docs         the site, with warnings as errors: build/site"
	@echo "make bench        sparse training against dense PyTorch on this machine"
	@echo "make sanitize     the tests of the C++ modules under AddressSanitizer and UBSan; TESTS="..." for some"
	@echo "make wheel        wheels in dist/: for this machine and, on Debian, for aarch64"
	@echo "make check-wheel  install the wheel where there is no compiler and use it (Debian, root)"
	@echo "make clean        remove .venv, build and dist"

$(VENV)/python:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { echo "Python 3.11 or newer is needed: make PYTHON=python3.x"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/installed: $(VENV)/python $(SOURCES)
	@command -v $${CXX:-c++} >/dev/null || { echo "a C++17 compiler is needed (Debian: apt install g++), or a wheel: docs/install.md"; exit 1; }
	$(BIN)/pip install --quiet --editable ".[dashboard,demo,flower,images,mlflow,onnx,parquet,privacy,tensorboard,wandb,test,lint]"
	touch $@

demo: $(VENV)/installed
	$(BIN)/prunefl demo


.PHONY: browser
# the pages are tested in a real browser: Debian's, where we may install it, else those tests say that they are skipped
browser:
	@command -v chromium chromium-browser google-chrome google-chrome-stable chrome >/dev/null || \
	  { command -v apt-get >/dev/null && test "$$(id -u)" = 0 && apt-get -qq update && apt-get -qq install -y chromium >/dev/null; } || \
	  echo "no Chromium, and none can be installed here: apt-get install chromium"

# one test more at a time than there are cores, up to five: those of real processes wait more than they compute
JOBS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 4 ? n + 1 : 5)))

test: $(VENV)/installed browser
	$(BIN)/python -m pytest -n $(JOBS)

drills: $(VENV)/installed
	PRUNEFL_DRILLS=1 $(BIN)/python -m pytest tests/integration/test_drills.py tests/integration/test_drills_load.py

test-fast: $(VENV)/installed
	$(BIN)/python -m pytest -n $(JOBS) -m fast

# What an extra of pyproject.toml lists, one a line; installed without building the package again.
extra = $(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['$(1)'], sep='\n')" \
	| $(BIN)/pip install --quiet --requirement /dev/stdin

coverage: $(VENV)/installed
	$(call extra,coverage)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n $(JOBS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report --skip-covered --sort=miss --fail-under=95
	PATH="$(abspath $(BIN)):$$PATH" tools/coverage-cpp.sh $(BIN)/python

docs: $(VENV)/installed
	$(call extra,docs)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open build/site/index.html"

wheel: $(VENV)/installed
	$(call extra,wheel)
	PATH="$(abspath $(BIN)):$$PATH" tools/wheel.sh $(BIN)/python dist

check-wheel: $(VENV)/installed
	PATH="$(abspath $(BIN)):$$PATH" tools/check-wheel.sh $(BIN)/python dist

format: $(VENV)/installed
	$(BIN)/ruff format src tests examples benchmarks docs tools
	$(BIN)/clang-format -i $(CPP)

tidy: $(VENV)/python
	$(call extra,tidy)
	PATH="$(abspath $(BIN)):$$PATH" tools/tidy.sh $(BIN)/python

# pip alone: neither torch nor the package itself is needed here.
test-arm64: $(VENV)/python
	$(BIN)/pip install --quiet cmake ninja
	PATH="$(abspath $(BIN)):$$PATH" tools/arm64/test.sh $(BIN)/python $(TESTS)

CPP = $$(git ls-files 'src/*.cpp' 'src/*.hpp' 'src/*.inl')

lint: $(VENV)/installed
	$(BIN)/ruff format --check src tests examples benchmarks docs tools
	$(BIN)/ruff check src tests examples benchmarks docs tools
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(CPP)

bench: $(VENV)/installed
	$(BIN)/prunefl bench step --model conv2 --density 0.1
	$(BIN)/prunefl bench layers

sanitize: $(VENV)/installed
	$(BIN)/pip install --quiet "nanobind>=2.4" cmake
	PATH="$(abspath $(BIN)):$$PATH" benchmarks/sanitize.sh $(BIN)/python $(TESTS)

clean:
	rm -rf $(VENV) build dist
