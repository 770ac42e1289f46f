# The front door: each target does its own set-up in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src -name '*.cpp' -o -name '*.hpp' -o -name CMakeLists.txt) CMakeLists.txt pyproject.toml

.PHONY: help demo test lint bench sanitize clean

help:
	@echo "make demo      train the same model pruned and full-size on real digits (under three minutes)"
	@echo "make test      run all tests"
	@echo "make lint      check format, lint and types"
	@echo "make bench     sparse training against dense PyTorch on this machine"
	@echo "make sanitize  the kernels' tests under AddressSanitizer and UBSan"

$(VENV)/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { echo "Python 3.11 or newer is needed: make PYTHON=python3.x"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/installed: $(VENV)/python $(SOURCES)
	$(BIN)/pip install --quiet --editable ".[demo,flower,images,mlflow,onnx,parquet,tensorboard,wandb,test,lint]"
	touch $@

demo: $(VENV)/installed
	$(BIN)/prunefl demo

test: $(VENV)/installed
	$(BIN)/python -m pytest

lint: $(VENV)/installed
	$(BIN)/ruff format --check src tests examples benchmarks
	$(BIN)/ruff check src tests examples benchmarks
	$(BIN)/mypy

bench: $(VENV)/installed
	$(BIN)/prunefl bench step --model conv2 --density 0.1
	$(BIN)/prunefl bench layers

sanitize: $(VENV)/installed
	$(BIN)/pip install --quiet "nanobind>=2.4" cmake
	PATH="$(abspath $(BIN)):$$PATH" benchmarks/sanitize.sh $(BIN)/python

clean:
	rm -rf $(VENV) build
